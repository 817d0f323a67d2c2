#!/usr/bin/env python3
"""weft in Python on ranks that are processes: under weft-launch and by variables; deaths, exceptions, fork() and the end of a program, as others see them.

usage: ranks_test.py WEFT_LAUNCH [MPIRUN or ""] [unittest's arguments], with libweft.so in LD_LIBRARY_PATH and python/ in PYTHONPATH.
"""
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

LAUNCH, MPIRUN = sys.argv[1], sys.argv[2]


def launched(ranks, program, launcher=None, **environment):
    """(status, standard output, standard error) of a program on so many ranks."""
    launcher = launcher or [LAUNCH, "-n", str(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WEFT_CONNECT_TIMEOUT": "60", "WEFT_TIMEOUT": "60", "WEFT_FLIGHT_DIR": folder, **environment}
        done = subprocess.run([*launcher, sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr


EVERYTHING = """
    import array, weft
    def main():
        weft.world().barrier().wait()
        comm = weft.world()
        assert weft.world() is comm
        data = array.array("d", range(1000))
        comm.all_reduce(data, op="avg").wait()
        assert data == array.array("d", range(1000)), data
        whole = array.array("q", [0] * comm.size)
        comm.all_gather(array.array("q", [comm.rank]), whole).wait()
        assert whole.tolist() == list(range(comm.size)), whole
        group, left = comm.group(), array.array("i", [0])
        group.receive(left, (comm.rank - 1) % comm.size)
        group.send(array.array("i", [comm.rank]), (comm.rank + 1) % comm.size)
        group.start().wait()
        assert left[0] == (comm.rank - 1) % comm.size
        part = comm.split(comm.rank % 2)
        part.barrier().wait()
        print(f"rank {comm.rank} of {comm.size}: right, over {comm.backend}", flush=True)
    weft.run(main)
    """


class Ranks(unittest.TestCase):
    def right(self, ranks, result):
        status, output, errors = result
        self.assertEqual(status, 0, output + errors)
        self.assertEqual(sorted(re.findall(r"rank (\d+) of", output)), [str(rank) for rank in range(ranks)], output + errors)

    def test_operations_under_weft_launch(self):
        for ranks in (1, 2, 4):
            self.right(ranks, launched(ranks, EVERYTHING))

    def test_operations_with_the_callers_thread_and_with_one_of_weft(self):
        for progress in ("inline", "thread"):
            self.right(2, launched(2, EVERYTHING, WEFT_PROGRESS=progress))

    def test_operations_under_mpirun(self):
        if not MPIRUN:
            self.skipTest("skipped: this build has no MPI")
        launcher = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
        self.right(2, launched(2, EVERYTHING, launcher))

    def test_demo(self):
        done = subprocess.run([sys.executable, "-m", "weft", "demo"], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Every sum was right on 2 ranks.", done.stdout)
        self.assertEqual(len(re.findall(r"GB/s", done.stdout)), 6, done.stdout)
        done = subprocess.run([LAUNCH, "-n", "3", sys.executable, "-m", "weft", "demo"], capture_output=True, text=True, timeout=200)
        self.assertIn("Every sum was right on 3 ranks.", done.stdout, done.stderr)
        done = subprocess.run([sys.executable, "-m", "weft", "demo", "--ranks", "0"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (42, ""), done.stderr)

    def test_what_was_found(self):
        said = subprocess.run([sys.executable, "-m", "weft"], check=True, capture_output=True, text=True, timeout=60).stdout
        for word in ("Python", "libweft", "from", "alone"):
            self.assertRegex(said, f"(?m)^{word} ")

    def test_a_type_that_differs_ends_all_with_42(self):
        status, _, errors = launched(2, """
            import array, weft
            def main():
                comm = weft.world()
                comm.all_reduce(array.array("f" if comm.rank else "d", [1, 2])).wait()
            weft.run(main)
            """)
        self.assertEqual(status, 42, errors)
        self.assertRegex(errors, r"weft: rank \d: all_reduce #1: ranks disagree: rank 0 issued all_reduce #1 of 2 f64")
        self.assertNotIn("Traceback", errors)

    def test_an_exception_of_one_rank_reaches_the_others_with_its_words(self):
        body = """
            if comm.rank == 1:
                raise KeyError("the batch")
            try:
                comm.barrier().wait()
            except weft.Error as error:
                print("told:", error, flush=True)
                raise
            """
        inside = "import weft\nwith weft.world() as comm:" + textwrap.indent(textwrap.dedent(body), "    ")
        plain = "import weft\ncomm = weft.world()\n" + textwrap.dedent(body)
        for program in (inside, plain):
            status, output, errors = launched(2, program)
            self.assertNotEqual(status, 0)
            self.assertRegex(output, "told: weft: .*KeyError: 'the batch'", errors)
            self.assertIn("Traceback", errors)

    def test_an_exception_beside_work_that_is_under_way_ends_all_at_once(self):
        for program in ("with weft.world() as comm:\n    train(comm)", "comm = weft.world()\ntrain(comm)"):
            begin = time.monotonic()
            status, output, errors = launched(2, """
import array, time, weft
def train(comm):
    comm.barrier().wait()
    if comm.rank == 1:
        comm.all_reduce(array.array("f", [0]) * 1000000)
        raise KeyError("the batch")
    time.sleep(1)
    try:
        comm.barrier().wait()
    except weft.Error as error:
        print("told:", error, flush=True)
        raise
""" + program)
            self.assertNotEqual(status, 0)
            self.assertRegex(output, "told: weft: .*rank 1", errors)
            self.assertIn("KeyError: 'the batch'", errors)
            self.assertLess(time.monotonic() - begin, 30)

    def test_a_rank_that_leaves_is_told(self):
        for leave in ("raise SystemExit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"):
            _, output, errors = launched(2, f"""
                import weft
                comm = weft.world()
                comm.barrier().wait()
                if comm.rank == 1:
                    {leave}
                try:
                    comm.barrier().wait()
                    print("nobody has left")
                except weft.PeerLostError as error:
                    print("told:", error, flush=True)
                """)
            self.assertRegex(output, "told: weft: .*rank 1", errors)

    def test_a_program_ends_while_work_is_under_way(self):
        status, output, errors = launched(2, """
            import array, time, weft
            comm = weft.world()
            if comm.rank == 0:
                comm.all_reduce(array.array("f", [0]) * 1000000)
                print("ends", flush=True)
            else:
                try:
                    time.sleep(2)
                    comm.all_reduce(array.array("f", [0]) * 1000000).wait(30)
                except weft.Error as error:
                    print("told:", error, flush=True)
            """)
        self.assertIn("ends", output, errors)
        self.assertNotIn("Segmentation", errors)
        self.assertGreaterEqual(status, 0)

    def test_a_child_after_fork_gets_errors_and_its_parent_goes_on(self):
        status, output, errors = launched(2, """
            import array, os, weft
            comm = weft.world()
            work = comm.barrier()
            mine = array.array("q", [comm.rank])
            child = os.fork()
            if child == 0:
                said = []
                for call in (lambda: comm.all_reduce(mine).wait(), work.wait, lambda: comm.send(mine, 0).wait(), lambda: comm.split(0)):
                    try:
                        call()
                        said.append("nothing")
                    except weft.UsageError as error:
                        said.append(str(error))
                with weft.alone() as own:
                    own.all_reduce(mine).wait()
                comm.close()
                print(f"child of {comm.rank}:", *said, sep="|", flush=True)
                raise SystemExit(0)
            assert os.waitpid(child, 0)[1] == 0
            work.wait()
            comm.all_reduce(mine).wait()
            print(f"parent {comm.rank}: {mine[0]}", flush=True)
            """)
        self.assertEqual(status, 0, output + errors)
        for rank in (0, 1):
            said = re.search(rf"child of {rank}:\|(.*)", output)[1].split("|")
            self.assertEqual(len(said), 4)
            self.assertRegex(said[0], f"parent.*rank {rank}|rank {rank}.*parent|fork", output)
            self.assertIn("is of the parent of this process", said[1])
            for words in said:
                self.assertTrue(words.startswith("weft: "), words)
            self.assertIn(f"parent {rank}: 1", output)

    def test_a_rank_that_never_came_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            status, _, errors = launched(1, f"""
                import weft
                weft.run(lambda: weft.world(rank=0, size=2, rendezvous="file://{folder}/meet", connect_timeout=1))
                """, launcher=["env"])
        self.assertEqual(status, 75, errors)
        self.assertRegex(errors, "weft: .*rank 1")

    def test_ctrl_c_ends_a_wait(self):
        status, output, errors = launched(2, """
            import os, signal, threading, time, weft
            with weft.world() as comm:
                if comm.rank == 1:
                    time.sleep(4)
                work = comm.barrier()
                if comm.rank == 0:
                    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                    begin = time.monotonic()
                    try:
                        work.wait()
                        print("not interrupted")
                    except KeyboardInterrupt:
                        print("heard in time" if time.monotonic() - begin < 3 else "heard late", flush=True)
                work.wait()
            """)
        self.assertEqual((status, output), (0, "heard in time\n"), errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
