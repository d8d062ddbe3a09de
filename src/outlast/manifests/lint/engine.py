"""Run rules over a review, and drop what an ignore speaks for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from outlast.errors import OutlastError
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.finding import Finding, finding_of
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Rule, Scope, Severity
from outlast.manifests.lint.suppression import Ignore, annotations_in, comments_in
from outlast.manifests.lint.view import Fault

Key = tuple[int, int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The findings in the order of their files and lines, and how many an ignore has dropped."""

    findings: tuple[Finding, ...]
    ignored: int


def run(
    review: Review,
    rules: Sequence[Rule],
    *,
    all_rules: Sequence[Rule],
    severities: Mapping[str, Severity] | None = None,
) -> Outcome:
    """All that `rules` have to say. An ignore may name any of `all_rules`, run or not."""
    ignores = _ignores(review)
    judge = _Judge(ignores=_by_key(ignores), severities=severities or {})
    for rule in rules:
        for fault in _faults(rule, _subjects(rule, review)):
            judge.take(rule, fault)
    for rule in rules:
        if rule.scope is Scope.IGNORE:
            seen = [_seen(ignore, rules, all_rules) for ignore in ignores]
            for fault in _faults(rule, [(ignore, review) for ignore in seen]):
                judge.take(rule, fault)
    order = {id(file.source): index for index, file in enumerate(review.files)}
    findings = sorted(
        judge.findings,
        key=lambda one: (order.get(id(one.fault.place.source), -1), one.line, one.column, one.code),
    )
    return Outcome(findings=tuple(findings), ignored=judge.ignored)


@dataclass(kw_only=True, slots=True)
class _Judge:
    """Turns faults into findings, each once, unless an ignore covers it."""

    ignores: dict[Key, list[Ignore]]
    severities: Mapping[str, Severity]
    findings: list[Finding] = field(default_factory=list)
    ignored: int = 0
    _seen: set[tuple[str, int, int, str]] = field(default_factory=set)

    def take(self, rule: Rule, fault: Fault) -> None:
        # An anchor that many objects use would be reported as often.
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
        case Scope.FILE:
            yield from ((file, review) for file in review.files)
        case Scope.OBJECT:
            for manifest in review.manifests:
                if rule.on_patches or not manifest.is_patch:
                    yield manifest, review
        case Scope.POD:
            yield from ((pod, review) for pod in review.pods)
            if rule.on_patches:
                for manifest in review.manifests:
                    if manifest.is_patch:
                        yield from ((pod, review) for pod in review.pods_in(manifest))
        case Scope.REVIEW:
            yield (review,)


def _faults(rule: Rule, subjects: Iterable[tuple[object, ...]]) -> Iterator[Fault]:
    for subject in subjects:
        try:
            yield from rule.check(*subject)
        except OutlastError:
            raise
        except Exception as error:
            raise LintError(
                f"The rule {rule} failed: {type(error).__name__}: {error}.",
                hint=f"This is a mistake in the rule. Pass --ignore {rule.code} to go on.",
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
    """The ignore with what has become of its words."""
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
