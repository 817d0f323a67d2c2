#!/usr/bin/env python3
"""Strangers at the TCP store of a job, while its ranks are to meet: none enters, rank 0 stays small, the ranks connect in time.

usage: attack.py [RUNS [BIN]]    so many jobs (50), with SEED; each hears MESSAGES (22000) fuzzed messages

While rank 0 waits for the others and while they connect, processes without the job's token open 2,000 connections that say nothing,
2,000 that stop in the middle of their greeting, and others that send random bytes, greetings that were changed, heads of requests, wrong
proofs, a proof that was recorded, and what rank 0 says itself. Ends with 1 where one of them was answered as a rank is, where
rank 0 took 16 MiB more than without them, or where the ranks did not connect before their deadline (20 s).
"""

import hashlib
import hmac
import os
import pathlib
import random
import resource
import secrets
import socket
import struct
import subprocess
import sys
import threading
import time

from trials import free_port, mib_of

RANKS = 4
DEADLINE = 20  # s, WEFT_CONNECT_TIMEOUT
MOST_MIB = 16
MAGIC = b"weft-st3"  # src/collectives/store/store_tcp_wire.hpp
HEAD_MAGIC = 0x31746677


def greeting(challenge, rank=1):
    return MAGIC + struct.pack("<q", rank) + challenge


def proof(token, side, of_rank, of_server):
    return hmac.new(token.encode(), side + of_rank + of_server, hashlib.sha256).digest()


class Strangers:
    """All that attack one port; `entered` says what was answered as a rank is."""

    def __init__(self, port, token, messages, chance):
        self.port, self.token, self.messages, self.chance = port, token, messages, chance
        self.held, self.entered, self.sent = [], [], 0
        self.stop = threading.Event()
        # What a listener on the wire has from an earlier connection: a right proof for other challenges.
        old = [secrets.token_bytes(32), secrets.token_bytes(32)]
        self.recorded = (old[0], proof(token, b"r", *old))

    def connection(self):
        stranger = socket.socket()
        stranger.settimeout(2)
        # Closed connections keep their ports for a minute: other addresses of this machine have other ports.
        stranger.bind((f"127.{self.chance.randrange(1, 255)}.{self.chance.randrange(256)}.{self.chance.randrange(1, 255)}", 0))
        stranger.connect(("127.0.0.1", self.port))
        return stranger

    def hold(self, count, begin):
        for _ in range(count):
            if self.stop.is_set():
                return
            try:
                stranger = self.connection()
                if begin:
                    stranger.sendall(greeting(secrets.token_bytes(32))[:self.chance.randrange(1, 48)])
                self.held.append(stranger)
            except OSError:
                pass

    def fuzz(self):
        while self.sent < self.messages and not self.stop.is_set():
            self.sent += 1
            try:
                with self.connection() as stranger:
                    self.message(stranger)
            except OSError:  # rank 0 closed it
                pass

    def message(self, stranger):
        chance = self.chance
        kind = chance.randrange(8)
        if kind == 0:
            stranger.sendall(chance.randbytes(chance.randrange(1, 256)))
        elif kind == 1:  # a head at once, of a request as large as it can say
            stranger.sendall(struct.pack("<IIIIq", HEAD_MAGIC, chance.randrange(9), 4096, 16 << 20, -1))
        elif kind == 2:
            changed = bytearray(greeting(chance.randbytes(32)))
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            stranger.sendall(changed)
        elif kind == 3:
            stranger.sendall(greeting(chance.randbytes(32), chance.choice([-1, 1 << 62, 7, -(1 << 63)])))
        else:
            self.prove(stranger, kind)

    def prove(self, stranger, kind):
        mine = self.recorded[0] if kind == 4 else self.chance.randbytes(32)
        stranger.sendall(greeting(mine))
        theirs = b""
        while len(theirs) < 48:
            more = stranger.recv(48 - len(theirs))
            if not more:
                return
            theirs += more
        shown = {4: self.recorded[1],  # replayed
                 5: theirs[16:48],  # reflected
                 6: self.chance.randbytes(32),
                 7: proof(secrets.token_hex(16), b"r", mine, theirs[16:48])}[kind]
        stranger.sendall(shown + struct.pack("<IIIIq", HEAD_MAGIC, 2, 1, 0, 0) + b"x")
        answer = stranger.recv(64)
        if answer.strip(b"\0"):
            self.entered.append((kind, answer.hex()))


def start(peer, mode, rank, port, token):
    environment = dict(os.environ, WEFT_RANK=str(rank), WEFT_SIZE=str(RANKS), WEFT_RENDEZVOUS=f"tcp://127.0.0.1:{port}",
                       WEFT_TOKEN=token, WEFT_CONNECT_TIMEOUT=str(DEADLINE), WEFT_FLIGHT_DIR="off", WEFT_HEAP_BYTES=str(64 << 20), WEFT_LOG="error")
    return subprocess.Popen([str(peer), mode], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def job(peer, messages, chance):
    """(MiB that rank 0 took at most, messages sent, what went wrong)"""
    port, token = free_port(), secrets.token_hex(16)
    rank_0 = start(peer, "hold", 0, port, token)
    wrong = [] if rank_0.stdout.readline().strip() == "listens" else ["rank 0 does not listen"]
    strangers = Strangers(port, token, messages, chance)
    threads = []
    if messages:
        threads = [threading.Thread(target=strangers.hold, args=(2000, begin)) for begin in (False, True)]
        threads += [threading.Thread(target=strangers.fuzz) for _ in range(2)]
        for thread in threads:
            thread.start()
        while strangers.sent < messages * 0.95:  # the rest while the ranks connect
            time.sleep(0.01)
    began = time.monotonic()
    ranks = [rank_0] + [start(peer, "connect", rank, port, token) for rank in range(1, RANKS)]
    rank_0.stdin.write("\n")
    rank_0.stdin.flush()
    most = 0.0
    said = []
    for rank, process in reversed(list(enumerate(ranks))):
        said.append(process.stdout.readline().strip())
        if said[-1] != f"rank {rank} connected":
            wrong.append(f"rank {rank}: {said[-1] or 'says nothing'} after {time.monotonic() - began:.1f} s")
    took = time.monotonic() - began
    try:
        most = mib_of(rank_0.pid, "VmHWM")
    except (OSError, ValueError):
        wrong.append("rank 0 is gone")
    strangers.stop.set()
    for thread in threads:
        thread.join()
    for stranger in strangers.held:
        stranger.close()
    for process in ranks:
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            wrong.append("a rank does not end")
            process.kill()
    wrong += [f"a stranger was answered: {how}" for how in strangers.entered[:3]]
    return most, strangers.sent, took, wrong


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 50
    peer = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve() / "soak_peer"
    messages = int(os.environ.get("MESSAGES", "22000"))
    chance = random.Random(int(os.environ.get("SEED", "1")))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
    quiet = sorted(job(peer, 0, chance)[0] for _ in range(3))[1]
    failed, sent, growths, times = 0, 0, [], []
    for number in range(runs):
        peak, heard, took, wrong = job(peer, messages, chance)
        sent += heard
        growths.append(peak - quiet)
        times.append(took)
        if growths[-1] > MOST_MIB:
            wrong.append(f"rank 0 took {growths[-1]:.1f} MiB more than without strangers")
        if wrong:
            failed += 1
            print(f"FAILED: run {number}: " + "; ".join(wrong))
    print(f"{runs} jobs of {RANKS} ranks, {sent} messages of strangers: rank 0 took at most {max(growths):.1f} MiB more than the {quiet:.1f} MiB "
          f"without them; the ranks connected within {max(times):.2f} s; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
