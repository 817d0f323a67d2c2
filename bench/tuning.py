#!/usr/bin/env python3
"""How near `weft-report tune` comes to an exhaustive sweep, and with how many runs.

usage: bench/tuning.py [--rounds 10] [--pairs 100] [--minutes 60] [--seed 1] [--json FILE] [--again FILE] [--report build/dev/bin/weft-report] -- COMMAND...

A trial is one run of COMMAND (weft-bench behind its launcher) under one setting. First tune chooses. Then the sweep runs every setting of the
space that tune chose from: every value of every variable, with every algorithm for all sizes; --rounds times, as often as tune runs what it
compares. The sweep's best are the variables with the least mean over sizes of the logarithm of the time, each
size with its fastest algorithm. UCX_ variables are not varied where WEFT_TRANSPORT is, because nothing reads them there. Last, the two choices run in
turn, --pairs times, and the ratio of their times is printed with its interval (bootstrap of the trimmed mean).

--again FILE compares the two choices of an earlier --json FILE once more, and does nothing else.

Ends with 1 where tune takes more than 10 % of the sweep's trials, or the interval does not say that its choice is within 3 %.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile


def rows_of(output):
    """{bytes: seconds} of the table of nccl-tests; in place and out of place as one."""
    rows = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) < 13 or not words[0].isdigit():
            continue
        times = [float(words[at]) for at in (5, 9)]
        rows[int(words[0])] = math.sqrt(times[0] * times[1]) * 1e-6
    return rows


class Runs:
    def __init__(self, command, folder):
        self.command, self.folder, self.count = command, folder, 0

    def run(self, variables, table):
        """Times of one run, or none where it fails. @param table: for WEFT_ALGORITHMS"""
        environment = dict(os.environ, **variables)
        if table:
            path = self.folder / "table"
            path.write_text(table)
            environment["WEFT_ALGORITHMS"] = str(path)
        self.count += 1
        try:
            done = subprocess.run(self.command, env=environment, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None
        return rows_of(done.stdout) or None if done.returncode == 0 else None


def table_of(order, collective, algorithms):
    """@param algorithms: {bytes: name}"""
    rows, before = [], None
    for place, (size, name) in enumerate(sorted(algorithms.items())):
        if name != before:
            rows.append(f"{order} {collective} 0 {0 if place == 0 else size} {name}\n")
        before = name
    return "".join(rows)


def settings_of(space):
    """Every (variables, algorithm); None is weft's own choice."""
    names = list(space["variables"])
    for values in itertools.product(*[[None, *space["variables"][name]] for name in names]):
        variables = {name: value for name, value in zip(names, values) if value is not None}
        if "WEFT_TRANSPORT" in variables and any(name.startswith("UCX_") for name in variables):
            continue
        for algorithm in [None, *space["algorithms"]]:
            yield variables, algorithm


def sweep(runs, tuned, order, rounds, rng):
    settings = list(settings_of(tuned["space"]))
    logs = [[] for _ in settings]
    for turn in range(rounds):
        print(f"sweep: round {turn + 1} of {rounds}, {len(settings)} settings", file=sys.stderr)
        for place in rng.sample(range(len(settings)), len(settings)):
            variables, algorithm = settings[place]
            times = runs.run(variables, table_of(order, tuned["collective"], {0: algorithm}) if algorithm else None)
            if times:
                logs[place].append({size: math.log(seconds) for size, seconds in times.items()})
    best = None
    for variables in {json.dumps(variables) for variables, _ in settings}:
        medians = {}
        for (own, algorithm), all_times in zip(settings, logs):
            if json.dumps(own) != variables or not all_times:
                continue
            for size in all_times[0]:
                medians.setdefault(size, {})[algorithm] = statistics.median(times[size] for times in all_times)
        fastest = {size: min(by_name, key=by_name.get) for size, by_name in medians.items()}
        cost = statistics.mean(medians[size][name] for size, name in fastest.items())
        if best is None or cost < best[0]:
            best = cost, json.loads(variables), fastest
    return len(settings), best[1], best[2]


