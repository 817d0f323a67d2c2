#!/usr/bin/env python3
"""What the tree takes from outside belongs to a package that launchers/setup.sh installs, or to what those depend on.

    tests/packages.py [FOLDER OF THE PROJECT]     prints what does not, and exits 1; 77 where there is no dpkg

1. Every header in <> that a source includes: where the preprocessor finds it, and whose file that is (dpkg -S).
2. Every program that a script calls, where a command stands: whose file it is. A script that asks `command -v NAME` first
   copes without it, and needs no package for it.

A machine that somebody worked on has more than the list says, so it hides a missing line; this test does not.
"""
import os
import re
import shutil
import subprocess
import sys

# Compiled only where their toolkit is, which setup.sh cannot install (docs/dependencies.md), or with the torch of a Python (setup.sh torch).
TOOLKIT = re.compile(r"^(cuda.*\.h|cublas_v2\.h|nccl\.h|(ATen|c10|torch|pybind11)/.*)$")
SOURCES = (".cpp", ".hpp", ".cu", ".cuh", ".h")
FOLDERS = ("src", "include", "tools", "tests", "bench", "examples")
KEYWORDS = set("if then else elif fi for while until do done case esac in function select time { } ! [[ ]] coproc".split())
PREFIXES = set("exec env sudo nice timeout command builtin nohup setsid xargs".split())  # a command follows
# Of a machine of a cluster, in a script that only runs there.
ELSEWHERE = {"srun", "scontrol"}


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options).stdout


def setups_packages(root):
    """The names in setup.sh's lists, for the tests."""
    text = open(f"{root}/launchers/setup.sh").read()
    lists = re.findall(r"^packages=\((.*?)\)", text, re.S | re.M) + re.findall(r"test(?: \| fuzz)?\) packages\+=\((.*?)\)", text, re.S)
    if len(lists) != 2:
        sys.exit("packages.py: setup.sh has its two lists elsewhere now; teach this script where")
    return [word for line in lists for word in line.split()]


def closure(names):
    """The packages and all that they depend on, as dpkg has them; with what every Debian has."""
    depends, provided, essential = {}, {}, []
    form = "${Package}\t${Essential}\t${Priority}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    for line in output("dpkg-query", "-W", "-f", form).splitlines():
        package, is_essential, priority, provides, needs = line.split("\t")
        depends.setdefault(package, []).extend(re.split(r"[,|]", needs))
        for name in provides.split(","):
            provided.setdefault(name.split("(")[0].strip().split(":")[0], []).append(package)
        if is_essential == "yes" or priority in ("required", "important"):
            essential.append(package)
    seen, todo = set(), list(names) + essential
    while todo:
        name = todo.pop().split("(")[0].strip().split(":")[0]
        if not name or name in seen:
            continue
        seen.add(name)
        todo.extend(depends.get(name, []))
        todo.extend(provided.get(name, []))
    return seen


def owners(paths):
    """The packages that a file belongs to, for each path."""
    result = {}
    for start in range(0, len(paths), 200):
        asked = {}
        for path in paths[start:start + 200]:
            real = os.path.realpath(path)
            # /usr/bin and /bin are one folder on a machine, and two in dpkg's lists
            for name in {path, real, re.sub(r"^/usr", "", real), "/usr" + real}:
                asked.setdefault(name, set()).add(path)  # two links may lead to one file
        for line in output("dpkg", "-S", *asked).splitlines():
            packages, _, file = line.rpartition(": ")
            if file in asked and not packages.startswith("diversion"):
                for path in asked[file]:
                    result.setdefault(path, set()).update(p.split(":")[0] for p in packages.split(", "))
    return result


def files(root, folders, endings):
    for folder in folders:
        for where, below, names in os.walk(f"{root}/{folder}"):
            below[:] = [name for name in below if name not in ("build", ".git", "torch_stand_in")]
            for name in names:
                if name.endswith(endings):
                    yield os.path.join(where, name)


def headers(root):
    """Header -> a source that includes it."""
    found = {}
    for path in files(root, FOLDERS, SOURCES):
        for name in re.findall(r'^ *# *include *<([^>]+)>', open(path).read(), re.M):
            if not name.startswith("weft/") and not TOOLKIT.match(name):
                found.setdefault(name, os.path.relpath(path, root))
    return found


