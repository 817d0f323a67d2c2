#!/usr/bin/env python3
"""DistributedDataParallel over weft beside the same over gloo, between hosts: mlp-8x1024, steps of all strategies in turn.

    bench/peers/torch_hosts.py                                       4 hosts at 1 Gbit/s of launchers/cluster.sh, one rank each: needs root
    bench/peers/torch_hosts.py --hosts 2:200mbit --strategies plain,fp16 --steps 20
    torchrun --nnodes 4 ... bench/peers/torch_hosts.py               under torchrun: on hosts that there are

The hosts have no MPI. The ranks meet as torchrun has it: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. A strategy is plain, fp16 or
powersgd:R, torch's own hooks; `none` does without communication. WEFT_TRANSPORT=tcp|ucx chooses what carries weft's data. PowerSGD has
one bucket at a time under way: with two, callbacks and backward call in another order on every rank, which gloo aborts for and weft
refuses. A step's time is that of the slowest rank.
Exit status: 0 done, 42 wrong usage, 70 when something failed on the way.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import statistics
import subprocess
import sys
import time

# Before torch is loaded: the BLAS under it may have threads of its own.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "launchers" / "cluster.sh"
BACKENDS = ("gloo", "weft")
TURN_STEPS = 4
WARM_UP_TURNS = 1  # PowerSGD begins to compress in it
POWER_SGD_START = 2


def hook_of(strategy, group):
    """The communication hook and its state; none for plain sums. Here is the place for further hooks."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if strategy == "fp16":
        return group, default_hooks.fp16_compress_hook
    if strategy.startswith("powersgd:"):
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=int(strategy.partition(":")[2]), start_powerSGD_iter=POWER_SGD_START)
        def one_bucket_at_a_time(state, bucket):
            reduced = powerSGD_hook.powerSGD_hook(state, bucket)
            reduced.wait()
            return reduced

        return state, one_bucket_at_a_time
    return None, None


class Contestant:
    """One strategy over one backend, with a model and an optimizer of its own."""

    def __init__(self, strategy, backend, group):
        import torch
        from torch.nn.parallel import DistributedDataParallel

        torch.manual_seed(1)
        layers = []
        for _ in range(8):
            layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
        self.strategy, self.backend = strategy, backend
        self.model = DistributedDataParallel(torch.nn.Sequential(*layers[:-1]), gradient_as_bucket_view=True, process_group=group)
        state, hook = hook_of(strategy, group)
        if hook:
            self.model.register_comm_hook(state, hook)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        generator = torch.Generator().manual_seed(group.rank())
        self.inputs, self.targets = torch.randn(32, 1024, generator=generator), torch.randint(0, 256, (32,), generator=generator)
        self.seconds = []
        self.loss = None

    def step(self):
        import torch

        begin = time.perf_counter()
        with self.model.no_sync() if self.strategy == "none" else contextlib.nullcontext():
            self.optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(self.model(self.inputs)[:, :256], self.targets)
            loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)
        self.loss = loss.item()


