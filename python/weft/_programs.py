"""The programs that weft's wheel brings in its folder bin/. Each function becomes its program: same process, same words, same status."""

import os
import pathlib
import sys


def _become(name):
    path = pathlib.Path(__file__).parent / "bin" / name
    try:
        os.execv(path, [str(path), *sys.argv[1:]])
    except OSError as error:
        sys.exit(print(f"{name}: cannot start {path}: {error.strerror}; install weft's wheel anew", file=sys.stderr) or 70)


def launch():
    _become("weft-launch")


def plan():
    _become("weft-plan")


def report():
    _become("weft-report")
