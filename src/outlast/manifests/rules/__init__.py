"""The rules, one file each, and how to add one.

A rule is a file in this folder. Its name states the fault, and the rule is called like it:
`no_grace.py` holds `no-grace`. Its docstring is the manual page that `outlast rules no-grace`
prints: a title, then paragraphs that start with `Why: ` and `Instead: `. Below stands one generator
under the decorator that says what it looks at:

| decorator | called for | with |
|---|---|---|
| `pod_rule` | each Pod and each template of Pods, in whatever object | `Pod`, `Review` |
| `object_rule` | each object | `Manifest`, `Review` |
| `review_rule` | once, for what only shows across objects or node pools | `Review` |
| `file_rule` | each file as it was read | `File`, `Review` |
| `ignore_rule` | each ignore, after all others | `Ignore`, `Review` |

```python
@pod_rule("OL101", Severity.WARNING)
def no_grace(pod: Pod, review: Review) -> Iterator[Fault]:
    if review.aim(pod).includes_spot and pod.grace_seconds is None:
        yield pod.fault("No grace period is set.", at=("spec", "terminationGracePeriodSeconds"))
```

What helps:

- `review.aim(pod)` says which tier a Pod is aimed at (`includes_spot`, `is_only`, `is_pinned`,
  `by`). Stay silent where it knows nothing: most rules start with it.
- A view (`Pod`, `Job`, `Container`, `Manifest`) answers with the right type or None, whatever a
  file holds: `view.text(...)`, `.integer(...)`, `.mapping(...)`, `.mappings(...)`. What they give
  may still hold anything: ask for the type of each value before using it.
- `view.fault(message, at=path)` points at a scalar itself, and at the key of a mapping or list. For
  what is missing, pass the path it should have: the key of what should hold it is shown.
- `review.window_seconds(pod)` is how long a reclaimed Spot node lets it live. `rules_of(job)` reads
  a podFailurePolicy (`lint/failure_policy.py`), `script_in(...)` what a shell is told to run
  (`lint/script.py`), and `lint/kueue.py` knows what a queue needs.
- `review.of_kind(...)` and `review.find(...)` look at other objects, `review.pools` at node pools.
  An object that no file defines may well be in the cluster: its absence proves nothing.
- `counting.pods_at_once(pod)` says how many run at the same time, `selecting.pods_selected(...)`
  whom a budget or a Service means, `durability.loss_of(volume, ...)` what goes with the node,
  `vocabulary` which word of GKE was meant.
- A message says what is, with the value; the hint what to do. Values go in by `!r`, because they
  come from anyone.
- `view.fix(title, Put(path, value), is_safe=...)` says what should change in the object; the text
  is spliced and proven elsewhere. Safe is only what cannot change anything that works today.

The first digit of a code is the pitfall: 1 silent loss at preemption, 2 starved control plane,
3 blindness for queues, 4 storage gaps, 5 taints, selectors and labels, 6 too much at once,
7 disruption budgets and expiry, 9 hygiene.

Then add the rule below, in the order of its code, and two fixtures that show it:
`tests/fixtures/rules/NAME/flagged.yaml`, each line to be flagged ending in `# <- OL101`, and
`clean.yaml`, which is the same manifest done right. Files beside them, such as `pools.sh`, are
given as `--pools`. A test holds this rule's findings against the marks, and `make docs` shows both
files on the rule's page. What else deserves a test (traps where the rule must stay silent, its fix)
goes into `tests/unit/manifests/rules/test_NAME.py`.
"""

