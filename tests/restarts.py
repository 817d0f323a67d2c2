#!/usr/bin/env python3
"""Trainings of which a rank is killed at any moment start again from their checkpoint, with as many ranks, and end bitwise as the undisturbed one.

usage: restarts.py [COUNT [BIN]]    so many trainings (100) under each of LAUNCHERS (weft,mpirun), drawn with SEED

gpt-tiny on 2 ranks under weft-launch --max-restarts 3, which starts them itself or through mpirun, saves every 20 steps. Ends with 1 where a training
did otherwise: another status, no restart, or a last checkpoint that is not the undisturbed one's in every bit.
"""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

STEPS, EVERY, RANKS = 2000, 20, 2
MOST_SECONDS = 120


def command(programs, launcher, folder):
    words = [programs / "weft-launch", "-n", RANKS, "--max-restarts", 3, "--"]
    if launcher == "mpirun":
        words += ["mpirun", "--oversubscribe", "--bind-to", "none"]
    return [str(word) for word in words + [programs / "gpt", "--model", "gpt-tiny", "--steps", STEPS, "--checkpoint", folder, "--checkpoint-every", EVERY, "--quiet"]]


def newest(folder):
    return max((int(path.name[5:]) for path in folder.glob("step-????????")), default=0) if folder.exists() else 0


def ranks_of(folder):
    """The processes of the training that saves there."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/gpt") and str(folder).encode() in words:
            found.append(int(process.name))
    return found


def trial(programs, launcher, work, reference, chance):
    """What was wrong; empty: nothing. And the step after which a rank was killed."""
    folder = work / "saved"
    own = dict(os.environ, OMP_NUM_THREADS="1", WEFT_FLIGHT_DIR="off", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    at = chance.randrange(0, STEPS - 400)
    job = subprocess.Popen(command(programs, launcher, folder), env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + MOST_SECONDS
    while newest(folder) < at and job.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.02))
    while not (victims := ranks_of(folder)) and job.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    if victims:
        os.kill(chance.choice(victims), 9)
    try:
        _, said = job.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        return f"it still runs after {MOST_SECONDS} s", at
    if not victims:
        return f"step {at} did not come before the end: {said[-400:]}", at
    if job.returncode != 0:
        return f"status {job.returncode}: {said[-600:]}", at
    if not re.search(r"starting again, after failure 1 of at most 3: 2 ranks", said):
        return f"it did not start again: {said[-600:]}", at
    compared = subprocess.run([programs / "weft-plan", "checkpoint", reference, "--diff", folder], capture_output=True, text=True, check=False)
    return ("" if compared.returncode == 0 and "are alike" in compared.stdout else f"another end: {compared.stdout[-400:]}{compared.stderr[-400:]}"), at


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 100
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    seed = int(os.environ.get("SEED", "1"))
    launchers = os.environ.get("LAUNCHERS", "weft,mpirun" if shutil.which("mpirun") else "weft").split(",")
    failed = 0
    for launcher in launchers:
        wrong_here, before = 0, []
        with tempfile.TemporaryDirectory() as kept:
            reference = pathlib.Path(kept) / "whole"
            own = dict(os.environ, OMP_NUM_THREADS="1", WEFT_FLIGHT_DIR="off", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            subprocess.run(command(programs, launcher, reference), env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=MOST_SECONDS)
            for number in range(count):
                with tempfile.TemporaryDirectory() as work:
                    wrong, at = trial(programs, launcher, pathlib.Path(work), reference, random.Random(f"{seed} {launcher} {number}"))
                before.append(at)
                if wrong:
                    wrong_here += 1
                    print(f"FAILED {launcher} {number} (SEED={seed}), killed near step {at}: {wrong}", flush=True)
                if (number + 1) % 20 == 0 and number + 1 < count:
                    print(f"{launcher}: {number + 1} so far, {wrong_here} failed", flush=True)
        print(f"{launcher}: {count} trainings with a killed rank, {count - wrong_here} end bitwise as the undisturbed one; killed near steps {min(before)} to {max(before)} of {STEPS}", flush=True)
        failed += wrong_here
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
