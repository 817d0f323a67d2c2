#!/usr/bin/env python3
"""Writes bench/results/README.md, and the blocks of figures and of ratios in the top-level README.md, from the *.json files beside it.

  tables.py [--check] [--folder DIR] [--readme FILE]

--check writes nothing and exits 1 where a page is not what would be written, or a file breaks a rule below.
--folder is where the JSON files and the page are (this script's folder); --readme is the top-level page.

machines.json: {"notes": [text], "machines": {letter: description}}. Every other file is a section of the page, in the
order of the file names (readme.json is the last):

  {"title", "notes": [text], "measurements": [{"title", "command": [shell line], "machine", "date", "peer", "text": [text],
   "columns": [title], "rows": [row], "notes": [text]}]}

A row is a list of cells, or {"command", "machine", "date", "cells"} where it has its own; a column with the title command or
machine is filled from these. ratios.json names what the top-level page shows beside a peer:

  {"ratios": [{"what", "peer", "file", "title", "weft": [first cell of a row, column], "other": [the same],
   "times": [the same, where the table has the ratio], "larger_is_better": true where it is}]}

The figures of a ratio are looked up in the measurement `title` of `file`, to which its row links. A cell is a text or a figure: {"median": number or list of numbers (one a run), "least",
"greatest", "unit"}. Rules: every measurement and row has command, machine and date (a row inherits its measurement's), a
machine is a letter of machines.json or a description of one, and no other keys are used. Numbers keep their digits.

Exit status: 0 done, 1 something is not as it should be, 42 wrong usage, 70 a file cannot be read or written.
"""
import argparse
import datetime
import json
import pathlib
import re
import sys

START, END = "<!-- figures: bench/readme.sh -->", "<!-- /figures -->"
RATIOS = "<!-- ratios: bench/results/ratios.json -->", "<!-- /ratios -->"
NO_SECTIONS = ("machines.json", "readme.json", "ratios.json")
MEASUREMENT = {"title", "command", "machine", "date", "peer", "text", "columns", "rows", "notes"}
FILLED = ("command", "machine")  # columns that rows fill from their keys


class Number(str):
    """A number as the file writes it: 1.000 stays 1.000."""


class Wrong(Exception):
    pass


def load(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_float=Number, parse_int=Number)
    except ValueError as error:
        raise Wrong(f"{path}: {error}") from error


def listed(value):
    return value if isinstance(value, list) else [value]


def check_source(where, keys, machines):
    """Command, machine and date of a measurement or a row."""
    commands = keys.get("command")
    if not commands or not all(isinstance(line, str) and line.strip() for line in listed(commands)):
        raise Wrong(f"{where} has no command")
    machine = keys.get("machine")
    if not machine or (machine not in machines and "core" not in machine):
        raise Wrong(f"{where} has no machine: {machine!r} is neither {', '.join(machines)} nor a description with its cores")
    try:
        datetime.date.fromisoformat(keys.get("date", ""))
    except ValueError as error:
        raise Wrong(f"{where} has no date: {error}") from error


def check_keys(where, value, allowed):
    unknown = set(value) - allowed
    if unknown:
        raise Wrong(f"{where} has unknown keys: {', '.join(sorted(unknown))}")


def check_figure(where, cell):
    if isinstance(cell, str) and not isinstance(cell, Number):
        return
    if not isinstance(cell, dict):
        raise Wrong(f"{where}: {cell!r} is neither a text nor a figure")
    check_keys(where, cell, {"median", "least", "greatest", "unit"})
    numbers = listed(cell.get("median", [])) + [cell[key] for key in ("least", "greatest") if key in cell]
    if not numbers or not all(isinstance(number, Number) for number in numbers):
        raise Wrong(f"{where}: {cell} has no number, or something else in its place")
    if ("least" in cell) != ("greatest" in cell) or ("least" in cell and float(cell["least"]) > float(cell["greatest"])):
        raise Wrong(f"{where}: the spread of {cell} makes no sense")


def cells_of(row):
    return row["cells"] if isinstance(row, dict) else row


