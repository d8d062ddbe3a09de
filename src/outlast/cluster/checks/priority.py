"""Whether the priority classes of the Pods exist: a Job without its class creates no Pod."""

from collections.abc import Iterator

from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, warn
from outlast.cluster.resources import PRIORITY_CLASSES


def check_priority(subject: Subject) -> Iterator[CheckResult]:
    names = (template.spec.get("priorityClassName") for template in subject.pod_templates())
    for name in dict.fromkeys(name for name in names if isinstance(name, str) and name):
        found = subject.cluster.get(PRIORITY_CLASSES, name)
        if found is None:
            submit = (
                "Run `outlast submit FILE --setup`." if subject.has("PriorityClass", name) else ""
            )
            yield fail(
                f"PriorityClass {name!r} does not exist, so no Pod would be created",
                submit or "Create it, or use another priorityClassName.",
            )
        elif (found.get("value") or 0) < -10:
            yield warn(
                f"PriorityClass {name!r} is below -10: the autoscaler adds no nodes for it",
                "Use a value of -10 or more, except on Autopilot.",
            )
        else:
            yield ok(f"PriorityClass {name!r} exists, value {found.get('value') or 0}")
