"""Every rendered file has the shape that the API server demands.

Kubernetes' own kinds against the schemas of kubernetes-validate, strictly. Custom resources against
the shapes below, which hold the facts of their definitions for the fields that are rendered.
"""

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from outlast.manifests.render import as_stream
from tests.unit.manifests.render_cases import CASES, Rendering, case

VERSIONS = ("1.30", "1.35", "1.37")
TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}
LABELS = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}}


def fields(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def listed(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


RULES = fields(
    ("groups",),
    groups=listed(
        fields(
            ("name", "rules"),
            name=TEXT,
            rules=listed(
                {
                    **fields(
                        ("alert", "expr", "labels", "annotations"),
                        alert={"type": "string", "pattern": "^[A-Za-z]+$"},
                        expr=TEXT,
                        labels=LABELS,
                        annotations={"type": "object", "additionalProperties": TEXT},
                        **{"for": {"type": "string", "pattern": "^([0-9]+[dhms])+$"}},
                    )
                }
            ),
        )
    ),
)
SELECTOR = fields(("matchLabels",), matchLabels=LABELS)
ENDPOINTS = listed(fields(("port", "interval"), port=TEXT, interval=TEXT))
PRIORITY = fields(
    ("machineType",),
    machineType=TEXT,
    gpu=fields((), type=TEXT, count=COUNT, driverVersion={"enum": ["default", "latest"]}),
    spot={"type": "boolean"},
    maxRunDurationSeconds=COUNT,
    flexStart=fields(
        ("enabled",),
        enabled={"type": "boolean"},
        nodeRecycling=fields(
            ("leadTimeSeconds",),
            leadTimeSeconds={"type": "integer", "minimum": 1, "maximum": 604_800},
        ),
    ),
    nodeSystemConfig=fields(
        (), kubeletConfig=fields((), shutdownGracePeriodSeconds={"enum": [0, 30, 120]})
    ),
)
QUANTITY = {"type": ["integer", "string"]}
SPECS: dict[tuple[str, str], Any] = {
    ("cloud.google.com/v1", "ComputeClass"): fields(
        ("whenUnsatisfiable",),
        priorities=listed(PRIORITY),
        nodePoolAutoCreation=fields(("enabled",), enabled={"type": "boolean"}),
        activeMigration=fields(("optimizeRulePriority",), optimizeRulePriority={"type": "boolean"}),
        whenUnsatisfiable={"enum": ["DoNotScaleUp", "ScaleUpAnyway"]},
    ),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): fields(
        ("replicatedJobs",),
        suspend={"type": "boolean"},
        network=fields((), enableDNSHostnames={"type": "boolean"}, subdomain=TEXT),
        failurePolicy=fields(
            (),
            maxRestarts=COUNT,
            restartStrategy={"enum": ["Recreate", "BlockingRecreate"]},
            rules=listed(
                fields(
                    ("name", "action"),
                    name={"type": "string", "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
                    action={"enum": ["RestartJobSetAndIgnoreMaxRestarts"]},
                    onJobFailureReasons=listed({"enum": ["PodFailurePolicy"]}),
                )
            ),
        ),
        replicatedJobs=listed(
            fields(
                ("name", "template"),
                name=TEXT,
                replicas=COUNT,
                template=fields(("spec",), spec={"type": "object"}),
            )
        ),
    ),
    ("monitoring.googleapis.com/v1", "PodMonitoring"): fields(
        ("selector", "endpoints"), selector=SELECTOR, endpoints=ENDPOINTS
    ),
    ("monitoring.googleapis.com/v1", "Rules"): RULES,
    ("monitoring.googleapis.com/v1", "ClusterRules"): RULES,
    ("monitoring.coreos.com/v1", "PodMonitor"): fields(
        ("selector",), selector=SELECTOR, podMetricsEndpoints=ENDPOINTS
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): RULES,
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): fields(),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"): fields(("clusterQueue",), clusterQueue=TEXT),
    ("kueue.x-k8s.io/v1beta2", "ProvisioningRequestConfig"): fields(
        ("provisioningClassName",),
        provisioningClassName=TEXT,
        managedResources=listed(TEXT),
        retryStrategy=fields(
            (), backoffLimitCount=COUNT, backoffBaseSeconds=COUNT, backoffMaxSeconds=COUNT
        ),
    ),
    ("kueue.x-k8s.io/v1beta2", "AdmissionCheck"): fields(
        ("controllerName",),
        controllerName=TEXT,
        parameters=fields(("apiGroup", "kind", "name"), apiGroup=TEXT, kind=TEXT, name=TEXT),
    ),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"): fields(
        (),
        namespaceSelector=SELECTOR,
        resourceGroups=listed(
            fields(
                ("coveredResources", "flavors"),
                coveredResources=listed(TEXT),
                flavors=listed(
                    fields(
                        ("name", "resources"),
                        name=TEXT,
                        resources=listed(
                            fields(("name", "nominalQuota"), name=TEXT, nominalQuota=QUANTITY)
                        ),
                    )
                ),
            )
        ),
        admissionChecksStrategy=fields((), admissionChecks=listed(fields(("name",), name=TEXT))),
    ),
}
METADATA = fields(
    ("name",),
    name={"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"},
    namespace={"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"},
    labels=LABELS,
    annotations={"type": "object", "additionalProperties": {"type": "string"}},
)

