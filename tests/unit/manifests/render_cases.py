"""Workloads of every kind and tier, and a way to look into what is rendered for them."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import yaml

from outlast.capacity.workload.file import Workload
from outlast.manifests.render import RenderedFile, render

MINIMAL = """\
name: tiny-gpt
kind: training
image: registry.example/trainer@sha256:…
command: [python, train.py]
accelerator: {type: nvidia-l4, count: 2}
work: {hours: 38}
checkpoint: {url: "gs://lab-runs/tiny-gpt", size: 12GiB}
"""
SWEEP = """\
name: rates
kind: sweep
image: registry.example/trainer:1
command: [python, trial.py]
accelerator: {type: nvidia-l4}
parallelism: 4
work: {items: 10, seconds_per_item: 600}
checkpoint: {url: "gs://lab-runs/rates", interval: 10m}
"""
BATCH = """\
name: embed
namespace: research
kind: batch-inference
image: registry.example/embedder:2
command: [outlast, work, "embedder:embed"]
accelerator: {type: nvidia-l4}
parallelism: 3
work: {items: 100000, seconds_per_item: 0.1}
queue: {secret: database/url}
sink: gs://lab-results/embed
"""
SERVING = """\
name: chat
kind: serving
image: registry.example/server:3
accelerator: {type: nvidia-l4}
serving: {port: 8000, health: /health, replicas: 3}
"""
CI = """\
name: nightly
kind: ci
image: registry.example/tests:5
command: [make, test]
work: {hours: 0.5}
"""
MULTI_NODE = """\
name: big
kind: training
image: registry.example/trainer:1
command: [python, train.py, --layers, 48]
accelerator: {type: nvidia-h100-80gb, count: 8}
nodes: 4
work: {hours: 60}
checkpoint: {url: "gs://lab-runs/big", size: 240GiB}
resources: {shared_memory: 64GiB, cpu: 96, memory: 900GiB}
"""
KUEUE = {"tier": "flex-start", "cluster.kueue.queue": "research"}
CLAIM = {"checkpoint.url": "file:///mnt/runs/tiny", "storage.mount": "/mnt/runs"}

CASES: dict[str, tuple[str, dict[str, str]]] = {
    "training": (MINIMAL, {}),
    "training-flex-start": (MINIMAL, {"tier": "flex-start"}),
    "training-kueue": (MINIMAL, KUEUE),
    "training-on-demand": (MINIMAL, {"tier": "on-demand"}),
    "training-hybrid": (MINIMAL, {"tier": "hybrid"}),
    "training-hybrid-cpu": (MINIMAL, {"tier": "hybrid", "accelerator": ""}),
    "training-uninterruptible": (MINIMAL, {"interruptible": "false"}),
    "training-fuse": (MINIMAL, {"storage.kind": "fuse"}),
    "training-claim": (MINIMAL, CLAIM),
    "training-window": (MINIMAL, {"cluster.shutdown_window": "120s"}),
    "training-operator": (MINIMAL, {"alerts.stack": "operator"}),
    "training-kueue-operator": (MINIMAL, {**KUEUE, "alerts.stack": "operator"}),
    "training-autopilot": (MINIMAL, {"cluster.mode": "autopilot"}),
    "training-autopilot-flex": (MINIMAL, {"cluster.mode": "autopilot", "tier": "flex-start"}),
    "training-autopilot-hybrid": (MINIMAL, {"cluster.mode": "autopilot", "tier": "hybrid"}),
    "training-hybrid-window": (MINIMAL, {"tier": "hybrid", "cluster.shutdown_window": "120s"}),
    "multi-node": (MULTI_NODE, {}),
    "multi-node-kueue": (MULTI_NODE, {**KUEUE, "interruptible": "false"}),
    "multi-node-hybrid": (MULTI_NODE, {"tier": "hybrid"}),
    "multi-node-script": (MULTI_NODE, {"command": "[bash, -c, 'torchrun train.py']"}),
    "multi-node-torchrun": (MULTI_NODE, {"command": "[torchrun, --nproc-per-node, 4, train.py]"}),
    "multi-node-accelerate": (MULTI_NODE, {"command": "[accelerate, launch, train.py]"}),
    "multi-node-jax": (MULTI_NODE, {"launcher": "none"}),
    "multi-node-fuse": (MULTI_NODE, {"storage.kind": "fuse"}),
    "training-torchrun": (MINIMAL, {"launcher": "torchrun"}),
    "training-own-torchrun": (MINIMAL, {"command": "[torchrun, --nproc-per-node, 2, train.py]"}),
    "sweep-torchrun": (SWEEP, {"launcher": "torchrun", "accelerator.count": "2"}),
    "sweep": (SWEEP, {}),
    "sweep-kueue": (SWEEP, KUEUE),
    "batch": (BATCH, {}),
    "batch-kueue": (BATCH, KUEUE),
    "batch-endless": (BATCH, {"endless": "true", "work": ""}),
    "batch-pubsub": (BATCH, {"queue": "pubsub://lab-project/items?subscription=workers"}),
    "serving": (SERVING, {}),
    "serving-spot": (SERVING, {"tier": "spot"}),
    "serving-hybrid": (SERVING, {"tier": "hybrid"}),
    "serving-autopilot": (SERVING, {"cluster.mode": "autopilot"}),
    "ci": (CI, {}),
    "ci-sharded": (CI, {"parallelism": "4"}),
}


@dataclass
class Rendering:
    """The files of one workload, and the objects in them."""

    files: tuple[RenderedFile, ...]

    @cached_property
    def objects(self) -> dict[str, Any]:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return {f.path: yaml.load(f.text, loader) for f in self.files if f.is_manifest}

    def all(self, kind: str) -> list[Any]:
        return [one for one in self.objects.values() if one["kind"] == kind]

    def one(self, kind: str) -> Any:
        [found] = self.all(kind)
        return found

    def text(self, path: str) -> str:
        [found] = [file.text for file in self.files if file.path == path]
        return found

    @cached_property
    def templates(self) -> list[Any]:
        """The Pod templates, wherever they stand."""
        found = [one["spec"]["template"] for one in self.all("Job") + self.all("Deployment")]
        for jobset in self.all("JobSet"):
            found += [
                one["template"]["spec"]["template"] for one in jobset["spec"]["replicatedJobs"]
            ]
        return found

    @property
    def pod(self) -> Any:
        return self.templates[0]["spec"]

    @property
    def container(self) -> Any:
        [container] = self.pod["containers"]
        return container

    @property
    def env(self) -> dict[str, Any]:
        listed = self.container["env"]
        assert len({one["name"] for one in listed}) == len(listed)
        return {one["name"]: one.get("value", one.get("valueFrom")) for one in listed}

    @cached_property
    def rules(self) -> list[Any]:
        carriers = ("Rules", "ClusterRules", "PrometheusRule")
        groups = [g for kind in carriers for one in self.all(kind) for g in one["spec"]["groups"]]
        return [rule for group in groups for rule in group["rules"]]


def workload(text: str = MINIMAL, **overrides: str) -> Workload:
    """A workload; in overrides two underscores stand for a dot."""
    pairs = {key.replace("__", "."): value for key, value in overrides.items()}
    return Workload.parse(text, name="workload.yaml", overrides=pairs)


def rendered(text: str = MINIMAL, **overrides: str) -> Rendering:
    return Rendering(render(workload(text, **overrides)))


@cache
def case(name: str) -> Rendering:
    """The rendering of a case, shared by all who ask: look, and do not change it."""
    text, overrides = CASES[name]
    return Rendering(render(Workload.parse(text, name=name, overrides=overrides)))
