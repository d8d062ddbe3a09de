"""The rules of `outlast lint`, one file each. `api.py` explains how to add one."""

from outlast.manifests.lint.engine.rule import Rule
from outlast.manifests.rules.accepted_but_wrong import accepted_but_wrong
from outlast.manifests.rules.broken_queue_chain import broken_queue_chain
from outlast.manifests.rules.budget_blocks_drain import budget_blocks_drain
from outlast.manifests.rules.budget_on_job import budget_on_job
from outlast.manifests.rules.checkpoint_not_on_volume import checkpoint_not_on_volume
from outlast.manifests.rules.checkpoint_on_node import checkpoint_on_node
from outlast.manifests.rules.controller_on_spot import controller_on_spot
from outlast.manifests.rules.deadline_while_queued import deadline_while_queued
from outlast.manifests.rules.default_backoff import default_backoff
from outlast.manifests.rules.disruption_not_ignored import disruption_not_ignored
from outlast.manifests.rules.duplicate_key import duplicate_key
from outlast.manifests.rules.duration_on_template import duration_on_template
from outlast.manifests.rules.empty_affinity_term import empty_affinity_term
from outlast.manifests.rules.exceeds_pool_maximum import exceeds_pool_maximum
from outlast.manifests.rules.exceeds_quota import exceeds_quota
from outlast.manifests.rules.exceeds_run_duration import exceeds_run_duration
from outlast.manifests.rules.excess_parallelism import excess_parallelism
from outlast.manifests.rules.exit_code_not_ignored import exit_code_not_ignored
from outlast.manifests.rules.exit_zero_in_job import exit_zero_in_job
from outlast.manifests.rules.failure_policy_without_never import failure_policy_without_never
from outlast.manifests.rules.flex_with_spot import flex_with_spot
from outlast.manifests.rules.fuse_without_annotation import fuse_without_annotation
from outlast.manifests.rules.gpu_without_limit import gpu_without_limit
from outlast.manifests.rules.grace_beyond_window import grace_beyond_window
from outlast.manifests.rules.indexed_without_completions import indexed_without_completions
from outlast.manifests.rules.invalid_object import invalid_object
from outlast.manifests.rules.invalid_toleration import invalid_toleration
from outlast.manifests.rules.invalid_yaml import invalid_yaml
from outlast.manifests.rules.jobset_counts_evictions import jobset_counts_evictions
from outlast.manifests.rules.jobset_without_restarts import jobset_without_restarts
from outlast.manifests.rules.launcher_on_spot import launcher_on_spot
from outlast.manifests.rules.launcher_outlives_grace import launcher_outlives_grace
from outlast.manifests.rules.launcher_restarts import launcher_restarts
from outlast.manifests.rules.launcher_without_exec import launcher_without_exec
from outlast.manifests.rules.misspelled_gke_label import misspelled_gke_label
from outlast.manifests.rules.misspelled_resource import misspelled_resource
from outlast.manifests.rules.negative_jobset_priority import negative_jobset_priority
from outlast.manifests.rules.no_durable_store import no_durable_store
from outlast.manifests.rules.no_failure_policy import no_failure_policy
from outlast.manifests.rules.no_grace import no_grace
from outlast.manifests.rules.no_pending_alert import no_pending_alert
from outlast.manifests.rules.no_such_pool import no_such_pool
from outlast.manifests.rules.no_time_for_flush import no_time_for_flush
from outlast.manifests.rules.old_provisioning_annotation import old_provisioning_annotation
from outlast.manifests.rules.pod_alert_on_kueue import pod_alert_on_kueue
from outlast.manifests.rules.priority_too_low import priority_too_low
from outlast.manifests.rules.queue_in_other_namespace import queue_in_other_namespace
from outlast.manifests.rules.removed_api import removed_api
from outlast.manifests.rules.removed_kueue_field import removed_kueue_field
from outlast.manifests.rules.schema_error import schema_error
from outlast.manifests.rules.selector_with_class import selector_with_class
from outlast.manifests.rules.serving_without_budget import serving_without_budget
from outlast.manifests.rules.shadowed_failure_rule import shadowed_failure_rule
from outlast.manifests.rules.shared_rwo_claim import shared_rwo_claim
from outlast.manifests.rules.shell_as_pid_1 import shell_as_pid_1
from outlast.manifests.rules.single_replica_on_spot import single_replica_on_spot
from outlast.manifests.rules.slow_pre_stop import slow_pre_stop
from outlast.manifests.rules.spot_only_preferred import spot_only_preferred
from outlast.manifests.rules.spot_toleration_on_flex import spot_toleration_on_flex
from outlast.manifests.rules.template_in_other_namespace import template_in_other_namespace
from outlast.manifests.rules.tolerated_not_selected import tolerated_not_selected
from outlast.manifests.rules.tolerates_everything import tolerates_everything
from outlast.manifests.rules.unknown_field import unknown_field
from outlast.manifests.rules.unquoted_value import unquoted_value
from outlast.manifests.rules.untagged_image import untagged_image
from outlast.manifests.rules.untainted_spot_pool import untainted_spot_pool
from outlast.manifests.rules.untolerated_taint import untolerated_taint
from outlast.manifests.rules.unused_ignore import unused_ignore

ALL_RULES: tuple[Rule, ...] = (
    no_grace,
    grace_beyond_window,
    no_failure_policy,
    default_backoff,
    disruption_not_ignored,
    exit_code_not_ignored,
    shadowed_failure_rule,
    failure_policy_without_never,
    slow_pre_stop,
    shell_as_pid_1,
    exit_zero_in_job,
    jobset_without_restarts,
    launcher_restarts,
    launcher_without_exec,
    launcher_outlives_grace,
    jobset_counts_evictions,
    launcher_on_spot,
    controller_on_spot,
    tolerates_everything,
    untainted_spot_pool,
    no_pending_alert,
    pod_alert_on_kueue,
    duration_on_template,
    broken_queue_chain,
    queue_in_other_namespace,
    deadline_while_queued,
    template_in_other_namespace,
    removed_kueue_field,
    old_provisioning_annotation,
    checkpoint_not_on_volume,
    checkpoint_on_node,
    no_durable_store,
    fuse_without_annotation,
    shared_rwo_claim,
    no_time_for_flush,
    tolerated_not_selected,
    spot_toleration_on_flex,
    unquoted_value,
    misspelled_gke_label,
    invalid_toleration,
    flex_with_spot,
    untolerated_taint,
    no_such_pool,
    selector_with_class,
    priority_too_low,
    spot_only_preferred,
    empty_affinity_term,
    negative_jobset_priority,
    misspelled_resource,
    unknown_field,
    excess_parallelism,
    exceeds_pool_maximum,
    exceeds_quota,
    gpu_without_limit,
    budget_on_job,
    serving_without_budget,
    exceeds_run_duration,
    budget_blocks_drain,
    single_replica_on_spot,
    invalid_yaml,
    duplicate_key,
    schema_error,
    untagged_image,
    unused_ignore,
    removed_api,
    indexed_without_completions,
    invalid_object,
    accepted_but_wrong,
)
