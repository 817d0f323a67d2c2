#!/usr/bin/env python3
"""Jobs without room: /dev/shm, /tmp, TMPDIR, HOME or an output's folder is full, read-only or missing. What needs no such place goes on as ever; what
needs it is an error that names the path and what to do. No SIGBUS, nobody waits for ever, nothing is left.

usage: full_disks.py [COUNT [BIN]]    so many jobs (100), drawn with SEED; KINDS=launch,save: of these alone

Each runs in a mount namespace of its own, with a small tmpfs in the place that is spoiled.
  bare     2 to 4 ranks of soak_peer under weft-launch, by hand over TCP, or as nodes over TCP and UCX; /dev/shm or HOME is spoiled
           all end with 0: weft's shared memory is a memory file of the process, which no mount limits (the container's memory does). UCX opens
           a file in /dev/shm even where weft lets it use none, and says so
  launch   weft-launch, which makes a folder in TMPDIR or /tmp where its ranks meet
  meeting  ranks by hand, with a file there
  flight   a rank of weft-launch is killed; the others name it, and say why there is no flight record in WEFT_FLIGHT_DIR or /tmp
  save     gpt, which saves checkpoints there     offload  weft-scaling, which keeps the optimizer's state there
  json     weft-bench and weft-plan with --json   tune     weft-report tune of weft-launch, which needs TMPDIR
Needs root; ends with 77 without, with 1 where a job did otherwise.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from trials import asked, free_port, kill_all, processes, run_all, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
KINDS = ["bare", "launch", "meeting", "flight", "save", "offload", "json", "tune"]
LONGEST = 40  # s
# $1 is the place, $2 its state, and $3 how many bytes are free of what is full.
SPOIL = """
case $2 in
  full) mount -t tmpfs -o size=512k weft-test "$1" && head -c $((524288 - $3)) /dev/zero > "$1/filler" ;;
  no-files) mount -t tmpfs -o size=512k,nr_inodes=1 weft-test "$1" ;;
  read-only) mount -t tmpfs -o size=512k,ro weft-test "$1" ;;
  *) true ;;
