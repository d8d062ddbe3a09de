"""What is rendered gives a Pod no more rights than it needs."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from outlast.capacity.errors import WorkloadError
from outlast.capacity.workload.file import Workload
from outlast.manifests.render import render
from tests.unit.manifests.render_cases import (
    BATCH,
    CASES,
    CLAIM,
    MINIMAL,
    SERVING,
    Rendering,
    case,
    rendered,
    workload,
)
from tests.unit.manifests.restricted_profile import violations

EXAMPLES = sorted((Path(__file__).parents[3] / "examples/workloads").glob("*.yaml"))
ROOT = {"security__run_as_root": "The base image writes to /opt."}
LEVEL = "pod-security.kubernetes.io/enforce"


def of_example(path: Path, **overrides: str) -> Rendering:
    return Rendering(render(Workload.parse(path.read_text(), name=path.name, overrides=overrides)))


def assert_is_restricted(rendering: Rendering) -> None:
    assert rendering.templates
    for template in rendering.templates:
        assert violations(template) == []
        pod = template["spec"]
        assert pod["securityContext"]["runAsUser"] > 0
        for container in pod["containers"] + pod.get("initContainers", []):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("name", CASES)
def test_every_pod_keeps_to_the_restricted_profile(name: str) -> None:
    assert_is_restricted(case(name))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_keeps_to_the_restricted_profile(path: Path) -> None:
    assert_is_restricted(of_example(path))


def test_the_profile_finds_what_is_wrong() -> None:
    good = case("training").templates[0]
    assert violations(good) == []

    def broken(change: Any) -> list[str]:
        template = copy.deepcopy(good)
        change(template["spec"], template["spec"]["containers"][0])
        return violations(template)

    assert broken(lambda pod, main: pod.update(hostNetwork=True))
    assert broken(lambda pod, main: pod["securityContext"].pop("runAsNonRoot"))
    assert broken(lambda pod, main: pod["securityContext"].pop("seccompProfile"))
    assert broken(lambda pod, main: pod["securityContext"].update(runAsUser=0))
    assert broken(lambda pod, main: main["securityContext"].pop("capabilities"))
    assert broken(lambda pod, main: main["securityContext"].pop("allowPrivilegeEscalation"))
    assert broken(lambda pod, main: main["securityContext"].update(privileged=True))
    assert broken(lambda pod, main: pod["volumes"].append({"name": "x", "hostPath": {"path": "/"}}))
    assert broken(lambda pod, main: pod.update(initContainers=[{"name": "x"}]))


@pytest.mark.parametrize("name", CASES)
def test_temporary_files_and_the_home_have_a_writable_place(name: str) -> None:
    rendering = case(name)

    volumes = {volume["name"]: volume for volume in rendering.pod["volumes"]}
    mounted = {m["mountPath"]: volumes[m["name"]] for m in rendering.container["volumeMounts"]}
    assert mounted["/tmp"]["emptyDir"] == {}
    assert mounted[rendering.env["HOME"]]["emptyDir"] == {}
    assert rendering.env["USER"]
    context = rendering.pod["securityContext"]
    assert context["fsGroup"] == context["runAsGroup"] == context["runAsUser"]
    names = [volume["name"] for volume in rendering.pod["volumes"]]
    paths = [mount["mountPath"] for mount in rendering.container["volumeMounts"]]
    assert len(set(names)) == len(names) and len(set(paths)) == len(paths)


def test_variables_of_the_workload_come_before_ours() -> None:
    rendering = rendered(env="{HOME: /tmp/me}", secrets="{USER: people/me}")

    assert rendering.env["HOME"] == "/tmp/me"
    assert "secretKeyRef" in rendering.env["USER"]


def test_the_user_and_more_writable_folders_can_be_chosen() -> None:
    rendering = rendered(security__user="1000", security__writable="[/app/cache, /var/run]")

    context = rendering.pod["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (1000, 1000, 1000)
    volumes = {volume["name"]: volume for volume in rendering.pod["volumes"]}
    mounted = {m["mountPath"]: volumes[m["name"]] for m in rendering.container["volumeMounts"]}
    assert mounted["/app/cache"]["emptyDir"] == mounted["/var/run"]["emptyDir"] == {}
    assert_is_restricted(rendering)


def test_a_mounted_bucket_belongs_to_the_user_of_the_pod() -> None:
    rendering = rendered(storage__kind="fuse", security__user="1000")

    [volume] = [volume for volume in rendering.pod["volumes"] if "csi" in volume]
    assert "uid=1000" in volume["csi"]["volumeAttributes"]["mountOptions"].split(",")


def test_a_large_claim_changes_its_group_once() -> None:
    overrides = {key.replace(".", "__"): value for key, value in CLAIM.items()}
    context = rendered(**overrides).pod["securityContext"]

    assert context["fsGroupChangePolicy"] == "OnRootMismatch"


def test_a_low_port_is_open_to_a_user_that_is_not_root() -> None:
    low, high = rendered(SERVING, serving__port="80"), rendered(SERVING)

    assert low.pod["securityContext"]["sysctls"] == [
        {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
    ]
    assert "sysctls" not in high.pod["securityContext"]
    assert_is_restricted(low)


def test_an_image_that_needs_root_gets_it_for_a_reason() -> None:
    rendering = rendered(**ROOT)

    context = rendering.pod["securityContext"]
    assert context == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert rendering.container["securityContext"] == {"allowPrivilegeEscalation": False}
    assert "volumes" not in rendering.pod
    assert "HOME" not in rendering.env
    assert "The base image writes to /opt." in rendering.text("50-job.yaml")


def test_only_the_root_filesystem_can_be_left_writable() -> None:
    rendering = rendered(security__writable_root="It compiles kernels beside its code.")

    assert violations(rendering.templates[0]) == []
    assert "readOnlyRootFilesystem" not in rendering.container["securityContext"]
    assert "It compiles kernels beside its code." in rendering.text("50-job.yaml")


def test_the_namespace_admits_restricted_pods_only() -> None:
    labels = rendered().one("Namespace")["metadata"]["labels"]

    for mode in ("enforce", "warn", "audit"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_the_namespace_of_a_root_image_admits_baseline() -> None:
    labels = rendered(**ROOT).one("Namespace")["metadata"]["labels"]

    assert labels[LEVEL] == "baseline"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ({"security__run_as_root": "true"}, "expected a reason of a few words"),
        ({"security__run_as_root": "yes"}, "expected a reason of a few words"),
        ({"security__run_as_root": "''"}, "expected a reason of a few words"),
        ({"security__run_as_root": "'   '"}, "expected a reason of a few words"),
        ({"security__writable_root": "true"}, "expected a reason of a few words"),
        ({"security__user": "0"}, "expected a number of at least 1"),
        ({"security__user": "root"}, "expected a whole number"),
        ({"security__writable": "[relative]"}, "absolute path"),
        ({"security__writable": "[/tmp]"}, "already writable"),
        ({"security__writable": "[/app, /app]"}, "twice"),
        ({"security__restricted": "false"}, "Unknown key .security.restricted."),
        ({**ROOT, "security__user": "1000"}, "root"),
        (
            {"storage__kind": "fuse", "checkpoint__url": "gs://lab-runs/x,uid=0"},
            "Cloud Storage FUSE",
        ),
    ],
)
def test_an_exception_needs_a_reason_and_makes_sense(override: dict[str, str], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        workload(MINIMAL, **override)


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("ClusterRoleBinding", {"tier": "flex-start"}),
        ("ComputeClass", {"tier": "hybrid"}),
        ("ClusterQueue", {"tier": "flex-start", "cluster__kueue__queue": "lab"}),
        ("ClusterRules", {"tier": "flex-start", "cluster__kueue__queue": "lab"}),
    ],
)
def test_objects_without_a_namespace_never_share_a_name(
    kind: str, overrides: dict[str, str]
) -> None:
    places = [("a-b", "c"), ("a", "b-c"), ("a-b-c", "a-b-c")]
    names = {
        rendered(namespace=namespace, name=name, **overrides).one(kind)["metadata"]["name"]
        for namespace, name in places
    }

    assert len(names) == len(places)


def conditions(script: str) -> list[Any]:
    return [json.loads(one) for one in re.findall(r"<<'CONDITION'\n(.*?)\nCONDITION", script, re.S)]


def test_access_is_granted_to_the_folder_and_not_to_the_bucket() -> None:
    script = rendered(checkpoint__url="gs://lab-runs/team/tiny-gpt/").text("setup/access.sh")

    [condition] = conditions(script)
    assert condition["expression"] == (
        'resource.name.startsWith("projects/_/buckets/lab-runs/objects/team/tiny-gpt/") || '
        'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
        '.startsWith("team/tiny-gpt/")'
    )
    assert "uniform-bucket-level-access" in script
    assert "legacyBucketReader" not in script


def test_a_bucket_without_a_folder_is_granted_as_a_whole_and_says_so() -> None:
    script = rendered(checkpoint__url="gs://lab-runs").text("setup/access.sh")

    assert conditions(script) == []
    assert "--condition=None" in script
    assert "entire bucket" in script


def test_checkpoints_and_results_each_get_their_folder() -> None:
    script = rendered(
        BATCH, checkpoint__url="gs://lab-results/state", sink="gs://lab-results/embed"
    ).text("setup/access.sh")

    granted = [condition["expression"] for condition in conditions(script)]
    assert len(granted) == 2
    assert "objects/state/" in granted[0] and "objects/embed/" in granted[1]


def test_the_fuse_driver_may_list_the_bucket_it_mounts_a_folder_of() -> None:
    script = rendered(storage__kind="fuse").text("setup/access.sh")

    assert len(conditions(script)) == 1
    assert "roles/storage.legacyBucketReader" in script


def sources(rendering: Rendering, port: str | int) -> list[Any]:
    """Who may reach a port, as the rules that allow it say. An empty rule admits everybody."""
    [policy] = rendering.all("NetworkPolicy")
    return [
        rule.get("from", "anybody")
        for rule in policy["spec"]["ingress"]
        if "ports" not in rule or port in [one["port"] for one in rule["ports"]]
    ]


def namespaces(source: Any) -> list[str]:
    [peer] = source
    [expression] = peer["namespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "In")
    assert peer.keys() == {"namespaceSelector"}
    found: list[str] = expression["values"]
    return found


@pytest.mark.parametrize("name", CASES)
def test_only_the_collectors_reach_the_metrics(name: str) -> None:
    rendering = case(name)

    policy = rendering.one("NetworkPolicy")
    labels = rendering.templates[0]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    allowed, *more = sources(rendering, 9464)
    expected = ["monitoring"] if "operator" in name else ["gmp-system", "gke-gmp-system"]
    assert namespaces(allowed) == expected
    if name.startswith("multi-node"):
        # The Pods of one run talk to each other on ports that they choose as they go.
        assert more == [[{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "big"}}}]]
    else:
        assert more == []


def test_the_metrics_port_and_its_collectors_can_be_chosen() -> None:
    rendering = rendered(alerts__metrics_port="9999", alerts__collectors="[prometheus, other]")

    [allowed] = sources(rendering, 9999)
    assert namespaces(allowed) == ["prometheus", "other"]
    assert sources(rendering, 9464) == []


def test_a_server_stays_open_to_requests() -> None:
    rendering = rendered(SERVING)

    assert sources(rendering, 8000) == ["anybody"]
    assert "anybody" not in sources(rendering, 9464)


def test_a_server_does_not_serve_on_the_port_of_its_metrics() -> None:
    with pytest.raises(WorkloadError, match=r"alerts\.metrics_port"):
        workload(SERVING, serving__port="9464")
