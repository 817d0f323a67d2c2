#!/usr/bin/env python3
"""Jobs of one user beside another user of the machine, who sends signals and puts files where the job will look: nothing of the job's changes, no file of
its user is written through a link, and nobody waits for ever.

usage: other_users.py [COUNT [BIN]]    so many jobs (100), drawn with SEED; KINDS=notice,flight: of these alone

Two users without accounts, in a mount namespace with a /tmp of its own.
  notice      the other sends SIGUSR1 and others to weft-launch and all its processes     the kernel refuses each; the job ends with 0
  meeting     ranks by hand meet at a file of /tmp, where the other has put a file, a link, a pipe, a folder or a socket
              they refuse it, by its path, within WEFT_CONNECT_TIMEOUT and 5 s
  flight      a rank dies, and the folder of flight records is the other's, or a link, a file or a pipe
              the others name the rank, and say why there is no record or where it is; nothing is written into the other's folder of /tmp
  checkpoint  gpt saves into a folder that all may write to, as /tmp is or without the sticky bit, where the other has put files
              it ends with 0, or says which path it is; where it ends with 0 its last checkpoint loads
Needs root; ends with 77 without, with 1 where a job did otherwise.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from trials import INSIDE, again_inside, asked, kill_all, processes, run_all, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
OWNER, OTHER = 61001, 61002
KINDS = ["notice", "meeting", "flight", "checkpoint"]
CONNECT = 3
PRECIOUS = "what the owner wants to keep\n"
SIGNALS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL]
PUT = ["file", "heading", "link", "pipe", "folder", "socket"]
# Holds rank 0's byte of a meeting's file (src/collectives/store/store_file.cpp), as the rank 0 of a job does.
POSE = """import fcntl, struct, sys
file = open(sys.argv[1], "r+b")
fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))  # F_OFD_SETLK
print("held", flush=True)
sys.stdin.read()
"""


def as_other(body):
    """What the other user's process returns of body(), a text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()  # within its own session a user may send SIGCONT to anybody
        os.setgroups([])
        os.setgid(OTHER)
        os.setuid(OTHER)
        os.umask(0)
        try:
            said = str(body())
        except Exception as error:  # the parent says it
            said = f"failed: {error!r}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        said = file.read()
    os.waitpid(child, 0)
    if said.startswith("failed"):
        raise RuntimeError(said)
    return said


def put(path, what, target):
    """Called as the other: something that all may write to."""
    if what == "file":
        path.write_text("nonsense\n" * 20)
    elif what in ("heading", "posing"):
        path.write_text("weft-store 1\n")
    elif what == "link":
        path.symlink_to(target)
    elif what == "pipe":
        os.mkfifo(path, 0o666)
    elif what == "folder":
        path.mkdir(0o777)
    elif what == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))


