"""Storage gaps: where these rules must stay silent, what else they catch, and what they mend."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from tests.unit.manifests.lint.linted import SPOT_JOB, fixed, lines, manifest, only, report

PRESENT = SPOT_JOB.replace("registry.example/trainer", "registry.example/trainer:1.0")
FUSE = "{driver: gcsfuse.csi.storage.gke.io, volumeAttributes: {bucketName: b}}"


def codes(*texts: str) -> set[str]:
    return {one.code for one in report(*texts)}


def saving(volume: str, *, folder: str = "/data", more: str = "") -> str:
    """A Spot Job that saves to a volume mounted at /data."""
    return (
        PRESENT
        + f"          env: [{{name: CHECKPOINT_DIR, value: {folder!r}}}]\n"
        + f"          volumeMounts: [{{name: v, mountPath: /data}}]\n{more}"
        + f"      volumes: [{{name: v, {volume}}}]\n"
    )


@pytest.mark.parametrize(
    ("volume", "is_lost"),
    [
        ("emptyDir: {}", True),
        ("emptyDir: {medium: Memory}", True),
        ("hostPath: {path: /mnt/disks/ssd0}", True),
        ("ephemeral: {volumeClaimTemplate: {spec: {}}}", True),
        ("persistentVolumeClaim: {claimName: local}", True),
        ("persistentVolumeClaim: {claimName: pinned}", True),
        ("persistentVolumeClaim: {claimName: network}", False),
        ("persistentVolumeClaim: {claimName: elsewhere}", False),
        ("nfs: {server: filer, path: /runs}", False),
        (f"csi: {FUSE}", False),
    ],
)
def test_a_checkpoint_must_outlive_its_node(volume: str, is_lost: bool) -> None:
    claims = "---\n".join(
        (
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: local}\n"
            "spec: {storageClassName: ssd}\n",
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: pinned}\n"
            "spec: {volumeName: disk-of-a-node}\n",
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: network}\n"
            "spec: {storageClassName: standard-rwo}\n",
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk-of-a-node}\n"
            "spec: {local: {path: /mnt/disks/ssd0}}\n",
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: ssd}\n"
            "provisioner: kubernetes.io/no-provisioner\n",
        )
    )

    assert ("OL402" in codes(saving(volume), claims)) is is_lost


def test_a_volume_that_another_container_sees_may_be_carried_away() -> None:
    uploader = (
        "        - name: upload\n          image: registry.example/rsync:1\n"
        "          volumeMounts: [{name: v, mountPath: /from}]\n"
    )
    fetching = uploader.replace(
        "        - name: upload", "      initContainers:\n      - name: fetch"
    )
    fetching = fetching.replace("          ", "        ")

    assert "OL402" in codes(saving("emptyDir: {}"))
    assert "OL402" not in codes(saving("emptyDir: {}", more=uploader))
    assert "OL402" in codes(saving("emptyDir: {}", more=fetching))
    sidecar = fetching.replace("image:", "restartPolicy: Always\n        image:")
    assert "OL402" not in codes(saving("emptyDir: {}", more=sidecar))


def test_a_pod_that_stays_on_one_node_finds_its_disk_again() -> None:
    text = saving("hostPath: {path: /mnt}").replace(
        "gke-spot", "x: y\n        kubernetes.io/hostname"
    )

    assert "OL402" not in codes(text)


def training(more: str = "", pod: str = "") -> str:
    """A GPU Job on Spot; `more` goes into its container, `pod` into its Pod."""
    return PRESENT + f"          resources: {{limits: {{nvidia.com/gpu: 1}}}}\n{more}" + pod


@pytest.mark.parametrize(
    ("more", "pod"),
    [
        ("          env: [{name: OUT, value: 's3://bucket/run'}]\n", ""),
        ("          args: [--output=gs://bucket/run]\n", ""),
        ("          envFrom: [{configMapRef: {name: settings}}]\n", ""),
        (
            "          env: [{name: K, valueFrom: {secretKeyRef: {name: a, key: b}}}]\n",
            "",
        ),
        ("", "      serviceAccountName: trainer\n"),
        (
            "          volumeMounts: [{name: v, mountPath: /v}]\n",
            "      volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]\n",
        ),
        (
            "          volumeMounts: [{name: v, mountPath: /v}]\n",
            "      volumes: [{name: v, configMap: {name: c}}]\n",
        ),
        ("          env: [{name: CHECKPOINT_DIR, value: runs}]\n", ""),
    ],
)
def test_what_may_lead_to_a_store_is_given_the_benefit_of_the_doubt(more: str, pod: str) -> None:
    assert "OL403" in codes(training())
    assert "OL403" not in codes(training(more, pod))


@pytest.mark.parametrize(
    ("more", "pod"),
    [
        ("          env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]\n", ""),
        ("          env: [{name: DATA, value: 'file:///scratch'}]\n", ""),
        ("", "      serviceAccountName: default\n"),
        (
            "          volumeMounts: [{name: v, mountPath: /v, readOnly: true}]\n",
            "      volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n",
        ),
    ],
)
def test_what_holds_nothing_is_no_store(more: str, pod: str) -> None:
    assert "OL403" in codes(training(more, pod))


def test_a_store_is_not_missed_where_nothing_is_reclaimed() -> None:
    text = training().replace("gke-spot", "gke-provisioning").replace('"true"', "standard")

    assert "OL403" not in codes(text)


def fuse_job(annotations: str = "", job: str = "", pod: str = "") -> str:
    return (
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: train\n"
        f"{job}spec:\n  template:\n{annotations}    spec:\n      restartPolicy: Never\n{pod}"
        "      containers:\n      - name: a\n        image: a:1\n"
        f"      volumes:\n      - name: runs\n        csi: {FUSE}\n"
    )


ANNOTATED = "    metadata:\n      annotations:\n        gke-gcsfuse/volumes: {}\n"


@pytest.mark.parametrize(
    ("value", "is_fine"), [('"true"', True), ('"True"', True), ('"false"', False), ('"1"', False)]
)
def test_the_annotation_counts_only_with_a_value_that_says_yes(value: str, is_fine: bool) -> None:
    assert ("OL404" not in codes(fuse_job(ANNOTATED.format(value)))) is is_fine


def test_the_annotation_is_added_where_it_belongs() -> None:
    right = fuse_job(ANNOTATED.format('"true"'))
    on_the_job = '  annotations:\n    gke-gcsfuse/volumes: "true"\n'

    result = fixed(fuse_job(job=on_the_job))

    assert 'gke-gcsfuse/volumes: "true"' in result.partition("template:")[2]
    assert "OL404" not in codes(result)
    assert "OL404" not in codes(fixed(fuse_job()))
    labelled = fixed(fuse_job("    metadata:\n      labels: {a: b}\n"))
    assert labelled.replace("      labels: {a: b}\n", "") == right


def test_a_sidecar_of_ones_own_needs_no_annotation() -> None:
    own = "      initContainers: [{name: gke-gcsfuse-sidecar, image: 'a:1'}]\n"

    assert "OL404" not in codes(fuse_job(pod=own))


def test_what_a_kustomization_may_add_is_not_missed() -> None:
    base = report(fuse_job(), kustomization_yaml="resources: [a.yaml]\n")

    assert lines(base, "OL404") == []


def shared(kind: str, spec: str, modes: str, pod: str = "") -> list[tuple[str, int]]:
    claim = manifest("v1", "PersistentVolumeClaim", f"spec: {{accessModes: [{modes}]}}\n")
    text = manifest(
        "batch/v1" if kind == "Job" else "apps/v1",
        kind,
        f"spec:\n{spec}  template:\n    spec:\n{pod}      containers: []\n"
        "      volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]\n",
    )
    return lines(report(text, claim), "OL405")


@pytest.mark.parametrize(
    ("kind", "spec", "modes", "is_flagged"),
    [
        ("Job", "  parallelism: 2\n", "ReadWriteOnce", True),
        ("Job", "  parallelism: 2\n", "ReadWriteOncePod", True),
        ("Job", "  parallelism: 2\n", "ReadWriteOnce, ReadOnlyMany", False),
        ("Job", "  parallelism: 2\n", "ReadWriteMany", False),
        ("Job", "  parallelism: 2\n", "", False),
        ("Job", "  parallelism: 2\n  completions: 1\n", "ReadWriteOnce", False),
        ("Job", "  completions: 9\n", "ReadWriteOnce", False),
        ("Job", "  parallelism: many\n", "ReadWriteOnce", False),
        ("Deployment", "  replicas: 3\n", "ReadWriteOnce", True),
        ("Deployment", "", "ReadWriteOnce", False),
        ("DaemonSet", "", "ReadWriteOnce", False),
    ],
)
def test_a_disk_of_one_node_is_not_for_several_pods(
    kind: str, spec: str, modes: str, is_flagged: bool
) -> None:
    assert bool(shared(kind, spec, modes)) is is_flagged


def test_pods_that_are_kept_together_share_a_disk() -> None:
    together = (
        "      affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        " [{topologyKey: kubernetes.io/hostname}]}}\n"
    )

    assert shared("Deployment", "  replicas: 3\n", "ReadWriteOnce", together) == []


def test_a_file_server_does_not_mind_how_many_mount_it() -> None:
    claim = manifest(
        "v1", "PersistentVolumeClaim", "spec: {accessModes: [ReadWriteOnce], volumeName: x}\n"
    )
    disk = manifest("v1", "PersistentVolume", "spec: {%s}\n")
    text = manifest(
        "batch/v1",
        "Job",
        "spec:\n  parallelism: 2\n  template:\n    spec:\n      containers: []\n"
        "      volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]\n",
    )

    def found(body: str) -> list[tuple[str, int]]:
        return lines(report(text, claim, disk % body), "OL405")

    assert found("gcePersistentDisk: {pdName: a}") != []
    assert found("nfs: {server: a, path: /b}") == []
    assert found("csi: {driver: filestore.csi.storage.gke.io, volumeHandle: a}") == []


def test_the_jobs_of_a_job_set_are_counted_together() -> None:
    claim = manifest("v1", "PersistentVolumeClaim", "spec: {accessModes: [ReadWriteOnce]}\n")
    text = manifest(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "spec:\n  replicatedJobs:\n  - name: w\n    replicas: 3\n    template:\n      spec:\n"
        "        template:\n          spec:\n            containers: []\n"
        "            volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]\n",
    )

    assert "3 Pods run at once" in only(report(text, claim), "OL405").message


def flushing(pod: str, container: str) -> str:
    return (
        fuse_job(ANNOTATED.format('"true"'), pod=pod)
        .replace("        image: a:1\n", f"        image: a:1\n{container}")
        .replace(
            "        image: a:1\n",
            "        image: a:1\n        volumeMounts: [{name: runs, mountPath: /r}]\n",
        )
    )


SPOT = '      nodeSelector: {cloud.google.com/gke-spot: "true"}\n'
OUTLAST = "        env: [{{name: OUTLAST_GRACE_SECONDS, value: '{}'}}]\n"
HOOK = "        lifecycle: {{preStop: {{sleep: {{seconds: {}}}}}}}\n"


@pytest.mark.parametrize(
    ("pod", "container", "is_flagged"),
    [
        (SPOT, OUTLAST.format(12), False),
        (SPOT, OUTLAST.format(13), True),
        (SPOT, OUTLAST.format("12.5"), True),
        (SPOT, OUTLAST.format(10) + HOOK.format(3), True),
        (SPOT, "", False),
        # Outlast takes 15 s unless it is told otherwise.
        (SPOT, "        env: [{name: OUTLAST_RUN_URL, value: /r/a}]\n", True),
        ("", "        env: [{name: OUTLAST_RUN_URL, value: /r/a}]\n", False),
        ("", OUTLAST.format(25), False),
        ("      terminationGracePeriodSeconds: 25\n", OUTLAST.format(25), True),
        ("      terminationGracePeriodSeconds: 60\n", OUTLAST.format(25) + HOOK.format(20), False),
        ("      terminationGracePeriodSeconds: 2\n", "", True),
        # That nothing is left even for the program is for another rule to say.
        ("      terminationGracePeriodSeconds: 20\n", HOOK.format(20), False),
    ],
)
def test_the_sidecar_needs_time_after_the_program(
    pod: str, container: str, is_flagged: bool
) -> None:
    assert bool(lines(report(flushing(pod, container)), "OL406")) is is_flagged


def test_a_longer_window_leaves_time_to_flush() -> None:
    text = flushing(SPOT + "      terminationGracePeriodSeconds: 105\n", OUTLAST.format(60))
    short = "gcloud container node-pools create s --spot\n"
    tf = (
        'resource "google_container_node_pool" "s" {\n  node_config {\n    spot = true\n'
        "    kubelet_config {\n      shutdown_grace_period_seconds = 120\n    }\n  }\n}\n"
    )

    assert lines(report(text, pools_sh=short), "OL406") != []
    assert lines(report(text, pools_tf=tf), "OL406") == []


def test_a_fix_made_twice_is_the_fix_made_once() -> None:
    once = fixed(fuse_job(), unsafe=True, options=LintOptions(select=("OL4",)))

    assert fixed(once, unsafe=True, options=LintOptions(select=("OL4",))) == once
