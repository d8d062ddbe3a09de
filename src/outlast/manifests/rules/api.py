"""Everything a rule needs, in one import, and how to add a rule.

A rule is a file in this folder, named after the fault: `no_grace.py` contains `no-grace`. Its
docstring is the manual page that `outlast rules no-grace` prints: a title, then paragraphs that
start with `Why: ` and `Instead: `. The code is one generator with a decorator that says what the
rule is called for:

| decorator | called for | arguments |
|---|---|---|
| `pod_rule` | each Pod and each Pod template, in any kind of object | `Pod`, `Review` |
| `object_rule` | each object | `KubernetesObject`, `Review` |
| `review_rule` | once, for faults across objects or node pools | `Review` |
| `file_rule` | each file | `LoadedFile`, `Review` |
| `ignore_rule` | each ignore, after all other rules | `Ignore`, `Review` |

```python
from outlast.manifests.rules.api import Fault, Pod, Review, Severity, pod_rule

@pod_rule("OL101", Severity.WARNING)
def no_grace(pod: Pod, review: Review) -> Iterator[Fault]:
    if review.placement(pod).includes_spot and pod.grace_seconds is None:
        yield pod.fault("No grace period is set.", at=("spec", "terminationGracePeriodSeconds"))
```

- `review.placement(pod)` is the tiers a Pod may run on (`includes_spot`, `is_only`, `is_pinned`,
  `by`). Most rules start with it and report nothing if it is unknown.
- Views (`Pod`, `Job`, `Container`, `KubernetesObject`) always return the requested type
  or None: `view.text(...)`, `.integer(...)`, `.mapping(...)`, `.mappings(...)`. Values
  inside a mapping or list can still be anything: check their type before using them.
- `view.fault(message, at=path)` points at a scalar, or at the key of a mapping or list. For
  something missing, pass the path it should have: the key of its parent is shown.
- `review.window_seconds(pod)` is how long a Pod can run after its Spot node is reclaimed.
  `failure_rules_of(job)` parses a podFailurePolicy, `script_in(...)` the script given to a shell,
  `pod.only_waits` whether it has nothing to save,
  `kueue_references(...)` what a Kueue object refers to.
- `review.of_kind(...)` and `review.find(...)` return other objects, `review.pools` node pools. An
  object that no file defines may exist in the cluster: its absence proves nothing.
- `launchers_in(container)` are torchrun and `accelerate launch`, in the command or in a script.
  `ending_by_disruptions` and `ending_by_code` say what ends a Job, `failures_allowed` how many of
  these failures its JobSet survives.
- `is_placeholder(text)` is true for text that is filled in later, `is_vendored(source)` for files
  of another project, and `share_folder(one, other)` for objects of one project.
- `pods_at_once(pod)` is how many Pods run at the same time, `pods_selected(...)` the Pods of
  a budget or Service, `loss_of(volume, ...)` why a volume is lost with the node, and `meant_key`
  and `meant_value` correct misspelled GKE labels.
- `view.fault(..., is_minor=True)` reports a fault as information where it matters less.
- A message states the fact with its value; the hint says what to do. Quote values with `!r`,
  because they come from the user.
- `view.fix(title, Put(path, value), is_safe=...)` describes a change of the object. Editing the
  text and verifying the result happen elsewhere. A fix is safe only if it cannot change anything
  that works today.

The first digit of a code is the category: 1 silent loss at preemption, 2 starved control plane,
3 unobserved queues, 4 storage gaps, 5 taints, selectors and labels, 6 too much at once,
7 disruption budgets and expiry, 9 hygiene.

Then add the rule to `ALL_RULES`, in the order of the codes, with two fixtures:
`tests/fixtures/rules/NAME/flagged.yaml`, in which each line to report ends with `# <- OL101`, and
`clean.yaml`, the corrected manifest. Other files next to them, such as `pools.sh`, are passed as
`--pools`. A test compares the rule's findings with the marks, and `make docs` shows both files on
the rule's page. Further tests (cases that must not be reported, the fix) go into
`tests/unit/manifests/rules/test_NAME.py`.
"""

from outlast._base.durations import format_duration
from outlast.capacity.google_cloud import built_in
from outlast.manifests.conventions import (
    CLASS_LABEL,
    FLEX_START_LABEL,
    FUSE_ANNOTATION,
    GPU,
    INTERRUPTED_CODE,
    KUEUE_GROUP,
    LABEL_PREFIX,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    PROVISIONING_PREFIX,
    QUEUE_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)