esac || exit 99
shift 3
"$@"
status=$?
exit $status
"""
REASONS = {"full": "No space left on device", "no-files": "No space left on device", "read-only": "Read-only file system",
           "missing": "No such file or directory|is no folder", "file": "Not a directory|is no folder"}


class Trial:
    def __init__(self, number, chance, kinds, has_ucx):
        self.number, self.kind = number, kinds[number % len(kinds)]
        self.ranks = chance.randint(2, 4)
        self.how = chance.choice(["weft-launch", "tcp", "tcp nodes"] + (["ucx nodes"] if has_ucx else [])) if self.kind == "bare" else ""
        self.place = {"bare": chance.choice(["/dev/shm", "HOME"]), "launch": chance.choice(["/tmp", "TMPDIR"]), "flight": chance.choice(["/tmp", "WEFT_FLIGHT_DIR"]),
                      "tune": "TMPDIR"}.get(self.kind, "folder")
        states = ["full", "no-files", "read-only"] + (["missing", "file"] if not self.place.startswith("/") else [])
        self.state = chance.choice(states)
        self.free = chance.choice([0, 0, chance.randrange(0, 60000)]) if self.kind == "save" else 0
        self.pick = chance.random()

    def __str__(self):
        return f"{self.kind}{' ' + self.how if self.how else ''}, {self.ranks} ranks, {self.place} is {self.state}" + (f" but for {self.free} bytes" if self.free else "")

    def run(self, programs, folder):
        """(what went wrong, what was said)"""
        mark = f"WEFT_TRIAL={os.getpid()}.{self.number}"
        self.path = pathlib.Path(self.place) if self.place.startswith("/") else folder / "place"
        if self.state == "file":
            self.path.write_text("")
        elif self.state != "missing":
            self.path.mkdir(exist_ok=True)
        (folder / "tmp").mkdir()
        name, value = mark.split("=")
        environment = dict(os.environ, TMPDIR=str(folder / "tmp"), WEFT_FLIGHT_DIR="off", WEFT_TIMEOUT="5", WEFT_CONNECT_TIMEOUT="4", OMP_NUM_THREADS="1", WEFT_LOG="warn",
                           WEFT_HEAP_BYTES=str(64 << 20), **{name: value})
        if self.place == "/tmp":
            environment.pop("TMPDIR") if self.kind == "launch" else environment.update(TMPDIR="/var/tmp")
        if self.place in ("TMPDIR", "HOME", "WEFT_FLIGHT_DIR"):
            environment[self.place] = str(self.path)
        if self.kind == "flight" and self.place == "/tmp":
            environment["WEFT_FLIGHT_DIR"] = "auto"
        output = folder / "said"
        command = self.command(programs)
        words = ["unshare", "--mount", "--propagation", "private", "bash", "-c", SPOIL, "spoil", self.path, self.state, self.free, *command]
        shown = set(os.listdir("/dev/shm"))
        with open(output, "w") as out:
            job = subprocess.Popen([str(word) for word in words], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        if self.kind == "flight":
            self.kill_one(mark)
        ended = wait_until(lambda: job.poll() is not None and not processes(mark), LONGEST)
        left = [process[1] for process in processes(mark)]
        kill_all(mark)
        job.wait()
        said = output.read_text(errors="replace")
        wrong = [] if ended is not None else [f"{left} still there after {LONGEST} s"]
        wrong += [f"ended by signal {number}" for number in re.findall(r"killed by signal (?!9\b)(\d+)|(?:Bus error|Segmentation fault|Aborted)", said)]
        left = [one for one in set(os.listdir("/dev/shm")) - shown if one.startswith(("weft", "ucx", "memfd"))]  # what else comes there is others'
        if left:
            wrong.append(f"left in /dev/shm: {left}")
        if os.listdir(folder / "tmp"):
            wrong.append(f"left in TMPDIR: {os.listdir(folder / 'tmp')}")
        if job.returncode == 99:
            return ["the place could not be spoiled"], said
        return wrong + (self.judge_bare(job.returncode, said) if self.kind == "bare" else self.judge(job.returncode, said)), said

    def by_hand(self, programs, meeting, more=""):
        peer = f"WEFT_RANK=$rank WEFT_SIZE={self.ranks} WEFT_RENDEZVOUS={meeting} {more} '{programs}/soak_peer' job 0.2 || exit $?"
        return ["bash", "-c", f"for ((rank = 0; rank < {self.ranks}; ++rank)); do ({peer}) & all+=($!); done; for one in ${{all[@]}}; do wait $one || failed=$?; done; exit ${{failed:-0}}"]

    def command(self, programs):
        launch = [programs / "weft-launch", "-n", self.ranks]
        training = ["--model", "gpt-tiny", "--text", TREE / "README.md", "--steps"]
        if self.kind == "bare" and self.how != "weft-launch":
            more = {"tcp": "", "tcp nodes": "WEFT_HOST_ID=node-$rank WEFT_TRANSPORT=tcp", "ucx nodes": "WEFT_HOST_ID=node-$rank WEFT_TRANSPORT=ucx"}[self.how]
            return self.by_hand(programs, f"tcp://127.0.0.1:{free_port()}", more)
        if self.kind == "meeting":
            return self.by_hand(programs, f"file://{self.path}/meeting")
        if self.kind == "flight":
            return [*launch, programs / "soak_peer", "job", 30]
        if self.kind == "save":
            return [*launch, programs / "gpt", *training, 20, "-q", "--checkpoint", self.path / "saved", "--checkpoint-every", 5]
        if self.kind == "offload":
            return [programs / "weft-scaling", *training, 6, "-q", "--strategies", f"zero2+offload:{self.path}"]
        bench = [programs / "weft-bench", "all_reduce", "-b", 8, "-e", 64, "-q"]
        if self.kind == "json":
            plan = [programs / "weft-plan", "schedule", "--name", "1f1b", "--stages", 4, "--microbatches", 400]
            return [*(plan if self.pick < 0.5 else [*launch, *bench]), "--json", self.path / "figures.json"]
        if self.kind == "tune":
            return [programs / "weft-report", "tune", "--minutes", 0.02, "--", *launch, *bench]
        return [*launch, programs / "soak_peer", "job", "0.2"]

    def kill_one(self, mark):
        def ranks():
            return [process for process, name, _ in processes(mark) if name == "soak_peer"]

        wait_until(lambda: len(ranks()) == self.ranks, 20)
        time.sleep(0.5)
        for process in ranks()[:1]:
            os.kill(process, signal.SIGKILL)

    def judge_bare(self, status, said):
        if self.how == "ucx nodes" and self.place == "/dev/shm" and status != 0:
            return [] if re.search("cannot use UCX: ucp_worker_create failed", said) else [f"status {status}, and not for UCX's own file"]
        return [] if status == 0 else [f"status {status}"]

    def judge(self, status, said):
        if status == 0 and self.kind == "save" and (self.free or self.state == "missing"):
            return []  # there was room; a folder that is missing is made
        if self.kind == "flight" and self.state == "missing":
            return [] if status == 75 and "flight record in" in said else [f"status {status}, or no record"]
        if status == 42 and self.kind == "tune" and self.state == "full":
            return []  # the last line of the run that failed need not be its reason
        wrong = []
        if status not in {"flight": (75,), "meeting": (42, 70, 75)}.get(self.kind, (42, 70)):
            wrong.append(f"status {status}")
        lines = [line for line in said.splitlines() if str(self.path) in line]
        named = [line for line in lines if re.search(REASONS[self.state], line)]
        if not named:
            wrong.append(f"no line names {self.path} and says that it is {self.state}")
        elif self.state in ("full", "no-files", "read-only") and not any("; " in line for line in named) and not re.search("/(ranks0|meeting): No space", said):
            wrong.append("no line says what to do")
        if self.kind in ("save", "offload", "flight") and not any("rank " in line for line in named):
            wrong.append("no line says on which rank")
        return wrong


def main():
    count, programs, chance, kinds = asked(KINDS)
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "weft-test", "/mnt"], capture_output=True, check=False).returncode != 0:
        print("skipped: mount namespaces and tmpfs need root")
        return 77
    kinds = [kind for kind in kinds if (programs / {"save": "gpt", "offload": "weft-scaling"}.get(kind, "weft-bench")).exists()]
    has_ucx = b"libucp.so" in (programs / "soak_peer").read_bytes()

    def run(trial):
        # Not in /tmp, which may be covered.
        with tempfile.TemporaryDirectory(prefix="weft-full-", dir="/var/tmp") as folder:
            return trial.run(programs, pathlib.Path(folder))

    return run_all(count, lambda number: Trial(number, chance, kinds, has_ucx), run)


if __name__ == "__main__":
    sys.exit(main())
