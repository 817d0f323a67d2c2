#!/usr/bin/env python3
"""src/c/abi.txt has all of weft.h; and tests/abi.py notices each change that breaks programs, and lets pass what breaks none.

usage: abi_test.py FOLDER_OF_THE_PROJECT
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(sys.argv[1])
FILES = ("include/weft/weft.h", "include/weft/core/version.hpp", "src/c/symbols.map", "src/c/abi.txt", "tests/abi.py")
H, MAP = FILES[0], FILES[2]

BROKEN = [  # (file, what stands there, what stands there then, what abi.py says)
    (H, "weft_status_t weft_work_free(weft_work_t work);\n", "", "weft_work_free is gone"),
    (H, "int weft_comm_size(weft_comm_t comm);", "int64_t weft_comm_size(weft_comm_t comm);", "weft_comm_size was WEFT_C_0.1 int (weft_comm_t), is WEFT_C_0.1 int64_t"),
    (H, "int weft_world_size(weft_world_t world);", "int weft_world_size(weft_world_t world, int part);", "weft_world_size was"),
    (H, "int weft_comm_node_of(weft_comm_t comm, int rank);", "int weft_comm_node_of(weft_comm_t comm, int64_t rank);", "weft_comm_node_of was"),
    (H, "void (*function)(void* context), void* context);", "void (*function)(void* context, int rank), void* context);", "weft_work_then was"),
    (H, "WEFT_TIMEOUT = 3", "WEFT_TIMEOUT = 7", "WEFT_TIMEOUT was number 3, is number 7"),
    (H, "#define WEFT_AGAIN (-1)", "#define WEFT_AGAIN (-2)", "WEFT_AGAIN was number -1, is number -2"),
    (H, "  int order;    // of sums", "  int64_t order;    // of sums", "weft_connect_options_t was"),
    (H, "  int private_memory;  //", "  int other;\n  int private_memory;  //", "weft_threads_options_t was"),
    (H, "  int order;    // of sums", "  int order;\n  int more;    // of sums", "weft_connect_options_t has got int more; where padding was"),
    (H, "typedef int weft_op_t;", "typedef unsigned char weft_op_t;", "is of no kind that abi.py knows"),
    (H, "typedef struct weft_buffer* weft_buffer_t;", "typedef struct weft_work* weft_buffer_t;", "is of no kind that abi.py knows"),
    (MAP, "    weft_zero_units;\n", "", "weft_zero_units was WEFT_C_0.1 int (weft_zero_t), is without a version"),
    (MAP, "    weft_zero_units;\n    weft_zero_whole;\n};", "    weft_zero_whole;\n};\nWEFT_C_0.2 {\n    weft_zero_units;\n} WEFT_C_0.1;", "is WEFT_C_0.2 int"),
]
NEW = [
    (H, "  int order;    // of sums", "  int order;\n  int64_t more;    // of sums", "weft_connect_options_t has got int64_t more;"),
    (H, "int weft_comm_size(weft_comm_t comm);", "int weft_comm_size(weft_comm_t comm);\nint weft_comm_more(weft_comm_t comm);", "weft_comm_more is new"),
    (H, "WEFT_BXOR = 7", "WEFT_BXOR = 7, WEFT_MORE = 8", "WEFT_MORE is new: number 8"),
]


class Abi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        for name in FILES:
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / name, self.top / name)

    def changed(self, file, old, new):
        text = (TOP / file).read_text()
        self.assertIn(old, text, "teach this test what stands there now")
        (self.top / file).write_text(text.replace(old, new, 1))

    def said(self, *arguments):
        done = subprocess.run([sys.executable, self.top / "tests/abi.py", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_the_record_has_all_of_the_header(self):
        status, said = self.said("--check")
        self.assertEqual(status, 0, said)
        self.assertEqual(self.said(TOP, self.top)[0], 0)
        self.assertGreater(int(said.split()[1]), 200, said)

    def test_what_breaks_programs_is_noticed_and_cannot_be_recorded(self):
        for change in BROKEN:
            with self.subTest(change[3]):
                self.setUp()
                self.changed(*change[:3])
                before = (self.top / "src/c/abi.txt").read_text()
                for arguments in (["--check"], ["--write"], [TOP, self.top]):
                    status, said = self.said(*arguments)
                    self.assertEqual(status, 1, said)
                    self.assertIn(change[3], said)
                self.assertEqual((self.top / "src/c/abi.txt").read_text(), before)

    def test_what_is_new_breaks_no_program_and_is_recorded(self):
        for change in NEW:
            with self.subTest(change[3]):
                self.setUp()
                self.changed(*change[:3])
                status, said = self.said(TOP, self.top)
                self.assertEqual(status, 0, said)
                self.assertIn(change[3], said)
                status, said = self.said("--check")
                self.assertEqual(status, 1, said)
                self.assertIn("without what is new; tests/abi.py --write", said)
                self.assertEqual(self.said("--write")[0], 0)
                self.assertEqual(self.said("--check")[0], 0)

    def test_another_minor_version_may_break_programs(self):
        self.changed(*BROKEN[0][:3])
        version = (TOP / FILES[1]).read_text()
        minor = version.split("#define WEFT_VERSION_MINOR ")[1].split()[0]
        (self.top / FILES[1]).write_text(version.replace(f"#define WEFT_VERSION_MINOR {minor}", f"#define WEFT_VERSION_MINOR {int(minor) + 1}"))
        self.assertEqual(self.said("--write")[0], 0)
        self.assertEqual(self.said("--check")[0], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
