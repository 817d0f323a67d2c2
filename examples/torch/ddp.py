"""A transformer under torch's DistributedDataParallel, over weft.

    python examples/torch/ddp.py                                     two ranks of this machine
    python examples/torch/ddp.py --hook fp16                         gradients in 16 bits on their way
    torchrun --nproc-per-node 4 examples/torch/ddp.py --steps 200
"""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import weft.torch  # noqa: F401 (torch before 2.15 does not find the backend by itself)
from launch import Options, as_two_ranks
from text import Gpt, learn


def main():
    options = Options(__doc__)
    options.add_argument("--backend", default="weft", choices=["weft", "gloo"])
    options.add_argument("--hook", choices=["fp16", "bf16"], help="the type in which gradients travel; their own by default")
    options.add_argument("--steps", type=int, default=60)
    given = options.parse_args()
    as_two_ranks()

    dist.init_process_group(given.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(Gpt())
    if given.hook:
        model.register_comm_hook(None, default_hooks.fp16_compress_hook if given.hook == "fp16" else default_hooks.bf16_compress_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    learn(model, optimizer, given.steps, rank)
    if rank == 0:
        print(f"trained on {ranks} ranks, over {given.backend}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
