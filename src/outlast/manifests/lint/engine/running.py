"""Run rules over a review, and drop findings that an ignore covers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from outlast.errors import OutlastError
from outlast.manifests.lint.engine.report import Finding, finding_of
from outlast.manifests.lint.engine.rule import Rule, RuleScope, Severity
from outlast.manifests.lint.engine.suppression import Ignore, annotations_in, comments_in
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.kubernetes.review import Review
from outlast.manifests.lint.view import Fault

Key = tuple[int, int | None]


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
) -> RuleResults:
    """Run the rules. An ignore may name any of `all_rules`, even one that does not run."""
    ignores = _ignores(review)
    collector = _Collector(ignores=_by_key(ignores), severities=severities or {})
    for rule in rules:
        for fault in _faults(rule, _subjects(rule, review)):
            collector.take(rule, fault)
    for rule in rules:
        if rule.scope is RuleScope.IGNORE:
            seen = [_seen(ignore, rules, all_rules) for ignore in ignores]
            for fault in _faults(rule, [(ignore, review) for ignore in seen]):
                collector.take(rule, fault)
    order = {id(file.source): index for index, file in enumerate(review.files)}
    findings = sorted(
        collector.findings,
        key=lambda one: (order.get(id(one.fault.place.source), -1), one.line, one.column, one.code),
    )
    return RuleResults(findings=tuple(findings), ignored=collector.ignored)


@dataclass(kw_only=True, slots=True)
class _Collector:
    """Turns faults into findings, without duplicates and those that an ignore covers."""

    ignores: dict[Key, list[Ignore]]
    severities: Mapping[str, Severity]
    findings: list[Finding] = field(default_factory=list)
    ignored: int = 0
    _seen: set[tuple[str, int, int, str]] = field(default_factory=set)

    def take(self, rule: Rule, fault: Fault) -> None:
        # A value shared through an anchor would be reported once for each use.
        key = (rule.code, id(fault.place.source), fault.place.start, fault.message)
        if key in self._seen:
            return
        self._seen.add(key)
        if self._is_ignored(rule, fault):
            self.ignored += 1
            return
        severity = self.severities.get(rule.code, rule.severity)
        self.findings.append(finding_of(rule, fault, severity))

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


def _subjects(rule: Rule, review: Review) -> Iterator[tuple[object, ...]]:
    match rule.scope:
        case RuleScope.FILE:
            yield from ((file, review) for file in review.files)
        case RuleScope.OBJECT:
            for manifest in review.manifests:
                if rule.on_patches or not manifest.is_patch:
                    yield manifest, review
        case RuleScope.POD:
            yield from ((pod, review) for pod in review.pods)
            if rule.on_patches:
                for manifest in review.manifests:
                    if manifest.is_patch:
                        yield from ((pod, review) for pod in review.pods_in(manifest))
        case RuleScope.REVIEW:
            yield (review,)


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


def _ignores(review: Review) -> list[Ignore]:
    found = [
        ignore
        for file in review.files
        if "outlast:" in file.source.text
        for ignore in comments_in(file.source)
    ]
    for manifest in review.manifests:
        found += annotations_in(manifest, review.pods_in(manifest))
    return found


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