from outlast.manifests.lint.rule import Rule
from outlast.manifests.rules.beyond_pool_maximum import beyond_pool_maximum
from outlast.manifests.rules.beyond_quota import beyond_quota
from outlast.manifests.rules.broken_queue_chain import broken_queue_chain
from outlast.manifests.rules.budget_blocks_drain import budget_blocks_drain
from outlast.manifests.rules.budget_over_job import budget_over_job
from outlast.manifests.rules.checkpoint_off_volume import checkpoint_off_volume
from outlast.manifests.rules.checkpoint_on_node import checkpoint_on_node
from outlast.manifests.rules.claim_shared_once import claim_shared_once
from outlast.manifests.rules.controller_on_spot import controller_on_spot
from outlast.manifests.rules.deadline_while_queued import deadline_while_queued
from outlast.manifests.rules.default_backoff import default_backoff
from outlast.manifests.rules.disruption_not_ignored import disruption_not_ignored
from outlast.manifests.rules.duplicate_key import duplicate_key
from outlast.manifests.rules.duration_on_template import duration_on_template
from outlast.manifests.rules.empty_affinity_term import empty_affinity_term
from outlast.manifests.rules.exit_zero_in_job import exit_zero_in_job
from outlast.manifests.rules.flex_with_spot import flex_with_spot
from outlast.manifests.rules.fuse_without_annotation import fuse_without_annotation
from outlast.manifests.rules.gpu_without_limit import gpu_without_limit
from outlast.manifests.rules.grace_beyond_window import grace_beyond_window
from outlast.manifests.rules.idle_ignore import idle_ignore
from outlast.manifests.rules.idle_parallelism import idle_parallelism
from outlast.manifests.rules.indexed_without_completions import indexed_without_completions
from outlast.manifests.rules.interrupted_code_not_ignored import interrupted_code_not_ignored
from outlast.manifests.rules.invalid_toleration import invalid_toleration
from outlast.manifests.rules.jobset_without_restarts import jobset_without_restarts
from outlast.manifests.rules.launcher_on_spot import launcher_on_spot
from outlast.manifests.rules.misspelt_gke_label import misspelt_gke_label
from outlast.manifests.rules.no_durable_store import no_durable_store
from outlast.manifests.rules.no_failure_policy import no_failure_policy
from outlast.manifests.rules.no_grace import no_grace
from outlast.manifests.rules.no_pending_alert import no_pending_alert
from outlast.manifests.rules.no_such_pool import no_such_pool
from outlast.manifests.rules.no_time_for_flush import no_time_for_flush
from outlast.manifests.rules.outlives_lease import outlives_lease
from outlast.manifests.rules.pod_alert_on_kueue import pod_alert_on_kueue
from outlast.manifests.rules.policy_needs_never import policy_needs_never
from outlast.manifests.rules.priority_too_low import priority_too_low
from outlast.manifests.rules.queue_in_other_namespace import queue_in_other_namespace
from outlast.manifests.rules.removed_api import removed_api
from outlast.manifests.rules.schema_error import schema_error
from outlast.manifests.rules.selector_with_class import selector_with_class
from outlast.manifests.rules.serving_without_budget import serving_without_budget
from outlast.manifests.rules.shadowed_failure_rule import shadowed_failure_rule
from outlast.manifests.rules.shell_as_pid_1 import shell_as_pid_1
from outlast.manifests.rules.slow_pre_stop import slow_pre_stop
from outlast.manifests.rules.spot_only_preferred import spot_only_preferred
from outlast.manifests.rules.spot_toleration_on_flex import spot_toleration_on_flex
from outlast.manifests.rules.tolerated_not_selected import tolerated_not_selected
from outlast.manifests.rules.tolerates_everything import tolerates_everything
from outlast.manifests.rules.unknown_field import unknown_field
from outlast.manifests.rules.unquoted_value import unquoted_value
from outlast.manifests.rules.unreadable import unreadable
from outlast.manifests.rules.untagged_image import untagged_image
from outlast.manifests.rules.untainted_spot_pool import untainted_spot_pool
from outlast.manifests.rules.untolerated_pool import untolerated_pool

ALL_RULES: tuple[Rule, ...] = (
    no_grace,
    grace_beyond_window,
    no_failure_policy,
    default_backoff,
    disruption_not_ignored,
    interrupted_code_not_ignored,
    shadowed_failure_rule,
    policy_needs_never,
    slow_pre_stop,
    shell_as_pid_1,
    exit_zero_in_job,
    jobset_without_restarts,
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
    checkpoint_off_volume,
    checkpoint_on_node,
    no_durable_store,
    fuse_without_annotation,
    claim_shared_once,
    no_time_for_flush,
    tolerated_not_selected,
    spot_toleration_on_flex,
    unquoted_value,
    misspelt_gke_label,
    invalid_toleration,
    flex_with_spot,
    untolerated_pool,
    no_such_pool,
    selector_with_class,
    priority_too_low,
    spot_only_preferred,
    empty_affinity_term,
    unknown_field,
    idle_parallelism,
    beyond_pool_maximum,
    beyond_quota,
    gpu_without_limit,
    budget_over_job,
    serving_without_budget,
    outlives_lease,
    budget_blocks_drain,
    unreadable,
    duplicate_key,
    schema_error,
    untagged_image,
    idle_ignore,
    removed_api,
    indexed_without_completions,
)
