"""Submit objects: try everything first, then apply in order, as field manager `outlast`.

Nothing is ever forced: a field that someone else has changed is left to them if it is theirs to
manage (`suspend`, and what Kueue sets), and refused with their name otherwise. Submitting the same
objects again changes nothing.

If killed: some objects are applied and others are not. Submitting again completes it.
"""

import itertools
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from outlast._base.backoff import backoff_seconds
from outlast.cluster.connection.api import FIELD_MANAGER, Cluster
from outlast.cluster.errors import ApiRefusal, ClusterError, shown
from outlast.cluster.resources import (
    NAMESPACES,
    Object,
    Resource,
    name_of,
    namespace_of,
    title_of,
    version_of,
)
from outlast.cluster.submitting.refusals import Problem, explain, install_hint
from outlast.cluster.submitting.state import ending_of

_CONFLICT_TRIES_MAX = 5
_GONE_SECONDS_MAX = 15 * 60.0
_SETUP_KINDS = ("LocalQueue",)
"""Namespaced, but part of the setup, which is for administrators."""
_OPTIONAL_GROUP = "monitoring.googleapis.com"
"""Work runs without it too: a cluster without it gets no metrics and no alerts."""


class Action(StrEnum):
    """What was done with an object, or would be."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What happened to one object, or would. `note` is for the user.

    `version` is set by a dry run that would change nothing: the object's resource version.
    """

    item: Object
    action: Action
    note: str = ""
    version: str = ""

    @property
    def title(self) -> str:
        return shown(title_of(self.item), characters_max=300)


