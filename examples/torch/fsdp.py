"""The same transformer with its parameters, gradients and optimizer sharded by torch's FSDP2, over weft.

    python examples/torch/fsdp.py                                    two ranks of this machine
    torchrun --nproc-per-node 4 examples/torch/fsdp.py --steps 200
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import weft.torch  # noqa: F401 (torch before 2.15 does not find the backend by itself)
from launch import Options, as_two_ranks
from text import Gpt, learn


def main():
    options = Options(__doc__)
    options.add_argument("--backend", default="weft", choices=["weft", "gloo"])
    options.add_argument("--steps", type=int, default=60)
    given = options.parse_args()
    as_two_ranks()

    dist.init_process_group(given.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    model = Gpt()
    whole = sum(parameter.numel() for parameter in model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    mine = sum(parameter.to_local().numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if rank == 0:
        print(f"{whole} parameters, of which this rank keeps {mine}", flush=True)
    learn(model, optimizer, given.steps, rank)
    if rank == 0:
        print(f"trained on {ranks} ranks, over {given.backend}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
