"""The package: `pip install .`, an entry point that torch finds without an import, one name shown, another torch refused."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import weft.torch
from weft import _library
from weft.torch import _version

ROOT = pathlib.Path(__file__).parents[2]

WITHOUT_IMPORT = """
import torch, torch.distributed as dist
dist.init_process_group("weft", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert tensor.tolist() == [1, 1, 1]
dist.destroy_process_group()
import weft.torch
print(weft.torch.__file__)
"""


class Package(unittest.TestCase):
    def test_wheel_installs_and_torch_finds_the_backend_without_an_import(self):
        with tempfile.TemporaryDirectory() as folder:
            built = subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder,
                                    "-C", "cmake.define.WEFT_CUDA_ARCHITECTURES=90", str(ROOT)],
                                   capture_output=True, text=True, timeout=1500)
            self.assertEqual(built.returncode, 0, built.stderr[-3000:] + built.stdout[-3000:])
            wheel, = pathlib.Path(folder).glob("weft-*.whl")
            names = zipfile.ZipFile(wheel).namelist()
            self.assertIn("+torch-", wheel.name)  # tests/python/wheel_test.py: beside the wheel without torch
            for name in ("weft/py.typed", "weft/__init__.py", f"weft/{_library.NAME}", "weft/torch/__main__.py", "weft/torch/_C.pyi", "weft/torch/torch_version.txt"):
                self.assertIn(name, names)
            self.assertFalse([name for name in names if name.startswith(("include", "lib", "bin"))], "the wheel has the module alone")
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", f"{folder}/there", str(wheel)], check=True, timeout=120)
            done = subprocess.run([sys.executable, "-c", WITHOUT_IMPORT], env=dict(os.environ, PYTHONPATH=f"{folder}/there"), capture_output=True,
                                  text=True, timeout=120, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            self.assertIn(f"{folder}/there", done.stdout)
            said = subprocess.run([sys.executable, "-m", "weft"], env={**os.environ, "PYTHONPATH": f"{folder}/there", "LD_LIBRARY_PATH": ""},
                                  check=True, capture_output=True, text=True, timeout=120, cwd=folder).stdout
            self.assertIn(f"{folder}/there/weft/{_library.NAME}", said)

    def test_module_shows_its_own_name_alone(self):
        names = subprocess.run(["nm", "-D", "--defined-only", weft.torch._C.__file__], check=True, capture_output=True, text=True).stdout
        self.assertEqual([line.split()[-1] for line in names.splitlines()], ["PyInit__C"])

    def test_every_name_it_offers_is_there(self):
        self.assertEqual([name for name in weft.torch.__all__ if not hasattr(weft.torch, name)], [])

    def test_another_torch_is_an_import_error_that_names_both(self):
        built_for = _version.built_for()
        _version.check(built_for)
        _version.check(built_for.split("+")[0] + "+cpu")
        with self.assertRaises(ImportError) as caught:
            _version.check("2.6.1")
        self.assertIn("2.6.1", str(caught.exception))
        self.assertIn(built_for, str(caught.exception))

    def test_what_was_found_is_printed(self):
        said = subprocess.run([sys.executable, "-m", "weft.torch"], check=True, capture_output=True, text=True, timeout=120).stdout
        for word in ("torch", "weft", "backend", "heap"):
            self.assertIn(f"{word} ", said)


if __name__ == "__main__":
    unittest.main()
