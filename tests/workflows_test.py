#!/usr/bin/env python3
""".github/workflows and .pre-commit-config.yaml are well formed, and name what there is: presets, scripts with words that they take, values of
the matrix, jobs, the same versions of a tool everywhere.

usage: workflows_test.py [FOLDER_OF_THE_PROJECT]
No machine here runs workflows; this is what can be known without one. Before the tree, the checks are tried on workflows that are wrong in one way each.
Status 77 where there is no PyYAML.
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("skipped: there is no PyYAML here")
    sys.exit(77)

TOP_KEYS = {"name", "on", "permissions", "env", "concurrency", "defaults", "jobs", "run-name"}
JOB_KEYS = {"name", "needs", "if", "permissions", "runs-on", "environment", "concurrency", "outputs", "env", "defaults", "steps", "timeout-minutes",
            "strategy", "continue-on-error", "container", "services"}
STEP_KEYS = {"id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env", "continue-on-error", "timeout-minutes"}
CONTEXTS = {"github", "matrix", "env", "secrets", "steps", "needs", "runner", "job", "inputs", "vars", "strategy", "hashFiles"}
SCRIPT = re.compile(r"(?<![\w./-])((?:launchers|tests|tools|bench|docs|\.ci)/[\w./-]+)((?: +[^\s;|&<>\"']+)?)")
PRESET = re.compile(r"\b(cmake --build|cmake|ctest)\b[^;&|\n]*? --preset[ =]([\w-]+)")
PRESETS = {"cmake": "configurePresets", "cmake --build": "buildPresets", "ctest": "testPresets"}


def combinations(matrix):
    """The jobs of a matrix, as GitHub makes them: the product, without `exclude`, and `include` added to those that it agrees with."""
    axes = {key: values for key, values in matrix.items() if key not in ("include", "exclude")}
    jobs = [dict(zip(axes, values)) for values in itertools.product(*axes.values())] if axes else []
    jobs = [job for job in jobs if not any(all(job.get(k) == v for k, v in one.items()) for one in matrix.get("exclude", []))]
    for extra in matrix.get("include", []):
        fitting = [job for job in jobs if all(job[key] == extra[key] for key in axes if key in extra)]
        for job in fitting:
            job.update(extra)
        if not fitting:
            jobs.append(dict(extra))
    return jobs or [{}]


def filled(value, matrix):
    """`value` with ${{ matrix.NAME }} replaced; a name that is not there stays."""
    if isinstance(value, str):
        return re.sub(r"\$\{\{ *matrix\.([\w-]+) *\}\}", lambda m: str(matrix.get(m[1], m[0])), value)
    if isinstance(value, dict):
        return {key: filled(one, matrix) for key, one in value.items()}
    return [filled(one, matrix) for one in value] if isinstance(value, list) else value


def texts(value):
    """All strings in a value of YAML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)


class Tree:
    """What a workflow may name."""

    def __init__(self, top):
        self.top = top
        presets = json.loads((top / "CMakePresets.json").read_text())
        self.presets = {kind: {one["name"] for one in presets[kind] if not one.get("hidden")} for kind in PRESETS.values()}

    def of_command(self, run):
        """What is wrong with the commands of a step."""
        checked = subprocess.run(["bash", "-n"], input=run, capture_output=True, text=True)
        if checked.returncode:
            yield f"bash does not read it: {checked.stderr.strip()}"
        for program, preset in PRESET.findall(run):
            if preset not in self.presets[PRESETS[program]]:
                yield f"{program} --preset {preset}: there is no such preset"
        for script, word in SCRIPT.findall(run):
            path = self.top / script
            word = word.strip()
            if not path.is_file():
                if not path.is_dir():
                    yield f"there is no {script}"
            elif script.endswith(".sh") and re.match(r"^[a-z][a-z-]*$", word) and not re.search(rf"\b{re.escape(word)}\b", path.read_text()):
                yield f"{script} knows no {word}"
            elif not path.stat().st_mode & 0o100 and not re.search(rf"(bash|sh|python3) +{re.escape(script)}", run):
                yield f"{script} is not executable"


def of_step(tree, step):
    if unknown := set(step) - STEP_KEYS:
        yield f"unknown: {', '.join(sorted(unknown))}"
    if ("uses" in step) == ("run" in step):
        yield "a step has either uses or run"
    if "uses" in step and not re.match(r"^[\w-]+/[\w./-]+@(v\d+(\.\d+)*|[0-9a-f]{40})$", step["uses"]):
        yield f"uses {step['uses']}, without a version"
    for text in texts(step):
        for name in re.findall(r"\$\{\{ *matrix\.([\w-]+)", text):
            yield f"the matrix has no {name} here"
    if "run" in step:
        yield from tree.of_command(re.sub(r"\$\{\{.*?\}\}", "VALUE", step["run"]))