RBAC_METADATA = {
    **METADATA,
    "properties": {
        **METADATA["properties"],
        # A segment of a path, and no more is asked of it.
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9.:-]{0,251}[a-z0-9]$"},
    },
}


@cache
def definitions(version: str) -> dict[str, Any]:
    spec = find_spec("kubernetes_validate")
    assert spec is not None and spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema"
    text = (root / f"v{version}.0-local-strict/_definitions.json").read_text()
    found: dict[str, Any] = json.loads(text)["$defs"]
    return found


@cache
def validator(version: str, name: str) -> Any:
    needed: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in needed:
            needed[one] = definitions(version)[one]
            waiting += re.findall(r'"#/\$defs/([^"]+)"', json.dumps(needed[one]))
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": needed})


def kubernetes_name(one: Any) -> str:
    group, _, version = one["apiVersion"].rpartition("/")
    package = {
        "": "io.k8s.api.core",
        "batch": "io.k8s.api.batch",
        "apps": "io.k8s.api.apps",
        "policy": "io.k8s.api.policy",
        "networking.k8s.io": "io.k8s.api.networking",
        "scheduling.k8s.io": "io.k8s.api.scheduling",
        "rbac.authorization.k8s.io": "io.k8s.api.rbac",
    }[group]
    return f"{package}.{version}.{one['kind']}"


def problems(rendering: Rendering, version: str) -> list[str]:
    found = []
    for path, one in rendering.objects.items():
        key = (one["apiVersion"], one["kind"])
        if key in SPECS:
            shape = fields(
                ("apiVersion", "kind", "metadata"),
                apiVersion=TEXT,
                kind=TEXT,
                metadata=METADATA,
                spec=SPECS[key],
            )
            errors = [*jsonschema_rs.validator_for(shape).iter_errors(one)]
        else:
            errors = [*validator(version, kubernetes_name(one)).iter_errors(one)]
            named = RBAC_METADATA if one["apiVersion"].startswith("rbac.") else METADATA
            errors += jsonschema_rs.validator_for(named).iter_errors(one["metadata"])
        if one["kind"] == "JobSet":
            for job in one["spec"]["replicatedJobs"]:
                name = "io.k8s.api.batch.v1.JobSpec"
                errors += validator(version, name).iter_errors(job["template"]["spec"])
        found += [f"{path}: {error.message} at {error.instance_path}" for error in errors]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_file_passes_the_schemas_of_its_version(version: str) -> None:
    found = {name: problems(case(name), version) for name in CASES}

    assert {name: one for name, one in found.items() if one} == {}


def test_the_schemas_find_what_is_wrong() -> None:
    rendering = Rendering(case("training").files)
    job = rendering.one("Job")
    job["spec"]["maxParallelism"] = 3
    job["spec"]["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] = True
    rendering.one("Rules")["spec"]["groups"][0]["rules"][0]["exprr"] = "1"

    found = "\n".join(problems(rendering, "1.35"))

    assert "maxParallelism" in found
    assert "True" in found or "true" in found
    assert "exprr" in found


@pytest.mark.parametrize("name", CASES)
def test_the_stream_holds_the_same_objects_as_the_files(name: str) -> None:
    rendering = case(name)

    documents = [one for one in yaml.safe_load_all(as_stream(rendering.files)) if one is not None]

    assert documents == list(rendering.objects.values())


@pytest.mark.parametrize("name", CASES)
def test_names_are_valid_and_no_two_objects_share_one(name: str) -> None:
    objects = case(name).objects.values()

    keys = [
        (one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in objects
    ]
    assert len(set(keys)) == len(keys)
    for one in objects:
        limit = 63 if one["kind"] in ("Job", "JobSet", "Service", "Deployment") else 253
        assert len(one["metadata"]["name"]) <= limit
