"""torch.distributed over weft on two simulated hosts, two ranks on each, by each way to meet: deaths, cuts and slow lines at any moment.

usage: hosts_trial.py [COUNT]    so many jobs (100), drawn with SEED; KINDS=kill,cut: of these alone. tests/soak.sh torch_hosts runs it

The ranks meet by env://, tcp:// or file://, and UCX or TCP carries the data. They sum, gather and send for about a second; each result is compared.
  whole   nothing happens                                   all end well
  late    a rank comes up to 2 s after the others           the same
  blink   the link of a host is down for 0.2 to 1.8 s       the same
  line    the link of a host has 1 to 20 Mbit/s             the same
  kill    SIGKILL of a rank                                 the others end within 5 s, with an error that names it; while torch's own store gathers
                                                            the ranks, within the timeout (6 s) and 5 s, with torch's error
  stop    SIGSTOP of a rank                                 the others end within the timeout and 5 s, and name it; the rank itself 10 s after it goes on
  cut     the link of a host goes down                      all end within the timeout and 8 s; those that had met name a rank beyond the cut
Needs root; ends with 77 where the system does not allow network namespaces, with 1 where a job did otherwise.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from hosts_test import CLUSTER, HOSTS, PER_HOST, RANKS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from trials import asked, run_all, wait_until  # noqa: E402

KINDS = ["whole", "late", "blink", "line", "kill", "stop", "cut"]
WAYS = ["env", "tcp", "file"]
TIMEOUT = 6
ENDS_WELL = ("whole", "late", "blink", "line")
STEPS, PAUSE = 40, 0.02


def work(rank, size, torch, dist):
    for step in range(STEPS):
        count = (1, 1000, 60_000)[step % 3]
        tensor = torch.arange(count, dtype=torch.float32) + rank + step
        dist.all_reduce(tensor)
        assert torch.equal(tensor, (torch.arange(count, dtype=torch.float32) + step) * size + sum(range(size))), (step, count)
        gathered = torch.zeros(size * 3)
        dist.all_gather_into_tensor(gathered, torch.full((3,), float(rank + step)))
        assert gathered.tolist() == [float(other + step) for other in range(size) for _ in range(3)], step
        received = torch.zeros(5)
        for one in [dist.isend(torch.full((5,), float(rank)), (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]:
            one.wait()
        assert received.tolist() == [float((rank - 1) % size)] * 5, step
        time.sleep(PAUSE)


def rank_body(rank, init, timeout):
    """In a process that was forked for it."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        where = {"init_method": init} if init == "env://" else {"init_method": init, "rank": rank, "world_size": RANKS}
        dist.init_process_group("weft", timeout=timedelta(seconds=timeout), **where)
        dist.barrier()
        print(f"rank {rank} met", flush=True)
        work(rank, RANKS, torch, dist)
        dist.barrier()
        print(f"rank {rank} done", flush=True)
        dist.destroy_process_group()
        return 0
    except Exception as error:  # torch has an error of its own for each place
        print(f"rank {rank} error: {type(error).__name__}: {error}", flush=True)
        if isinstance(error, AssertionError):
            traceback.print_exc()
        return 3


def serve():
    """On a host: for each line, a rank is forked, so that torch is loaded once."""
    import torch.distributed  # noqa: F401
    import weft.torch  # noqa: F401

    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks for their status: they say how they end
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(order["environment"])
            out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(out, 1)
            os.dup2(out, 2)
            status = rank_body(order["rank"], order["init"], order["timeout"])
            print(f"rank {order['rank']} ends with {status}", flush=True)
            os._exit(status)
        print(child, flush=True)


