#!/usr/bin/env python3
"""Manifests of launchers/kubernetes: every base and overlay is what an API server takes (schemas.json, made by schemas.py), and what
`weft-launch lint` finds nothing in. Ends with 77 (skipped) without python3-yaml or python3-jsonschema.

    manifests_test.py PROJECT WEFT_LAUNCH [FILE.yaml ...]      further manifests, which are only checked by schema
"""
import copy
import json
import pathlib
import shutil
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}; install python3-yaml and python3-jsonschema (launchers/setup.sh test)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
SCHEMAS = json.loads((HERE / "schemas.json").read_text())


def complaints(document):
    """What is wrong with one object: "spec.slotsPerWorker: 'x' is not of type 'integer'"."""
    kind = f"{document.get('apiVersion')} {document.get('kind')}"
    if kind not in SCHEMAS["kinds"]:
        return [f"{kind}: there is no schema"]
    schema = {**SCHEMAS["kinds"][kind], "$defs": SCHEMAS["$defs"]}
    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{kind} {'.'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}" for error in errors]


def without_nulls(value):
    """An API server drops them."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def objects(text):
    return [without_nulls(document) for document in yaml.safe_load_all(text) if document is not None]


# Mistakes in good manifests, and the words that the schema must have for them: a schema that takes everything would find nothing.
SEEDED = [
    ("base/mpijob/mpijob.yaml", ["spec", "slotsPerWorkers"], 8, "slotsPerWorkers"),
    ("base/mpijob/mpijob.yaml", ["spec", "mpiImplementation"], "openmpi", "openmpi"),
    ("base/mpijob/mpijob.yaml", ["spec", "cleanPodPolicy"], "Running", "cleanPodPolicy"),
    ("base/mpijob/mpijob.yaml", ["spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers", 0, "resource"], {}, "resource"),
    ("base/jobset/jobset.yaml", ["spec", "replicatedJobs", 0, "template", "spec", "parallelism"], "two", "two"),
    ("base/jobset/jobset.yaml", ["spec", "failurePolicy", "rules", 0, "action"], "Fail", "Fail"),
    ("base/indexed-job/job.yaml", ["spec", "completionmode"], "Indexed", "completionmode"),
    ("base/indexed-job/job.yaml", ["spec", "template", "spec", "containers", 0, "env", 1, "value"], 600, "600"),
    ("base/indexed-job/service.yaml", ["spec", "publishNotReadyAddress"], True, "publishNotReadyAddress"),
    ("base/trainer/runtime.yaml", ["spec", "mlPolicy", "numNode"], 2, "numNode"),
    ("base/trainer/trainjob.yaml", ["spec", "podTemplateOverrides"], [], "podTemplateOverrides"),
    ("base/settings/nccl.yaml", ["data", "NCCL_DEBUG"], 1, "1 is not of type"),
]


def main():
    project, launch, further = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    folder = project / "launchers" / "kubernetes"
    failures = checked = 0

    def fail(line):
        nonlocal failures
        failures += 1
        print("FAILED:", line)

    def check(name, text):
        nonlocal checked
        found = objects(text)
        if not found:
            fail(f"{name}: no object")
        for document in found:
            checked += 1
            for line in complaints(document):
                fail(f"{name}: {line}")

    for file in sorted(folder.glob("base/*/*.yaml")):
        if file.name != "kustomization.yaml":
            check(file.relative_to(folder), file.read_text())
    for file in further:
        check(file, pathlib.Path(file).read_text())

    for file, path, value, words in SEEDED:
        [document] = objects((folder / file).read_text())
        changed = copy.deepcopy(document)
        at = changed
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = value
        found = complaints(changed)
        if not any(words in line for line in found):
            fail(f"{file} with {'.'.join(map(str, path))} = {value!r}: the schema says {found}")

    built = [path.parent for path in sorted(folder.glob("*/*/kustomization.yaml"))]
    if shutil.which("kubectl") is None:
        print("left out: kustomize, without kubectl (Debian's kubernetes-client)")
    else:
        for path in built:
            name = path.relative_to(folder)
            made = subprocess.run(["kubectl", "kustomize", str(path)], capture_output=True, text=True)
            if made.returncode != 0:
                fail(f"kubectl kustomize {name}: {made.stderr}")
                continue
            check(name, made.stdout)
            if name.name == "settings":
                continue
            lint = subprocess.run([launch, "lint", "-"], input=made.stdout, capture_output=True, text=True)
            if lint.returncode == 42 and "built without yaml-cpp" in lint.stderr:
                print("left out: lint, which this build does not have")
            elif lint.returncode != 0:
                fail(f"weft-launch lint of {name}: {lint.returncode}\n{lint.stdout}{lint.stderr}")
    print(f"{checked} objects, {len(SEEDED)} seeded mistakes, {len(built)} kustomizations; {failures} failed")
    return 1 if failures else 0


sys.exit(main())
