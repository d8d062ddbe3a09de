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
- `review.of_kind(...)` and `review.find(...)` look at other objects, `review.pools` at node pools.
  An object that no file defines may well be in the cluster: its absence proves nothing.
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
from outlast.manifests.rules.checkpoint_off_volume import checkpoint_off_volume
from outlast.manifests.rules.default_backoff import default_backoff
from outlast.manifests.rules.duplicate_key import duplicate_key
from outlast.manifests.rules.idle_ignore import idle_ignore
from outlast.manifests.rules.no_failure_policy import no_failure_policy
from outlast.manifests.rules.no_grace import no_grace
from outlast.manifests.rules.no_pending_alert import no_pending_alert
from outlast.manifests.rules.schema_error import schema_error
from outlast.manifests.rules.spot_toleration_on_flex import spot_toleration_on_flex
from outlast.manifests.rules.tolerated_not_selected import tolerated_not_selected
from outlast.manifests.rules.unknown_field import unknown_field
from outlast.manifests.rules.unquoted_value import unquoted_value
from outlast.manifests.rules.unreadable import unreadable
from outlast.manifests.rules.untagged_image import untagged_image

ALL_RULES: tuple[Rule, ...] = (
    no_grace,
    no_failure_policy,
    default_backoff,
    no_pending_alert,
    checkpoint_off_volume,
    tolerated_not_selected,
    spot_toleration_on_flex,
    unquoted_value,
    unknown_field,
    unreadable,
    duplicate_key,
    schema_error,
    untagged_image,
    idle_ignore,
)
