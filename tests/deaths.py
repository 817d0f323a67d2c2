#!/usr/bin/env python3
"""Jobs of which one rank is killed, stopped, made slow, or cut off, at any moment from its exec to its exit: everybody ends in time,
the right rank is named, and nothing is left.

usage: deaths.py [COUNT [BIN]]    so many jobs (400), drawn with SEED; LAUNCHERS=ucx,file: under these alone; KINDS=unmet,cut: these alone;
RANKS=4: of so many ranks; NODES=4: on so many simulated hosts (2), of which each has a rank, or RANKS shared out

Jobs of 2 to 4 ranks, which carry out every collective in turn, run for about two seconds under weft-launch, under mpirun, or started by hand with
variables (at a file, over TCP, or over TCP with each rank told that it is a node of its own, so that UCX carries the data), and, as root, on two simulated hosts
(launchers/cluster.sh) under mpirun, and under weft-launch over UCX and over TCP (hosts, hosts-ucx, hosts-tcp). WEFT_TIMEOUT is 5 s, WEFT_CONNECT_TIMEOUT 4 s.
  kill   SIGKILL: every other process has ended 5 s later
  stop   SIGSTOP: every other process has ended 5 s after the deadline; the rank itself 10 s after it goes on
  slow   SIGSTOP, SIGCONT a second later: nothing happens, all end with 0
  cut    the link of the rank's host goes down: every process has ended 5 s after the deadline (on two hosts); without mpirun each names
         ranks of the other side alone, for nobody else is missing, and no collective beyond its own
  unmet  the same while ranks connect (on two hosts, without mpirun); a rank that a library's assertion ends has named the right one before
  blink  the link goes down and is up 0.2 to 1.8 s later: nothing happens, all end with 0 (on two hosts, without mpirun)
What Open MPI leaves of its own processes and files is not weft's; it is named at the end. Ends with 1 where a job did otherwise.
"""

import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from trials import OPEN_MPIS_OWN, free_port, kill_all, processes, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = [str(TREE / "launchers/cluster.sh")]
TIMEOUT, CONNECT = 5, 4
SECONDS = 1.0  # of work in a job
NODES = int(os.environ.get("NODES", "2"))  # simulated hosts
KINDS = os.environ.get("KINDS", "kill,stop,slow,cut,blink,unmet").split(",")
BY_HAND = ("file", "tcp", "ucx")
WITHOUT_MPI = ("hosts-ucx", "hosts-tcp")
NAMES_ITSELF = r"MPI_Init|MPI_Comm_split|MPI_Finalize|phase"


class Job:
    def __init__(self, launcher, ranks, programs, folder, number):
        self.launcher, self.ranks, self.folder = launcher, ranks, pathlib.Path(folder)
        self.mark = f"WEFT_TRIAL={os.getpid()}.{number}"
        name, value = self.mark.split("=")
        self.environment = dict(os.environ, TMPDIR=str(self.folder / "tmp"), WEFT_TIMEOUT=str(TIMEOUT), WEFT_CONNECT_TIMEOUT=str(CONNECT),
                                WEFT_FLIGHT_DIR=str(self.folder / "flight"), WEFT_HEAP_BYTES=str(64 << 20), OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", **{name: value})
        (self.folder / "tmp").mkdir()
        self.program = [str(programs / "soak_peer"), "job", str(SECONDS)]
        self.launch = str(programs / "weft-launch")

    def start(self):
        """The processes that a user would wait for: the launcher, or the ranks."""
        if self.launcher in BY_HAND:
            meeting = f"file://{self.folder}/meeting" if self.launcher == "file" else f"tcp://127.0.0.1:{free_port()}"
            self.started = [self.popen(self.program, f"rank{rank}", WEFT_RANK=str(rank), WEFT_SIZE=str(self.ranks), WEFT_RENDEZVOUS=meeting,
                                       **({"WEFT_HOST_ID": f"node-{rank}"} if self.launcher == "ucx" else {}))
                            for rank in range(self.ranks)]
        else:
            command = {"launch": [self.launch, "-n", str(self.ranks)],
                       "mpirun": ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(self.ranks)],
                       "hosts": CLUSTER + ["run", "-np", str(self.ranks)]}
            for name in WITHOUT_MPI:
                command[name] = CLUSTER + ["run", "--launcher", "weft", "-np", str(self.ranks)]
            more = {"WEFT_LAUNCH": self.launch, "WEFT_TRANSPORT": self.launcher[6:]} if self.launcher in WITHOUT_MPI else {}
            self.started = [self.popen(command[self.launcher] + self.program, "job", **more)]

    def popen(self, command, name, **more):
        with open(self.folder / name, "w") as out:
            return subprocess.Popen(command, env=dict(self.environment, **more), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def rank_processes(self):
        """pid by rank."""
        found = {}
        for process, name, environment in processes(self.mark):
            rank = environment.get("WEFT_RANK", environment.get("OMPI_COMM_WORLD_RANK"))
            if name == "soak_peer" and rank is not None:
                found[int(rank)] = process
        return found

    def alive(self, but=()):
        return [name for process, name, _ in processes(self.mark) if process not in but and name not in OPEN_MPIS_OWN]

    def output(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("rank*")) + sorted(self.folder.glob("job")))

    def connected(self):
        """How many ranks have said that they are."""
        return len(re.findall(r"connected \d+$", self.output(), re.M))

    def statuses(self):
        return [process.poll() for process in self.started]


