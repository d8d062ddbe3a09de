"""Run rules over a review, and drop findings that an ignore covers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from outlast._redact import known_secrets
from outlast.errors import OutlastError
from outlast.manifests.lint.engine.report import Finding, finding_of
from outlast.manifests.lint.engine.rule import Rule, RuleScope, Severity
from outlast.manifests.lint.engine.suppression import Ignore, annotations_in, comments_in
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.kubernetes.review import Review
from outlast.manifests.lint.view import Fault

Key = tuple[int, int | None]
_OVERLAYS_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleResults:
    """The findings, sorted by file and line, and how many were dropped by ignores."""

    findings: tuple[Finding, ...]
    ignored: int


def run(
    review: Review,
    rules: Sequence[Rule],
    *,
    all_rules: Sequence[Rule],
    severities: Mapping[str, Severity] | None = None,
    parts: Sequence[Review],
) -> RuleResults:
    """Run the rules. An ignore may name any of `all_rules`, even one that does not run.

    `parts` cover the objects of the review: each has those of one cluster or one overlay.
    """
    ignores = _ignores(review, parts)
    collector = _Collector(ignores=_by_key(ignores), severities=severities or {})
    for part in parts:
        subjects = _Subjects(part)
        for rule in rules:
            for fault in _faults_in(rule, subjects):
                collector.take(rule, fault)
    for rule in rules:
        if rule.scope is RuleScope.FILE:
            for fault in _faults(rule, [(file, review) for file in review.files]):
                collector.take(rule, fault)
    for rule in rules:
        if rule.scope is RuleScope.IGNORE:
            seen = [_seen(ignore, rules, all_rules) for ignore in _merged(ignores)]
            for fault in _faults(rule, [(ignore, review) for ignore in seen]):
                collector.take(rule, fault)
    order = {id(file.source): index for index, file in enumerate(review.files)}
    findings = sorted(
        collector.results(),
        key=lambda one: (order.get(id(one.fault.place.source), -1), one.line, one.column, one.code),
    )
    return RuleResults(findings=tuple(findings), ignored=collector.ignored)


@dataclass(kw_only=True, slots=True)
class _Collector:
    """Turns faults into findings, without duplicates and those that an ignore covers.

    A line that is part of several overlays is reported once for the first of them that shows the
    fault; `_overlays` collects the others.
    """

    ignores: dict[Key, list[Ignore]]
    severities: Mapping[str, Severity]
    findings: list[Finding] = field(default_factory=list)
    ignored: int = 0
    _seen: set[tuple[str, int, int, str]] = field(default_factory=set)
    _overlays: dict[tuple[str, int, int], list[str]] = field(default_factory=dict)
    _secrets: set[str] = field(default_factory=known_secrets)

    def take(self, rule: Rule, fault: Fault) -> None:
        if not self._is_first(rule, fault):
            return
        # A value shared through an anchor would be reported once for each use.
        key = (rule.code, id(fault.place.source), fault.place.start, fault.message)
        if key in self._seen:
            return
        self._seen.add(key)
        if self._is_ignored(rule, fault):
            self.ignored += 1
            return
        default = Severity.INFO if fault.is_minor else rule.severity
        severity = self.severities.get(rule.code, default)
        self.findings.append(finding_of(rule, _as_written(fault), severity, secrets=self._secrets))

    def results(self) -> list[Finding]:
        """The findings, with the overlays that show them."""
        if not self._overlays:
            return self.findings
        return [self._with_overlays(finding) for finding in self.findings]

    def _is_first(self, rule: Rule, fault: Fault) -> bool:
        overlay = None if fault.view is None else fault.view.manifest.overlay
        if overlay is None:
            return True
        place = (rule.code, id(fault.place.source), fault.place.start)
        known = self._overlays.setdefault(place, [overlay])
        if overlay not in known:
            known.append(overlay)
        return known[0] == overlay

    def _with_overlays(self, finding: Finding) -> Finding:
        place = finding.fault.place
        known = self._overlays.get((finding.code, id(place.source), place.start), [])
        folder = PurePath(finding.file).parent.as_posix()
        if not known or known == [folder]:
            return finding
        shown = ", ".join(repr(one) for one in known[:_OVERLAYS_SHOWN])
        if len(known) > _OVERLAYS_SHOWN:
            shown += f" and {len(known) - _OVERLAYS_SHOWN} more"
        word = "overlay" if len(known) == 1 else "overlays"
        return replace(finding, message=f"{finding.message} (In {word} {shown}.)")

    def _is_ignored(self, rule: Rule, fault: Fault) -> bool:
        if not self.ignores:
            return False
        source = fault.place.source
        keys: list[Key] = [(id(source), source.position(fault.place.start)[0])]
        if fault.view is not None:
            keys.append((id(fault.view.manifest), None))
        found = False
        for key in keys:
            for ignore in self.ignores.get(key, ()):
                words = {word for word in ignore.words if _names(word, rule)}
                if words and ignore.covers(fault):
                    ignore.used.update(words)
                    found = True
        return found


def _as_written(fault: Fault) -> Fault:
    """The fault without a fix that cannot be made in the file it points at."""
    if fault.fix is None or fault.view is None:
        return fault
    manifest = fault.view.manifest
    if fault.place.source is manifest.written.source and all(
        manifest.is_as_written(change.path) for change in fault.fix.changes
    ):
        return fault
    return replace(fault, fix=None)


class _Subjects:
    """What the rules are called with in a review, collected once for all of them."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._found: dict[tuple[RuleScope, bool], list[tuple[object, ...]]] = {}
        self.manifests = {id(one) for one in review.subjects}

    def of(self, rule: Rule) -> list[tuple[object, ...]]:
        key = (rule.scope, rule.on_patches)
        if key not in self._found:
            self._found[key] = list(self._arguments(rule.scope, on_patches=rule.on_patches))
        return self._found[key]

    def _arguments(self, scope: RuleScope, *, on_patches: bool) -> Iterator[tuple[object, ...]]:
        review = self._review
        manifests = (one for one in review.subjects if on_patches or not one.is_patch)
        match scope:
            case RuleScope.OBJECT:
                yield from ((manifest, review) for manifest in manifests)
            case RuleScope.POD:
                yield from ((pod, review) for one in manifests for pod in review.pods_in(one))
            case RuleScope.REVIEW:
                yield (review,)


