"""Render a workload: settle what is open, then write every object's file. Pure, and the same
bytes for the same workload."""

from collections.abc import Iterator

from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.vocabulary import Kind
from outlast.manifests.render.access import access_file
from outlast.manifests.render.compute_class import compute_class_file
from outlast.manifests.render.deployment import deployment_files
from outlast.manifests.render.disruption_budget import disruption_budget_file
from outlast.manifests.render.files import RenderedFile
from outlast.manifests.render.job import job_files
from outlast.manifests.render.jobset import jobset_files
from outlast.manifests.render.kueue import kueue_files
from outlast.manifests.render.monitoring import monitoring_files
from outlast.manifests.render.namespace import namespace_file
from outlast.manifests.render.node_pool import node_pool_files
from outlast.manifests.render.priority_class import priority_class_file
from outlast.manifests.render.service_account import node_reader_files, service_account_file
from outlast.manifests.render.settled import Settled, settle
from outlast.manifests.render.storage import claim_file
from outlast.manifests.render.terraform import terraform_file


def render(workload: WorkloadSpec) -> tuple[RenderedFile, ...]:
    """All files of a workload, in the order in which they are to be applied.

    Raises `RenderError` where no manifests could keep the workload's promises.
    """
    settled = settle(workload)
    return tuple(file for file in _files(settled) if file is not None)


def _files(settled: Settled) -> Iterator[RenderedFile | None]:
    yield from node_pool_files(settled)
    yield terraform_file(settled)
    yield access_file(settled)
    yield namespace_file(settled)
    yield priority_class_file(settled)
    yield service_account_file(settled)
    yield from node_reader_files(settled)
    yield claim_file(settled)
    yield compute_class_file(settled)
    yield from kueue_files(settled)
    yield from _work(settled)
    yield disruption_budget_file(settled)
    yield from monitoring_files(settled)


def _work(settled: Settled) -> list[RenderedFile]:
    workload = settled.workload
    if workload.kind is Kind.SERVING or workload.endless:
        return deployment_files(settled)
    if workload.nodes > 1:
        return jobset_files(settled)
    return job_files(settled)