def of_workflow(tree, text):
    """What is wrong with a workflow."""
    try:
        flow = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"no YAML: {error}"
        return
    flow = {("on" if key is True else key): value for key, value in flow.items()}  # YAML 1.1 takes on for true
    if unknown := set(flow) - TOP_KEYS:
        yield f"unknown: {', '.join(sorted(unknown))}"
    if missing := {"name", "on", "permissions", "jobs"} - set(flow):
        yield f"missing: {', '.join(sorted(missing))}"
    for expression in re.findall(r"\$\{\{ *(.*?) *\}\}", text):
        for context in re.findall(r"(?<![\w.'])([A-Za-z_]\w*)(?=[.(])", expression):
            if context not in CONTEXTS:
                yield f"${{{{ {expression} }}}}: nothing is called {context}"
    for name, job in flow.get("jobs", {}).items():
        if unknown := set(job) - JOB_KEYS:
            yield f"{name}: unknown: {', '.join(sorted(unknown))}"
        for key in ("runs-on", "steps"):
            if key not in job:
                yield f"{name}: no {key}"
        needs = job.get("needs", [])
        for other in [needs] if isinstance(needs, str) else needs:
            if other not in flow["jobs"]:
                yield f"{name} needs {other}, which is no job"
        said = set()
        for matrix in combinations(job.get("strategy", {}).get("matrix", {})):
            for number, step in enumerate(job.get("steps", []), 1):
                for complaint in of_step(tree, filled(step, matrix)):
                    if complaint not in said:
                        said.add(complaint)
                        yield f"{name}, step {number}: {complaint}"


def of_hooks(tree, text):
    """What is wrong with .pre-commit-config.yaml."""
    for repository in yaml.safe_load(text)["repos"]:
        for hook in repository["hooks"]:
            if repository["repo"] == "local" and not {"name", "entry", "language"} <= set(hook):
                yield f"{hook['id']}: a local hook has name, entry and language"
            for package in hook.get("additional_dependencies", []):
                if "==" not in package:
                    yield f"{hook['id']}: {package} has no version"
            if "files" in hook:
                re.compile(hook["files"])
            for complaint in tree.of_command(hook.get("entry", "")):
                yield f"{hook['id']}: {complaint}"


def try_the_checks(tree):
    good = {"name": "a", "on": {"push": None}, "permissions": {"contents": "read"},
            "jobs": {"b": {"runs-on": "ubuntu-24.04", "strategy": {"matrix": {"preset": ["dev", "asan"]}},
                           "steps": [{"uses": "actions/checkout@v4"}, {"run": "tests/run.sh dev\ncmake --preset ${{ matrix.preset }}"}]}}}

    def expect(words, **changed):
        job = {**good["jobs"]["b"], **changed.pop("job", {})}
        job["steps"] = job["steps"] + ([changed.pop("step")] if "step" in changed else [])
        said = list(of_workflow(tree, yaml.safe_dump({**good, "jobs": {"b": job}, **changed})))
        if (words is None and said) or (words and (len(said) != 1 or words not in said[0])):
            sys.exit(f"workflows_test.py: of a workflow with {words or 'nothing wrong'} it says {said}")

    expect(None)
    expect("there is no such preset", step={"run": "cmake --preset devel"})
    expect("--preset quickstart: there is no such preset", step={"run": "ctest -j 4 --preset quickstart"})
    expect("there is no tests/ran.sh", step={"run": "tests/ran.sh"})
    expect("knows no devel", step={"run": "launchers/setup.sh devel"})
    expect("is not executable", step={"run": "tests/mutations.tsv"})
    expect("bash does not read it", step={"run": "if true; then echo"})
    expect("without a version", step={"uses": "actions/checkout@main"})
    expect("the matrix has no compiler", step={"run": "echo ${{ matrix.compiler }}"})
    expect("either uses or run", step={"name": "nothing"})
    expect("unknown: runs", step={"run": "true", "runs": "on"})
    expect("nothing is called githb", step={"run": "echo ${{ githb.sha }}"})
    expect("needs c, which is no job", job={"needs": "c"})
    expect("unknown: job", job={}, **{"job-": 1})
    found = combinations({"a": [1, 2], "b": ["x", "y"], "exclude": [{"a": 1, "b": "x"}], "include": [{"b": "y", "c": 3}, {"a": 9, "b": "z"}]})
    if found != [{"a": 1, "b": "y", "c": 3}, {"a": 2, "b": "x"}, {"a": 2, "b": "y", "c": 3}, {"a": 9, "b": "z"}]:
        sys.exit(f"workflows_test.py: the matrix is {found}")


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    tree = Tree(top)
    try_the_checks(tree)
    flows = sorted((top / ".github/workflows").glob("*.yml"))
    bad = [f"{path.relative_to(top)}: {complaint}" for path in flows for complaint in of_workflow(tree, path.read_text())]
    bad += [f".pre-commit-config.yaml: {complaint}" for complaint in of_hooks(tree, (top / ".pre-commit-config.yaml").read_text())]
    for path in sorted((top / ".github/ISSUE_TEMPLATE").glob("*.yml")):
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml" and not {"name", "description", "body"} <= set(form):
            bad.append(f"{path.relative_to(top)}: a form has name, description and body")
    # The presets of `tests/run.sh all` are those of the matrix.
    listed = re.search(r"all\) presets\+=\(([\w -]+)\)", (top / "tests/run.sh").read_text())[1].split()
    matrix = yaml.safe_load((top / ".github/workflows/tests.yml").read_text())["jobs"]["preset"]["strategy"]["matrix"]["preset"]
    if matrix != listed:
        bad.append(f"tests.yml runs {matrix}, and tests/run.sh all {listed}")
    if not flows:
        bad.append("there is no workflow")
    print("\n".join(bad) if bad else f"{len(flows)} workflows and the hooks name what there is")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
