#!/usr/bin/env python3
"""The programs of start.md and trainer.md run on two ranks, learn, and print what the pages say that they print; and ranks that cannot go on
say what hangs.md shows (hang.cpp).

usage: programs_test.py FOLDER_OF_THE_PROJECT FOLDER_OF_THE_PROGRAMS WEFT_LAUNCH
extract.py has written the programs, and the build has compiled them. weft-report lies beside weft-launch.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

top, folder, launch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
failures = 0


def complain(message):
    global failures
    failures += 1
    print(f"FAILED: {message}")


def run(program, ranks, *arguments):
    result = subprocess.run([launch, "-n", str(ranks), folder / program, *arguments], capture_output=True, text=True, timeout=300)
    if result.returncode:
        complain(f"{program} on {ranks} ranks ended with status {result.returncode}:\n{result.stdout}{result.stderr}")
    return sorted(result.stdout.splitlines())


def losses(lines):
    found = [re.fullmatch(r"step (\d+): (?:held-out )?loss (\S+)", line) for line in lines]
    return dict(sorted((int(match[1]), float(match[2])) for match in found if match))


shown = re.search(r"<!-- output: first -->\n```\n(.*?)```", (top / "docs/start.md").read_text(), re.S)[1].splitlines()
printed = run("first", 2)
if printed != shown:
    complain(f"start.md says that the program prints {shown}; it prints {printed}")

with tempfile.TemporaryDirectory() as work:
    text = pathlib.Path(work, "text")
    text.write_text("".join(page.read_text() for page in sorted((top / "docs").glob("*.md"))))
    for program in ("plain", "ddp", "clip", "powersgd", "zero", "pipeline"):
        lines = run(program, 1 if program == "plain" else 2, text)
        loss = losses(lines)
        if not loss or not loss.get(100, 9) < 4.3 or (program != "pipeline" and not 5.4 < loss.get(0, 0) < 5.7):
            complain(f"{program} does not learn: {lines}")
        ranks = {}
        for rank, parameters in re.findall(r"^rank (\d): parameters (\d+)$", "\n".join(lines), re.M):
            ranks.setdefault(rank, []).append(parameters)
        if len({tuple(each) for each in ranks.values()}) > 1:
            complain(f"{program}: ranks end with different parameters: {lines}")
        if program == "clip" and re.findall(r"parameters \d+", "\n".join(run("clip", 1, text)))[0] not in "\n".join(lines):
            complain("clip: one rank does not end with the parameters of two")
        print(f"{program}: losses {loss}")


# trainer.md and trainer-sharded.md: told to end after their first steps, and started again, they end with the checkpoint of a training that was
# left alone; the first one on one rank, for it adds by a tree.
with tempfile.TemporaryDirectory() as work:
    text = pathlib.Path(work, "text")
    text.write_text("".join(page.read_text() for page in sorted((top / "docs").glob("*.md"))))
    for program, ranks in (("clip", 1), ("zero", 2), ("pipeline", 2)):
        alone, told = (pathlib.Path(work, program, which) for which in ("alone", "told"))
        run(program, 2, text, "--checkpoint", alone)
        told.mkdir()
        asked = told / "checkpoint-now"
        asked.touch()
        job = subprocess.Popen([launch, "-n", "2", folder / program, text, "--checkpoint", told], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while asked.exists() and time.monotonic() < end:
            time.sleep(0.005)
        job.send_signal(signal.SIGUSR1)
        status = job.wait(60)
        saved = sorted(one.name for one in told.glob("step-*"))
        if status != 75 or not saved or saved[-1] == "step-00000101":
            complain(f"{program}, told to end, ends with {status}, and has saved {saved}")
            continue
        run(program, ranks, text, "--checkpoint", told)
        plan = pathlib.Path(launch).with_name("weft-plan")
        compared = subprocess.run([plan, "checkpoint", alone, "--diff", told], capture_output=True, text=True)
        if "are alike" not in compared.stdout:
            complain(f"{program} ends otherwise than a training that was left alone: {compared.stdout}{compared.stderr}")

# The page of the trainer shows the form of what examples/ddp prints; which numbers depends on the text and the machine's libm.
shown = re.search(r"<!-- output: ddp -->\n```\n(.*?)```", (top / "docs/trainer.md").read_text(), re.S)[1]
if list(losses(shown.splitlines())) != [0, 100, 200, 300, 400] or len(set(re.findall(r"parameters (\d+)", shown))) != 1:
    complain("trainer.md does not show the five losses of examples/ddp and the same parameters on both ranks")


def without_numbers(line):
    """A line without what differs from run to run: processes, seconds, the name of the machine."""
    return re.sub(r"\d+(\.\d+)? s\b|\(?(process|pid) \d+\)?|rank (\d) on \S+", r"\2\3", line.strip())


page = (top / "docs/hangs.md").read_text()
for kind in ("forget", "extra", "die", "sleep"):
    with tempfile.TemporaryDirectory() as work:
        environment = {**os.environ, "WEFT_FLIGHT_DIR": work, "WEFT_PROGRESS": "inline"}
        result = subprocess.run([launch, "-n", "2", folder / "hang", kind], capture_output=True, text=True, timeout=120, env=environment)
        report = pathlib.Path(launch).with_name("weft-report")
        said = result.stderr + subprocess.run([report, "flight", work], capture_output=True, text=True, timeout=60).stdout
    printed = {without_numbers(line) for line in said.splitlines()}
    shown = re.findall(rf"<!-- output: hang {kind} -->\n```\n(.*?)```", page, re.S)
    if not shown:
        complain(f"hangs.md does not show 'hang {kind}'")
    for line in "".join(shown).splitlines():
        if without_numbers(line) not in printed:
            complain(f"hangs.md says that 'hang {kind}' prints: {line}\n  it prints:\n{said}")
sys.exit(1 if failures else 0)
