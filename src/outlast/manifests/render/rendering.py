"""Render a workload: make all decisions, then write every object's file.

Pure: the same workload always gives the same bytes.
"""

from collections.abc import Iterator

from outlast.capacity.vocabulary import WorkloadKind
from outlast.capacity.workload.spec import WorkloadSpec
from outlast.manifests.render.access import access_file, node_reader_files, service_account_file
from outlast.manifests.render.deployment import deployment_files
from outlast.manifests.render.eviction import disruption_budget_file, priority_class_file
from outlast.manifests.render.files import RenderedFile
from outlast.manifests.render.job import job_files
from outlast.manifests.render.jobset import jobset_files
from outlast.manifests.render.kueue import kueue_files
from outlast.manifests.render.monitoring import monitoring_files
from outlast.manifests.render.nodes import compute_class_file, node_pool_files
from outlast.manifests.render.resolved import ResolvedWorkload, resolve_workload
from outlast.manifests.render.security import namespace_file, network_policy_file
from outlast.manifests.render.storage import claim_file
from outlast.manifests.render.terraform import terraform_file


def render(workload: WorkloadSpec) -> tuple[RenderedFile, ...]:
    """All files of a workload, in the order in which to apply them.

    Raises `RenderError` if no manifests could make the workload work as described.
    """
    resolved = resolve_workload(workload)
    return tuple(file for file in _files(resolved) if file is not None)


def _files(resolved: ResolvedWorkload) -> Iterator[RenderedFile | None]:
    yield from node_pool_files(resolved)
    yield terraform_file(resolved)
    yield access_file(resolved)
    yield namespace_file(resolved)
    yield priority_class_file(resolved)
    yield service_account_file(resolved)
    yield from node_reader_files(resolved)
    yield claim_file(resolved)
    yield compute_class_file(resolved)
    yield from kueue_files(resolved)
    yield network_policy_file(resolved)
    yield from _work(resolved)
    yield disruption_budget_file(resolved)
    yield from monitoring_files(resolved)


def _work(resolved: ResolvedWorkload) -> list[RenderedFile]:
    workload = resolved.workload
    if workload.kind is WorkloadKind.SERVING or workload.endless:
        return deployment_files(resolved)
    if workload.nodes > 1:
        return jobset_files(resolved)
    return job_files(resolved)
