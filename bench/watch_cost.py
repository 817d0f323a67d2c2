#!/usr/bin/env python3
"""What weft-report watch takes of the job that it watches: the steps of one training, with and without a watch that asks, in turn.

usage: bench/watch_cost.py BIN TEXT [ROUNDS [EVERY [MODEL]]]    BIN: a folder of weft's programs; default 24 rounds, a question every 1 s, gpt-tiny

One training of 2 ranks under weft-launch, and a watch of its ranks beside it. A round is four windows of 4 s: the watch asks, is stopped (SIGSTOP), is
stopped, asks. The steps of a window are read from rank 0's metrics at its two ends, with or without the watch. Printed are the median of the rounds' ratios
(seconds a step with the watch / without), the middle half of them, and the error of the mean.
"""
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

WINDOW = 4  # seconds
PORT = 21400  # and the next one: where the ranks serve their metrics


def steps(port):
    """(now, the steps that rank 0 has taken)"""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    found = re.search(r"^weft_steps_total\{[^}]*\} (\d+)", page, re.M)
    return time.monotonic(), int(found[1]) if found else 0


def seconds_a_step(port, watch, asks):
    watch.send_signal(signal.SIGCONT if asks else signal.SIGSTOP)
    begin, before = steps(port)
    time.sleep(WINDOW)
    end, after = steps(port)
    return (end - begin) / (after - before)


def main():
    programs, text = pathlib.Path(sys.argv[1]), sys.argv[2]
    rounds, every, model = (sys.argv[3:] + ["24", "1", "gpt-tiny"][len(sys.argv) - 3:])[:3]
    port = PORT
    with tempfile.TemporaryDirectory() as work:
        environment = dict(os.environ, WEFT_FLIGHT_DIR=work, OPENBLAS_NUM_THREADS="1")
        job = subprocess.Popen([programs / "weft-launch", "-n", "2", programs / "weft-scaling", "--model", model, "--text", text, "--strategies", "ddp", "--steps", "1000000",
                                "--metrics", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
        watch = subprocess.Popen([programs / "weft-report", "watch", "--ranks", f"{port}-{port + 1}", "--records", work, "--every", every],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                time.sleep(0.1)
                try:
                    if steps(port)[1] >= 20:
                        break
                except OSError:
                    pass
            else:
                raise SystemExit("the training does not begin")
            ratios = []
            for _ in range(int(rounds)):
                first, second, third, fourth = (seconds_a_step(port, watch, asks) for asks in (True, False, False, True))
                ratios.append((first + fourth) / (second + third))
        finally:
            job.terminate()
            watch.kill()
            job.wait()
            watch.wait()
    quarters = statistics.quantiles(ratios, n=4)
    print(f"{model}, 2 ranks, a question every {every} s, {len(ratios)} rounds: seconds a step with a watch / without: median {statistics.median(ratios):.4f}, "
          f"middle half {quarters[0]:.4f} to {quarters[2]:.4f}, mean {statistics.mean(ratios):.4f} +- {statistics.stdev(ratios) / len(ratios) ** 0.5:.4f}, {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