def rank_main(options):
    import torch
    import torch.distributed as dist

    import weft.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    world = dist.group.WORLD
    groups = {"gloo": world, "weft": dist.new_group(backend="weft")}
    contestants = [Contestant(strategy, backend, groups[backend])
                   for strategy in options.strategies for backend in BACKENDS if strategy != "none" or backend == "gloo"]
    for turn in range(options.steps // TURN_STEPS + WARM_UP_TURNS):
        order = contestants if turn % 2 == 0 else contestants[::-1]
        for one in order:
            dist.barrier(world)
            for _ in range(TURN_STEPS):
                one.step()
    rows = []
    for one in contestants:
        seconds = torch.tensor(one.seconds[WARM_UP_TURNS * TURN_STEPS:], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX, group=world)
        loss = torch.tensor([one.loss], dtype=torch.float64)
        dist.all_reduce(loss, group=world)
        rows.append({"strategy": one.strategy, "backend": one.backend, "ranks": world.size(), "seconds": statistics.median(seconds.tolist()),
                     "quartiles": statistics.quantiles(seconds.tolist(), n=4)[::2], "loss": loss.item() / world.size()})
    if world.rank() == 0:
        report(rows, options)
    dist.barrier(world)
    dist.destroy_process_group()


def report(rows, options):
    import torch

    gloo = {row["strategy"]: row["seconds"] for row in rows if row["backend"] == "gloo"}
    for row in rows:
        row["of_gloo"] = row["seconds"] / gloo[row["strategy"]]
        low, high = row["quartiles"]
        print(f"{row['strategy']:12} {row['backend']:5} {row['seconds'] * 1e3:8.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})  of gloo's "
              f"{row['of_gloo']:.3f}  loss {row['loss']:.3f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "transport": os.environ.get("WEFT_TRANSPORT", "auto"), "results": rows}, file, indent=1)


def run_on_hosts(options, arguments):
    """Starts this program on every host, with what torchrun sets. What fails ends the others."""
    hosts, _, rate = options.hosts.partition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are taken down, also when what started this gives it up
    made = subprocess.run([CLUSTER, "up", hosts, rate], stdout=subprocess.DEVNULL)
    if made.returncode != 0:
        return made.returncode
    ranks = []
    try:
        token = secrets.token_hex(16)
        for rank in range(int(hosts)):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=hosts, MASTER_ADDR="10.77.0.10", MASTER_PORT="29571", WEFT_TOKEN=token,
                               GLOO_SOCKET_IFNAME="eth0", UCX_NET_DEVICES="eth0", UCX_TLS=os.environ.get("UCX_TLS", "tcp,self"))
            ranks.append(subprocess.Popen([CLUSTER, "exec", str(rank), sys.executable, __file__, *arguments], env=environment))
        return wait_for(ranks)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
        subprocess.run([CLUSTER, "down"], check=False, start_new_session=True)


def wait_for(ranks):
    while any(rank.poll() is None for rank in ranks):
        failed = [number for number, rank in enumerate(ranks) if rank.poll() not in (None, 0)]
        if failed:
            print(f"torch_hosts.py: rank {failed[0]} ended with {ranks[failed[0]].returncode}", file=sys.stderr)
            return 70
        time.sleep(0.05)
    return 0 if all(rank.returncode == 0 for rank in ranks) else 70


def refuse(line):
    print(f"torch_hosts.py: {line}", file=sys.stderr)
    sys.exit(42)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="4:1gbit", metavar="N:RATE", help="hosts to make, and their line (4:1gbit)")
    parser.add_argument("--steps", type=int, default=24, help=f"timed steps of each (24), in turns of {TURN_STEPS}")
    parser.add_argument("--strategies", default="none,plain,fp16,powersgd:4", metavar="LIST", help="none,plain,fp16,powersgd:R")
    parser.add_argument("--json", metavar="FILE", help="writes the rows")
    parser.error = refuse
    options = parser.parse_args()
    if not re.fullmatch(r"([2-9]|[1-5][0-9]|6[0-4]):[0-9]+(\.[0-9]+)?[kmg]?bit", options.hosts):
        refuse(f"--hosts {options.hosts} is not 2 to 64 hosts and a rate, such as 4:1gbit")
    options.strategies = options.strategies.split(",")
    for name in options.strategies:
        if not re.fullmatch(r"none|plain|fp16|powersgd:[1-9][0-9]{0,3}", name):
            refuse(f"--strategies names '{name}'; allowed are none, plain, fp16, powersgd:R with R of 1 or more")
    if options.steps < TURN_STEPS:
        refuse(f"--steps {options.steps} is not {TURN_STEPS} or more")
    return options


def main() -> int:
    options = parse()
    if "RANK" in os.environ:
        rank_main(options)
        return 0
    return run_on_hosts(options, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