def durations_of(launcher, programs):
    """Seconds from a rank's appearance until all are connected, and to the end of an undisturbed job of three ranks."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(launcher, 3, programs, folder, f"calibration.{launcher}")
        job.start()
        wait_until(job.rank_processes, 20)
        to_connect = wait_until(lambda: job.connected() == 3, 60, 0.005) or 60.0
        return to_connect, to_connect + (wait_until(lambda: not job.alive(), 60) or 60.0)


class Trial:
    def __init__(self, number, chance, launchers, durations):
        self.number = number
        self.launcher = chance.choice(launchers)
        kinds = ["kill", "stop", "slow"] + (["cut"] if self.launcher.startswith("hosts") else [])
        kinds += ["blink", "unmet"] if self.launcher in WITHOUT_MPI else []
        self.kind = chance.choice([kind for kind in kinds if kind in KINDS] or kinds)
        self.ranks = int(os.environ.get("RANKS", "0")) or (chance.randint(2, 4) if NODES == 2 else NODES)
        self.victim = chance.randrange(self.ranks)
        to_connect, whole = durations[self.launcher]
        self.moment = chance.random() * (to_connect if self.kind == "unmet" else whole)
        self.was_early = False
        self.down = chance.uniform(0.2, 1.8)

    def __str__(self):
        return f"{self.kind}, {self.launcher}, rank {self.victim} of {self.ranks}, {self.moment:.3f} s after its exec"

    def run(self, programs):
        with tempfile.TemporaryDirectory(prefix="weft-deaths-") as folder:
            job = Job(self.launcher, self.ranks, programs, folder, self.number)
            job.start()
            try:
                wrong = self.disturb(job)
            finally:
                for process, _, _ in processes(job.mark):
                    os.kill(process, signal.SIGCONT)
                own = [name for _, name, _ in processes(job.mark)]
                kill_all(job.mark)
                for process in job.started:
                    process.wait()
            left = [path.name for path in pathlib.Path(folder, "tmp").iterdir() if not path.name.startswith(("ompi.", "openmpi"))]
            left += [name for name in os.listdir("/dev/shm") if name.startswith("weft") and not name.startswith("weft-test-")]  # of tests beside it
            if pathlib.Path(folder, "meeting").exists() and self.victim != 0:
                left.append("meeting")
            if left:
                wrong.append(f"left behind: {left}")
            return wrong, job.output(), [name for name in own if name in OPEN_MPIS_OWN]

    def disturb(self, job):
        if wait_until(lambda: self.victim in job.rank_processes(), 20, 0.001) is None:
            return ["the rank never came"] if job.alive() else []
        process = job.rank_processes().get(self.victim)
        time.sleep(self.moment)
        over = process is None or process not in job.rank_processes().values()
        if over:
            return self.judge_success(job)
        try:
            return getattr(self, self.kind)(job, process)
        except ProcessLookupError:  # it ended just now
            return self.judge_success(job)

    def judge_success(self, job):
        if wait_until(lambda: None not in job.statuses(), 30) is None:
            return ["the job does not end"]
        return [] if job.statuses() == [0] * len(job.started) else [f"undisturbed, but ended with {job.statuses()}"]

    def judge(self, job, seconds, but=()):
        """After a fault: the others end in time, with a status, and say who it was; or had all been done before."""
        wrong = []
        if wait_until(lambda: not job.alive(but), seconds) is None:
            wrong.append(f"{job.alive(but)} still there {seconds} s later")
        if self.launcher in ("mpirun", "hosts"):  # what ranks said comes through it; a cut link holds it up for minutes
            wait_until(lambda: None not in job.statuses(), 5)
        said = job.output()
        done = {int(rank) for rank in re.findall(r"rank (\d+) done", said)}
        others = set(range(self.ranks)) - {self.victim}
        if set(range(self.ranks)) <= done and set(job.rank_processes().values()) <= set(but):
            return []  # it was over; every launcher waits for a rank that is stopped at its exit
        if others <= done:
            return wrong  # nobody needed it any more
        for index, status in enumerate(job.statuses()):
            is_victim = len(job.started) > 1 and index == self.victim
            if status == 0 and not is_victim and (len(job.started) == 1 or index not in done):
                wrong.append(f"process {index} ended with 0")
        names = rf"\branks? (?:\d+, )*{self.victim}\b"
        if self.launcher in BY_HAND:
            for rank in sorted(others - done):
                if not re.search(names, self.without_own_name(pathlib.Path(job.folder, f"rank{rank}").read_text(errors="replace"))):
                    wrong.append(f"rank {rank} does not name rank {self.victim}")
        elif self.launcher in WITHOUT_MPI:
            wrong += [f"rank {rank} does not name rank {self.victim}" for rank in sorted(others - done) if not self.names(said, rank, [self.victim])]
        elif not re.search(names, self.without_own_name(said)) and not re.search(NAMES_ITSELF, said):
            wrong.append(f"rank {self.victim} is not named")
        return wrong

    def names(self, said, rank, others):
        """Whether the rank's own error names one of the others."""
        own = re.findall(rf"weft: rank {rank}: (.*)", said)
        return any(re.search(rf"\branks? (?:\d+, )*{other}\b", line) for line in own for other in others)

    def host_of(self, rank):
        return rank // -(-self.ranks // NODES)  # consecutive ranks on one host

    def without_own_name(self, said):
        """Errors begin with the rank that has them: "weft: rank 2: all_reduce #5: ..." names no culprit."""
        return re.sub(r"weft: rank \d+: ", "weft: ", said)

    def kill(self, job, process):
        os.kill(process, signal.SIGKILL)
        return self.judge(job, 5)

    def stop(self, job, process):
        os.kill(process, signal.SIGSTOP)
        wrong = self.judge(job, max(TIMEOUT, CONNECT) + 5, [process])
        # A rank of the same host that waited for it in an operation says that it is stopped, and not slow; under mpirun the first
        # one, for with it mpirun ends the job, and sends SIGCONT to who is stopped (Open MPI 4.1, orte_odls_base_default_kill_local_procs).
        waited = re.findall(rf"waited .* rank {self.victim} \((.*?)\)", job.output())
        stopped = [re.match(r"process \d+ is stopped", state) is not None for state in waited]
        if self.launcher not in ("hosts", "ucx") + WITHOUT_MPI and waited and not (any if self.launcher == "mpirun" else all)(stopped):
            wrong.append(f"rank {self.victim} is not said to be stopped: {waited}")
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            return wrong
        if wait_until(lambda: not job.alive(), 10) is None:
            wrong.append(f"{job.alive()} still there 10 s after the rank went on")
        return wrong

    def slow(self, job, process):
        os.kill(process, signal.SIGSTOP)
        time.sleep(1)
        os.kill(process, signal.SIGCONT)
        return self.judge_success(job)

    def blink(self, job, _):
        link = ["ip", "link", "set", f"wefttv{self.host_of(self.victim)}"]
        subprocess.run(link + ["down"], check=True)
        time.sleep(self.down)
        subprocess.run(link + ["up"], check=True)
        return self.judge_success(job)

    def cut(self, job, _):
        host = self.host_of(self.victim)
        link = ["ip", "link", "set", f"wefttv{host}"]
        subprocess.run(link + ["down"], check=True)
        try:
            wrong = self.judge_cut(job, host)
        finally:
            subprocess.run(link + ["up"], check=True)
        return wrong

    def unmet(self, job, process):
        self.was_early = job.connected() < self.ranks
        return self.cut(job, process)

    def judge_cut(self, job, host):
        if wait_until(lambda: not job.alive(), max(TIMEOUT, CONNECT) + 5) is None:
            return [f"{job.alive()} still there"]
        if self.launcher == "hosts":
            return []  # what ranks say beyond the cut cannot reach mpirun
        said = job.output()
        done = {int(rank) for rank in re.findall(r"rank (\d+) done", said)}
        cut_off = [rank for rank in range(self.ranks) if self.host_of(rank) == host]
        others = [rank for rank in range(self.ranks) if self.host_of(rank) != host]
        return [wrong for rank in range(self.ranks) if rank not in done
                for wrong in self.judge_blame(said, rank, others if rank in cut_off else cut_off)]

    def judge_blame(self, said, rank, missing):
        """What is wrong with whom the rank names."""
        if not self.names(said, rank, missing):
            return [f"rank {rank} names none of ranks {missing}"]
        wrong = []
        for number, line in re.findall(rf"weft: rank {rank}: \S+ #(\d+): (.*)", said):
            healthy = {int(one) for one in re.findall(r"\brank (\d+)", line)} - set(missing)
            wrong += [f"rank {rank} names {sorted(healthy)}, who are there"] if healthy else []
            wrong += [f"rank {rank} in #{number} tells of #{other}" for other in re.findall(r"#(\d+)", line) if int(other) > int(number)]
        return wrong


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 400
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    chance = random.Random(int(os.environ.get("SEED", "1")))
    launchers = ["launch", "file", "tcp"] + (["mpirun"] if shutil.which("mpirun") else [])
    has_ucx = b"libucp.so" in (programs / "soak_peer").read_bytes()
    launchers += ["ucx"] if has_ucx else []
    on_hosts = (["hosts"] if shutil.which("mpirun") else []) + (["hosts-ucx"] if has_ucx else []) + ["hosts-tcp"]
    only = os.environ["LAUNCHERS"].split(",") if "LAUNCHERS" in os.environ else launchers + on_hosts
    launchers = [name for name in launchers if name in only]
    on_hosts = [name for name in on_hosts if name in only]
    if on_hosts and os.environ.get("HOSTS", "yes") == "yes":
        if subprocess.run(CLUSTER + ["up", str(NODES), "1gbit"], capture_output=True).returncode == 0:
            launchers += on_hosts
        else:
            print("left out, for there are no simulated hosts: " + ", ".join(on_hosts))
            on_hosts = []
    failed, early, ended_by_library, tally, own = 0, 0, collections.Counter(), collections.Counter(), collections.Counter()
    try:
        durations = {launcher: durations_of(launcher, programs) for launcher in launchers}
        print("undisturbed: " + ", ".join(f"{name} {whole:.1f} s, connected after {to_connect:.2f} s" for name, (to_connect, whole) in durations.items()), flush=True)
        for number in range(count):
            trial = Trial(number, chance, launchers, durations)
            wrong, said, theirs = trial.run(programs)
            tally[(trial.launcher, trial.kind)] += 1
            early += trial.was_early
            ended_by_library.update(set(re.findall(r"UCX ends this process by an assertion of its own in (\w+)", said)))
            own.update(theirs)
            if wrong:
                failed += 1
                print(f"FAILED: job {number}: {trial}: " + "; ".join(wrong))
                print("\n".join("    | " + line for line in said.splitlines()[:40]), flush=True)
    finally:
        if set(launchers) & set(on_hosts):
            subprocess.run(CLUSTER + ["down"], capture_output=True)
    print(", ".join(f"{launcher} {kind} {times}" for (launcher, kind), times in sorted(tally.items())))
    if own:
        print("Open MPI's own processes, ended by this trial: " + ", ".join(f"{name} {times}" for name, times in own.items()))
    if early:
        announced = ", ".join(f"{times} in {call}" for call, times in ended_by_library.items()) or "none"
        print(f"{early} links were cut before all ranks were connected; jobs of which UCX ended a process by an assertion, which weft announced: {announced}")
    print(f"{count} jobs, {failed} did otherwise than they should")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
