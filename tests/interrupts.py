#!/usr/bin/env python3
"""Programs that a signal ends at any moment, or whose disk is full from any byte on: no file is left that is not whole.

usage: interrupts.py [COUNT [BIN]]    so many trials (100), half of each kind, drawn with SEED

Some output files are there before. Afterwards each is what it was before, or whole; what a signal left says that it is partial; nothing else lies
in the folder; and the exit status is the signal's (130, 143), 70 where a disk was full, or 0. Full disks need root; without it all trials are
of signals. Ends with 1 where one of these does not hold.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

EARLIER = "what was there before"
SECONDS = 2.5  # within which a signal comes
STEPS = "100000"


class Trial:
    """A program with its outputs, and what happens to it."""

    def __init__(self, number, seed, bin, kinds):
        chance = random.Random(seed * 1_000_003 + number)
        self.kind = kinds[number % len(kinds)]
        text = ["--model", "gpt-tiny", "--text", str(bin.parent.parent.parent / "README.md")]
        steps = ["--steps", STEPS if self.kind == "signal" else "12"]
        training = [str(bin / "weft-scaling"), *text, *steps]
        programs = [
            ("weft-scaling", training, ["--json", "--report"]),
            ("weft-scaling --sweep", [*training, "--sweep", "1"], ["--json", "--report"]),
            ("weft-launch -n 2 weft-scaling", [str(bin / "weft-launch"), "-n", "2", *training], ["--json", "--report", "--trace"]),
            ("weft-bench", [str(bin / "weft-bench"), "all_reduce", "-b", "8", "-e", "64K" if self.kind == "signal" else "128", "-n", "20000", "-w", "0"], ["--json"]),
            ("weft-plan schedule", [str(bin / "weft-plan"), "schedule", "--name", "auto", "--stages", "8", "--microbatches", "24" if self.kind == "signal" else "4"],
             ["--json", "--svg", "--trace", "--compare"])]
        if shutil.which("mpirun") and self.kind == "signal":
            programs.append(("mpirun -n 2 weft-scaling", ["mpirun", "-n", "2", *training], ["--json", "--report"]))
        self.name, self.command, options = chance.choice(programs)
        self.files = {option: option.strip("-") for option in options}
        self.earlier = {name for name in self.files.values() if chance.random() < 0.5}
        self.signal = chance.choice([signal.SIGINT, signal.SIGTERM])
        self.moment = chance.random() * SECONDS
        self.free = chance.randrange(0, 60_000)

    def __str__(self):
        what = f"{self.signal.name} after {self.moment:.3f} s" if self.kind == "signal" else f"{self.free} bytes free"
        return f"{self.name}, {what}"

    def run(self, folder):
        """The status, and what was said."""
        for name in self.earlier:
            (folder / name).write_text(EARLIER)
        if self.kind == "disk":
            fill(folder, self.free)
        command = [*self.command]
        for option, name in self.files.items():
            command += [option, str(folder / name)]
        own = dict(os.environ, WEFT_FLIGHT_DIR="off", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR="/tmp")
        with subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
            if self.kind == "signal":
                time.sleep(self.moment)
                job.send_signal(self.signal)
            said = job.communicate(timeout=300)[0]  # a machine that is busy; what hangs takes for ever
        status = job.returncode if job.returncode >= 0 else 128 - job.returncode  # as a shell says it
        (folder / "filler").unlink(missing_ok=True)
        return status, said

    def faults(self, folder, status):
        """What does not hold."""
        by_signal = {128 + self.signal.value}
        if self.name.startswith("mpirun"):
            by_signal |= {1, 130, 143}  # Open MPI's own: it ends ranks with SIGTERM whatever it got
        if self.name.startswith("weft-launch"):
            by_signal.add(75)  # its own, for ranks that the signal found before they served it
        if status not in ({0} | by_signal if self.kind == "signal" else {0, 70}):
            yield f"status {status}"
        for name in sorted(set(os.listdir(folder)) - set(self.files.values())):
            yield f"{name} was left"
        for name in self.files.values():
            path = folder / name
            if not path.exists():
                if name in self.earlier or status == 0:
                    yield f"{name} is gone"
                continue
            content = path.read_text()
            if content == EARLIER and name in self.earlier:
                if status == 0:
                    yield f"{name} was not written"
            else:
                yield from fault_of(name, content, status >= 128)


def fault_of(name, content, is_partial):
    """Whether new content is whole, and says what it is."""
    if name in ("json", "trace"):
        try:
            figures = json.loads(content)
        except ValueError:
            yield f"{name} is no whole JSON"
            return
        if name == "json" and is_partial and figures.get("partial") is not True:
            yield "json does not say that it is partial"
    elif not content.rstrip().endswith(("</html>", "</svg>")):
        yield f"{name} has no end"
    elif is_partial and "partial" not in content:
        yield f"{name} does not say that it is partial"


def fill(folder, free):
    """Leaves about `free` bytes of the disk."""
    there = os.statvfs(folder)
    bytes_free = there.f_bavail * there.f_bsize
    (folder / "filler").write_bytes(b"\0" * max(0, bytes_free - free))


def disk(folder):
    """A small disk of its own; whether there is one."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "weft-test", str(folder)], stderr=subprocess.DEVNULL)
    return done.returncode == 0


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    bin = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    seed = int(os.environ.get("SEED", "1"))
    failed = 0
    ended = {}
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        small = root / "disk"
        small.mkdir()
        has_disk = os.geteuid() == 0 and disk(small)
        if not has_disk:
            print("no full disks: they need root")
        try:
            for number in range(count):
                trial = Trial(number, seed, bin, ["signal", "disk"] if has_disk else ["signal"])
                folder = (small if trial.kind == "disk" else root) / str(number)
                folder.mkdir()
                status, said = trial.run(folder)
                faults = list(trial.faults(folder, status))
                ended[status] = ended.get(status, 0) + 1
                if faults:
                    failed += 1
                    print(f"FAILED {number}: {trial}: {'; '.join(faults)}")
                    print("".join(f"    | {line}\n" for line in said.splitlines()[-12:]), end="")
                shutil.rmtree(folder)
        finally:
            if has_disk:
                subprocess.run(["umount", str(small)], check=True)
    print(f"{count} trials, {failed} failed; status " + ", ".join(f"{status}: {times}" for status, times in sorted(ended.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
