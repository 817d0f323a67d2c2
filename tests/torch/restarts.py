"""Jobs whose ranks fail and that torchrun starts again, with one agent and with two, as on two hosts: each ends well after as many restarts as it has failures.

usage: restarts.py [--program LAUNCH_PROBE] [--agents N] COUNT     trials drawn from SEED; the ranks are of the torch backend, or LAUNCH_PROBE's
       restarts.py [--program LAUNCH_PROBE] table                  three failures in a row for one agent and two, with each store that torchrun has
"""

import argparse
import itertools
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

seconds_for_a_trial = 240
here = pathlib.Path(__file__).resolve().parent


@dataclass
class Trial:
    agents: int
    ranks: int  # of each agent
    victim: int
    times: int
    moment: str
    how: str
    rendezvous: str
    own_store: int  # TORCH_DISABLE_SHARE_RDZV_TCP_STORE

    @staticmethod
    def drawn(draw: random.Random, agents: int) -> "Trial":
        agents = agents or draw.choice([1, 2])
        ranks = draw.choice([2, 3] if agents == 1 else [1, 2])
        return Trial(agents, ranks, draw.randrange(agents * ranks), draw.choice([1, 1, 2, 3]), draw.choice(["meet", "sum", "sum", "sum"]),
                     draw.choice(["kill", "exit", "raise"]), draw.choice(["static", "c10d"]), draw.choice([0, 1]))


def table():
    for agents, rendezvous, own_store in itertools.product((1, 2), ("static", "c10d"), (0, 1)):
        if own_store and rendezvous == "static":
            continue  # it has no effect there
        yield Trial(agents, 2 if agents == 1 else 1, agents - 1, 3, "sum", "kill", rendezvous, own_store)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def command(trial: Trial, agent: int, port: int, program: str) -> list:
    words = [str(pathlib.Path(sys.executable).parent / "torchrun"), f"--nnodes={trial.agents}", f"--nproc-per-node={trial.ranks}",
             f"--max-restarts={trial.times}", "--monitor-interval=0.1"]
    if trial.rendezvous == "static":
        words += [f"--node-rank={agent}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    else:
        words += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id={port}"]
    ends = [str(trial.victim), str(trial.times), trial.moment, trial.how]
    if program:
        return words + ["--no-python", program, "restarted", *ends]
    return words + [str(here / "restarted.py"), *ends]


def run(trial: Trial, program: str) -> str:
    """What went wrong."""
    port = free_port()
    # Where agents share no store, rank 0 listens itself, on a name that is not the loopback's: weft's own store then asks for a token.
    environment = dict(os.environ, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=str(trial.own_store), OMP_NUM_THREADS="1", WEFT_TOKEN="0123456789abcdef" * 4)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        environment["WEFT_FLIGHT_DIR"] = folder + "/flight"
        agents = []
        for agent in range(trial.agents):
            with open(f"{folder}/{agent}", "w") as output:
                agents.append(subprocess.Popen(command(trial, agent, port, program), stdout=output, stderr=subprocess.STDOUT, env=environment,
                                               start_new_session=True))
        deadline = time.monotonic() + seconds_for_a_trial
        codes = []
        for agent in agents:
            try:
                codes.append(agent.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append("no end")
        for agent in agents:
            try:
                os.killpg(agent.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            agent.wait()
        said = "".join(pathlib.Path(f"{folder}/{agent}").read_text(errors="replace") for agent in range(trial.agents))
    missing = [rank for rank in range(trial.agents * trial.ranks) if f"rank {rank} finished" not in said]
    if missing or any(codes):
        return f"the agents ended with {codes}; ranks {missing} did not finish\n{said}"
    return "a wait in vain fills the log" if "waitForInput" in said and not program else ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default="")
    options.add_argument("--agents", type=int, default=0)
    options.add_argument("count")
    given = options.parse_args()
    seed = int(os.environ.get("SEED", "1"))
    draw = random.Random(seed)
    trials = list(table()) if given.count == "table" else [Trial.drawn(draw, given.agents) for _ in range(int(given.count))]
    failed = 0
    for trial in trials:
        began = time.monotonic()
        wrong = run(trial, given.program)
        if "EADDRINUSE" in wrong:  # another program was faster at the agent's port
            wrong = run(trial, given.program)
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok'}: {trial} ({time.monotonic() - began:.1f} s)\n{wrong}", end="\n" if wrong else "", flush=True)
    print(f"{len(trials) - failed} of {len(trials)} jobs recovered (seed {seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