class SubmitRefused(ClusterError):
    """The API server would not accept all objects. `problems` has the reason for each.

    Nothing was applied, except cluster-wide objects if a namespace had to be created first.
    """

    exit_code = 1

    def __init__(self, problems: tuple[Problem, ...], *, has_setup: bool = False) -> None:
        self.problems = problems
        first, rest = problems[0], len(problems) - 1
        done = "Only the setup was applied." if has_setup else "Nothing was applied."
        more = f" ({rest} more above)" if rest else ""
        super().__init__(f"{done} {first.text}{more}", hint=first.hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmitOptions:
    """`setup`: also apply cluster-wide objects. `replace`: delete what cannot be changed first."""

    setup: bool = False
    dry_run: bool = False
    replace: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """An object with its resource. `must_wait`: its namespace is created by this submission.

    `unchanged_version` is its resource version at a dry run that would have changed nothing.
    """

    item: Object
    resource: Resource
    must_wait: bool = False
    unchanged_version: str = ""

    @property
    def namespace(self) -> str | None:
        return namespace_of(self.item) if self.resource.is_namespaced else None

    @property
    def is_setup(self) -> bool:
        return is_setup(self.item, self.resource)

    def completed(self) -> "Target":
        """The same, without a namespace if the resource has none."""
        return replace(self, item=_without_namespace(self.item, self.resource))

    def read(self, cluster: Cluster) -> Object | None:
        return cluster.get(self.resource, name_of(self.item), self.namespace)


def is_setup(item: Object, resource: Resource) -> bool:
    """Whether an object is part of the cluster's setup, and applied with `--setup` only."""
    return not resource.is_namespaced or item.get("kind") in _SETUP_KINDS


def is_optional(api_version: str) -> bool:
    """Whether work runs without the objects of this API too."""
    return api_version.startswith(f"{_OPTIONAL_GROUP}/")


def submit(cluster: Cluster, objects: Iterable[Object], options: SubmitOptions) -> Iterator[Step]:
    """Apply the objects, and yield what happened to each.

    Raises `SubmitRefused` before anything is applied, and `ApiRefusal` if an object is refused
    although its dry run was not.
    """
    targets, unserved, problems = _resolved(cluster, objects)
    chosen = [target for target in targets if options.setup or not target.is_setup]
    left_out = [target for target in targets if target not in chosen]
    for target in left_out:
        problems += _missing(cluster, target)
    if problems:
        raise SubmitRefused(tuple(problems))
    chosen = _after_namespaces(cluster, chosen)
    planned = _tried([one for one in chosen if not one.must_wait], cluster, options)
    yield from unserved
    yield from (
        Step(item=one.item, action=Action.SKIPPED, note="it exists; changes need --setup")
        for one in left_out
    )
    if options.dry_run:
        yield from planned
        note = "not checked: its namespace does not exist yet"
        yield from (
            Step(item=one.item, action=Action.CREATED, note=note) for one in chosen if one.must_wait
        )
        return
    steps = iter(planned)
    chosen = [
        one if one.must_wait else replace(one, unchanged_version=next(steps).version)
        for one in chosen
    ]
    yield from _applied(cluster, chosen, options)


def _resolved(
    cluster: Cluster, objects: Iterable[Object]
) -> tuple[list[Target], list[Step], list[Problem]]:
    """Each object with its resource. What is not served is skipped if it is optional."""
    targets, skipped, problems = [], [], []
    for item in objects:
        api_version, kind = str(item.get("apiVersion")), str(item.get("kind"))
        resource = cluster.find(api_version, kind)
        if resource is not None:
            targets.append(Target(item=item, resource=resource).completed())
        elif is_optional(api_version):
            note = "the cluster has no managed collection, so no metrics and no alerts"
            skipped.append(Step(item=item, action=Action.SKIPPED, note=note))
        else:
            text = f"The cluster does not serve {kind} of {api_version}: {title_of(item)}."
            problems.append(Problem(text=shown(text), hint=install_hint(api_version)))
    return targets, skipped, problems


def _without_namespace(item: Object, resource: Resource) -> Object:
    if resource.is_namespaced:
        return item
    metadata = {key: value for key, value in item["metadata"].items() if key != "namespace"}
    return {**item, "metadata": metadata}


def _missing(cluster: Cluster, target: Target) -> list[Problem]:
    """A problem if an object of the setup does not exist. Unknown if it may not be read."""
    try:
        if target.read(cluster) is not None:
            return []
    except ApiRefusal as refusal:
        if refusal.status == 403:
            return []
        raise
    return [
        Problem(
            text=f"{title_of(target.item)} does not exist in the cluster.",
            hint="Run it once with --setup, or ask an administrator to.",
        )
    ]


def _after_namespaces(cluster: Cluster, targets: list[Target]) -> list[Target]:
    """Mark what cannot be tried yet, because its namespace is among the targets and new."""
    new = {
        name_of(target.item)
        for target in targets
        if target.resource.kind == NAMESPACES.kind and target.read(cluster) is None
    }
    return [replace(one, must_wait=one.namespace in new) for one in targets]


def _tried(
    targets: list[Target], cluster: Cluster, options: SubmitOptions, *, has_setup: bool = False
) -> list[Step]:
    """Dry runs of all. Raises `SubmitRefused` with every problem."""
    steps, problems = [], []
    for target in targets:
        try:
            steps.append(_try(cluster, target, options))
        except ApiRefusal as refusal:
            if refusal.is_overload:
                raise
            problems.append(explain(refusal, title_of(target.item)))
    if problems:
        raise SubmitRefused(tuple(problems), has_setup=has_setup)
    return steps


def _try(cluster: Cluster, target: Target, options: SubmitOptions) -> Step:
    live = target.read(cluster)
    if _is_being_deleted(live):
        note = "it is being deleted, and is created again after that"
        return Step(item=target.item, action=Action.CREATED, note=note)
    if live is not None and options.replace and ending_of(live) is not None:
        return Step(item=target.item, action=Action.REPLACED, note=_note(live))
    try:
        made = apply_politely(cluster, target, dry_run=True)
    except ApiRefusal as refusal:
        if refusal.is_immutable and options.replace:
            return Step(item=target.item, action=Action.REPLACED)
        raise
    if live is None:
        return Step(item=target.item, action=Action.CREATED)
    is_same = _content(made) == _content(live)
    return Step(
        item=target.item,
        action=Action.UNCHANGED if is_same else Action.CHANGED,
        note=_note(live),
        version=version_of(live) if is_same and _own_fields(made) == _own_fields(live) else "",
    )


def _applied(cluster: Cluster, targets: list[Target], options: SubmitOptions) -> Iterator[Step]:
    waiting = [target for target in targets if target.must_wait]
    for target in targets:
        if waiting and target is waiting[0]:
            # Their namespace exists now, so they can be tried before the first of them is applied.
            _tried(waiting, cluster, options, has_setup=True)
        yield _apply(cluster, target, options)


def _apply(cluster: Cluster, target: Target, options: SubmitOptions) -> Step:
    """Apply an object, unless its dry run would have changed nothing and it is still the same.

    Applying it all the same is not always without effect: the API server stores a new claim once
    more, because it had not stored the default of its status.
    """
    live = target.read(cluster)
    if live is not None and version_of(live) == target.unchanged_version:
        return Step(item=live, action=Action.UNCHANGED, note=_note(live))
    if live is not None and _is_being_deleted(live):
        # The server would accept changes to it, and they would be deleted with it.
        _wait_until_gone(cluster, target, live["metadata"]["uid"])
        live = None
    if live is not None and options.replace and ending_of(live) is not None:
        return _replace(cluster, target, live)
    try:
        made = apply_politely(cluster, target)
    except ApiRefusal as refusal:
        if refusal.is_immutable and options.replace and live is not None:
            return _replace(cluster, target, live)
        problem = explain(refusal, title_of(target.item))
        raise ClusterError(problem.text, hint=problem.hint) from refusal
    if live is None:
        return Step(item=made, action=Action.CREATED)
    is_same = version_of(made) == version_of(live)
    action = Action.UNCHANGED if is_same else Action.CHANGED
    return Step(item=made, action=action, note=_note(made))


def apply_politely(cluster: Cluster, target: Target, *, dry_run: bool = False) -> Object:
    """Apply an object, leaving to others what is theirs: `suspend`, and what Kueue manages.

    The field is left out only after the server reported that another manager has changed it: to
    leave out a field that only Outlast has set would reset it, and start a queued Job.
    """
    item = target.item
    for _ in range(_CONFLICT_TRIES_MAX):
        try:
            return cluster.apply(target.resource, item, dry_run=dry_run)
        except ApiRefusal as refusal:
            fields = [path for path, manager in _conflicts(refusal) if _is_theirs(path, manager)]
            if not fields or len(fields) < len(refusal.conflicts):
                raise
            for path in fields:
                item = _without(item, path.strip(".").split("."))
    return cluster.apply(target.resource, item, dry_run=dry_run)


def _conflicts(refusal: ApiRefusal) -> list[tuple[str, str]]:
    """The fields in conflict, each with the manager that owns it."""
    found = [re.match(r'(\S+) \(conflict with "([^"]*)"', text) for text in refusal.conflicts]
    return [(match[1], match[2]) for match in found if match]


def _is_theirs(path: str, manager: str) -> bool:
    is_plain = re.fullmatch(r"(\.[A-Za-z]+)+", path) is not None
    return is_plain and (path == ".spec.suspend" or is_kueue(manager))


def is_kueue(manager: str) -> bool:
    """Whether a field manager is one of Kueue's."""
    return manager.startswith("kueue")


def _without(item: Any, path: list[str]) -> Any:
    if not isinstance(item, dict) or path[0] not in item:
        return item
    if len(path) == 1:
        return {key: value for key, value in item.items() if key != path[0]}
    return {**item, path[0]: _without(item[path[0]], path[1:])}


def _replace(cluster: Cluster, target: Target, live: Object) -> Step:
    """Delete an object, wait until it and its Pods are gone, and create it again.

    If killed in between: the object is gone, and submitting again creates it.
    """
    uid = live["metadata"]["uid"]
    cluster.delete(target.resource, name_of(live), target.namespace, uid=uid)
    _wait_until_gone(cluster, target, uid)
    made = apply_politely(cluster, target)
    return Step(item=made, action=Action.REPLACED)


def _wait_until_gone(cluster: Cluster, target: Target, uid: str) -> None:
    """Wait until an object is deleted: its Pods first get their grace period to save."""
    give_up_at = time.monotonic() + _GONE_SECONDS_MAX
    for tries in itertools.count():
        live = target.read(cluster)
        if live is None or live["metadata"]["uid"] != uid:
            return
        if time.monotonic() > give_up_at:
            raise ClusterError(
                f"{title_of(target.item)} is still being deleted after 15 minutes.",
                hint="Look for its Pods and finalizers with kubectl, then submit again.",
            )
        time.sleep(backoff_seconds(tries, 0.1, 2.0))


def _is_being_deleted(live: Object | None) -> bool:
    return live is not None and "deletionTimestamp" in live["metadata"]


def _note(live: Object) -> str:
    ending = ending_of(live)
    if ending is not None:
        return f"it has ended ({ending.reason}); --replace runs it again"
    if (live.get("spec") or {}).get("suspend") is True:
        return "it is suspended"
    return ""


def _own_fields(item: Object) -> list[Object]:
    """The fields that Outlast has applied, as the API server keeps them."""
    entries = item["metadata"].get("managedFields") or ()
    return [
        one.get("fieldsV1")
        for one in entries
        if (one.get("manager"), one.get("operation")) == (FIELD_MANAGER, "Apply")
    ]


def _content(item: Object) -> Object:
    """The object without what every request changes."""
    dropped = ("managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in item["metadata"].items() if key not in dropped}
    return {**item, "metadata": metadata, "status": None}
