#!/usr/bin/env python3
"""Makes schemas.json from the projects' own CRDs: what an API server takes of MPIJob, JobSet, ClusterTrainingRuntime and TrainJob, and of
batch/v1 Job, whose schema stands in JobSet's. Of each CRD version and SHA-256 are kept; words for people, and rules in CEL, are left out.

    schemas.py NAME:VERSION:FILE.yaml ...     each as: kubeflow/mpi-operator:v0.8.2:manifests/base/kubeflow.org_mpijobs.yaml
"""
import hashlib
import json
import pathlib
import sys

import yaml

QUANTITY = r"^[+-]?([0-9]+|[0-9]+[.][0-9]*|[.][0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
METADATA = {"type": "object", "additionalProperties": False,
            "properties": {"name": {"type": "string", "pattern": LABEL, "maxLength": 253}, "namespace": {"type": "string", "pattern": LABEL},
                           "generateName": {"type": "string"}, "labels": TEXTS, "annotations": TEXTS,
                           "finalizers": {"type": "array", "items": {"type": "string"}}}}
# Of core objects that no CRD has in it, as much as a job needs; written by hand after the API's reference of v1.
CONFIG_MAP = {"data": TEXTS, "binaryData": TEXTS, "immutable": {"type": "boolean"}}
PORT = {"type": "object", "additionalProperties": False, "required": ["port"], "properties": {
    "name": {"type": "string"}, "port": {"type": "integer", "minimum": 1, "maximum": 65535}, "protocol": {"enum": ["TCP", "UDP", "SCTP"]},
    "targetPort": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "appProtocol": {"type": "string"}}}
SERVICE = {"spec": {"type": "object", "additionalProperties": False, "properties": {
    "clusterIP": {"type": "string"}, "publishNotReadyAddresses": {"type": "boolean"}, "selector": TEXTS,
    "ports": {"type": "array", "items": PORT}, "type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]}}}}
KEPT = ("type", "enum", "required", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties",
        "maxProperties")


def converted(schema, path=()):
    """OpenAPI's structural schema as JSON Schema: objects are closed, as `kubectl apply --validate=strict` has it."""
    if schema.get("x-kubernetes-int-or-string"):
        kind = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        if schema.get("pattern"):
            kind = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": QUANTITY}]}
        return kind
    out = {key: schema[key] for key in KEPT if key in schema}
    if path == ("metadata",):
        return METADATA
    if path and path[-1] == "metadata" and not schema.get("properties"):
        return METADATA
    if "properties" in schema:
        out["properties"] = {name: converted(inner, path + (name,)) for name, inner in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            out["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = converted(schema["additionalProperties"], path + ("*",))
    if "items" in schema:
        out["items"] = converted(schema["items"], path + ("[]",))
    if schema.get("nullable") and "type" in out:
        out["type"] = [out["type"], "null"]
    return out


def inner_schemas(schema):
    """Places of schemas in a schema: (holder, key)."""
    for name in schema.get("properties", {}):
        yield schema["properties"], name
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema, key


def count(schema, counts):
    """Every schema within, by its text."""
    for holder, key in inner_schemas(schema):
        count(holder[key], counts)
    text = json.dumps(schema, sort_keys=True)
    counts[text] = counts.get(text, 0) + 1


def referred(schema, names, definitions, top=True):
    """The same with what occurs more than once by reference."""
    text = json.dumps(schema, sort_keys=True)
    out = json.loads(text)
    for holder, key in inner_schemas(out):
        holder[key] = referred(holder[key], names, definitions, False)
    if top or text not in names:
        return out
    definitions.setdefault(names[text], out)
    return {"$ref": "#/$defs/" + names[text]}


def of_kind(group_version, kind, properties, required=("metadata",)):
    return {"type": "object", "additionalProperties": False, "required": ["apiVersion", "kind", *required],
            "properties": {"apiVersion": {"enum": [group_version]}, "kind": {"enum": [kind]}, "metadata": METADATA, **properties}}


def main(arguments):
    sources, kinds = [], {}
    for argument in arguments:
        project, version, file = argument.split(":", 2)
        content = pathlib.Path(file).read_bytes()
        sources.append({"project": project, "version": version, "file": pathlib.Path(file).name, "bytes": len(content),
                        "sha256": hashlib.sha256(content).hexdigest()})
        crd = yaml.safe_load(content)["spec"]
        for served in crd["versions"]:
            schema = converted(served["schema"]["openAPIV3Schema"])
            properties = {name: inner for name, inner in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")}
            name, kind = crd["group"] + "/" + served["name"], crd["names"]["kind"]
            kinds[name + " " + kind] = of_kind(name, kind, properties, ("metadata", "spec"))
            if kind == "JobSet":
                job = schema["properties"]["spec"]["properties"]["replicatedJobs"]["items"]["properties"]["template"]["properties"]["spec"]
                kinds["batch/v1 Job"] = of_kind("batch/v1", "Job", {"spec": job}, ("metadata", "spec"))
    kinds["v1 ConfigMap"] = of_kind("v1", "ConfigMap", CONFIG_MAP)
    kinds["v1 Service"] = of_kind("v1", "Service", SERVICE, ("metadata", "spec"))
    counts = {}
    for schema in kinds.values():
        count(schema, counts)
    many = sorted(text for text, times in counts.items() if times > 1 and len(text) > 40)
    names = {text: f"d{number}" for number, text in enumerate(many)}
    definitions = {}
    kinds = {name: referred(schema, names, definitions) for name, schema in sorted(kinds.items())}
    json.dump({"sources": sources, "kinds": kinds, "$defs": dict(sorted(definitions.items()))}, sys.stdout, separators=(",", ":"), sort_keys=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
