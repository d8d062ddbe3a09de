"""Jobs, and the templates of Jobs in a CronJob or JobSet."""

from dataclasses import dataclass
from typing import Any

from outlast.manifests.lint.validation.metadata import (
    check_selector,
    check_template_metadata,
    selects,
)
from outlast.manifests.lint.validation.names import QUALIFIED_HINT, label_problem, qualified_problem
from outlast.manifests.lint.validation.pods import check_template
from outlast.manifests.lint.validation.refusal import (
    Reason,
    Refusal,
    Refusals,
    choice,
    counted,
    duplicate,
    invalid,
    is_integer,
    listed,
    mapping,
    mappings,
    number,
    required,
    shown,
    text,
    too_many,
    unsupported,
)
from outlast.yamltext.nodes import Path

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_PARALLELISM_MAX = 100_000
_MANY_COMPLETIONS, _PARALLELISM_OF_MANY, _FAILED_OF_MANY = 100_000, 10_000, 10_000
_MANY = "more than 100000 completions"
_CODES_MAX, _CONDITIONS_MAX, _SUCCESS_RULES_MAX, _MANAGER_MAX = 255, 20, 20, 63


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOwner:
    """What the owner of a Job template sets if the template does not, and adds to it."""

    kind: str = "Job"
    restart_policy: str | None = None
    completion_mode: str = "NonIndexed"
    volumes: frozenset[str] = frozenset()


def check_job(data: dict[str, Any]) -> Refusals:
    """A Job of its own."""
    spec = mapping(data, "spec")
    yield from check_job_spec(spec, ("spec",), JobOwner())
    if spec.get("manualSelector") is not True:
        # An object exported from a cluster has the selector that the server set, and the server
        # completes an empty one.
        is_exported = "uid" in mapping(data, "metadata")
        if mapping(spec, "selector") and not is_exported:
            yield invalid(
                ("spec", "selector"),
                "the server sets the selector of a Job itself",
                "Remove the selector.",
            )
    else:
        yield from _own_selector(spec)
    completions = number(spec, "completions")
    if text(spec, "completionMode") == "Indexed" and completions and completions > 0:
        host = f"{text(mapping(data, 'metadata'), 'name')}-{completions - 1}"
        if not host.startswith("-") and label_problem(host):
            yield invalid(
                ("metadata", "name"),
                f"the last Pod would be called {host!r}, which is not a DNS label of at most 63 "
                "characters",
                "Use a shorter name without dots.",
            )


def _own_selector(spec: dict[str, Any]) -> Refusals:
    selector = spec.get("selector")
    if selector is None:
        yield required(("spec", "selector"), "manualSelector is set without it")
        return
    yield from check_selector(selector, ("spec", "selector"))
    labels = mapping(mapping(mapping(spec, "template"), "metadata"), "labels")
    if not selects(selector, labels):
        yield invalid(
            ("spec", "template", "metadata", "labels"),
            "the selector does not match the labels of the template",
        )


def check_job_template(template: dict[str, Any], at: Path, owner: JobOwner) -> Refusals:
    """The template of a Job in another object."""
    yield from check_template_metadata(template, at)
    spec = mapping(template, "spec")
    yield from check_job_spec(spec, (*at, "spec"), owner)
    if isinstance(spec.get("selector"), dict):
        yield invalid((*at, "spec", "selector"), "the server sets the selector of a Job itself")
    if spec.get("manualSelector") is True:
        yield unsupported((*at, "spec", "manualSelector"), True, ("false",))