class Host:
    def __init__(self, number):
        self.process = subprocess.Popen([CLUSTER, "exec", str(number), sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, UCX_NET_DEVICES="eth0", UCX_TLS="tcp,self"))
        if self.process.stdout.readline() != "ready\n":
            raise OSError(f"host {number} does not start")

    def start(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def link(host, *words):
    subprocess.run(["ip", "link", "set", f"wefttv{host}", *words], check=True)


def rate(host, value):
    for where in (["-n", f"wefth{host}"], []):
        subprocess.run(["tc", *where, "qdisc", "change", "dev", "eth0" if where else f"wefttv{host}", "root", "tbf", "rate", value, "burst", "256kb", "latency", "400ms"], check=True)


class Trial:
    def __init__(self, number, chance, kinds):
        self.number, self.kind = number, kinds[number % len(kinds)]
        self.way, self.transport = chance.choice(WAYS), chance.choice(["auto", "tcp"])
        self.victim = chance.randrange(RANKS)
        self.host = self.victim // PER_HOST
        self.moment, self.down = chance.uniform(0, 2), chance.uniform(0.2, 1.8)
        self.rate = f"{chance.randint(1, 20)}mbit"
        self.port = 20000 + chance.randrange(10000)

    def __str__(self):
        return f"{self.kind}, {self.way}, {self.transport}, rank {self.victim}, {self.moment:.3f} s after the start"

    def run(self, hosts, folder):
        """(what went wrong, what was said)"""
        self.folder = pathlib.Path(folder)
        timeout = 30 if self.kind in ENDS_WELL else TIMEOUT
        init = {"env": "env://", "tcp": f"tcp://10.77.0.10:{self.port}", "file": f"file://{folder}/meeting"}[self.way]

        def start(rank):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank % PER_HOST), "LOCAL_WORLD_SIZE": str(PER_HOST), "MASTER_ADDR": "10.77.0.10",
                         "MASTER_PORT": str(self.port), "WEFT_TRANSPORT": self.transport, "WEFT_CONNECT_TIMEOUT": str(timeout), "WEFT_FLIGHT_DIR": "off"}
            return hosts[rank // PER_HOST].start(rank=rank, init=init, timeout=timeout, out=str(self.folder / f"rank{rank}"), environment=variables)

        self.ranks = {rank: start(rank) for rank in range(RANKS) if self.kind != "late" or rank != self.victim}
        try:
            time.sleep(self.moment)
            if self.kind == "late":
                self.ranks[self.victim] = start(self.victim)
            return (getattr(self, self.kind)() if self.kind not in ("whole", "late") else self.end_well()), self.said()
        finally:
            for process in self.ranks.values():
                for one in (signal.SIGCONT, signal.SIGKILL):
                    try:
                        os.kill(process, one)
                    except ProcessLookupError:
                        pass
            wait_until(lambda: not self.alive(), 10)

    def said(self, rank=None):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("rank*" if rank is None else f"rank{rank}")))

    def alive(self, but=()):
        return [rank for rank, process in self.ranks.items() if rank not in but and os.path.exists(f"/proc/{process}")]

    def end_well(self):
        if wait_until(lambda: not self.alive(), 60) is None:
            return [f"ranks {self.alive()} do not end"]
        return [f"rank {rank} does not end well" for rank in range(RANKS) if f"rank {rank} done" not in self.said(rank) or f"rank {rank} ends with 0" not in self.said(rank)]

    def others_end(self, seconds, named, but=()):
        """Those but `but` end in time; who had met and is not done names one of `named(rank)`."""
        wrong = [] if wait_until(lambda: not self.alive(but), seconds) is not None else [f"ranks {self.alive(but)} still there {seconds} s later"]
        for rank in set(range(RANKS)) - set(but):
            own = self.said(rank)
            if f"rank {rank} done" in own or not named(rank):
                continue
            error = re.search(r"^rank \d+ error: .*", own, re.M | re.S)
            if not error:
                wrong.append(f"rank {rank} says nothing")
            elif f"rank {rank} met" in own and not re.search(rf"\branks? (?:\d+, )*({'|'.join(map(str, named(rank)))})\b", error[0].replace(f"weft: rank {rank}:", "")[len("rank 0 error"):]):
                wrong.append(f"rank {rank} names none of {named(rank)}")
        return wrong

    def all_met(self):
        return all(f"rank {rank} met" in self.said(rank) for rank in range(RANKS) if rank != self.victim)

    def kill(self):
        if self.victim not in self.alive():
            return self.end_well()
        met = self.all_met()
        os.kill(self.ranks[self.victim], signal.SIGKILL)
        return self.others_end(5 if met else TIMEOUT + 5, lambda rank: [self.victim] if rank != self.victim else [], [self.victim])

    def stop(self):
        if self.victim not in self.alive():
            return self.end_well()
        os.kill(self.ranks[self.victim], signal.SIGSTOP)
        wrong = self.others_end(TIMEOUT + 5, lambda rank: [self.victim] if rank != self.victim else [], [self.victim])
        os.kill(self.ranks[self.victim], signal.SIGCONT)
        return wrong + ([] if wait_until(lambda: not self.alive(), 10) is not None else ["the rank that goes on does not end"])

    def cut(self):
        try:
            link(self.host, "down")
            return self.others_end(TIMEOUT + 8, lambda rank: [other for other in range(RANKS) if other // PER_HOST != rank // PER_HOST])
        finally:
            link(self.host, "up")

    def blink(self):
        link(self.host, "down")
        time.sleep(self.down)
        link(self.host, "up")
        return self.end_well()

    def line(self):
        rate(self.host, self.rate)
        try:
            return self.end_well()
        finally:
            rate(self.host, "1gbit")


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "serve":
        serve()
        return 0
    count, _, chance, kinds = asked(KINDS)
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return 77
    made = subprocess.run([CLUSTER, "up", str(HOSTS), "1gbit"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        print(f"skipped: {made.stderr.strip().splitlines()[0]}")
        return 77
    try:
        hosts = [Host(number) for number in range(HOSTS)]

        def run(trial):
            with tempfile.TemporaryDirectory(prefix="weft-torch-hosts-") as folder:
                return trial.run(hosts, folder)

        status = run_all(count, lambda number: Trial(number, chance, kinds), run)
        for host in hosts:
            host.end()
        return status
    finally:
        subprocess.run([CLUSTER, "down"], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