def check_measurement(where, measurement, machines):
    check_keys(where, measurement, MEASUREMENT)
    if not measurement.get("title"):
        raise Wrong(f"{where} has no title")
    where = f"{where}, {measurement['title']}"
    check_source(where, measurement, machines)
    columns = measurement.get("columns", [])
    own = [title for title in columns if title not in FILLED]
    for number, row in enumerate(measurement.get("rows", []), 1):
        place = f"{where}, row {number}"
        if isinstance(row, dict):
            check_keys(place, row, {"command", "machine", "date", "cells"})
            if "machine" in row and "date" not in row:
                raise Wrong(f"{place} has a machine of its own and no date")
            check_source(place, {**measurement, **row}, machines)
        if len(cells_of(row)) != len(own):
            raise Wrong(f"{place} has {len(cells_of(row))} cells for {len(own)} columns")
        for cell in cells_of(row):
            check_figure(place, cell)


def shown(cell):
    if isinstance(cell, str):
        return cell
    unit = f" {cell['unit']}" if "unit" in cell else ""
    if "median" not in cell:
        return f"{cell['least']} to {cell['greatest']}{unit}"
    spread = f" ({cell['least']} to {cell['greatest']})" if "least" in cell else ""
    return ", ".join(listed(cell["median"])) + unit + spread


def commands(keys):
    return "; ".join(f"`{line}`" for line in listed(keys["command"]))


def row_cells(measurement, row):
    """The cells of a row under all columns, those that are filled from its keys included."""
    keys = {**measurement, **row} if isinstance(row, dict) else measurement
    filled = {"command": lambda: commands(keys), "machine": lambda: f"{keys['machine']}, {keys['date']}"}
    cells = iter(cells_of(row))
    return [filled[title]() if title in FILLED else shown(next(cells)) for title in measurement["columns"]]


