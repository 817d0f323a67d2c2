#!/usr/bin/env python3
"""PyTorch DistributedDataParallel over gloo at the reference workload mlp-8x1024, beside the same loop without
synchronization: the figures that weft-scaling's rows are held against. And over weft, with its codecs, beside a hook
that returns each bucket at once (nothing), where weft.torch is installed (docs/pytorch.md).

Run with Debian's python3-torch:  /usr/bin/python3 bench/peers/torch_ddp.py --ranks 2 --steps 40
DDP over weft:  python3 bench/peers/torch_ddp.py --strategies nothing,weft,weft+fp16,weft+powersgd:4,ddp,ddp+fp16,ddp+powersgd:4
Under mpirun each process is one rank, and they meet at a file that all see, or at a port of rank 0's host:
  mpirun -n 2 /usr/bin/python3 bench/peers/torch_ddp.py --rendezvous file:///tmp/store
One thread a rank, AdamW, batch 32, turns of five steps as weft-scaling takes them. Prints one JSON object.
The share of `nothing` is that of turns, which alternate: its median and quartiles.
Exit status: 0 done, 42 wrong usage. bench/peers/compare.sh runs it in turn with weft.
"""
import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time

# Before torch is loaded: the BLAS under it may have threads of its own, which torch.set_num_threads does not reach.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

STRATEGIES = "no_sync, nothing, ddp, ddp+fp16, ddp+powersgd:R, weft, weft+planned, weft+CODEC as compress() names it"
TURN_STEPS = 5
WARM_UP_STEPS = 3  # not timed, as weft-scaling has it from 12 steps on
# The least that error feedback allows. The first compressed step, which makes room for the errors, is still warm-up.
POWER_SGD_START = 2


def build():
    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def power_sgd_one_bucket_at_a_time(state, bucket):
    """PyTorch's hook starts its second and third sum from callbacks. With two buckets under way over gloo these come in
    another order on every rank, and the sums of one bucket meet those of the other: gloo aborts, in 1.13 as in 2.15."""
    reduced = powerSGD_hook.powerSGD_hook(state, bucket)
    reduced.wait()
    return reduced


def at_once(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def register_hook(model, strategy):
    backend, _, hook = strategy.partition("+")
    if backend == "nothing":
        model.register_comm_hook(None, at_once)
    elif backend == "weft":
        if hook not in ("", "planned"):
            import weft.torch
            weft.torch.compress(model, hook, start_step=0 if hook in ("fp16", "bf16") else POWER_SGD_START)
    elif hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook:
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(hook.partition(":")[2]),
                                            start_powerSGD_iter=POWER_SGD_START)
        model.register_comm_hook(state, power_sgd_one_bucket_at_a_time)


class Contestant:
    """One strategy with a model and an optimizer of its own, so that none finds another's memory in the cache."""

    def __init__(self, strategy, weft_group):
        torch.manual_seed(1)
        self.strategy = strategy
        group = weft_group if needs_weft(strategy) else None
        self.inputs, self.targets = torch.randn(32, 1024), torch.randint(0, 256, (32,))
        self.model = build()
        sizes = {}
        if strategy == "weft+planned":
            import weft.torch
            sizes = weft.torch.plan_buckets(self.model, step=self.backward, group=group)
        self.model = DistributedDataParallel(self.model, gradient_as_bucket_view=True, process_group=group, **sizes)
        register_hook(self.model, strategy)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.seconds = []

    def backward(self):
        torch.nn.functional.cross_entropy(self.model(self.inputs)[:, :256], self.targets).backward()

    def step(self):
        begin = time.perf_counter()
        with self.model.no_sync() if self.strategy == "no_sync" else contextlib.nullcontext():
            self.optimizer.zero_grad(set_to_none=True)  # a few ms less than zeroing, with and without sums
            self.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)


def needs_weft(strategy):
    return strategy == "nothing" or strategy.partition("+")[0] == "weft"