def header_paths(names):
    """Where the preprocessor finds them; what it does not find is left out."""
    flags = ["-I" + path for path in ("/usr/include/x86_64-linux-gnu", "/usr/include/openblas", "/usr/lib/x86_64-linux-gnu/pmix2/include") if os.path.isdir(path)]
    for word in output("mpicxx", "--showme:compile").split() if shutil.which("mpicxx") else []:
        if word.startswith("-I"):
            flags.append(word)
    result = {}
    for name in names:
        text = f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
        made = subprocess.run(["g++", "-std=c++20", "-E", "-x", "c++", "-", *flags], input=text, capture_output=True, text=True)
        match = re.search(rf'^# \d+ "([^"]*/{re.escape(name)})" 1', made.stdout, re.M)
        if match:
            result[name] = match.group(1)
    return result


def without_text(script):
    """A script without what it quotes, comments or hands on as a document."""
    script = re.sub(r"<<-?\s*(['\"]?)(\w+)\1.*?^\s*\2$", "", script, flags=re.S | re.M)
    script = script.replace("\\\n", " ")
    result, calls, i = [], [], 0
    while i < len(script):
        c = script[i]
        if c == "\\":
            i += 2
        elif c == "'":
            end = script.find("'", i + 1)
            i = (end if end > 0 else len(script)) + 1
            result.append("TEXT")
        elif c == '"':
            i += 1
            inside = []
            while i < len(script) and script[i] != '"':
                step = 2 if script[i] == "\\" else 1
                inside.append(script[i:i + step])
                i += step
            i += 1
            result.append("TEXT")
            calls += re.findall(r"\$\(([^()]*)\)", "".join(inside))  # what it runs for its words
        elif c == "#" and (i == 0 or script[i - 1] in " \t\n;("):
            while i < len(script) and script[i] != "\n":
                i += 1
        else:
            result.append(c)
            i += 1
    return "\n".join(["".join(result), *calls])


def programs(root):
    """Program -> a script that calls it, for those that stand where a command does and are names of programs."""
    found = {}
    builtins = set(output("bash", "-c", "compgen -b").split())
    scripts = [*files(root, ("tests", "launchers", "bench"), (".sh",)), f"{root}/.ci/run"]
    own = {name for path in scripts for name in re.findall(r"^ *([\w-]+)\(\)", open(path).read(), re.M)}
    for path in scripts:
        text = open(path).read()
        asked = set(re.findall(r"command -v ([\w.+-]+)", text))
        plain = without_text(text)
        plain = re.sub(r"\$\(\(.*?\)\)|\(\(.*?\)\)|\$\{[^{}]*\}", "VALUE", plain, flags=re.S)
        plain = re.sub(r"^\s*[^\n()$]*[^\s(]\)(?=\s)", "\n", plain, flags=re.M)  # a case's pattern
        plain = re.sub(r"\w+\+?=\([^()]*\)", " ", plain)  # lists
        for command in re.split(r"\$\(|`|[;&|\n(){}]", plain):
            words = command.split()
            while words and (words[0] in KEYWORDS or words[0] in PREFIXES or re.match(r"^(\w+\+?=|-|\d|[<>])", words[0])):
                if words[0] in ("for", "case", "select", "[["):
                    words = []
                    break
                words.pop(0)
            name = words[0] if words else ""
            if re.match(r"^[a-z][\w.+-]*$", name) and name not in builtins | own | asked | ELSEWHERE:
                found.setdefault(name, os.path.relpath(path, root))
    return found


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))
    if not shutil.which("dpkg-query"):
        print("packages.py: there is no dpkg here, so nobody says whose file is whose")
        sys.exit(77)
    allowed = closure(setups_packages(root))
    wanted = headers(root)
    where = header_paths(wanted)
    called = programs(root)
    paths = {name: shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") for name in called}
    of = owners(sorted(set(where.values()) | {path for path in paths.values() if path}))
    bad = []
    for name, source in sorted(wanted.items()):
        packages = of.get(where.get(name), set())
        if not packages & allowed:
            found = f"belongs to {', '.join(sorted(packages))}" if packages else "is not installed, or of no package"
            bad.append(f"{source} includes <{name}>, which {found}: not in launchers/setup.sh")
    for name, script in sorted(called.items()):
        packages = of.get(paths[name], set())
        if not packages & allowed:
            found = f"belongs to {', '.join(sorted(packages))}" if packages else "is not installed, or of no package"
            bad.append(f"{script} calls {name}, which {found}: not in launchers/setup.sh, and not asked for with command -v")
    print("\n".join(bad) if bad else f"{len(wanted)} headers and {len(called)} programs, all of them of packages that setup.sh installs")
    if len(wanted) < 20 or len(called) < 20:
        bad.append("")
        print("packages.py: so few were found that its reading of the tree must be wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
