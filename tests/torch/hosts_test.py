"""Several hosts without MPI: two hosts of launchers/cluster.sh, two ranks on each, which get the variables that torchrun sets and no others.

UCX or TCP carries the data between hosts. Torchrun itself is left out: after a failure the one on the other host waits for minutes. Ends with
77 (skipped) where the system does not allow network namespaces.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

CLUSTER = pathlib.Path(__file__).parents[2] / "launchers" / "cluster.sh"
HOSTS, PER_HOST = 2, 2
RANKS = HOSTS * PER_HOST
PORT = 29573


def rank_body(what):
    import torch
    import torch.distributed as dist
    import weft.torch  # noqa: F401 (the build folder has no entry point)
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    if what == "dies":
        return one_dies(rank, size, torch, dist)

    for count in (1, 1000, 300_000):  # in one message, and in many
        tensor = torch.arange(count, dtype=torch.float32) + rank
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.arange(count, dtype=torch.float32) * size + sum(range(size))), count
    gathered = torch.zeros(size * 3)
    dist.all_gather_into_tensor(gathered, torch.full((3,), float(rank)))
    assert gathered.tolist() == [float(other) for other in range(size) for _ in range(3)]
    scattered = torch.zeros(2)
    dist.reduce_scatter_tensor(scattered, torch.arange(2.0 * size) * (rank + 1))
    assert scattered.tolist() == [sum(range(size + 1)) * (2.0 * rank + i) for i in range(2)]
    exchanged = torch.zeros(size)
    dist.all_to_all_single(exchanged, torch.arange(float(size)) + 10 * rank)
    assert exchanged.tolist() == [10.0 * other + rank for other in range(size)]

    received = torch.zeros(5)  # from the rank before, which for every second one is on the other host
    works = [dist.isend(torch.full((5,), float(rank)), (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert received.tolist() == [float((rank - 1) % size)] * 5

    apart = [0, size - 1]  # one of each host
    group = dist.new_group(apart)
    if rank in apart:
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(apart)

    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(300, 300))
    model(torch.full((1, 300), float(rank + 1))).sum().backward()
    assert torch.allclose(model.module.weight.grad, torch.full((300, 300), sum(range(1, size + 1)) / size))
    transport = dist.group.WORLD._get_backend(torch.device("cpu")).transport
    print(f"rank {rank} of {size} is content with {transport}", flush=True)
    dist.destroy_process_group()


def one_dies(rank, size, torch, dist):
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        for _ in range(2):
            dist.all_reduce(torch.ones(1000))
    except dist.DistBackendError as error:
        print(f"rank {rank} heard after {time.monotonic() - begin:.1f} s: {error}", flush=True)
        time.sleep(1)  # rank 0 has the store, which the others may still ask
        os._exit(0)


def on_hosts(what, **variables):
    """What the ranks of all hosts print, and the status of each."""
    runs = []
    for rank in range(RANKS):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_T")}
        environment.update(UCX_NET_DEVICES="eth0", UCX_TLS="tcp,self", RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank % PER_HOST),
                           LOCAL_WORLD_SIZE=str(PER_HOST), MASTER_ADDR="10.77.0.10", MASTER_PORT=str(PORT), **variables)
        runs.append(subprocess.Popen([CLUSTER, "exec", str(rank // PER_HOST), sys.executable, __file__, what], env=environment,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        said = [run.communicate(timeout=100)[0] for run in runs]
    finally:
        for run in runs:
            run.kill()
    return "".join(said), [run.returncode for run in runs]


class Hosts(unittest.TestCase):
    def run_over(self, transport, carries):
        said, codes = on_hosts("exchanges", WEFT_TRANSPORT=transport)
        self.assertEqual(codes, [0] * RANKS, said[-4000:])
        for rank in range(RANKS):
            self.assertRegex(said, rf"rank {rank} of {RANKS} is content with host \(shared memory \+ ({carries})\)")

    def test_exchanges_between_hosts_without_mpi(self):
        self.run_over("auto", "UCX|TCP")

    def test_exchanges_between_hosts_over_tcp(self):
        self.run_over("tcp", "TCP")

    def test_a_rank_that_is_killed_on_another_host_is_named(self):
        said, _ = on_hosts("dies")
        for rank in range(RANKS - 1):
            heard = re.search(rf"rank {rank} heard after ([0-9.]+) s: .*rank {RANKS - 1}", said)
            self.assertTrue(heard, said[-4000:])
            self.assertLess(float(heard[1]), 5)


def main():
    if len(sys.argv) > 1 and "RANK" in os.environ:
        rank_body(sys.argv[1])
        return 0
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return 77
    made = subprocess.run([CLUSTER, "up", str(HOSTS), "1gbit"], capture_output=True, text=True)
    if made.returncode != 0:
        print(f"skipped: {made.stderr.strip().splitlines()[0]}")
        return 77
    try:
        return 0 if unittest.main(exit=False, verbosity=1).result.wasSuccessful() else 1
    finally:
        subprocess.run([CLUSTER, "down"], check=True)


if __name__ == "__main__":
    sys.exit(main())