def _faults_in(rule: Rule, subjects: _Subjects) -> Iterator[Fault]:
    """The faults of its subjects; the other objects belong to another review."""
    is_partial = rule.scope is RuleScope.REVIEW
    for fault in _faults(rule, subjects.of(rule)):
        if not is_partial or fault.view is None or id(fault.view.manifest) in subjects.manifests:
            yield fault


def _faults(rule: Rule, subjects: Iterable[tuple[object, ...]]) -> Iterator[Fault]:
    for subject in subjects:
        try:
            yield from rule.check(*subject)
        except OutlastError:
            raise
        except Exception as error:
            raise LintError(
                f"Rule {rule} failed: {type(error).__name__}: {error}.",
                hint=f"This is a bug in the rule. Pass --ignore {rule.code} to skip it.",
            ) from error


def _ignores(review: Review, parts: Iterable[Review]) -> list[Ignore]:
    found = [
        ignore
        for file in review.files
        if "outlast:" in file.source.text
        for ignore in comments_in(file.source)
    ]
    for part in parts:
        for manifest in part.subjects:
            found += annotations_in(manifest, part.pods_in(manifest))
    return found


def _merged(ignores: Iterable[Ignore]) -> list[Ignore]:
    """The ignores. One in a base was used if it was used in one of the overlays."""
    found: dict[tuple[int, int, tuple[str, ...]], Ignore] = {}
    for ignore in ignores:
        key = (id(ignore.place.source), ignore.place.start, ignore.words)
        found.setdefault(key, ignore).used.update(ignore.used)
    return list(found.values())


def _by_key(ignores: Iterable[Ignore]) -> dict[Key, list[Ignore]]:
    found: dict[Key, list[Ignore]] = {}
    for ignore in ignores:
        found.setdefault(ignore.key, []).append(ignore)
    return found


def _seen(ignore: Ignore, rules: Sequence[Rule], all_rules: Sequence[Rule]) -> Ignore:
    """The ignore, with the words that are unknown or had no effect."""
    return replace(
        ignore,
        unknown=tuple(w for w in ignore.words if not any(_names(w, rule) for rule in all_rules)),
        idle=tuple(
            word
            for word in ignore.words
            if word not in ignore.used and any(_names(word, rule) for rule in rules)
        ),
    )


def _names(word: str, rule: Rule) -> bool:
    return word == rule.code or word == rule.name