def check_job_spec(spec: dict[str, Any], at: Path, owner: JobOwner) -> Refusals:
    yield from counted(spec, at, *_COUNTS)
    yield from choice(spec, "completionMode", at, ("Indexed", "NonIndexed"))
    mode = text(spec, "completionMode") or owner.completion_mode
    if mode == "Indexed":
        yield from _indexed(spec, at)
    else:
        yield from _not_indexed(spec, at)
    if number(spec, "maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required((*at, "backoffLimitPerIndex"), "maxFailedIndexes is set without it")
    manager = text(spec, "managedBy")
    if manager and ("/" not in manager or qualified_problem(manager)):
        yield invalid(
            (*at, "managedBy"),
            f"{manager!r} is not a path after a domain",
            "Use a value such as kueue.x-k8s.io/multikueue.",
        )
    if len(manager) > _MANAGER_MAX:
        yield Refusal(
            path=(*at, "managedBy"), reason=Reason.TOO_LONG, detail="at most 63 characters"
        )
    policy = mapping(spec, "podFailurePolicy")
    yield from _failure_policy(policy, (*at, "podFailurePolicy", "rules"))
    replacement = ("Failed",) if policy else ("Failed", "TerminatingOrFailed")
    for refusal in choice(spec, "podReplacementPolicy", at, replacement):
        yield refusal if not policy else _replaced(refusal)
    template = mapping(spec, "template")
    yield from check_template(template, (*at, "template"), extra_volumes=owner.volumes)
    yield from _restarts(spec, template, at, owner)


def _replaced(refusal: Refusal) -> Refusal:
    return Refusal(
        path=refusal.path,
        reason=refusal.reason,
        detail="with a podFailurePolicy, only Failed is possible",
        hint="Use Failed, or remove the field.",
    )


def _restarts(
    spec: dict[str, Any], template: dict[str, Any], at: Path, owner: JobOwner
) -> Refusals:
    policy = text(mapping(template, "spec"), "restartPolicy") or owner.restart_policy
    # A podFailurePolicy without Never has a rule of its own.
    if policy in (None, "Always") and "podFailurePolicy" not in spec:
        yield required(
            (*at, "template", "spec", "restartPolicy"),
            "a Job has no default"
            if policy is None
            else "the Pods of a Job cannot always be restarted",
            "Set Never or OnFailure.",
        )


def _indexed(spec: dict[str, Any], at: Path) -> Refusals:
    completions, parallelism = number(spec, "completions"), number(spec, "parallelism")
    failed = number(spec, "maxFailedIndexes")
    if parallelism is not None and parallelism > _PARALLELISM_MAX:
        yield invalid((*at, "parallelism"), _above(parallelism, _PARALLELISM_MAX, "Indexed Jobs"))
    if failed is not None and completions is not None and failed > completions:
        yield invalid(
            (*at, "maxFailedIndexes"), f"{failed} is more than the {completions} completions"
        )
    if failed is not None and failed > _PARALLELISM_MAX:
        yield invalid((*at, "maxFailedIndexes"), _above(failed, _PARALLELISM_MAX, "Indexed Jobs"))
    is_many = completions is not None and completions > _MANY_COMPLETIONS
    if is_many and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            yield required((*at, "maxFailedIndexes"), "more than 100000 completions need it")
        elif failed > _FAILED_OF_MANY:
            yield invalid((*at, "maxFailedIndexes"), _above(failed, _FAILED_OF_MANY, _MANY))
        if parallelism is not None and parallelism > _PARALLELISM_OF_MANY:
            limit = _above(parallelism, _PARALLELISM_OF_MANY, _MANY)
            yield invalid((*at, "parallelism"), limit)
    policy = spec.get("successPolicy")
    if isinstance(policy, dict):
        yield from _success_policy(policy, (*at, "successPolicy", "rules"), completions)


def _above(value: int, limit: int, what: str) -> str:
    return f"{value} is above {limit}, the limit for {what}"


def _not_indexed(spec: dict[str, Any], at: Path) -> Refusals:
    for key in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(key) is not None:
            yield invalid((*at, key), "only Indexed Jobs have it", "Set completionMode: Indexed.")


def _failure_policy(policy: dict[str, Any], at: Path) -> Refusals:
    # The number of rules, FailIndex and unknown containers have a rule of their own.
    for index, rule in mappings(policy, "rules"):
        path: Path = (*at, index)
        action = text(rule, "action")
        if not action:
            yield required((*path, "action"), "the rule has no action", f"Use {_ACTIONS[-1]}.")
        yield from choice(rule, "action", path, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), listed(rule, "onPodConditions")
        if isinstance(codes, dict) and conditions:
            yield invalid(
                path, "the rule has both onExitCodes and onPodConditions", "Make two rules of it."
            )
        elif codes is None and not conditions:
            yield invalid(
                path,
                "the rule matches nothing",
                "Set onExitCodes or onPodConditions.",
            )
        if isinstance(codes, dict):
            yield from _exit_codes(codes, (*path, "onExitCodes"))
        if conditions:
            yield from _conditions(rule, path)


def _exit_codes(codes: dict[str, Any], at: Path) -> Refusals:
    operator = text(codes, "operator")
    if not operator:
        yield required((*at, "operator"), "the operator is missing", "Use In or NotIn.")
    yield from choice(codes, "operator", at, ("In", "NotIn"))
    values = listed(codes, "values")
    path = (*at, "values")
    if not values:
        yield invalid(path, "the list of exit codes is empty")
    elif len(values) > _CODES_MAX:
        yield too_many(path, len(values), _CODES_MAX)
    seen: set[int] = set()
    numbers = [value for value in values if is_integer(value)]
    for index, value in enumerate(values):
        if not is_integer(value):
            continue
        if value == 0 and operator == "In":
            yield invalid(
                (*path, index), "0 is not a failure, so In cannot match it", "Remove the 0."
            )
        if value in seen:
            yield duplicate((*path, index), value)
        seen.add(value)
    if numbers != sorted(numbers):
        yield invalid(
            path, f"{shown(numbers)} is not in ascending order", f"Use {sorted(set(numbers))}."
        )


def _conditions(rule: dict[str, Any], at: Path) -> Refusals:
    conditions = listed(rule, "onPodConditions")
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many((*at, "onPodConditions"), len(conditions), _CONDITIONS_MAX)
    for index, condition in mappings(rule, "onPodConditions"):
        path: Path = (*at, "onPodConditions", index)
        if problem := qualified_problem(text(condition, "type")):
            yield invalid((*path, "type"), problem, QUALIFIED_HINT)
        # The server sets a missing status to True.
        yield from choice(condition, "status", path, _STATUSES)


def _success_policy(policy: dict[str, Any], at: Path, completions: int | None) -> Refusals:
    rules = listed(policy, "rules")
    if not rules:
        yield required(at, "a successPolicy needs at least one rule")
    if len(rules) > _SUCCESS_RULES_MAX:
        yield too_many(at, len(rules), _SUCCESS_RULES_MAX)
    for index, rule in mappings(policy, "rules"):
        path: Path = (*at, index)
        count, indexes = number(rule, "succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            yield required(path, "the rule needs succeededCount or succeededIndexes")
        named = None
        if isinstance(indexes, str) and completions is not None:
            named = _count_indexes(indexes, completions)
            if named is None:
                yield invalid(
                    (*path, "succeededIndexes"),
                    f"{shown(indexes)} is not a list of indexes in ascending order below "
                    f"{completions}",
                    "Use indexes and ranges such as 0,2-3.",
                )
        yield from counted(rule, path, "succeededCount")
        most = min(value for value in (named, completions, count) if value is not None) if (
            count is not None
        ) else None  # fmt: skip
        if count is not None and most is not None and count > most:
            yield invalid((*path, "succeededCount"), f"{count} is more than the {most} indexes")


def _count_indexes(indexes: str, completions: int) -> int | None:
    """How many indexes a text such as `0,2-4` names, None if it is not valid."""
    total, last = 0, -1
    for part in indexes.split(",") if indexes else ():
        first, dash, second = part.partition("-")
        ends = [first, second] if dash else [first, first]
        if not all(end.isdecimal() for end in ends):
            return None
        start, stop = int(ends[0]), int(ends[1])
        if start <= last or (dash and stop <= start) or stop >= completions:
            return None
        total, last = total + stop - start + 1, stop
    return total
