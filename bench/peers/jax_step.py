#!/usr/bin/env python3
"""A training step in JAX on the host whose gradients weft.jax.average means, beside the same over jax.distributed and gloo, and without an exchange: one
process a rank has all three, they take turns, ratios of medians.

    launchers/setup.sh jax
    export PYTHONPATH=python LD_LIBRARY_PATH=build/release/lib
    weft-launch -n 2 ~/.cache/weft-jax/bin/python bench/peers/jax_step.py [--json FILE]

The net has three matrices, 1024 x 2048, 2048 x 2048 and 2048 x 1024: 33.5 MB of gradients in float32; each rank has a batch of its own. The step is jitted,
gradient, mean and update in one; with weft the mean is a callback within it, over gloo a pmean of shard_map. Parameters of both are compared at the end. A
rank's time is that of one step, from a barrier on; the figure is the median of rounds of the slowest rank.
"""
import argparse
import array
import importlib.util
import json
import os
import socket
import statistics
import sys
import time

if importlib.util.find_spec("jax") is None:
    print(f"jax_step.py: {sys.executable} has no jax; launchers/setup.sh jax installs it", file=sys.stderr)
    sys.exit(42)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"  # a rank computes on one core

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import weft  # noqa: E402
import weft.jax  # noqa: E402

WIDTHS = [1024, 2048, 2048, 1024]
WARM_UP = 2


def parameters():
    random = np.random.default_rng(1)
    return [(random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for shape in zip(WIDTHS, WIDTHS[1:])]


def loss(model, x, y):
    for matrix in model[:-1]:
        x = jnp.tanh(x @ matrix)
    return jnp.mean((x @ model[-1] - y) ** 2)


def step_with(mean):
    def step(model, x, y):
        return jax.tree.map(lambda value, gradient: value - 0.01 * gradient, model, mean(jax.grad(loss)(model, x, y)))
    return step


def coordinator_of(comm):
    """HOST:PORT, which rank 0 chooses."""
    port = array.array("i", [0])
    if comm.rank == 0:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port[0] = free.getsockname()[1]
    comm.broadcast(port).wait()
    return f"127.0.0.1:{port[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=32, help="rows of each rank")
    parser.add_argument("--json", metavar="FILE", help="writes the row")
    options = parser.parse_args()
    with weft.world() as comm:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(coordinator_of(comm), num_processes=comm.size, process_id=comm.rank)
        random = np.random.default_rng(10 + comm.rank)
        x, y = (random.normal(size=(options.batch, width)).astype(np.float32) for width in (WIDTHS[0], WIDTHS[-1]))
        mesh = Mesh(np.array(jax.devices()), ("ranks",))
        everywhere, of_ranks = PartitionSpec(), PartitionSpec("ranks")

        def over_all(value, how):
            return jax.make_array_from_process_local_data(NamedSharding(mesh, how), value)

        def of_gloo(gradients):
            return jax.lax.pmean(gradients, "ranks")

        gloo = jax.jit(jax.shard_map(step_with(of_gloo), mesh=mesh, in_specs=(everywhere, of_ranks, of_ranks), out_specs=everywhere, check_vma=False))
        here = [jax.device_put(value) for value in parameters()]
        batch = jax.device_put(x), jax.device_put(y)
        contestants = {"none": (jax.jit(step_with(lambda gradients: gradients)), here, batch), "weft": (jax.jit(step_with(weft.jax.average)), here, batch),
                       "gloo": (gloo, [over_all(value, everywhere) for value in parameters()], (over_all(x, of_ranks), over_all(y, of_ranks)))}
        models, taken = {name: model for name, (_, model, _) in contestants.items()}, {name: [] for name in contestants}
        for number in range(options.rounds + WARM_UP):
            order = list(contestants.items())
            for name, (step, _, data) in order[number % 3 :] + order[: number % 3]:
                comm.barrier().wait()
                begin = time.perf_counter()
                models[name] = jax.block_until_ready(step(models[name], *data))
                slowest = array.array("d", [time.perf_counter() - begin])
                comm.all_reduce(slowest, op="max").wait()
                if number >= WARM_UP:
                    taken[name].append(slowest[0])
        for ours, theirs in zip(models["weft"], models["gloo"]):
            np.testing.assert_allclose(ours, theirs.addressable_data(0), rtol=1e-3, atol=1e-5)
        medians = {name: statistics.median(times) for name, times in taken.items()}
        row = {"ranks": comm.size, "batch": options.batch, "gradient_bytes": sum(4 * a * b for a, b in zip(WIDTHS, WIDTHS[1:])), "step_seconds": medians,
               "weft / gloo": medians["weft"] / medians["gloo"], "weft / none": medians["weft"] / medians["none"], "gloo / none": medians["gloo"] / medians["none"]}
        if comm.rank == 0:
            print(f"JAX {jax.__version__}, {comm.size} ranks, {row['gradient_bytes'] / 1e6:.1f} MB of gradients, weft {weft.version()} over {comm.backend}")
            for name, seconds in medians.items():
                print(f"{name:>5} {1e3 * seconds:>8.1f} ms ({1e3 * min(taken[name]):.1f} to {1e3 * max(taken[name]):.1f})   {seconds / medians['none']:.2f} of a step without exchange")
            print(f"weft takes {row['weft / gloo']:.2f} of gloo's step", flush=True)
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(row, file, indent=1)
        jax.distributed.shutdown()


if __name__ == "__main__":
    weft.run(main)