def measure(strategies, steps):
    """The median step of each strategy on this rank, and its turns."""
    weft_group = None
    if any(map(needs_weft, strategies)):
        import weft.torch  # noqa: F401
        weft_group = dist.new_group(backend="weft")
    contestants = [Contestant(strategy, weft_group) for strategy in strategies]
    for done in range(0, steps, TURN_STEPS):
        for one in contestants:
            dist.barrier()
            for _ in range(min(TURN_STEPS, steps - done)):
                one.step()
    turns = [[statistics.median(one.seconds[i:i + TURN_STEPS]) for i in range(TURN_STEPS, steps, TURN_STEPS)] for one in contestants]
    return [statistics.median(one.seconds[WARM_UP_STEPS:]) for one in contestants], turns


def shares(turns, base):
    """Quartiles of the turns' shares of those of `base`, for each strategy."""
    return [statistics.quantiles([one / other for one, other in zip(base, of)], n=4) for of in turns]


def rank_main(rank, ranks, rendezvous, options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=ranks)
    medians, turns = measure(options.strategies, options.steps)
    medians = torch.tensor(medians, dtype=torch.float64)
    dist.all_reduce(medians)
    of_nothing = None
    if "nothing" in options.strategies and options.steps > 2 * TURN_STEPS:  # the first turn does not count
        of_nothing = torch.tensor(shares(turns, turns[options.strategies.index("nothing")]), dtype=torch.float64)
        dist.all_reduce(of_nothing)
    if rank == 0:
        seconds = dict(zip(options.strategies, (medians / ranks).tolist()))
        without = seconds.get("no_sync")
        runs = [{"strategy": name, "ranks": ranks, "step_seconds": {"median": median},
                 "efficiency_vs_no_sync": without and without / median} for name, median in seconds.items()]
        for run, quartiles in zip(runs, of_nothing if of_nothing is not None else []):
            run["share_of_nothing"] = dict(zip(("least", "median", "greatest"), (quartiles / ranks).tolist()))
        print(json.dumps({"torch": torch.__version__, "steps": options.steps, "runs": runs}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def is_strategy(name):
    return re.fullmatch(r"no_sync|nothing|ddp|ddp\+fp16|ddp\+powersgd:[1-9][0-9]{0,3}|weft|weft\+[a-z].*", name) is not None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, help="processes to start (2); under mpirun its number")
    parser.add_argument("--steps", type=int, default=40, help="training steps of each strategy (40), the first three not timed")
    parser.add_argument("--strategies", default="no_sync,ddp", metavar="LIST",
                        help=f"what to run, by commas (no_sync,ddp): {STRATEGIES}")
    parser.add_argument("--rendezvous", metavar="URL", help="where mpirun's ranks meet: file:///PATH or tcp://ADDRESS:PORT")
    parser.add_argument("--version", action="version", version=torch.__version__)
    parser.error = refuse
    options = parser.parse_args()
    options.strategies = options.strategies.split(",")
    for name in options.strategies:
        if not is_strategy(name):
            refuse(f"--strategies names '{name}'; allowed are {STRATEGIES}, with R of 1 or more")
        if options.strategies.count(name) > 1:
            refuse(f"--strategies names '{name}' twice")
    if options.steps <= WARM_UP_STEPS:
        refuse(f"--steps {options.steps} is not a number of {WARM_UP_STEPS + 1} or more: {WARM_UP_STEPS} are not timed")
    if options.ranks is not None and options.ranks < 1:
        refuse(f"--ranks {options.ranks} is not a number of 1 or more")
    return options


def refuse(line):
    print(f"torch_ddp.py: {line}", file=sys.stderr)
    sys.exit(42)


def main():
    options = parse()
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        rank, ranks = (int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("RANK", "SIZE"))
        if options.ranks not in (None, ranks):
            refuse(f"--ranks {options.ranks}, but mpirun provides {ranks}")
        if options.rendezvous is None:
            refuse("mpirun's ranks must be told where they meet: --rendezvous file:///PATH or tcp://ADDRESS:PORT")
        rank_main(rank, ranks, options.rendezvous, options)
        return
    if options.rendezvous is not None:
        refuse("--rendezvous is for ranks that mpirun starts; leave it out, and they are started here")
    ranks = options.ranks or 2
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (ranks, "file://" + os.path.join(folder, "store"), options), nprocs=ranks)


if __name__ == "__main__":
    main()
