#!/usr/bin/env python3
"""Combinations of options: each option has an effect that can be seen, or it is refused; none is ignored.

usage: options.py [COUNT [BIN]]    so many combinations of each program (200), drawn with SEED; PROGRAMS="weft-bench gpt": these alone

A combination is run once, and once more without each of its options. Where the first is refused (42) the message names one of them. Else what
is seen must differ: status, standard output, files. Of times and rates only their presence is seen. Ends with 1 where an option is ignored.
"""

import json
import os
import pathlib
import pty
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

FLAG = None
FILE = object()  # a new file for each run, whose presence is the effect


class Program:
    """A command, its options with values to draw, and what is seen of a run."""

    name = ""
    options = {}
    observers = {}  # options that are added where they are allowed, because they show more

    def __init__(self, bin, work):
        self.bin, self.work = bin, work

    def command(self, chosen, whole):
        """The words of a run. @param whole: the combination that this run belongs to"""
        raise NotImplementedError

    def seen(self, out, files):
        return out, dict(files)

    def is_default(self, option, chosen):
        """Whether the value is what holds without the option."""
        return False


def masked(text):
    return re.sub(r" +", " ", re.sub(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", "#", text))


def content_of(path):
    """Of a folder what is in it, by name."""
    return " ".join(sorted(one.name for one in path.iterdir())) if path.is_dir() else path.read_text(errors="replace")


def words_of(chosen, files):
    words = []
    for option, value in chosen.items():
        if not option.startswith("-"):
            continue  # it stands elsewhere
        value = files[option] if value is FILE else value
        words += [option] if value is FLAG else [option, str(value)]
    return words


def free_ports():
    """The first of a few that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return min(one.getsockname()[1], 65000)


class PlanSchedule(Program):
    name = "weft-plan schedule"

    def __init__(self, bin, work):
        super().__init__(bin, work)
        profile = work / "profile.json"
        stage = {"forward": 0.010, "backward_input": 0.011, "backward_weight": 0.009, "activation": 1000, "kept_for_weight": 600}
        profile.write_text(json.dumps({"stages": [stage, dict(stage, forward=0.014)], "hops": [{"latency": 0.001}], "memory": [4000, 4000]}))
        schedule = work / "schedule.txt"
        subprocess.run([bin / "weft-plan", "schedule", "--name", "zb-h1", "--devices", "2", "--microbatches", "4", "--text", schedule, "-q"], check=True, stdout=subprocess.DEVNULL)
        self.options = {
            "--name": ["1f1b", "zb-h1", "zb-v", "interleaved", "gpipe"], "--schedule": [schedule], "--objective": ["span"], "--effort": [0.01],
            "--devices": [4, 1], "--stages": [4], "--microbatches": [9], "--chunks": [2], "--forward": [1.7], "--backward-input": [1.3],
            "--backward-weight": [0.6], "--comm": [0.3], "--memory": [2.5], "--release": [0.5], "--profile": [profile], "--width": [50],
            "--text": [FILE], "--csv": [FILE], "--json": [FILE], "--svg": [FILE], "--trace": [FILE], "--compare": [FILE], "--quiet": [FLAG]}
        self.observers = {"--json": FILE, "--text": FILE}

    def command(self, chosen, whole):
        base = []
        if not {"--devices", "--stages", "--profile", "--schedule"} & set(whole):
            base += ["--devices", "3"]
        if not {"--microbatches", "--schedule"} & set(whole):
            base += ["--microbatches", "7"]
        return [self.bin / "weft-plan", "schedule", *base]


class PlanMemory(Program):
    name = "weft-plan memory"
    options = {
        "--model": ["gpt-tiny", "mlp-8x1024"], "--layers": [3], "--width": [128], "--vocabulary": [1000], "--context": [64], "--parameters": ["1G"],
        "--stage": ["1", "2,3", "3"], "--ranks": ["4", "2,16"], "--dtype": ["bf16", "f16"], "--master": ["split"], "--optimizer": ["sgd", "sgd-momentum"],
        "--bucket-bytes": ["8K"], "--bucket-ring-bytes": ["256K"], "--prefetch-bytes": ["4K"], "--offload": [0.5], "--offload-file": [0.5],
        "--offload-parameters": [FLAG], "--offload-gradients": [FLAG], "--device-bytes": ["1G"], "--json": [FILE]}
    observers = {"--json": FILE}

    def command(self, chosen, whole):
        return [self.bin / "weft-plan", "memory"]

    def is_default(self, option, chosen):
        # Buckets show in the figures where the bucket ring is as small as one; by default it is an eighth of all gradients (docs/memory.md).
        return option == "--bucket-bytes" and "--bucket-ring-bytes" not in chosen


class PlanCheckpoint(Program):
    name = "weft-plan checkpoint"

    def __init__(self, bin, work):
        super().__init__(bin, work)
        for seed in ("1", "2"):
            subprocess.run([bin / "save_checkpoint", work / f"saved-{seed}", "40", "2", seed], check=True)
        self.options = {"--verify": [FLAG], "--diff": [work / "saved-2"], "--export": [FILE], "--json": [FILE]}

    def command(self, chosen, whole):
        return [self.bin / "weft-plan", "checkpoint", self.work / "saved-1"]


class PlanBuckets(Program):
    name = "weft-plan buckets"
    options = {"--latency-us": [70], "--gbytes-per-second": [0.3], "--bucket-bytes": [100000], "--json": [FILE]}
    observers = {"--json": FILE}

    def __init__(self, bin, work):
        super().__init__(bin, work)
        self.trace = work / "trace.json"
        subprocess.run([bin / "weft-launch", "-n", "2", bin / "weft-scaling", "--model", "gpt-tiny", "--text", text_of(work), "--strategies", "ddp",
                        "--steps", "7", "--trace", self.trace], check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, WEFT_PROGRESS="thread"))

    def command(self, chosen, whole):
        return [self.bin / "weft-plan", "buckets", self.trace]


class ReportNccl(Program):
    name = "weft-report nccl"
    options = {"--json": [FILE], "--sarif": [FILE], "--markdown": [FILE], "--html": [FILE], "--rules": [FLAG]}
    log = "node1:7:7 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\nnode1:7:7 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes\n"

    def __init__(self, bin, work):
        super().__init__(bin, work)
        self.logs = work / "rank0.log"
        self.logs.write_text(self.log)

    def command(self, chosen, whole):
        return [self.bin / "weft-report", "nccl", *([] if "--rules" in chosen else [self.logs])]


class ReportEnv(Program):
    name = "weft-report env"
    options = {"--nccl": ["2.4.8", "2.28"], "--json": [FILE], "--sarif": [FILE], "--markdown": [FILE], "--html": [FILE]}

    def __init__(self, bin, work):
        super().__init__(bin, work)
        self.settings = work / "settings.env"
        self.settings.write_text("NCCL_NVLS_ENABLE=1\nNCCL_RAS_ENABLE=0\nNCCL_CTA_POLICY=1\nNCCL_IB_DISABEL=1\n")

    def command(self, chosen, whole):
        return [self.bin / "weft-report", "env", self.settings]


class ReportDiff(Program):
    name = "weft-report diff"
    options = {"--json": [FILE], "--sarif": [FILE], "--markdown": [FILE], "--html": [FILE]}

    def __init__(self, bin, work):
        super().__init__(bin, work)
        self.before, self.after = work / "before.log", work / "after.log"
        self.before.write_text(ReportNccl.log.splitlines()[0] + "\n")
        self.after.write_text(ReportNccl.log)

    def command(self, chosen, whole):
        return [self.bin / "weft-report", "diff", self.before, self.after]


class Bench(Program):
    name = "weft-bench"
    options = {
        "COLLECTIVE": ["all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_receive", "all"], "-b": [512, "4K"], "-e": ["9K"],
        "-f": [3], "-i": [1500], "-n": [3], "-w": [1], "-d": ["bf16"], "-o": ["max"], "-r": [1], "--in-place": [FLAG], "--private": [FLAG],
        "--against": ["bound", "mpi"], "--expect": [1000000], "--tune": [FILE], "--explain": [FLAG], "--format": ["csv", "osu"], "--json": [FILE],
        "--quiet": [FLAG]}
    observers = {"--json": FILE}

    def command(self, chosen, whole):
        base = [] if "-b" in chosen else ["-b", "1K"]
        base += [] if "-e" in chosen else ["-e", "4K"]
        if "--explain" not in whole:  # where nothing is measured they are refused
            base += [] if "-n" in chosen else ["-n", "2"]
            base += [] if "-w" in chosen else ["-w", "0"]
        # What is tuned is the way between nodes.
        apart = ["sh", "-c", 'WEFT_HOST_ID=$WEFT_RANK exec "$@"', "sh"] if "--tune" in whole else []
        return [self.bin / "weft-launch", "-n", "2", *apart, self.bin / "weft-bench", chosen.get("COLLECTIVE", "all_reduce"), *base]

    def seen(self, out, files):
        if "--json" in files:
            figures = json.loads(files["--json"])
            rows = [{key: row.get(key) for key in ("op", "bytes", "dtype", "redop", "root", "ranks", "in_place", "wrong")} | {"against": "against" in row}
                    for row in figures["results"]]
            return masked(out), rows, figures["settings"]
        if "--tune" in files:
            return [line for line in files["--tune"].splitlines() if line.startswith("#")], sorted({tuple(line.split()[:3]) for line in files["--tune"].splitlines() if line[0] != "#"}), masked(out)
        return out


class Scaling(Program):
    name = "weft-scaling"

    def __init__(self, bin, work):
        super().__init__(bin, work)
        self.text = text_of(work)
        other = work / "other.txt"
        other.write_text("".join(reversed(self.text.read_text())))
        earlier = work / "earlier.json"
        subprocess.run([*self.base(), "--model", "gpt-tiny", "--text", self.text, "--steps", "24", "--json", earlier], check=True, stdout=subprocess.DEVNULL)
        self.options = {
            "--text": [other], "--model": ["mlp-8x1024"],
            "--strategies": ["nocomm", "ddp,zero1", "zero3", "nocomm,ddp+powersgd:2", "ddp+fp16", "pipeline:1f1b", "nocomm,ddp+int8", "pipeline:zb-h1,ddp",
                             "pipeline:interleaved+zero1", "zero2+offload", "nocomm,pipeline:1f1b"],
            "--start-step": [2], "--steps": [6, 5, 24], "--seed": [7], "--learning-rate": [1e-3], "--final-fraction": [0.9], "--warmup": [2], "--beta1": [0.5],
            "--bucket-bytes": [4096], "--pipeline-devices": [1], "--chunks": [2, 1], "--microbatch": [2], "--ranks": [3], "--sweep": ["1,2", "1"],
            "--require": ["ib"], "--json": [FILE], "--trace": [FILE], "--wire-rate": [5], "--report": [FILE], "--compare": [earlier], "--quiet": [FLAG], "--metrics": [free_ports()], "--metrics-bind": ["127.0.0.2"],
            "--checkpoint": [FILE], "--checkpoint-every": [3], "--checkpoint-keep": [1]}
        self.observers = {"--json": FILE, "--trace": FILE}

    def base(self):
        return [self.bin / "weft-launch", "-n", "2", self.bin / "weft-scaling"]

    def command(self, chosen, whole):
        base = [] if "--model" in whole and "--model" in chosen else ["--model", "gpt-tiny"]
        base += [] if "--steps" in chosen else ["--steps", "8"]
        base += [] if "--text" in chosen else ["--text", self.text]
        return [*self.base(), *base]

    def is_default(self, option, chosen):
        # One chunk is what these schedules have.
        return option == "--chunks" and chosen[option] == 1

    def seen(self, out, files):
        result = [masked(out), re.findall(r"serves metrics on http://([0-9.]+):", out)]
        if "--json" in files:
            figures = json.loads(files["--json"])
            for run in figures.get("runs", figures.get("sweep")):
                result.append([run["strategy"], run["ranks"], run["loss"], run["wire_bytes_per_step"], run["peak_bytes_per_rank"],
                               run["bound_seconds"] is None, len(run["step_seconds"].get("samples", [])), masked(run.get("schedule", "")),
                               re.findall(r"\d+ [a-z]", run.get("schedule", "").split(";")[0])])
        if "--trace" in files:
            spans = {}
            for event in json.loads(files["--trace"])["traceEvents"]:
                name = (event.get("pid"), masked(event["name"]))
                spans[name] = spans.get(name, 0) + 1
            result.append(sorted(map(str, spans.items())))
        return result


class Gpt(Program):
    name = "gpt"

    def __init__(self, bin, work):
        super().__init__(bin, work)
        self.text = text_of(work)
        other = work / "gpt.txt"
        other.write_text("".join(reversed(self.text.read_text())))
        self.options = {
            "--text": [other], "--model": ["mlp-8x1024"], "--optimizer": ["sgd"], "--learning-rate": [1e-3], "--final-fraction": [0.9], "--warmup": [2],
            "--beta1": [0.5], "--pipeline": ["1f1b", "zb-h1", "auto"], "--pipeline-devices": [1], "--steps": [5, 9], "--seed": [7], "--batches": [3], "--quiet": [FLAG],
            "--checkpoint": [FILE], "--checkpoint-every": [3], "--checkpoint-keep": [1]}

    def command(self, chosen, whole):
        base = [] if "--model" in chosen else ["--model", "gpt-tiny"]
        base += [] if "--steps" in chosen else ["--steps", "8"]
        base += [] if "--text" in chosen else ["--text", self.text]
        return [self.bin / "weft-launch", "-n", "2", self.bin / "gpt", *base]

    def is_default(self, option, chosen):
        # Without --checkpoint-every there is one checkpoint, at the end.
        return option == "--checkpoint-keep" and "--checkpoint-every" not in chosen


class Launch(Program):
    name = "weft-launch"

    def __init__(self, bin, work):
        super().__init__(bin, work)
        hosts = work / "hosts"
        hosts.write_text("localhost slots=2\n")
        agent = work / "agent"
        agent.write_text('#!/bin/sh\nshift\necho an agent >&2\nexec env -i sh -c "$*"\n')
        agent.chmod(0o755)
        self.options = {"-n": [3, 1], "--hosts": [hosts], "--agent": [agent], "--address": ["127.0.0.1:47113"], "-x": ["PROBE_OF_OPTIONS"],
                        "--output": ["ranks", "plain"], "--timeout": [0.05]}

    def command(self, chosen, whole):
        base = [] if "-n" in chosen or "--hosts" in whole else ["-n", "2"]
        return [self.bin / "weft-launch", *base]

    program = ["sh", "-c", 'echo "$WEFT_SIZE $PROBE_OF_OPTIONS ${WEFT_RENDEZVOUS%%:*} $(echo $WEFT_RENDEZVOUS | grep -c 47113)"; sleep 0.3']

    def is_default(self, option, chosen):
        if option == "-x" and "--agent" not in chosen:
            return True  # ranks on this machine have all variables
        return option == "--output" and (chosen[option] == "ranks") == ("--hosts" in chosen)

    def seen(self, out, files):
        return sorted(re.sub(r"pid \d+", "pid", line) for line in out.splitlines())


def text_of(work):
    text = work / "text.txt"
    if not text.exists():
        chance = random.Random(3)
        text.write_text("".join(chance.choice("abcdefgh ijklm nop qrs tuvw xyz\n") for _ in range(40000)))
    return text


class Runs:
    """Runs of a program, each once."""

    def __init__(self, program, work):
        self.program, self.work, self.known, self.count = program, work, {}, 0

    def run(self, chosen, whole):
        key = (repr(sorted((option, str(value)) for option, value in chosen.items())), repr(sorted(whole)))
        if key not in self.known:
            self.known[key] = self.fresh(chosen, whole)
        return self.known[key]

    def fresh(self, chosen, whole):
        """(status, what is seen, what was said)"""
        self.count += 1
        folder = self.work / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        files = {option: folder / option.strip("-") for option, value in chosen.items() if value is FILE}
        command = [str(word) for word in [*self.program.command(chosen, whole), *words_of(chosen, files), *getattr(self.program, "program", [])]]
        status, out, err = run_on_terminal(command)
        contents = {option: content_of(path) for option, path in files.items() if path.exists()}
        said = err.replace("\r\n", "\n")
        if status == 42:
            return status, None, said
        loud = "" if self.program.name != "weft-launch" else "\n".join(sorted(line for line in said.splitlines() if "pid" not in line))
        return status, (self.program.seen(out, contents), "\033[K" in err, sorted(contents), loud), said


def run_on_terminal(command):
    """Standard error is a terminal, on which progress is shown."""
    master, slave = pty.openpty()
    said = bytearray()

    def read():
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the terminal has no writer any more
                return
            if not piece:
                return
            said.extend(piece)

    own = dict(os.environ, WEFT_FLIGHT_DIR="off", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PROBE_OF_OPTIONS="there")
    with subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, text=True) as job:
        os.close(slave)
        reader = threading.Thread(target=read)
        reader.start()
        try:
            out = job.communicate(timeout=120)[0]
        except subprocess.TimeoutExpired:
            job.terminate()
            raise
    reader.join()
    os.close(master)
    return job.returncode, out, said.decode(errors="replace")


def observed(program, chosen, option, runs):
    """The same combination as it is looked at for one of its options: without --quiet, and with what shows more, where that is not refused."""
    looked = {name: value for name, value in chosen.items() if name != "--quiet" or option == "--quiet"}
    for name, value in program.observers.items():
        if name in looked:
            continue
        more = dict(looked, **{name: value})
        if runs.run(more, more)[0] != 42:
            looked = more
    return looked


def faults(program, chosen, runs):
    """What is ignored. Empty where all is well."""
    status, _, said = runs.run(chosen, chosen)
    if re.search(r"\w\(\)", said):
        yield f"advises a function: {said.strip()}"
    if status == 42:
        names = {option.strip("-") for option in chosen} | {str(value) for value in chosen.values() if isinstance(value, str)}
        if not any(name in said for name in names | LONG_NAMES.keys() & names | {LONG_NAMES.get(name, name) for name in names}):
            yield f"refused, but names none of them: {said.strip()}"
        return
    for option in chosen:
        if program.is_default(option, chosen):
            continue
        looked = observed(program, chosen, option, runs)
        with_it = runs.run(looked, looked)
        without = runs.run({name: value for name, value in looked.items() if name != option}, looked)
        if with_it[:2] == without[:2]:
            yield f"{option} is ignored in {' '.join(map(str, words_of(looked, dict.fromkeys(looked, 'FILE'))))} {looked.get('COLLECTIVE', '')}"


LONG_NAMES = {"b": "minbytes", "e": "maxbytes", "f": "stepfactor", "i": "stepbytes", "n": "iters", "w": "warmup-iters", "d": "datatype", "o": "op", "r": "root"}
PROGRAMS = [PlanSchedule, PlanMemory, PlanBuckets, PlanCheckpoint, ReportNccl, ReportEnv, ReportDiff, Bench, Scaling, Gpt, Launch]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 200
    bin = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    seed = int(os.environ.get("SEED", "1"))
    wanted = os.environ.get("PROGRAMS", "").split(",") if os.environ.get("PROGRAMS") else None
    failed = 0
    for kind in PROGRAMS:
        if wanted and kind.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as place:
            program = kind(bin, pathlib.Path(place))
            runs = Runs(program, pathlib.Path(place))
            refused = ignored = 0
            for number in range(count):
                chance = random.Random(f"{seed} {kind.name} {number}")
                options = chance.sample(sorted(program.options), min(len(program.options), chance.randint(1, 4)))
                chosen = {option: chance.choice(program.options[option]) for option in options}
                found = list(faults(program, chosen, runs))
                refused += runs.run(chosen, chosen)[0] == 42
                ignored += bool(found)
                for fault in found:
                    print(f"FAILED {kind.name}, {number}: {fault}")
            print(f"{kind.name}: {count} combinations, {refused} refused, {ignored} with an option that is ignored; {runs.count} runs", flush=True)
            failed += ignored
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
