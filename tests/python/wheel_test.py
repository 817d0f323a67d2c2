#!/usr/bin/env python3
"""weft's wheel without torch, made of this build: pip installs it in a venv without a network, its demo runs, and pip exchanges it as a whole.

usage: wheel_test.py BUILD_FOLDER FOLDER_OF_THE_PROJECT; ends with 77 where python3 makes no venv with pip.
"""
import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import ensurepip  # noqa: F401
    import venv  # noqa: F401
except ImportError:
    print(f"skipped: {sys.executable} makes no venv with pip (Debian: python3-venv)")
    sys.exit(77)

BUILD, TOP = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
# Neither the sources nor the library of the build are found by these.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_LIBRARY_PATH", "WEFT_"))}


def done(*command, status=0, **options):
    """Standard output of a command, which has to end with `status`; with another: standard error."""
    result = subprocess.run([*map(str, command)], env=PLAIN, capture_output=True, text=True, timeout=300, **options)
    if result.returncode != status:
        raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stderr if status else result.stdout


def made(out, *options, status=0):
    said = done(sys.executable, TOP / "launchers/packages/wheel.py", BUILD, out, *options, status=status)
    return said if status else next(out.glob("*.whl"))


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.wheel = made(cls.folder / "out", "--this-machine", "--programs", "weft-launch")
        done(sys.executable, "-m", "venv", cls.folder / "venv")
        cls.bin = cls.folder / "venv/bin"

    def pip(self, *arguments):
        return done(self.bin / "python", "-m", "pip", *arguments)

    def install(self, wheel=None):
        self.pip("install", "-q", "--no-index", "--disable-pip-version-check", wheel or self.wheel)

    def weft_of(self):
        """What pip has left of it, as files: {path below the venv}."""
        return {str(path.relative_to(self.bin.parent)) for path in self.bin.parent.rglob("*weft*") if "pycache" not in str(path)}

    def test_it_is_installed_and_runs_without_anything_else(self):
        self.install()
        found = done(self.bin / "python", "-m", "weft", cwd=self.folder)
        self.assertRegex(found, rf"from +{re.escape(os.path.realpath(self.folder))}/venv/.*/weft/libweft\.so")
        for command in ([self.bin / "python", "-m", "weft", "demo"], [self.bin / "weft-launch", "-n", 2, self.bin / "python", "-m", "weft", "demo"]):
            self.assertIn("Every sum was right on 2 ranks.", done(*command, cwd=self.folder))
        self.assertIn("weft-launch: ", done(self.bin / "weft-launch", "--nonsense", status=42))
        (program,) = self.bin.parent.glob("lib/*/site-packages/weft/bin/weft-launch")
        program.unlink()
        self.assertIn(f"weft-launch: cannot start {program}: No such file", done(self.bin / "weft-launch", "--version", status=70))
        self.pip("uninstall", "-q", "-y", "weft")
        self.assertEqual(self.weft_of(), set())

    def test_pip_exchanges_it_with_the_one_for_torch_as_a_whole(self):
        self.assertRegex((TOP / "pyproject.toml").read_text(), r'result = "\{major\}\.\{minor\}\.\{patch\}\+torch"')
        version = self.wheel.name.split("-")[1]
        other = self.folder / self.wheel.name.replace(version, f"{version}+torch")
        with zipfile.ZipFile(self.wheel) as ours, zipfile.ZipFile(other, "w") as torchs:  # the same, but for what differs: a module more, no programs
            for name in ours.namelist():
                if name.startswith("weft/bin/") or name.endswith(("entry_points.txt", "RECORD")):
                    continue
                text = ours.read(name)
                if name.endswith("METADATA"):
                    text = text.replace(f"Version: {version}".encode(), f"Version: {version}+torch".encode())
                torchs.writestr(name.replace(f"weft-{version}.", f"weft-{version}+torch."), text)
            torchs.writestr("weft/torch/__init__.py", "")
            names = [*torchs.namelist(), f"weft-{version}+torch.dist-info/RECORD"]
            torchs.writestr(names[-1], "".join(f"{name},,\n" for name in names))
        python = self.bin / "python"
        self.install()
        plain = self.weft_of()
        self.install(other)
        done(python, "-c", "import weft.torch, weft; assert weft.version()", cwd=self.folder)
        self.assertFalse((self.bin / "weft-launch").exists())
        self.install()
        self.assertIn("No module named 'weft.torch'", done(python, "-c", "import weft.torch", status=1, cwd=self.folder))
        self.assertEqual(self.weft_of(), plain)

    def test_its_record_is_right_and_the_same_files_give_the_same_bytes(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
            (record,) = [name for name in names if name.endswith("RECORD")]
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
            self.assertEqual({row[0] for row in rows}, names)
            for name, digest, size in rows:
                if name != record:
                    data = archive.read(name)
                    self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), name)
                    self.assertEqual(int(size), len(data), name)
            sources = {f"weft/{path.name}" for path in (TOP / "python/weft").glob("*.py")}
            self.assertLessEqual(sources | {"weft/py.typed", "weft/bin/weft-launch"}, names)
            self.assertFalse([name for name in names if name.startswith("weft/torch")])
        again = made(self.folder / "again", "--this-machine", "--programs", "weft-launch")
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())

    def test_what_not_every_machine_has_is_refused_in_one_sentence(self):
        nowhere = self.folder / "nowhere"
        said = made(nowhere, "--programs", "", status=70)
        self.assertRegex(said, r"^wheel\.py: \S+/libweft\.so\.\S+ needs \S+, which not every Linux has; build it as launchers/packages/wheel\.sh does, or .*\n$")
        said = done(sys.executable, TOP / "launchers/packages/wheel.py", self.folder, nowhere, status=70)
        self.assertRegex(said, r"^wheel\.py: there is no \S+/lib/libweft\.so\.\S+; build it before\n$")
        said = made(nowhere, "--programs", "weft-sing", status=42)
        self.assertEqual(said, "wheel.py: --programs weft-sing: there are weft-launch, weft-plan, weft-report\n")
        self.assertFalse(nowhere.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
