#!/usr/bin/env python3
"""Makes weft's wheel without torch of a build folder: python/weft, libweft.so, and programs, for any Python from 3.9 on.

    launchers/packages/wheel.py BUILD OUT [--programs NAME,...] [--this-machine]

launchers/packages/wheel.sh builds first, as a wheel has to be built. What libweft.so and the programs need of other libraries is C's and C++'s own, which
every Linux has, or one of INSIDE, which goes into the wheel; anything else is refused. The name of the wheel then ends with manylinux and the oldest
version of glibc that will do, as auditwheel names it: pip takes it where that is as new or newer. With --this-machine nothing goes inside and nothing is
refused; the name ends with linux, which says that it is for the machine that made it.

The standard library of Python does it, with readelf and strip of binutils, and ldd. The same files give the same bytes.

Exit status: 0 made, 42 wrong usage, 70 refused, or what is needed is not there.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

TOP = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {"weft-launch": "launch", "weft-plan": "plan", "weft-report": "report"}  # and their functions in python/weft/_programs.py
OF_THE_HOST = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2",
               "ld-linux-aarch64.so.1"}
INSIDE = re.compile(r"lib(hwy|yaml-cpp|pugixml)\.so\.[\d.]+")
# Debian's packages of what is in the wheel, as a file beside it or compiled in: their licences go with it.
NOTICES = ("libhwy-dev", "libyaml-cpp-dev", "libpugixml-dev", "libssl-dev", "libboost1.81-dev", "libxxhash-dev")
# The glibc 2.x with which distributions first had libstdc++ of GLIBCXX_3.4.y: as PEP 600's policies in auditwheel have it.
GLIBC_BESIDE = {28: 31, 29: 34, 30: 35}
MOST_MB = 20
EPOCH = (1980, 1, 1, 0, 0, 0)  # of a zip


class Refused(Exception):
    pass


def output(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    except FileNotFoundError:
        raise Refused(f"there is no {command[0]} here; install binutils") from None
    except subprocess.CalledProcessError as error:
        raise Refused(f"{' '.join(map(str, command))} failed: {error.stderr.strip()}") from None


def dynamic(path):
    """(the libraries that it needs, the folders where it looks for them)."""
    text = output("readelf", "-d", path)
    folders = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), [folder for line in folders for folder in line.split(":")]


def library_of(version):
    return f"libweft.so.{'.'.join(version.split('.')[:2])}"  # python/weft/_library.py names it so


def version_of(top):
    found = re.findall(r"#define WEFT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (top / "include/weft/core/version.hpp").read_text())
    return ".".join(found)


def brought(path, place):
    """What a file needs beside it: {name: where this machine has it}. Raises Refused for what may not be needed."""
    needed, folders = dynamic(path)
    others = [name for name in needed if name not in OF_THE_HOST]
    for name in others:
        if not INSIDE.fullmatch(name):
            raise Refused(f"{path} needs {name}, which not every Linux has; build it as launchers/packages/wheel.sh does, or give --this-machine")
    wrong = [folder for folder in folders if folder not in ("$ORIGIN", "$ORIGIN/..")]  # an empty one is wherever the user stands
    if wrong or others and place not in folders:
        raise Refused(f"{path} looks for libraries in \"{':'.join(folders)}\"; in the wheel they are in {place} alone; build it as launchers/packages/wheel.sh does")
    where = dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", path), re.M)) if others else {}
    for name in others:
        if name not in where:
            raise Refused(f"{path} needs {name}, which is not on this machine")
        more = [one for one in dynamic(where[name])[0] if one not in OF_THE_HOST]
        if more:
            raise Refused(f"{where[name]} needs {', '.join(more)}, and does not look for it beside itself")
    return {name: where[name] for name in others}


def platform_of(binaries, this_machine):
    if this_machine:
        return f"linux_{platform.machine()}"
    asked = "".join(output("readelf", "-W", "--version-info", path) for path in binaries)
    glibc = max(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", asked))
    libstdcxx = max(int(last) for last in re.findall(r"Name: GLIBCXX_3\.4\.(\d+)", asked))
    if libstdcxx > max(GLIBC_BESIDE):
        raise Refused(f"weft needs GLIBCXX_3.4.{libstdcxx}; say in GLIBC_BESIDE, in {__file__}, which glibc came with it")
    oldest = min(minor for last, minor in GLIBC_BESIDE.items() if last >= libstdcxx)
    return f"manylinux_2_{max(glibc, oldest)}_{platform.machine()}"


def stripped(path):
    with tempfile.TemporaryDirectory() as folder:
        output("strip", "--strip-unneeded", "-o", f"{folder}/file", path)
        return pathlib.Path(f"{folder}/file").read_bytes()


def notices():
    for package in NOTICES:
        path = pathlib.Path(f"/usr/share/doc/{package}/copyright")
        if not path.exists():
            raise Refused(f"there is no {path}: what is in the wheel goes with its licence; make the wheel on Debian 12, or give --this-machine")
        yield f"licenses/{package}.txt", path.read_bytes()


def binaries_of(build, version, programs):
    """{path in the wheel: path in the build}"""
    found = {f"weft/{library_of(version)}": build / "lib" / library_of(version), **{f"weft/bin/{name}": build / "bin" / name for name in programs}}
    for path in found.values():
        if not path.exists():
            raise Refused(f"there is no {path}; build it before")
    return found


def contents(binaries, this_machine):
    """{path in the wheel: (bytes, whether it is executed)}"""
    files = {}
    for path in [*sorted((TOP / "python/weft").glob("*.py")), TOP / "python/weft/py.typed"]:
        files[f"weft/{path.name}"] = path.read_bytes(), False
    for place, path in binaries.items():
        files[place] = stripped(path), True
        if not this_machine:
            for name, where in brought(path, "$ORIGIN/.." if "/bin/" in place else "$ORIGIN").items():
                files[f"weft/{name}"] = stripped(where), True
    return files


def described(version, tag, programs):
    entry = "".join(f"{name} = weft._programs:{PROGRAMS[name]}\n" for name in programs)
    return {
        "METADATA": ("Metadata-Version: 2.1\nName: weft\n" f"Version: {version}\n"
                     "Summary: The communication of distributed training, for Python without PyTorch\n"
                     "License: Apache-2.0\nRequires-Python: >=3.9\n\n"
                     "`import weft`: collectives, messages and reducers for trainers in NumPy, JAX on the host, or plain Python.\n"
                     "`python3 -m weft demo` tries it on this machine.\n"),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n",
        **({"entry_points.txt": f"[console_scripts]\n{entry}"} if programs else {}),
    }


def make(build, out, programs, this_machine):
    version = version_of(TOP)
    binaries = binaries_of(build, version, programs)
    files, tag = contents(binaries, this_machine), platform_of(binaries.values(), this_machine)
    info = f"weft-{version}.dist-info"
    for name, text in described(version, tag, programs).items():
        files[f"{info}/{name}"] = text.encode(), False
    files[f"{info}/licenses/LICENSE"] = (TOP / "LICENSE").read_bytes(), False
    if not this_machine:
        files.update({f"{info}/{name}": (data, False) for name, data in notices()})
    record = ""
    for name, (data, _) in files.items():
        record += f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode(), False
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"weft-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, is_executed) in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100755 if is_executed else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    megabytes = wheel.stat().st_size / 1e6
    if megabytes > MOST_MB and not this_machine:
        wheel.unlink()
        raise Refused(f"the wheel has {megabytes:.1f} MB; {MOST_MB} are what it may have")
    unpacked = sum(len(data) for data, _ in files.values()) / 1e6
    print(f"{megabytes:8.1f} MB  {wheel} ({unpacked:.1f} MB installed)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: sys.exit(print(f"wheel.py: {message}", file=sys.stderr) or 42)
    parser.add_argument("build", type=pathlib.Path, help="folder of the build, with lib/ and bin/")
    parser.add_argument("out", type=pathlib.Path, help="folder for the wheel")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="that go in (default: %(default)s); empty: none")
    parser.add_argument("--this-machine", action="store_true", help="the wheel is for this machine alone, and may need what is on it")
    options = parser.parse_args()
    programs = [name for name in options.programs.split(",") if name]
    for name in programs:
        if name not in PROGRAMS:
            parser.error(f"--programs {options.programs}: there are {', '.join(PROGRAMS)}")
    try:
        make(options.build, options.out, programs, options.this_machine)
    except (Refused, OSError) as error:
        sys.exit(print(f"wheel.py: {error}", file=sys.stderr) or 70)


if __name__ == "__main__":
    main()
