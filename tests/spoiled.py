#!/usr/bin/env python3
"""Jobs whose hosts are joined by a line that loses, doubles, overtakes and changes packets: no sum is wrong, and nobody waits for ever.

usage: spoiled.py [COUNT [BIN]]    so many jobs (100), drawn with SEED; KINDS=forged,lost: of these kinds alone; TRANSPORTS=tcp: over these

Two or three hosts, network namespaces, have one or two ranks each, under weft-launch, over UCX or TCP. A switch of our own joins them
(tests/soak/relay.cpp), in place of netem, which not every kernel has. weft-bench goes through all collectives, in place and not, of a type
that is drawn, and compares every element with what it must be.
  lost      up to 3 % of the packets are dropped      doubled   up to 20 % come twice      late   up to 20 % come after later ones
  flipped   a bit of up to 3 % is changed, and the checksums tell       all   all of these at once
            The job ends with 0, and no element is wrong: the kernel's TCP mends the line.
  forged    a bit of TCP's payload is changed, and its checksum made right, so that weft gets it. What weft does not check may be wrong; but
            every process ends within the deadlines, and none by a signal, save by UCX's own assertions
The rendezvous goes over the same line. Ends with 1 where a job did otherwise, with 77 where there are no network namespaces or devices.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from trials import asked, kill_all, processes, run_all, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
KINDS = ["lost", "doubled", "late", "flipped", "all", "forged"]
MOST = {"lost": 0.03, "doubled": 0.2, "late": 0.2, "flipped": 0.03}  # shares of the packets
NETWORK = "10.79.0."
TIMEOUT, CONNECT = 6, 6  # s, of forged jobs
TYPES = ["float", "double", "half", "bfloat16", "int32", "int64", "uint8"]


class Lines:
    """Hosts and the switch between them; `tally` is what the switch spoiled, once they are gone."""

    def __init__(self, relay, hosts, shares, mended, seed):
        self.names = [f"weftsp{os.getpid()}x{i}" for i in range(hosts)]
        self.tally, self.relay = {}, None
        try:
            for name in self.names:
                ip("netns", "add", name)
            words = [relay, seed, *(shares[kind] for kind in MOST), "MENDED" if mended else "HOLDS", *self.names]
            self.relay = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if self.relay.stdout.readline() != "ready\n":
                raise OSError(self.relay.stderr.read().strip())
            for i, name in enumerate(self.names):
                ip("-n", name, "addr", "add", f"{NETWORK}{10 + i}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", "eth0", "up")
        except BaseException:
            self.end()
            raise

    def end(self):
        if self.relay:
            said = self.relay.communicate()[0].split()
            self.tally = dict(zip(said[::2], map(int, said[1::2])))
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Trial:
    def __init__(self, number, chance, kinds, transports):
        self.number = number
        self.kind = kinds[number % len(kinds)]
        self.transport = chance.choice(transports)
        self.hosts, self.per_host = chance.randint(2, 3), chance.randint(1, 2)
        self.type = chance.choice(TYPES)
        self.seed = chance.randrange(1 << 32)
        self.shares = dict.fromkeys(MOST, 0.0)
        for kind in MOST if self.kind == "all" else [self.kind]:
            if kind in MOST:
                self.shares[kind] = MOST[kind] * chance.uniform(0.2, 1)
        if self.kind == "forged":  # from the rendezvous on, or after some thousand packets
            self.shares["flipped"] = 10 ** chance.uniform(-4, -1.3)

    def __str__(self):
        shares = ", ".join(f"{kind} {share:.4f}" for kind, share in self.shares.items() if share)
        return f"{self.kind}, {self.transport}, {self.hosts} hosts of {self.per_host}, {self.type}, {shares}, seed {self.seed}"

    def run(self, programs, folder):
        """(what went wrong, what was said, what the switch did, how it ended)"""
        lines = Lines(programs / "soak_relay", self.hosts, self.shares, self.kind == "forged", self.seed)
        try:
            wrong, said, ended = self.job(programs, lines, folder)
        finally:
            lines.end()
        for kind, share in self.shares.items():
            if not wrong and share * lines.tally.get("carried", 0) > 20 and lines.tally[kind] == 0:
                wrong.append(f"the switch spoiled nothing: {lines.tally}")
        return wrong, said, lines.tally, ended

    def job(self, programs, lines, folder):
        hosts, output = folder / "hosts", folder / "said"
        hosts.write_text("".join(f"{name} slots={self.per_host} address={NETWORK}{10 + i}\n" for i, name in enumerate(lines.names)))
        forged = self.kind == "forged"
        mark = f"WEFT_TRIAL={os.getpid()}.{self.number}"
        name, value = mark.split("=")
        environment = dict(os.environ, WEFT_TRANSPORT=self.transport, WEFT_FLIGHT_DIR="off", UCX_TLS="tcp,self", UCX_NET_DEVICES="eth0",
                           WEFT_TIMEOUT=str(TIMEOUT if forged else 60), WEFT_CONNECT_TIMEOUT=str(CONNECT if forged else 60),
                           WEFT_HEAP_BYTES=str(64 << 20), **{name: value})
        command = [programs / "weft-launch", "--hosts", hosts, "--agent", f"{TREE}/launchers/cluster.sh agent", "--address", f"{NETWORK}10",
                   "-n", self.hosts * self.per_host, programs / "weft-bench", "all", "-b", "8", "-e", "320K", "-f", "200", "-d", self.type,
                   "-n", "1", "-w", "0", "-q", "--format", "csv"]
        with open(output, "w") as out:
            job = subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        # A rank that leaves tells the others, who have their own deadline for that; weft-launch gives them 9 s.
        took = wait_until(lambda: job.poll() is not None and not processes(mark), 3 * TIMEOUT + CONNECT + 9 if forged else 300)
        kill_all(mark)
        job.wait()
        said = output.read_text(errors="replace")
        wrong = [] if took is not None else ["it does not end"]
        killed = re.findall(r"rank \d+ .*was killed by signal (\d+)", said)
        rows = len(re.findall(r"^.*,.*,.*,.*,.*,.*$", said, re.M))
        if forged:
            # What UCX does not check either may meet an assertion of it, which ends the process.
            by_ucx = killed and self.transport == "ucx" and re.search(r"ucx_info|libuc[tps]|UCX +(FATAL|ERROR)|ucs_", said)
            ended = "UCX's own abort" if by_ucx else f"signal {killed[0]}" if killed else str(job.returncode)
            if killed and not by_ucx:
                wrong.append(f"a rank ended by signal {killed}")
            elif job.returncode not in (0, 1, 42, 70, 75):
                wrong.append(f"status {job.returncode}")
            elif job.returncode not in (0, 1) and not re.search(r"\brank", said):
                wrong.append("no rank says what happened")
        else:
            ended = str(job.returncode)
            if job.returncode != 0:
                wrong.append(f"status {job.returncode}")
            elif rows < 7 * 2:
                wrong.append(f"{rows} rows")
        return wrong, said, ended


def main():
    count, programs, chance, kinds = asked(KINDS)
    has_ucx = b"libucp.so" in (programs / "weft-bench").read_bytes()
    transports = os.environ.get("TRANSPORTS", "ucx,tcp" if has_ucx else "tcp").split(",")
    try:
        Lines(programs / "soak_relay", 2, dict.fromkeys(MOST, 0), False, 1).end()
    except OSError as error:
        print(f"skipped: no hosts with a switch of our own: {error}")
        return 77
    spoiled, ends = collections.Counter(), collections.Counter()

    def run(trial):
        with tempfile.TemporaryDirectory(prefix="weft-spoiled-") as folder:
            wrong, said, counts, ended = trial.run(programs, pathlib.Path(folder))
        spoiled.update(counts)
        if trial.kind == "forged":
            ends[f"{trial.transport} {ended}"] += 1
        return wrong, said

    status = run_all(count, lambda number: Trial(number, chance, kinds, transports), run, lambda: ", ".join(f"{times} packets {what}" for what, times in spoiled.items()) + "; ")
    if ends:
        print("forged jobs ended: " + ", ".join(f"{how}: {times}" for how, times in sorted(ends.items())))
    return status


if __name__ == "__main__":
    sys.exit(main())
