"""Two builds of weft beside each other, in turns: what a change costs at the start of a job, in an operation and in a training step.

usage: two_builds.py OLD NEW [ROUNDS [hosts]]     folders with weft-launch, weft-bench and gpt (build/dev/bin of two checkouts); ROUNDS: 30
  hosts: instead the collectives of 4 ranks on two hosts, which `launchers/cluster.sh up 2 10gbit` has made; needs root

A copy of OLD runs in each round, too. Its ratio to OLD is what this machine makes of two equal builds.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("weft-launch", "weft-bench", "gpt")
environment = dict(os.environ, WEFT_FLIGHT_DIR="off")


def seconds_and_output(words):
    begin = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")
    return time.perf_counter() - begin, done.stdout


def measured(folder):
    """Name of a figure -> its value in this run."""
    launch, bench = f"{folder}/weft-launch", f"{folder}/weft-bench"
    start, _ = seconds_and_output([launch, "-n", "8", bench, "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0"])
    _, output = seconds_and_output([launch, "-n", "2", bench, "all_reduce", "-b", "8", "-e", "32K", "-f", "16", "-d", "f32", "-n", "200",
                                    "--in-place", "--json", "-"])
    rows = json.loads(output[output.index("{"):].split("\n", 1)[0])["results"]
    steps, _ = seconds_and_output([launch, "-n", "2", f"{folder}/gpt", "--model", "gpt-tiny", "--steps", "200"])
    return {"start and end of 8 ranks, ms": 1e3 * start,
            **{f"all_reduce of {row['bytes']} B on 2 ranks, us": 1e6 * row["seconds"]["median"] for row in rows},
            "gpt-tiny on 2 ranks, 200 steps with its start, ms": 1e3 * steps}


def measured_on_hosts(folder):
    """The same for collectives whose order of sums depends on the layout."""
    cluster = str(pathlib.Path(__file__).parent.parent / "launchers/cluster.sh")
    figures = {}
    for collective in ("reduce_scatter", "all_reduce"):
        _, output = seconds_and_output(["env", f"WEFT_LAUNCH={folder}/weft-launch", cluster, "run", "--launcher", "weft", "-np", "4",
                                        f"{folder}/weft-bench", collective, "-b", "4K", "-e", "4M", "-f", "32", "-d", "f32", "-n", "40",
                                        "--json", "-"])
        rows = json.loads(output[output.index("{"):].split("\n", 1)[0])["results"]
        figures |= {f"{collective} of {row['bytes']} B on 4 ranks of 2 hosts, us": 1e6 * row["seconds"]["median"] for row in rows}
    return figures


def main(old, new, rounds=30, where=""):
    figures_of = measured_on_hosts if where == "hosts" else measured
    with tempfile.TemporaryDirectory() as copy:
        for program in PROGRAMS:
            shutil.copy(pathlib.Path(old) / program, copy)
        builds = [("old", old), ("new", new), ("copy", copy)]
        values = {}
        for number in range(int(rounds)):
            for name, folder in builds[number % 3:] + builds[:number % 3]:
                for figure, value in figures_of(folder).items():
                    values.setdefault(figure, {}).setdefault(name, []).append(value)
    for figure, by_build in values.items():
        ratio = {name: statistics.median(a / b for a, b in zip(by_build[name], by_build["old"])) for name in ("new", "copy")}
        print(f"{figure}: old {statistics.median(by_build['old']):.3f}, new {statistics.median(by_build['new']):.3f}; "
              f"new/old {ratio['new']:.3f}, copy/old {ratio['copy']:.3f} (medians of {len(by_build['old'])} rounds)")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 5) or sys.argv[4:] not in ([], ["hosts"]):
        sys.exit(__doc__)
    main(*sys.argv[1:])
