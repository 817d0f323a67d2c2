"""`python -m weft`: which library was found. `python -m weft demo`: ranks of this machine sum numbers, and say how long that takes by size."""

import argparse
import array
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

import weft
from weft import _library

_SIZES = [1, 256, 4096, 65536, 1048576, 4194304]  # elements of 4 bytes
_ENOUGH = 0.4  # seconds for each size
_LONGEST = 120  # seconds that the demo may take


def found() -> int:
    """Prints a line for each; 1 where the library cannot be loaded."""
    print(f"Python   {sys.version.split()[0]} ({sys.executable})")
    try:
        loaded = _library.library()
    except ImportError as error:
        print(f"libweft  cannot be used: {error}")
        return 1
    print(f"libweft  {weft.version()}, built {weft.built_with()}")
    print(f"from     {_path_of(loaded)}")
    with weft.alone() as comm:
        data = array.array("f", [1, 2, 3])
        comm.all_reduce(data).wait()
        print(f"alone    it is \"{comm.backend}\"; try two ranks: {os.path.basename(sys.executable)} -m weft demo")
    return 0


def _path_of(loaded):
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps:
            if _library.NAME in line:
                return line.split(maxsplit=5)[5].strip()
    return loaded.path


def sums() -> int:
    """What one rank does: all_reduce of each size, the sums checked, and on rank 0 a table."""
    with weft.world() as comm:
        if comm.rank == 0:
            print(f"{comm.size} ranks over {comm.backend}; all_reduce(op=\"sum\") of float32, the median of rounds\n")
            print(f"{'elements':>10} {'bytes':>10} {'time':>12} {'rate':>14}", flush=True)
        for count in _SIZES:
            data = array.array("f", bytes(4 * count))
            seconds, rounds, go_on = [], 0, array.array("b", [1])
            while go_on[0]:
                fill = float(comm.rank + 1 + rounds % 7)
                data[0] = data[count // 2] = data[-1] = fill
                comm.barrier().wait()
                begin = time.perf_counter()
                comm.all_reduce(data).wait()
                seconds.append(time.perf_counter() - begin)
                expected = sum(rank + 1 + rounds % 7 for rank in range(comm.size))
                if not data[0] == data[count // 2] == data[-1] == expected:
                    raise weft.InternalError(f"weft: rank {comm.rank}: a sum of {count} elements is {data[0]}, not {expected}; report it")
                rounds += 1
                go_on[0] = rounds < 3 or sum(seconds) < _ENOUGH and rounds < 1000
                comm.broadcast(go_on).wait()  # rank 0 decides
            if comm.rank == 0:
                median = statistics.median(seconds)
                print(f"{count:>10} {4 * count:>10} {1e6 * median:>9.1f} us {4 * count / median / 1e9:>9.3f} GB/s", flush=True)
        if comm.rank == 0:
            print(f"\nEvery sum was right on {comm.size} ranks.")
    return 0


def demo(ranks: int) -> int:
    """Starts the ranks, which meet at a file, and waits for them."""
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        environment = {**os.environ, "WEFT_SIZE": str(ranks), "WEFT_RENDEZVOUS": f"file://{folder}/meet"}
        environment.setdefault("WEFT_CONNECT_TIMEOUT", "30")
        environment.setdefault("WEFT_TIMEOUT", "30")
        processes = [subprocess.Popen([sys.executable, "-m", "weft", "demo"], env={**environment, "WEFT_RANK": str(rank)}) for rank in range(ranks)]
        try:
            end = time.monotonic() + _LONGEST
            statuses = [process.wait(timeout=max(end - time.monotonic(), 0.1)) for process in processes]
        except subprocess.TimeoutExpired:
            late = [rank for rank, process in enumerate(processes) if process.poll() is None]
            print(f"weft: demo: ranks {late} did not end within {_LONGEST} s; look at what they wait for: py-spy dump, gdb -p", file=sys.stderr)
            return 75
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
    return next((status for status in statuses if status), 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m weft", description=__doc__)
    parser.add_argument("what", nargs="?", default="found", choices=["found", "demo"],
                        help="found (default): which library; demo: sums and times on ranks of this machine")
    parser.add_argument("--ranks", type=int, default=2, help="of the demo, where no launcher has started it (default 2)")
    parser.error = lambda message: sys.exit(print(f"{parser.prog}: {message}", file=sys.stderr) or 42)
    options = parser.parse_args()
    if options.what == "found":
        return found()
    if any(name in os.environ for name in ("WEFT_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_STEP_ID")):
        return sums()
    if not 1 <= options.ranks <= 64:
        parser.error(f"--ranks {options.ranks}; give 1 to 64")
    _library.library()  # one message where there is none, and not one for each rank
    return demo(options.ranks)


if __name__ == "__main__":
    weft.run(main)