class Trial:
    def __init__(self, number, chance, kinds):
        self.number, self.kind = number, kinds[number % len(kinds)]
        self.ranks = chance.randint(2, 4)
        self.what = chance.choice(PUT + (["posing"] if self.kind == "meeting" else []))
        self.sticky = chance.random() < 0.5
        self.where = chance.choice({"checkpoint": [".weft-saver", "step-00000005", "step-00000010", "step-00000010.part", "step-00000099", "checkpoint-now"],
                                    "flight": ["auto", "given", "record"]}.get(self.kind, [""]))
        self.seed = chance.randrange(1 << 32)

    def __str__(self):
        return f"{self.kind}, {self.ranks} ranks" + (f", {self.what} {self.where}{', sticky' if self.sticky else ''}" if self.kind != "notice" else "")

    def run(self, programs):
        """(what went wrong, what was said)"""
        self.programs, self.folder = programs, pathlib.Path("/tmp") / f"owner{self.number}"
        self.folder.mkdir()
        os.chown(self.folder, OWNER, OWNER)
        self.precious = self.folder / "precious"
        self.precious.write_text(PRECIOUS)
        os.chown(self.precious, OWNER, OWNER)
        self.mark = f"WEFT_TRIAL={os.getpid()}.{self.number}"
        try:
            wrong = getattr(self, self.kind)()
        finally:
            kill_all(self.mark)
        if self.precious.read_text() != PRECIOUS or self.precious.is_symlink():
            wrong.append("the owner's file was written")
        said = self.said()
        shutil.rmtree(self.folder)
        return wrong, said

    def said(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("said*")))

    def start(self, words, **more):
        name, value = self.mark.split("=")
        environment = dict(os.environ, TMPDIR=str(self.folder), HOME=str(self.folder), WEFT_TIMEOUT="5", WEFT_CONNECT_TIMEOUT=str(CONNECT), OMP_NUM_THREADS="1",
                           WEFT_FLIGHT_DIR="off", **{name: value}) | {key: str(one) for key, one in more.items()}
        with open(self.folder / f"said{len(list(self.folder.glob('said*')))}", "w") as out:
            return subprocess.Popen([str(word) for word in words], env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, user=OWNER,
                                    group=OWNER, extra_groups=[], cwd=self.folder)

    def launch(self, *words, **more):
        return self.start([self.programs / "weft-launch", "-n", self.ranks, *words], **more)

    def peers(self):
        return [process for process, name, _ in processes(self.mark) if name == "soak_peer"]

    def ends(self, *jobs, seconds=20):
        return [] if wait_until(lambda: all(job.poll() is not None for job in jobs) and not processes(self.mark), seconds) is not None else ["it does not end"]

    def notice(self):
        job = self.launch(self.programs / "soak_peer", "job", "1.0", WEFT_NOTICE="")
        if wait_until(lambda: len(self.peers()) == self.ranks, 20) is None:
            return ["the ranks do not come"]
        targets = [process for process, _, _ in processes(self.mark)]

        def send():
            heard = []
            for process in [*targets, *(-one for one in targets)]:
                for one in SIGNALS:
                    try:
                        os.kill(process, one)
                        heard.append((process, one.name))
                    except PermissionError:
                        pass
                    except ProcessLookupError:  # a group of which this is not the leader
                        pass
            return heard

        heard = as_other(send)
        wrong = [f"taken from the other user: {heard}"] if heard != "[]" else []
        return wrong + self.ends(job) + ([] if job.returncode == 0 else [f"status {job.returncode}"])

    def meeting(self):
        path = pathlib.Path("/tmp") / f"meeting{self.number}"
        as_other(lambda: put(path, self.what, self.precious))
        pose = subprocess.Popen(["setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups", "/usr/bin/python3", "-c", POSE, str(path)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE) if self.what == "posing" else None
        if pose and pose.stdout.readline() != b"held\n":
            return ["the other does not hold the file"]
        before = os.lstat(path)
        jobs = [self.start([self.programs / "soak_peer", "job", "0.2"], WEFT_RANK=rank, WEFT_SIZE=self.ranks, WEFT_RENDEZVOUS=f"file://{path}") for rank in range(self.ranks)]
        wrong = self.ends(*jobs, seconds=CONNECT + 5)
        if pose:
            pose.communicate()
        for rank, job in enumerate(jobs):
            said = (self.folder / f"said{rank}").read_text()
            if job.returncode not in (42, 70, 75) or str(path) not in said:
                wrong.append(f"rank {rank} ended with {job.returncode}, {'and says nothing of the path' if str(path) not in said else 'and not with an error'}")
        after = os.lstat(path)
        if (before.st_ino, before.st_size, before.st_uid) != (after.st_ino, after.st_size, after.st_uid):
            wrong.append("it is not as the other put it")
        as_other(lambda: path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink())
        return wrong

    def flight(self):
        target = self.folder / "elsewhere"
        target.mkdir()
        os.chown(target, OWNER, OWNER)
        own = pathlib.Path(f"/tmp/weft-flight-{OWNER}")
        given = pathlib.Path(f"/tmp/flight{self.number}")
        path = own if self.where == "auto" else given

        def prepare():
            if self.where == "record":  # the folder is the other's, and has what will be in the way
                given.mkdir(0o777)
                for rank in range(self.ranks):
                    put(given / f"rank-{rank}.json", self.what, self.precious)
                    put(given / f"rank-{rank}.json.part", self.what, self.precious)
            else:
                put(path, self.what, target)

        as_other(prepare)
        job = self.launch(self.programs / "soak_peer", "job", "20", WEFT_FLIGHT_DIR="auto" if self.where == "auto" else given)
        if wait_until(lambda: len(self.peers()) == self.ranks, 20) is None:
            return ["the ranks do not come"]
        time.sleep(0.5)
        os.kill(self.peers()[0], signal.SIGKILL)
        wrong = self.ends(job)
        said = self.said()
        if job.returncode != 75 or not re.search(r"rank \d+ \(process \d+\) has died", said):
            wrong.append(f"status {job.returncode}")
        if not re.search(r"no flight record: |flight record in ", said):
            wrong.append("nothing is said of the record")
        if os.listdir(target):
            wrong.append(f"through the link was written {os.listdir(target)}")
        if self.where == "auto" and path.is_dir() and not path.is_symlink() and os.listdir(path):
            wrong.append(f"into the other's folder was written {os.listdir(path)}")
        subprocess.run(["rm", "-rf", path], check=True)
        return wrong

    def checkpoint(self):
        saved = pathlib.Path(f"/tmp/saved{self.number}")
        saved.mkdir()
        os.chown(saved, OWNER, OWNER)
        saved.chmod(0o1777 if self.sticky else 0o777)
        as_other(lambda: put(saved / self.where, self.what, self.precious))
        words = [self.programs / "gpt", "--model", "gpt-tiny", "--text", self.programs / "text", "--steps", 20, "-q", "--checkpoint", saved, "--checkpoint-every", 5]
        job = self.launch(*words)
        wrong = self.ends(job, seconds=40)
        said = self.said()
        if job.returncode == 0:
            found = subprocess.run([self.programs / "weft-plan", "checkpoint", saved / "step-00000020", "--verify"], capture_output=True, text=True, check=False)
            if found.returncode != 0:
                wrong.append(f"the last checkpoint: {found.stdout}{found.stderr}")
        elif job.returncode not in (42, 70, 75) or str(saved) not in said:
            wrong.append(f"status {job.returncode}")
        subprocess.run(["rm", "-rf", saved], check=True)
        return wrong


def inside(count, programs, chance, kinds):
    own = pathlib.Path("/tmp/programs")  # the tree may lie where others cannot read
    own.mkdir()
    for name in ("weft-launch", "soak_peer", "gpt", "weft-plan"):
        if (programs / name).exists():
            shutil.copy(programs / name, own)
    shutil.copy(TREE / "README.md", own / "text")
    kinds = [kind for kind in kinds if kind != "checkpoint" or (own / "gpt").exists()]
    return run_all(count, lambda number: Trial(number, chance, kinds), lambda trial: trial.run(own))


def main():
    count, programs, chance, kinds = asked(KINDS)
    if os.environ.get(INSIDE):
        return inside(count, programs, chance, kinds)
    alone = ["unshare", "--mount", "--propagation", "private", "bash", "-c", 'mount -t tmpfs -o mode=1777 weft-test /tmp && "$@"; exit $?', "inside"]
    if os.geteuid() != 0 or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: other users and a /tmp of its own need root")
        return 77
    return again_inside(alone, count, programs)


if __name__ == "__main__":
    sys.exit(main())
