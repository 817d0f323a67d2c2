#!/usr/bin/env python3
"""Process numbers that are given again: a dead rank whose number another process has is still found dead, and nothing signals that other process.

usage: process_ids.py [COUNT [BIN]]    so many jobs (100), drawn with SEED; KINDS=guardian,record: of these alone

In a process namespace of its own, the number of each dead rank is given to a stranger at once (/proc/sys/kernel/ns_last_pid), which leads a
process group of that number, as the rank did, and counts the signals that it gets: none.
  dead      a rank by hand is killed, at any moment, while the others are stopped in half of the jobs, until the stranger is there:
            they name the rank within 5 s after they go on
  launch    the same under weft-launch, which ends the others, or with --max-restarts starts them again to their end
  guardian  weft-launch is killed, with it its ranks, and their numbers are given before the process that clears away after it looks
  record    two jobs, whose rank 0 has the same number, of which different ranks die: weft-report flight names the second's alone
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

from deaths import Job
from trials import INSIDE, again_inside, asked, kill_all, processes, run_all, wait_until

KINDS = ["dead", "launch", "guardian", "record"]
LAST = pathlib.Path("/proc/sys/kernel/ns_last_pid")


class Stranger:
    """A process with that number, which writes a byte for each signal that it gets."""

    def __init__(self, number):
        self.number, self.status = number, None
        self.heard, write = os.pipe()
        for _ in range(200):
            LAST.write_text(str(number - 1))
            child = os.fork()
            if child == 0:
                if os.getpid() != number:
                    os._exit(0)
                self.live(write)
            if child == number:
                break
            os.waitpid(child, 0)
            time.sleep(0.001)
        self.is_there = child == number
        os.close(write)
        if self.is_there:
            os.read(self.heard, 1)  # its handlers are there

    def live(self, write):
        os.setpgid(0, 0)
        for one in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(one, lambda *_: os.write(write, b"s"))
        os.write(write, b"r")
        while True:
            signal.pause()

    def harm(self):
        """What was done to it; ends it."""
        if not self.is_there:
            return []
        done, status = os.waitpid(self.number, os.WNOHANG)
        if done:
            wrong = [f"the stranger with number {self.number} was ended: {status}"]
        else:
            os.kill(self.number, signal.SIGKILL)
            os.waitpid(self.number, 0)
            wrong = []
        heard = os.read(self.heard, 100)
        os.close(self.heard)
        return wrong + ([f"the stranger with number {self.number} got {len(heard)} signals"] if heard else [])


def gone(number):
    return not os.path.exists(f"/proc/{number}")


class Trial:
    def __init__(self, number, chance, kinds, has_ucx):
        self.number, self.kind = number, kinds[number % len(kinds)]
        self.launcher = chance.choice(["file", "tcp"] + (["ucx"] if has_ucx else [])) if self.kind == "dead" else "launch"
        self.ranks = chance.randint(2, 4)
        self.victim = chance.randrange(self.ranks)
        self.moment = chance.random() * (1.2 if self.kind in ("dead", "launch") else 0.5)
        self.stops = chance.random() < 0.5
        self.restarts = chance.random() < 0.5
        self.strangers = []

    def __str__(self):
        return f"{self.kind}, {self.launcher}, rank {self.victim} of {self.ranks}, {self.moment:.3f} s after it came"

    def run(self, programs):
        """(what went wrong, what was said)"""
        with tempfile.TemporaryDirectory(prefix="weft-numbers-") as folder:
            job = Job(self.launcher, self.ranks, programs, folder, self.number)
            try:
                wrong = getattr(self, self.kind)(job, programs)
            finally:
                for process, _, _ in processes(job.mark):
                    os.kill(process, signal.SIGCONT)
                kill_all(job.mark)
                for process in getattr(job, "started", []):
                    process.wait()
                for stranger in self.strangers:
                    wrong = wrong + stranger.harm()
            return wrong, job.output()

    def replace(self, numbers):
        """Whether each of these dead processes' numbers has a stranger."""
        for number in numbers:
            if wait_until(lambda: gone(number), 5, 0.0005) is None:
                return False
            self.strangers.append(Stranger(number))
        return all(stranger.is_there for stranger in self.strangers)

    def dead(self, job, _):
        job.start()
        own = [process.pid for process in job.started]
        wait_until(lambda: self.victim in job.rank_processes(), 20, 0.0005)
        time.sleep(self.moment)
        others = [number for number in own if number != own[self.victim]]
        if self.stops:
            for number in others:
                os.kill(number, signal.SIGSTOP)
        is_over = job.started[self.victim].poll() is not None or "done" in job.output()
        job.started[self.victim].kill()
        job.started[self.victim].wait()
        if not self.replace([own[self.victim]]):
            return ["its number was not to be had"]
        since = time.monotonic()
        for number in others:
            os.kill(number, signal.SIGCONT)
        if wait_until(lambda: all(process.poll() is not None for process in job.started), 5) is None:
            return [f"{job.alive()} still there {time.monotonic() - since:.1f} s later"]
        wrong = []
        for rank, process in enumerate(job.started):
            said = pathlib.Path(job.folder, f"rank{rank}").read_text()
            if rank != self.victim and not is_over and process.returncode != 0 and not re.search(rf"\branks? (\d+, )*{self.victim}\b", said.replace(f"weft: rank {rank}:", "")):
                wrong.append(f"rank {rank} does not name rank {self.victim}")
            if rank != self.victim and process.returncode == 0 and "done" not in said:
                wrong.append(f"rank {rank} ended with 0")
        return wrong

    def launch(self, job, programs):
        command = [str(programs / "weft-launch"), "-n", str(self.ranks), *(["--max-restarts", "2"] if self.restarts else [])]
        job.started = [job.popen(command + job.program, "job")]
        if wait_until(lambda: self.victim in job.rank_processes(), 20, 0.0005) is None:
            return ["the rank never came"]
        number = job.rank_processes().get(self.victim)
        time.sleep(self.moment)
        if number is None or number not in job.rank_processes().values():
            return []  # it was over
        os.kill(number, signal.SIGKILL)
        if not self.replace([number]):
            return ["its number was not to be had"]
        if wait_until(lambda: job.started[0].poll() is not None, 40) is None:
            return ["weft-launch does not end"]
        status, said = job.started[0].returncode, job.output()
        if self.restarts:
            return [] if status == 0 and said.count("done") >= self.ranks else [f"status {status} with restarts"]
        was_done = said.count("done") >= self.ranks - 1
        return [] if was_done or status == 75 and re.search(rf"\brank {self.victim} \(process \d+\) has|\brank {self.victim}\b.*killed by signal 9", said) else [f"status {status}"]

    def guardian(self, job, programs):
        job.started = [job.popen([str(programs / "weft-launch"), "-n", str(self.ranks), programs / "soak_peer", "job", "30"], "job")]
        if wait_until(lambda: len(job.rank_processes()) == self.ranks, 20) is None:
            return ["the ranks do not come"]
        time.sleep(self.moment)
        numbers = list(job.rank_processes().values())
        guardians = [number for number, name, _ in processes(job.mark) if name == "weft-guardian"]
        if len(guardians) != 1:
            return [f"{len(guardians)} guardians"]
        os.kill(guardians[0], signal.SIGSTOP)
        job.started[0].kill()
        job.started[0].wait()
        if not self.replace(numbers):
            return ["their numbers were not to be had"]
        os.kill(guardians[0], signal.SIGCONT)
        if wait_until(lambda: gone(guardians[0]), 10) is None:
            return ["the guardian does not end"]
        left = os.listdir(job.folder / "tmp")
        return [f"left behind: {left}"] if left else []

    def record(self, job, programs):
        """Twice by hand at a file; the second time rank 0 gets the number that it had the first time."""
        job.environment["WEFT_FLIGHT_DIR"] = "auto"
        ranks = 4
        first, second = self.victim % 3 + 1, (self.victim + 1) % 3 + 1
        folders, number = [], None
        for round, victim in enumerate((first, second)):
            job.started = []
            for rank in range(ranks):
                for _ in range(50):
                    if rank == 0 and number is not None:
                        wait_until(lambda: gone(number), 5)
                        LAST.write_text(str(number - 1))
                    process = job.popen([str(programs / "soak_peer"), "job", "30"], f"rank{round}{rank}", WEFT_RANK=str(rank), WEFT_SIZE=str(ranks),
                                        WEFT_RENDEZVOUS=f"file://{job.folder}/meeting{round}")
                    if rank > 0 or number is None or process.pid == number:
                        break
                    process.kill()
                    process.wait()
                    (job.folder / f"meeting{round}").unlink(missing_ok=True)
                job.started.append(process)
            if number is not None and job.started[0].pid != number:
                return ["its number was not to be had"]
            number = job.started[0].pid
            time.sleep(0.7 + self.moment)
            job.started[victim].kill()
            if wait_until(lambda: None not in job.statuses(), 10) is None:
                return ["they do not end"]
            said = (job.folder / f"rank{round}0").read_text()
            folders.append(re.search(r"weft-report flight (\S+)", said))
            if not folders[-1]:
                return ["no flight record"]
        report = subprocess.run([str(programs / "weft-report"), "flight", folders[1][1]], capture_output=True, text=True, check=False).stdout
        left_none = re.search(r"ranks? ([\d, ]+)of 4", report)
        if not left_none or left_none[1].strip() != str(second):
            return [f"rank {second} died, after rank {first} of a job before: {report[:600]}"]
        return []


def main():
    count, programs, chance, kinds = asked(KINDS)
    if os.environ.get(INSIDE):
        has_ucx = b"libucp.so" in (programs / "soak_peer").read_bytes()
        given = []

        def run(trial):
            result = trial.run(programs)
            given.extend(trial.strangers)
            return result

        return run_all(count, lambda number: Trial(number, chance, kinds, has_ucx), run, lambda: f"{len(given)} numbers given to strangers, ")
    # bash is process 1 there, which reaps whatever loses its parent; /tmp is a disk of their own, for records lie there.
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--propagation", "private", "bash", "-c"]
    probe = 'echo 300 > /proc/sys/kernel/ns_last_pid && mount -t tmpfs weft-test /tmp && test "$(bash -c \'echo $$\')" -gt 300'
    if os.geteuid() != 0 or subprocess.run([*alone, probe], capture_output=True, check=False).returncode != 0:
        print("skipped: a process namespace with ns_last_pid needs root, and a kernel with CONFIG_CHECKPOINT_RESTORE")
        return 77
    return again_inside([*alone, 'mount -t tmpfs weft-test /tmp && "$@"; exit $?', "inside"], count, programs)


if __name__ == "__main__":
    sys.exit(main())
