#!/usr/bin/env python3
"""Trainings of three hosts that lose one at a random step and get it back: they go on with two, then with three, and end with the loss
of the undisturbed training, within 1 %.

usage: host_losses.py [COUNT [BIN]]    so many trainings (20), drawn with SEED; needs root (launchers/cluster.sh)

gpt-tiny, a rank on each host, under weft-launch --min-ranks 2, which starts the ranks itself (LAUNCHER=weft) or through mpirun (LAUNCHER=mpirun), saves
every 50 steps. The host is lost with all of its processes, and its
agent cannot start another; it is back a while after the others have gone on. Ends with 1 where a training did otherwise.
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

TREE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(TREE / "launchers/cluster.sh")
STEPS, EVERY, HOSTS = 12000, 50, 3
MOST_SECONDS = 240
LAUNCHER = os.environ.get("LAUNCHER", "weft")
SETTINGS = dict(OMP_NUM_THREADS="1", WEFT_TIMEOUT="5", WEFT_CONNECT_TIMEOUT="10", WEFT_FLIGHT_DIR="off", WEFT_HEAP_BYTES=str(64 << 20))


def starter(agent):
    """What starts the ranks, before the program."""
    if LAUNCHER == "weft":
        return []
    mca = {"plm": "rsh", "plm_rsh_agent": agent, "plm_rsh_no_tree_spawn": 1, "oob_tcp_if_include": "10.77.0.0/24", "btl_tcp_if_include": "10.77.0.0/24",
           "pml": "ob1", "btl": "self,vader,tcp", "mpi_yield_when_idle": 1}
    return ["mpirun", "--bind-to", "none", *(word for name in SETTINGS for word in ("-x", name)), *(word for one in mca.items() for word in ("--mca", *one))]


class Training:
    def __init__(self, folder, programs):
        self.folder = pathlib.Path(folder)
        self.checkpoints = self.folder / "checkpoints"
        (self.folder / "hosts").write_text("".join(f"wefth{i} slots=1 address=10.77.0.{10 + i}\n" for i in range(HOSTS)))
        agent = self.folder / "agent"
        agent.write_text(f"#!/bin/bash\n[ ! -e {self.folder}/down.$1 ] || exit 255\nexec {CLUSTER} agent \"$@\"\n")
        agent.chmod(0o755)
        command = [programs / "weft-launch", "--hosts", self.folder / "hosts", "--agent", agent, "--min-ranks", "2", *starter(agent),
                   programs / "gpt", "--model", "gpt-tiny", "--steps", STEPS, "--checkpoint", self.checkpoints, "--checkpoint-every", EVERY, "--quiet"]
        self.out, self.err = self.folder / "out", self.folder / "err"
        own = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **SETTINGS)
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.job = subprocess.Popen([str(word) for word in command], env=own, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def step(self):
        """Of the newest checkpoint."""
        steps = [int(path.name[5:]) for path in self.checkpoints.glob("step-????????")] if self.checkpoints.exists() else []
        return max(steps, default=0)

    def reach(self, step):
        """Waits for it. @returns whether it came while the job ran"""
        end = time.monotonic() + MOST_SECONDS
        while time.monotonic() < end and self.job.poll() is None:
            if self.step() >= step:
                return True
            time.sleep(0.005)
        return False

    def lose(self, host):
        (self.folder / f"down.wefth{host}").touch()
        found = subprocess.run(["ip", "netns", "pids", f"wefth{host}"], capture_output=True, text=True, check=True).stdout.split()
        subprocess.run(["kill", "-9", *found], check=False)

    def give_back(self, host):
        (self.folder / f"down.wefth{host}").unlink()

    def loss(self):
        """Of an end that is one; else why it is none."""
        try:
            status = self.job.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            self.job.kill()
            return None, f"it still runs after {MOST_SECONDS} s"
        if status != 0:
            return None, f"status {status}: {self.err.read_text().strip()[-600:]}"
        found = re.findall(rf"step {STEPS} of {STEPS}: held-out loss ([0-9.]+)", self.out.read_text())
        return (float(found[-1]), "") if found else (None, f"no loss: {self.out.read_text()[-300:]}")


def disturbed(folder, programs, undisturbed, chance):
    """What was wrong; empty: nothing. And the loss."""
    training = Training(folder, programs)
    host, at = chance.randrange(HOSTS), chance.randrange(EVERY, STEPS // 3)  # a lost host is asked every 5 s
    if not training.reach(at):
        return f"step {at} did not come: {training.err.read_text()[-600:]}", None, host, at
    time.sleep(chance.uniform(0, 0.05))
    training.lose(host)
    gone_on = training.step() + chance.randrange(2, 12) * EVERY
    if not training.reach(min(gone_on, STEPS)):
        return f"it did not go on without wefth{host}: {training.err.read_text()[-600:]}", None, host, at
    training.give_back(host)
    loss, why = training.loss()
    said = training.err.read_text()
    if loss is None:
        return why, None, host, at
    named = f"host wefth{host} with rank {host} is lost" if LAUNCHER == "weft" else f"; without wefth{host}, by mpirun"
    if named not in said:
        return f"the lost host is not named: {said[-600:]}", loss, host, at
    if not re.search(r"starting again: 3 ranks on wefth0, wefth1, wefth2", said):
        return f"the host was not taken back: {said[-600:]}", loss, host, at
    if abs(loss - undisturbed) > 0.01 * undisturbed:
        return f"loss {loss}, undisturbed {undisturbed}", loss, host, at
    return "", loss, host, at


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 20
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    seed = int(os.environ.get("SEED", "1"))
    up = subprocess.run([CLUSTER, "up", str(HOSTS), "1gbit"], capture_output=True, text=True, check=False)
    if up.returncode != 0:
        print(f"no hosts: {up.stderr.strip()}")
        return 1
    failed, worst = 0, 0.0
    try:
        with tempfile.TemporaryDirectory() as folder:
            undisturbed, why = Training(folder, programs).loss()
        if undisturbed is None:
            print(f"the undisturbed training failed: {why}")
            return 1
        for number in range(count):
            chance = random.Random(f"{seed} {number}")
            with tempfile.TemporaryDirectory() as folder:
                wrong, loss, host, at = disturbed(folder, programs, undisturbed, chance)
            if loss is not None:
                worst = max(worst, abs(loss - undisturbed) / undisturbed)
            if wrong:
                failed += 1
                print(f"FAILED {number} (SEED={seed}), wefth{host} lost near step {at}: {wrong}", flush=True)
    finally:
        subprocess.run([CLUSTER, "down"], check=False)
    print(f"{count} trainings that lost a host and got it back: {failed} failed; undisturbed loss {undisturbed}, the furthest from it {100 * worst:.2f} %")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