from outlast.manifests.launchers import SHUTDOWN_SECONDS_DEFAULT, SHUTDOWN_VARIABLE
from outlast.manifests.lint.engine.rule import (
    Severity,
    file_rule,
    ignore_rule,
    object_rule,
    pod_rule,
    review_rule,
)
from outlast.manifests.lint.engine.suppression import Ignore
from outlast.manifests.lint.kubernetes.alerts import alert_texts
from outlast.manifests.lint.kubernetes.jobs import (
    CODE_VARIABLE,
    IGNORE_DISRUPTIONS,
    FailureRule,
    PodCount,
    failure_rules_of,
    ignores_disruptions,
    ignoring_code,
    interrupted_code_of,
    pods_at_once,
)
from outlast.manifests.lint.kubernetes.jobsets import (
    FAILURE_POLICY,
    ROOMY_LIMIT,
    JobEnding,
    ending_by_code,
    ending_by_disruptions,
    failures_allowed,
    jobset_rules,
    max_restarts_of,
    replicated_job_name,
)
from outlast.manifests.lint.kubernetes.kueue import (
    POD_BY_POD_KINDS,
    kueue_objects,
    kueue_references,
    queue_label_at,
    queue_of,
    queued_objects,
)
from outlast.manifests.lint.kubernetes.launchers import ContainerLauncher, launchers_in
from outlast.manifests.lint.kubernetes.placeholders import is_placeholder, is_vendored
from outlast.manifests.lint.kubernetes.placement import (
    BUILT_IN_CLASSES,
    TIER_KEYS,
    Evidence,
    selects_pool,
    tolerated_tier,
)
from outlast.manifests.lint.kubernetes.pod import (
    GRACE_SECONDS_DEFAULT,
    Container,
    Job,
    Mount,
    Pod,
    Volume,
)
from outlast.manifests.lint.kubernetes.review import (
    LoadedFile,
    Review,
    pods_selected,
    share_folder,
    share_namespace,
)
from outlast.manifests.lint.kubernetes.schemas import SchemaError, SchemaProblem, dotted
from outlast.manifests.lint.kubernetes.script import (
    SETUP_COMMANDS,
    ShellCall,
    ShellScript,
    only_shows_or_measures,
    script_in,
    sleep_seconds,
)
from outlast.manifests.lint.kubernetes.storage import (
    FUSE_SIDECAR,
    fuse_volumes,
    loss_of,
    may_reach_store,
)
from outlast.manifests.lint.kubernetes.vocabulary import (
    is_on_no_node,
    meant_accelerator,
    meant_key,
    meant_value,
)
from outlast.manifests.lint.pools.model import NodePool, NodeTier
from outlast.manifests.lint.scheduling import HARD_EFFECTS, Requirement, Taint, Term
from outlast.manifests.lint.validation.objects import refusals
from outlast.manifests.lint.view import Fault, Fix, KubernetesObject, ObjectView
from outlast.yamltext.editing import Append, Change, Put, Remove, Rename
from outlast.yamltext.nodes import Map, Path, get
from outlast.yamltext.source import SourceText

__all__ = [
    "BUILT_IN_CLASSES",
    "CLASS_LABEL",
    "CODE_VARIABLE",
    "FAILURE_POLICY",
    "FLEX_START_LABEL",
    "FUSE_ANNOTATION",
    "FUSE_SIDECAR",
    "GPU",
    "GRACE_SECONDS_DEFAULT",
    "HARD_EFFECTS",
    "IGNORE_DISRUPTIONS",
    "INTERRUPTED_CODE",
    "KUEUE_GROUP",
    "LABEL_PREFIX",
    "POD_BY_POD_KINDS",
    "POOL_LABEL",
    "PREEMPTIBLE_LABEL",
    "PROVISIONING_LABEL",
    "PROVISIONING_PREFIX",
    "QUEUED_LABEL",
    "QUEUE_LABEL",
    "ROOMY_LIMIT",
    "SETUP_COMMANDS",
    "SHUTDOWN_SECONDS_DEFAULT",
    "SHUTDOWN_VARIABLE",
    "SPOT_LABEL",
    "TIER_KEYS",
    "Append",
    "Change",
    "Container",
    "ContainerLauncher",
    "Evidence",
    "FailureRule",
    "Fault",
    "Fix",
    "Ignore",
    "Job",
    "JobEnding",
    "KubernetesObject",
    "LoadedFile",
    "Map",
    "Mount",
    "NodePool",
    "NodeTier",
    "ObjectView",
    "Path",
    "Pod",
    "PodCount",
    "Put",
    "Remove",
    "Rename",
    "Requirement",
    "Review",
    "SchemaError",
    "SchemaProblem",
    "Severity",
    "ShellCall",
    "ShellScript",
    "SourceText",
    "Taint",
    "Term",
    "Volume",
    "alert_texts",
    "built_in",
    "dotted",
    "ending_by_code",
    "ending_by_disruptions",
    "failure_rules_of",
    "failures_allowed",
    "file_rule",
    "format_duration",
    "fuse_volumes",
    "get",
    "ignore_rule",
    "ignores_disruptions",
    "ignoring_code",
    "interrupted_code_of",
    "is_on_no_node",
    "is_placeholder",
    "is_vendored",
    "jobset_rules",
    "kueue_objects",
    "kueue_references",
    "launchers_in",
    "loss_of",
    "max_restarts_of",
    "may_reach_store",
    "meant_accelerator",
    "meant_key",
    "meant_value",
    "object_rule",
    "only_shows_or_measures",
    "pod_rule",
    "pods_at_once",
    "pods_selected",
    "queue_label_at",
    "queue_of",
    "queued_objects",
    "refusals",
    "replicated_job_name",
    "review_rule",
    "script_in",
    "selects_pool",
    "share_folder",
    "share_namespace",
    "sleep_seconds",
    "tolerated_tier",
]