def table(measurement):
    lines = [measurement["columns"], ["---"] * len(measurement["columns"])]
    lines += [row_cells(measurement, row) for row in measurement["rows"]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def paragraphs(measurement):
    machine = measurement["machine"]
    source = f"{commands(measurement)} ({'machine ' if len(machine) == 1 else ''}{machine}, {measurement['date']}"
    source += f"; peer: {measurement['peer']})" if "peer" in measurement else ")"
    result = [f"### {measurement['title']}", source, *measurement.get("text", [])]
    if "rows" in measurement:
        result.append(table(measurement))
    return result + measurement.get("notes", [])


def count_figures(measurement):
    return sum(isinstance(cell, dict) for row in measurement.get("rows", []) for cell in cells_of(row))


def page(folder):
    """The whole page as text, and how many figures its tables have. Raises Wrong where a file breaks a rule."""
    about = load(folder / "machines.json")
    machines = about["machines"]
    names = sorted(path for path in folder.glob("*.json") if path.name not in NO_SECTIONS)
    names += [path for path in [folder / "readme.json"] if path.exists()]
    figures = 0
    result = ["# Figures", "<!-- Written by tables.py from the *.json files beside it. Edit those. -->", *about["notes"]]
    result.append("\n".join(["| machine | what it is |", "| --- | --- |", *(f"| {key} | {text} |" for key, text in machines.items())]))
    for path in names:
        section = load(path)
        check_keys(path.name, section, {"title", "notes", "measurements"})
        result += [f"## {section['title']}", *section.get("notes", [])]
        for measurement in section["measurements"]:
            check_measurement(path.name, measurement, machines)
            figures += count_figures(measurement)
            result += paragraphs(measurement)
    return "\n\n".join(result) + "\n", figures


def aligned(measurement):
    """The rows as a program prints them: first column to the left, the others to the right."""
    lines = [measurement["columns"]] + [row_cells(measurement, row) for row in measurement["rows"]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("    " + "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                                        for column, (cell, width) in enumerate(zip(line, widths))) for line in lines)


def block(folder):
    """What stands between the markers of the top-level page: the first measurement of readme.json, the end of the quick start."""
    measurement = load(folder / "readme.json")["measurements"][0]
    machines = load(folder / "machines.json")["machines"]
    machine = machines.get(measurement["machine"], measurement["machine"])
    parts = [f"{measurement['title']} ({commands(measurement)} on {machine}; {measurement['date']}):", aligned(measurement),
             *measurement.get("notes", [])]
    return START + "\n\n" + "\n\n".join(parts) + "\n\n" + END


def looked_up(where, measurement, place):
    """The figure at [first cell of a row, column], as (number, unit)."""
    label, column = place[0], int(place[1])
    rows = [cells_of(row) for row in measurement["rows"] if shown(cells_of(row)[0]) == label]
    if len(rows) != 1 or column >= len(rows[0]):
        raise Wrong(f"{where}: {len(rows)} rows begin with {label!r}, or they have no column {column}")
    number = re.match(r"([\d.]+) ?(\S*)", shown(rows[0][column]))
    if not number:
        raise Wrong(f"{where}: {shown(rows[0][column])!r} does not begin with a number")
    return number[1], number[2] if not number[2].startswith("(") else ""


def anchor(title):
    """The name that a heading gets."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def ratio_row(folder, ratio):
    where = f"ratios.json, {ratio['what']}"
    found = [one for one in load(folder / ratio["file"])["measurements"] if one["title"] == ratio["title"]]
    if len(found) != 1:
        raise Wrong(f"{where}: {ratio['file']} has {len(found)} measurements {ratio['title']!r}")
    (weft, unit), (other, unit_of_other) = (looked_up(where, found[0], ratio[side]) for side in ("weft", "other"))
    if unit != unit_of_other:
        raise Wrong(f"{where}: {unit!r} and {unit_of_other!r} are two units")
    times = float(weft) / float(other) if ratio.get("larger_is_better") else float(other) / float(weft)
    if "times" in ratio:  # of runs in turn, which is not that of the medians
        times = float(looked_up(where, found[0], ratio["times"])[0])
    ours, theirs = (f"{number} {unit}".strip() for number in (weft, other))
    return f"| {ratio['what']} | {ours} | {theirs}, {ratio['peer']} | [{times:.1f} times](bench/results/README.md#{anchor(ratio['title'])}) |"


def ratios(folder):
    rows = [ratio_row(folder, ratio) for ratio in load(folder / "ratios.json")["ratios"]]
    return "\n".join([RATIOS[0], "", "| on 2 cores | weft | peer | weft is better |", "|---|---|---|---|", *rows, "", RATIOS[1]])


def with_block(path, text, new, start=START, end=END):
    found = re.findall(re.escape(start) + ".*?" + re.escape(end), text, flags=re.DOTALL)
    if len(found) != 1:
        raise Wrong(f"{path} has {len(found)} blocks between {start} and {end}, not 1")
    return text.replace(found[0], new)


def first_difference(old, new):
    for number, (left, right) in enumerate(zip(old.splitlines() + [""], new.splitlines() + [""]), 1):
        if left != right:
            return f"line {number} is {left[:120]!r} and should be {right[:120]!r}"
    return "the end differs"


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=here)
    parser.add_argument("--readme", type=pathlib.Path, default=here.parent.parent / "README.md")
    try:
        options = parser.parse_args()
    except SystemExit as stop:
        return 42 if stop.code else 0
    try:
        text, figures = page(options.folder)
        pages = [(options.folder / "README.md", text)]
        top = options.readme.read_text(encoding="utf-8")
        if START in top or END in top:
            new = with_block(options.readme, top, block(options.folder))
            if RATIOS[0] in top or RATIOS[1] in top:
                new = with_block(options.readme, new, ratios(options.folder), *RATIOS)
            pages.append((options.readme, new))
        else:
            print(f"tables.py: {options.readme} has no block between {START} and {END}; left as it is", file=sys.stderr)
        for path, text in pages:
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            if options.check and old != text:
                raise Wrong(f"{path} is not what tables.py writes: {first_difference(old, text)}")
            if not options.check and old != text:
                path.write_text(text, encoding="utf-8")
        print(f"tables.py: {figures} figures, each with command, machine and date; the pages are up to date")
    except Wrong as error:
        print(f"tables.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"tables.py: {error}", file=sys.stderr)
        return 70
    return 0


if __name__ == "__main__":
    sys.exit(main())