def interval_of(logs, rng):
    def trimmed(values):
        values = sorted(values)
        cut = len(values) // 5
        return statistics.mean(values[cut:len(values) - cut])
    draws = sorted(trimmed(rng.choices(logs, k=len(logs))) for _ in range(10000))
    return [math.exp(value) for value in (draws[249], trimmed(logs), draws[9750])]


def own_rows(order, collective, fastest, explain):
    """A table has no word for weft's own choice, so that is asked for (--explain)."""
    return table_of(order, collective, {size: name or explain[size] for size, name in fastest.items()})


def explained(command):
    """{bytes: algorithm} that weft chooses by itself."""
    place = next(at for at, word in enumerate(command) if word.split("/")[-1] == "weft-bench")
    kept, words = [], iter(command[place + 1:])
    for word in words:
        if word in ("-n", "-w", "--iters", "--warmup-iters"):  # measure nothing, which --explain refuses to ignore
            next(words)
        else:
            kept.append(word)
    done = subprocess.run([*command[:place + 1], *kept, "--explain"], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if " B " in line]
    return {int(words[1]): words[words.index(next(word for word in words if word.endswith(":"))) + 1] for words in lines}


def compare(runs, choices, pairs, rng):
    """The ratio of the first choice's time to the second's, with its interval: [least, middle, greatest]."""
    logs = []
    for _ in range(pairs):
        times = [None, None]
        for side in rng.sample((0, 1), 2):
            times[side] = runs.run(choices[side]["variables"], choices[side]["table"])
        if all(times):
            logs.append(statistics.mean(math.log(times[0][size] / times[1][size]) for size in times[0]))
    return interval_of(logs, rng)


def show(choices, ratio, pairs):
    for name, choice in zip(("tune's choice: ", "sweep's choice:"), choices):
        print(name, json.dumps(choice))
    print(f"time of tune's choice / sweep's: {ratio[1]:.3f} ({ratio[0]:.3f} to {ratio[2]:.3f}), {pairs} pairs in turn")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    for name, kind, default in (("rounds", int, 10), ("pairs", int, 100), ("minutes", float, 60), ("seed", int, 1), ("json", str, None), ("again", str, None),
                                ("report", str, "build/dev/bin/weft-report")):
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    rng, order = random.Random(options.seed), os.environ.get("WEFT_ORDER", "rank")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.again:
            choices = json.loads(pathlib.Path(options.again).read_text())["choices"]
            ratio = compare(Runs(options.command, folder), choices, options.pairs, rng)
            show(choices, ratio, options.pairs)
            return 0 if ratio[2] <= 1.03 else 1
        figures = folder / "tune.json"
        subprocess.run([options.report, "tune", "--minutes", str(options.minutes), "--pairs", str(options.rounds), "--seed", str(options.seed), "--json", figures, "--",
                        *options.command], check=True, stdout=sys.stderr)
        tuned = json.loads(figures.read_text())
        runs = Runs(options.command, folder)
        settings, variables, fastest = sweep(runs, tuned, order, options.rounds, rng)
        sweep_trials = runs.count
        kept = tuned["kept"]
        choices = [{"variables": kept["variables"], "table": kept["table"]},
                   {"variables": variables, "table": own_rows(order, tuned["collective"], fastest, explained(options.command))}]
        ratio = compare(runs, choices, options.pairs, rng)
    share = tuned["trials"] / sweep_trials
    print(f"tune: {tuned['trials']} trials; sweep: {sweep_trials} trials of {settings} settings; {100 * share:.1f} %")
    show(choices, ratio, options.pairs)
    result = {"tune_trials": tuned["trials"], "sweep_trials": sweep_trials, "settings": settings, "share": share, "choices": choices, "ratio": ratio}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0 if share <= 0.1 and ratio[2] <= 1.03 else 1


sys.exit(main())
