#!/usr/bin/env python3
"""One table of what weft-scaling and torch_ddp.py measured in rounds that took turns. bench/peers/compare.sh calls it:

  table.py --weft weft-1.json weft-2.json --torch torch-1.json torch-2.json --setting "shared memory" --steps 40
           --weft-version 0.1.0 --python /usr/bin/python3 [--json FILE]

--weft and --torch name one file a round, in the same order. Figures are medians over rounds, shares and ratios are taken
within a round first: the machine changes its speed from round to round. Exit status: 0 done, 42 wrong input, 70 when FILE
cannot be written.
"""
import argparse
import json
import statistics
import sys

PEERS = {"weft": "nocomm", "torch": "no_sync"}  # and what each calls its step without communication


class WrongInput(Exception):
    pass


def steps_of(path, document, peer):
    """Median seconds of a step by strategy, in the order of the file."""
    try:
        seconds = {run["strategy"]: float(run["step_seconds"]["median"]) for run in document["runs"]}
        ranks = {int(run["ranks"]) for run in document["runs"]}
    except (KeyError, TypeError, ValueError) as error:
        raise WrongInput(f"{path} is not what {peer} writes: {error!r}") from error
    if PEERS[peer] not in seconds:
        raise WrongInput(f"{path} has no row {PEERS[peer]}, which the others are shares of; "
                         f"it has: {', '.join(seconds) or 'none'}")
    if len(ranks) != 1 or min(seconds.values()) <= 0:
        raise WrongInput(f"{path} makes no sense: ranks {sorted(ranks)}, least step {min(seconds.values())} s")
    return seconds, ranks.pop()


def load(paths, peer):
    """What each round measured, the number of ranks, and the last document itself."""
    rounds, ranks = [], None
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
        except (OSError, ValueError) as error:
            raise WrongInput(f"cannot read {path}: {error}") from error
        seconds, count = steps_of(path, document, peer)
        if rounds and (list(seconds) != list(rounds[0]) or count != ranks):
            raise WrongInput(f"{path} has {', '.join(seconds)} on {count} ranks, "
                             f"and {paths[0]} {', '.join(rounds[0])} on {ranks}")
        rounds.append(seconds)
        ranks = count
    return rounds, ranks, document


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def rows(rounds):
    """rounds: for each peer, the seconds by strategy of every round."""
    ours = [seconds["ddp"] for seconds in rounds["weft"]]
    for peer, reference in PEERS.items():
        for strategy in rounds[peer][0]:
            steps = [seconds[strategy] for seconds in rounds[peer]]
            yield {
                "peer": peer,
                "strategy": strategy,
                "step_seconds": spread(steps),
                "share_of_no_communication": spread([one[reference] / one[strategy] for one in rounds[peer]]),
                "ratio": spread([step / our for step, our in zip(steps, ours)]),
            }


def compare(arguments):
    if len(arguments.weft) != len(arguments.torch):
        raise WrongInput(f"{len(arguments.weft)} rounds of weft and {len(arguments.torch)} of torch do not take turns")
    loaded = {peer: load(getattr(arguments, peer), peer) for peer in PEERS}
    (weft, ranks, _), (torch, torch_ranks, document) = loaded["weft"], loaded["torch"]
    if ranks != torch_ranks:
        raise WrongInput(f"weft ran on {ranks} ranks and torch on {torch_ranks}")
    if "ddp" not in weft[0]:
        raise WrongInput(f"{arguments.weft[0]} has no row ddp, which the others are held against")
    if not isinstance(document.get("torch"), str):
        raise WrongInput(f"{arguments.torch[-1]} does not name its version of torch")
    return {
        "workload": "mlp-8x1024",
        "setting": arguments.setting,
        "ranks": ranks,
        "steps": arguments.steps,
        "rounds": len(weft),
        "weft": {"version": arguments.weft_version},
        "torch": {"version": document["torch"], "python": arguments.python},
        "rows": list(rows({"weft": weft, "torch": torch})),
    }


def in_words(values, digits, scale, several):
    text = f"{values['median'] * scale:.{digits}f}"
    if several:
        text += f" ({values['least'] * scale:.{digits}f} to {values['greatest'] * scale:.{digits}f})"
    return text


def to_text(result):
    several = result["rounds"] > 1
    lines = [("", "step ms", "vs no communication", "x weft ddp")]
    for row in result["rows"]:
        lines.append((f"{row['peer']} {row['strategy']}",
                      in_words(row["step_seconds"], 1, 1e3, several),
                      in_words(row["share_of_no_communication"], 3, 1, several),
                      in_words(row["ratio"], 2, 1, several)))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    table = "".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n" for line in lines)
    rounds = f"{result['rounds']} rounds taking turns, medians (least to greatest)" if several else "1 round"
    return (f"{result['workload']} on {result['ranks']} ranks, {result['setting']}; {result['steps']} steps, {rounds}\n"
            f"weft {result['weft']['version']}; torch {result['torch']['version']} of {result['torch']['python']}, over gloo\n\n"
            f"{table}\n"
            "vs no communication: the step of the same peer and run that does not communicate / this one\n"
            "x weft ddp: this step / that of weft ddp in the same round\n")


def write(result, path):
    text = to_text(result)
    if path == "-":  # figures alone on standard output
        print(text, file=sys.stderr)
        print(json.dumps(result))
        return
    print(text, end="", flush=True)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda line: sys.exit(print(f"table.py: {line}", file=sys.stderr) or 42)
    for peer in PEERS:
        parser.add_argument("--" + peer, nargs="+", required=True, metavar="FILE", help=f"what {peer} wrote, one file a round")
    parser.add_argument("--setting", required=True, help="where it ran, in words")
    parser.add_argument("--steps", type=int, required=True, help="training steps of each strategy")
    parser.add_argument("--weft-version", required=True)
    parser.add_argument("--python", required=True, help="the interpreter that torch ran in")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE, - for standard output")
    arguments = parser.parse_args()
    try:
        result = compare(arguments)
    except WrongInput as error:
        print(f"table.py: {error}", file=sys.stderr)
        return 42
    try:
        write(result, arguments.json)
    except OSError as error:
        print(f"table.py: cannot write the figures to {arguments.json}: {error.strerror}", file=sys.stderr)
        return 70
    return 0


if __name__ == "__main__":
    sys.exit(main())
