#!/usr/bin/env python3
"""weft-report on flight records of PyTorch: dictionaries as its recorder makes them, pickled by Python in every protocol and as JSON, and
pickles that would run something.

usage: torch_records_test.py WEFT_REPORT
"""
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

report = sys.argv[1]
failures = 0


def check(so, words):
    global failures
    if not so:
        failures += 1
        print(f"FAILED: {words}")


def entry(number, name="nccl:all_reduce", sizes=((3, 4),), dtype="Float", state="completed", **more):
    created = 1_790_000_000_000_000_000 + number * 1_000_000
    frames = [{"name": "all_reduce", "filename": "/opt/torch/distributed/distributed_c10d.py", "line": 2696},
              {"name": "train_step", "filename": "/job/Größe/train.py", "line": 40 + number}]
    sizes = [list(one) for one in sizes]
    return {"frames": frames, "record_id": number - 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": name, "time_created_ns": created, "input_sizes": sizes,
            "input_dtypes": [dtype], "output_sizes": sizes, "output_dtypes": [dtype], "state": state,
            "time_discovered_started_ns": created + 10 if state != "scheduled" else None,
            "time_discovered_completed_ns": created + 20 if state == "completed" else None,
            "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False, "duration_ms": 0.25, **more}


def dump(ranks, entries):
    return {"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
            "pg_status": {"0": {"last_enqueued_collective": len(entries), "last_started_collective": -1,
                                "last_completed_collective": len(entries) - 1}},
            "nccl_comm_state": {"0x1": {"inProgress": "1"}}, "entries": entries}


def jobs():
    """Name, entries of each rank (None: it left no dump), causes under nccl and under flight, words of the first verdict."""
    done = [entry(n) for n in range(1, 400)]
    waits = done + [entry(400, state="started")]
    yield "well", [done] * 3, [], [], ""
    yield "behind", [waits, done, waits], ["rank-behind"], ["rank-behind"], "rank 1 is behind"
    other = done + [entry(400, "nccl:_all_gather_base", state="started")]
    yield "name", [waits, waits, other], ["mismatched-collective"], ["rank-diverged"], "rank 2 diverged at #400"
    other = done + [entry(400, dtype="Half", state="started")]
    yield "type", [other, waits, waits], ["mismatched-collective"], ["rank-diverged"], "rank 0 diverged at #400"
    yield "missing", [waits, None, waits], ["rank-left-no-record"], ["rank-left-no-record"], "rank 1 of 3 left no record"
    yield "stuck", [waits, waits, done + [entry(400, state="scheduled")]], ["collective-stuck"], ["collective-stuck"], "all_reduce #400"


def write(folder, ranks, how):
    for rank, entries in enumerate(ranks):
        if entries is None:
            continue
        content = dump(len(ranks), entries)
        name = folder / f"nccl_trace_rank_{rank}"
        if how == "json":
            name.write_text(json.dumps(content))
        else:
            name.write_bytes(pickle.dumps(content, protocol=how))


def run(command, path):
    done = subprocess.run([report, command, path, "--json", "-"], capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)["findings"] if done.stdout else [], done.stderr


class Call:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def check_calls(work):
    """Nothing is executed, and the dump beside is judged."""
    trap = work / "made"
    for protocol in range(6):
        folder = work / f"calls-{protocol}"
        folder.mkdir()
        write(folder, [[entry(1)], [entry(1)]], protocol)
        content = dump(2, [entry(1)])
        content["entries"][0]["frames"] = Call(trap)
        (folder / "nccl_trace_rank_1").write_bytes(pickle.dumps(content, protocol=protocol))
        status, findings, err = run("nccl", folder)
        check("which makes objects: nothing of it is executed" in err, f"protocol {protocol}: {err}")
        check(status == 2 and [one["cause"] for one in findings] == ["rank-left-no-record"], f"protocol {protocol}: {status} {findings}")
        status, _, err = run("flight", folder)
        check(status == 42 and "nccl_trace_rank_1: the pickle has the instruction" in err, f"flight, protocol {protocol}: {status} {err}")
    check(not trap.exists(), "a pickle was executed")


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        for job, ranks, of_nccl, of_flight, words in jobs():
            for how in [*range(6), "json"]:
                folder = work / f"{job}-{how}"
                folder.mkdir()
                write(folder, ranks, how)
                for command, expected in [("nccl", of_nccl), ("flight", of_flight)]:
                    status, findings, err = run(command, folder)
                    called = f"{command}, {job}, {how}: status {status}, {[one['cause'] for one in findings]}, {err}"
                    check([one["cause"] for one in findings] == expected and status == (2 if expected else 0), called)
                    if findings and how != "json" and expected[0] not in ("rank-left-no-record",):
                        said = json.dumps(findings[0], ensure_ascii=False)
                        check("train_step at /job/Größe/train.py:440" in said, called + said)
                people = subprocess.run([report, "nccl", folder], capture_output=True, text=True, timeout=60).stdout
                check(words in people, f"{job}, {how}: {people}")
        check_calls(work)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
