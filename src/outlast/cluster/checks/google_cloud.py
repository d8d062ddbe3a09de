"""What only Google Cloud knows: the mode of the cluster, quota, and where the bucket is."""

from collections.abc import Iterator

from outlast.capacity.google_cloud import covers
from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, unknown, warn
from outlast.cluster.connection.google_cloud import GcloudFailed, GkeCluster

_QUOTA_NAMES = {
    "nvidia-l4": "NVIDIA_L4",
    "nvidia-tesla-t4": "NVIDIA_T4",
    "nvidia-tesla-v100": "NVIDIA_V100",
    "nvidia-tesla-p100": "NVIDIA_P100",
    "nvidia-tesla-p4": "NVIDIA_P4",
    "nvidia-tesla-a100": "NVIDIA_A100",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB",
}


def check_google_cloud(subject: Subject) -> Iterator[CheckResult]:
    if subject.gke is None:
        yield unknown(
            f"mode, quota and bucket region: context {subject.cluster.context!r} is not one of GKE"
        )
        return
    for check in (_mode, _quota, _bucket):
        try:
            yield from check(subject, subject.gke)
        except GcloudFailed as failed:
            yield unknown(str(failed), failed.hint or "")
            return


def _mode(_: Subject, gke: GkeCluster) -> Iterator[CheckResult]:
    found = gke.describe()
    if (found.get("autopilot") or {}).get("enabled"):
        yield ok("the cluster is Autopilot: GKE creates the nodes")
        return
    is_on = (found.get("autoscaling") or {}).get("enableNodeAutoprovisioning") is True
    yield ok(f"the cluster is Standard, node auto-provisioning is {'on' if is_on else 'off'}")


def _quota(subject: Subject, gke: GkeCluster) -> Iterator[CheckResult]:
    workload = subject.workload
    if workload is None or workload.accelerator is None:
        return
    kind, wanted = workload.accelerator.type, workload.accelerator.count * workload.pods
    name = _QUOTA_NAMES.get(kind)
    tier = str(workload.tier)
    metric = f"{'PREEMPTIBLE_' if tier in ('spot', 'flex-start') else ''}{name}_GPUS"
    quotas = {one.get("metric"): one for one in gke.region_quotas()}
    if name is None or metric not in quotas:
        yield unknown(
            f"quota of {kind} in {gke.region}: it is not among the quotas of the region",
            "See IAM & Admin > Quotas in the console.",
        )
        return
    limit, used = (float(quotas[metric].get(key) or 0) for key in ("limit", "usage"))
    text = f"quota: {metric} is {limit:g} in {gke.region}, {used:g} in use; it asks for {wanted}"
    if wanted > limit:
        yield fail(text, "Ask for more quota, use another region, or fewer accelerators.")
    elif wanted > limit - used:
        yield warn(text, "Wait until others have finished, or ask for more quota.")
    else:
        yield ok(text)


def _bucket(subject: Subject, gke: GkeCluster) -> Iterator[CheckResult]:
    checkpoint = subject.workload.checkpoint if subject.workload else None
    url = getattr(checkpoint, "url", None) or ""
    if not url.startswith("gs://"):
        return
    bucket = url.removeprefix("gs://").partition("/")[0]
    location = gke.bucket_location(bucket).lower()
    is_near = covers(location, gke.region)
    if is_near is None:
        yield unknown(
            f"bucket {bucket!r} is in {location!r}, which is not a location that is known"
        )
    elif is_near:
        yield ok(f"bucket {bucket!r} is in {location}, the cluster in {gke.region}")
    else:
        yield warn(
            f"bucket {bucket!r} is in {location}, but the cluster in {gke.region}: every save "
            "pays for traffic between regions",
            f"Use a bucket in {gke.region}.",
        )
