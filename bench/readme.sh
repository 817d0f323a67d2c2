#!/usr/bin/env bash
# Measures the end of the quick start, which the top-level README.md shows, and puts it there: a fresh clone of the present commit
# runs launchers/quickstart.sh, and then a longer training, for bench/results alone. Writes bench/results/readme.json, and has
# bench/results/tables.py write bench/results/README.md and the block of README.md between the markers
# <!-- figures: bench/readme.sh --> and <!-- /figures -->.
#   bench/readme.sh [--skip-long] [--keep]
#     --skip-long  keep the figures of the longer training (6 minutes) as they are
#     --keep       keep the clone, and say where it is
# Example: bench/readme.sh --skip-long
# Exit status: 0 done, 42 wrong usage, or README.md has no such markers, 70 when something failed on the way.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
long=1 keep=''

say() { echo "readme.sh: $*" >&2; }
for option; do
  case $option in
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --skip-long) long='' ;;
    --keep) keep=1 ;;
    *) say "'$option' is none of --skip-long, --keep"; exit 42 ;;
  esac
done
for marker in '<!-- figures: bench/readme.sh -->' '<!-- /figures -->'; do
  if [ "$(grep -cF -- "$marker" "$root/README.md")" -ne 1 ]; then
    say "README.md needs the line $marker once: the figures go between the two markers"
    exit 42
  fi
done
if ! git -C "$root" diff --quiet HEAD; then say "the working tree differs from the commit that is measured"; fi

folder=$(mktemp -d)
if [ -n "$keep" ]; then say "the clone is $folder/weft"; else trap 'rm -rf "$folder"' EXIT; fi
git clone --quiet "$root" "$folder/weft"
cd "$folder/weft"
began=$(date +%s)
launchers/quickstart.sh || { say "launchers/quickstart.sh failed"; exit 70; }
seconds=$(($(date +%s) - began))
figures=(--seconds "$seconds" --quickstart build/quickstart.json)

if [ -n "$long" ]; then
  # Open MPI starts as root, in a container for instance, only when told twice.
  if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  . launchers/openblas.sh
  . launchers/toolchain.sh
  { cmake --preset release && cmake --build --preset release --target gpt -j "$jobs"; } > build/gpt.log 2>&1 ||
    { tail -n 30 build/gpt.log; say "the build of gpt failed"; exit 70; }
  training=(mpirun -n 2 build/release/bin/gpt --steps 1025 --learning-rate 1.5e-3 --final-fraction 0.1)
  began=$(date +%s)
  "${training[@]}" | tee build/gpt.out || { say "${training[*]} failed"; exit 70; }
  figures+=(--long-seconds $(($(date +%s) - began)) --long-output build/gpt.out --long-command "${training[*]}")
fi

python3 - "$root/bench/results/readme.json" "${figures[@]}" <<'E2' || exit 70
import argparse, datetime, json, os, re, sys

parser = argparse.ArgumentParser()
parser.add_argument("target")
for name in ("--seconds", "--quickstart", "--long-seconds", "--long-output", "--long-command"):
    parser.add_argument(name)
options = parser.parse_args()


def machine():
    info = open("/proc/cpuinfo", encoding="utf-8").read()
    model = re.search(r"model name\s*: (.+)", info)
    caches = "/sys/devices/system/cpu/cpu0/cache/"
    size = 0
    if os.path.isdir(caches):
        for index in sorted(os.listdir(caches)):
            if os.path.exists(f"{caches}{index}/level") and open(f"{caches}{index}/level").read().strip() == "3":
                size = int(open(f"{caches}{index}/size").read().strip().rstrip("K"))
    cores = len(os.sched_getaffinity(0))
    cache = f"{size // 1024} MB of third-level cache" if size else "third-level cache of unknown size"
    return f"{cores} cores of {model[1].strip() if model else 'an unknown processor'}, {cache}"


class Digits(float):
    """A number that is written with the digits it was given: 1.000 stays 1.000."""

    def __new__(cls, value, digits):
        number = super().__new__(cls, value)
        number.digits = digits
        return number

    def __repr__(self):
        return f"{float(self):.{self.digits}f}"


def figure(value, digits):
    return {"median": Digits(value, digits)} if value is not None else "-"


class Kept(str):
    """A number as a file has it."""


def dump(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dump(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    if isinstance(value, Digits):
        return repr(value)
    return str(value) if isinstance(value, Kept) else json.dumps(value)


source = {"machine": machine(), "date": datetime.date.today().isoformat()}
runs = json.load(open(options.quickstart, encoding="utf-8"))["runs"]
measurements = [{
    "title": f"The end of the quick start, {options.seconds} s after the clone", "command": ["launchers/quickstart.sh"], **source,
    "columns": ["strategy", "ranks", "step ms", "p99 ms", "tokens/s", "vs nocomm", "vs 1 rank", "exposed ms", "sent MB/step",
                "held MB", "held-out loss"],
    "rows": [[run["strategy"], str(run["ranks"]), figure(run["step_seconds"]["median"] * 1e3, 1),
              figure(run["step_seconds"]["p99"] * 1e3, 1), figure(run["tokens_per_second"], 0),
              figure(run["efficiency_vs_nocomm"], 3), figure(run["efficiency_vs_single"], 3),
              figure(run["exposed_seconds"] * 1e3, 1), figure(run["wire_bytes_per_step"] * 1e-6, 1),
              figure(run["peak_bytes_per_rank"] * 1e-6, 1), f"{run['loss']['first']:.3f} -> {run['loss']['last']:.3f}"]
             for run in runs]}]
if options.long_output:
    lines = re.findall(r"step (\d+) of \d+: held-out loss ([0-9.]+) nats", open(options.long_output, encoding="utf-8").read())
    if not lines:
        sys.exit(f"readme.sh: no held-out loss in the output of {options.long_command}")
    measurements.append({
        "title": f"Longer training, {round(int(options.long_seconds) / 60)} minutes", "command": [options.long_command], **source,
        "columns": ["steps", "held-out loss"], "rows": [[lines[-1][0], figure(float(lines[-1][1]), 3)]]})
else:
    old = json.load(open(options.target, encoding="utf-8"), parse_float=Kept, parse_int=Kept)
    measurements += old["measurements"][1:]
with open(options.target, "w", encoding="utf-8") as file:
    head = '{\n  "title": "The figures of the top-level page",\n  "measurements": [\n    '
    file.write(head + ",\n    ".join(map(dump, measurements)) + "\n  ]\n}\n")
E2
python3 "$root/bench/results/tables.py"
echo "readme.sh: README.md and bench/results have the figures of $(date +%F)"
