"""Any bytes in, findings or a clear refusal out: never a traceback, never a long wait."""

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.files import InputFile
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.errors import NothingLinted
from outlast.manifests.lint.reports import ReportFormat, write_report
from outlast.manifests.linting import LintInputs, examine, examine_and_fix
from tests.unit.manifests.lint.linted import manifest
from tests.unit.manifests.rules.harness import FIXTURES

SEEDS = [path.read_bytes() for path in sorted(FIXTURES.glob("*/*.yaml"))]
KINDS = [
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("ray.io/v1", "RayCluster"),
    ("v1", "List"),
    ("v1", "Node"),
    ("v1", "Namespace"),
    ("v1", "ConfigMap"),
    ("cloud.google.com/v1", "ComputeClass"),
    ("policy/v1", "PodDisruptionBudget"),
    ("monitoring.googleapis.com/v1", "Rules"),
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
]


def lint_bytes(data: bytes, name: str = "x.yaml") -> LintReport | None:
    inputs = LintInputs(
        options=LintOptions(), files=(InputFile(name=name, path=Path(name), data=data),)
    )
    try:
        report = examine(inputs)
        examine_and_fix(inputs, unsafe=True)
    except NothingLinted:
        return None
    for format in ReportFormat:
        assert isinstance(write_report(report, format).encode(), bytes)
    return report


@given(st.binary(max_size=400), st.sampled_from(["x.yaml", "x.json", "x.sh", "x.tf", "x"]))
def test_any_bytes_are_judged(data: bytes, name: str) -> None:
    lint_bytes(data, name)


@given(st.sampled_from(SEEDS), st.data())
def test_a_damaged_manifest_is_judged(seed: bytes, data: st.DataObject) -> None:
    damaged = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "add", "copy"]))
        if kind == "set":
            damaged[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del damaged[at : at + data.draw(st.integers(1, 40))]
        elif kind == "add":
            damaged[at:at] = data.draw(
                st.sampled_from(
                    [b"\n", b"\t", b"- ", b"{", b"*a ", b"&a ", b"|\n", b"\xff", b"!!x "]
                )
            )
        else:
            damaged[at:at] = bytes(damaged[: data.draw(st.integers(0, 80))])
        if not damaged:
            break

    lint_bytes(bytes(damaged))


WORDS = st.sampled_from(
    """spec template metadata name namespace labels annotations containers initContainers image env
    value valueFrom volumeMounts mountPath volumes tolerations key operator effect nodeSelector
    affinity nodeAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms
    matchExpressions values resources limits requests restartPolicy podFailurePolicy rules action
    onPodConditions onExitCodes type backoffLimit parallelism completions jobTemplate replicatedJobs
    headGroupSpec workerGroupSpecs items data priorities spot flexStart nodepools groups expr taints
    cloud.google.com/gke-spot cloud.google.com/gke-flex-start cloud.google.com/compute-class
    outlast/ignore CHECKPOINT_DIR terminationGracePeriodSeconds $patch nvidia.com/gpu kind
    """.split()
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | WORDS
    | st.sampled_from(["Never", "Ignore", "DisruptionTarget", "true", "Exists", "/mnt", "gs://x"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@given(st.sampled_from(KINDS), VALUES, VALUES, st.booleans())
def test_any_values_in_any_kind_are_judged(
    kind: tuple[str, str], spec: Any, metadata: Any, as_json: bool
) -> None:
    document = {
        "apiVersion": kind[0],
        "kind": kind[1],
        "metadata": metadata,
        "spec": spec,
        "items": spec,
    }
    text = json.dumps(document) if as_json else yaml.safe_dump(document)

    lint_bytes(text.encode())


def wrapped(inner: str) -> bytes:
    return manifest("batch/v1", "Job", f"spec:\n  template: {inner}\n").encode()


BOMB = "\n".join(
    ["x0: &x0 {spec: {containers: []}}"]
    + [
        f"x{n}: &x{n} {{" + ", ".join(f"k{i}: *x{n - 1}" for i in range(9)) + "}"
        for n in range(1, 40)
    ]
)


HOSTILE = {
    "lists.yaml": wrapped("[" * 200_000),
    "maps.yaml": wrapped("{a: " * 200_000),
    "deep-but-allowed.yaml": wrapped("{a: " * 190 + "1" + "}" * 190),
    "bomb.yaml": BOMB.encode() + b"\n" + wrapped("*x9"),
    "separators.yaml": b"---\n" * 100_000,
    "documents.yaml": b"a: 1\n---\n" * 10_000,
    "text.yaml": wrapped("'" + "x" * 2_000_000 + "'"),
    "comment.yaml": b"#" * 2_000_000 + b"\n" + wrapped("{}"),
    "ignores.yaml": b"# outlast: ignore[OL101] x\n" * 3000 + wrapped("{}"),
    "words.sh": b"gcloud container " * 50_000,
    "quotes.sh": b'gcloud container "${' * 50_000,
    "substitutions.sh": b"gcloud container $( " * 50_000,
    "templates.tf": b"google_container_ " + b'"${' * 100_000,
    "blocks.tf": b'resource "google_container_node_pool" "a" {' * 20_000,
    "lists.tf": b"google_container_ = " + b"[" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_take_no_long_time(name: str) -> None:
    started = time.process_time()

    lint_bytes(HOSTILE[name], name)

    # What this is about takes hours of computing, or for ever.
    assert time.process_time() - started < 100


def test_hostile_files_take_little_memory() -> None:
    tracemalloc.start()
    try:
        lint_bytes(HOSTILE["bomb.yaml"])
        lint_bytes(HOSTILE["maps.yaml"])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 200 * 1024**2
