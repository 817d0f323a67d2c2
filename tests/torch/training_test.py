"""Trainings over weft beside the same over gloo: DDP with torch's hooks, FSDP2, DTensor; and threads. cases/ has more of each."""

import threading
import unittest

import torch
import torch._dynamo  # noqa: F401  (optimizers take two seconds to import it; here once, and not in every rank)
import torch.distributed as dist
import weft.torch  # noqa: F401
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from ranks import over_both, run

STEPS = 3


def model(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def train(net, rank):
    """Three steps; the parameters at the end."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        net(torch.rand(6, 8, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return net


def ddp(rank, size, hook):
    # PowerSGD's hook calls collectives in callbacks, while backward calls those of the next bucket: one bucket, so that ranks agree on the order.
    net = DistributedDataParallel(model(), bucket_cap_mb=25 if hook == "power_sgd" else 0.001)
    if hook == "power_sgd":
        net.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1),
                               powerSGD_hook.powerSGD_hook)
    elif hook != "none":
        net.register_comm_hook(None, getattr(default_hooks, hook))
    return [parameter.detach() for parameter in train(net, rank).parameters()]


def fsdp(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    net = model()
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return [parameter.full_tensor().detach() for parameter in train(net, rank).parameters()]


def dtensor(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    out = []
    for rows in (size * 4, size * 4 + 1):
        whole = torch.arange(rows * 6.0).reshape(rows, 6)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        out.append(sharded.redistribute(mesh, [Shard(1)]).to_local())
        out.append(sharded.redistribute(mesh, [Replicate()]).to_local())
        out.append(sharded.sum().full_tensor())
        out.append((sharded @ distribute_tensor(torch.ones(6, 3), mesh, [Replicate()])).full_tensor())
    return out


def threads(rank, size):
    groups = [dist.new_group() for _ in range(4)]
    results = [None] * 4

    def work(i):
        tensor = torch.full((100 * (i + 1),), float(rank + i))
        for _ in range(20):
            dist.all_reduce(tensor, group=groups[i])
            tensor /= size
        results[i] = tensor.tolist()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


class Trainings(unittest.TestCase):
    def close(self, gloo, weft_, where, **tolerances):
        for rank, (left, right) in enumerate(zip(gloo, weft_)):
            torch.testing.assert_close(left, right, msg=lambda text: f"{where}, rank {rank}: {text}", **tolerances)

    def test_ddp_with_the_hooks_of_torch(self):
        for hook in ("none", "allreduce_hook", "fp16_compress_hook", "bf16_compress_hook", "power_sgd"):
            for size in (2, 3):
                with self.subTest(hook=hook, ranks=size):
                    gloo, weft_ = over_both(ddp, size, hook=hook)
                    self.close(gloo, weft_, hook, **({"rtol": 1e-2, "atol": 1e-3} if "16" in hook else {}))
                    for other in weft_[1:]:
                        for left, right in zip(weft_[0], other):
                            self.assertTrue(torch.equal(left, right), f"{hook}: ranks differ")

    def test_fsdp2(self):
        for size in (2, 3, 4):
            with self.subTest(ranks=size):
                self.close(*over_both(fsdp, size), "fully_shard")

    def test_dtensor(self):
        for size in (2, 3):
            with self.subTest(ranks=size):
                self.close(*over_both(dtensor, size), "DTensor")

    def test_threads_with_a_group_each(self):
        for results in run(threads, 2):
            for i, values in enumerate(results):
                self.assertEqual(values, [i + 0.5] * (100 * (i + 1)))


if __name__ == "__main__":
    unittest.main()
