"""Ignores: comments on a line and annotations on an object, a Pod template or a container.

```yaml
      restartPolicy: Never  # outlast: ignore[OL104] the wrapper exits with 75
metadata:
  annotations:
    outlast/ignore: "OL101, pending-alert: measured in March"
    outlast/ignore.train: "untagged-image: built in CI"      # the container `train`
```

A comment on its own line covers the next line. An annotation has one entry per line.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from outlast.manifests.lint.kubernetes.pod import Pod
from outlast.manifests.lint.view import Fault, KubernetesObject
from outlast.yamltext.nodes import Path
from outlast.yamltext.source import SourceSpan, SourceText

ANNOTATION = "outlast/ignore"

_COMMENT = re.compile(r"#[ \t]*outlast:[ \t]*ignore\b[ \t]*(?:\[([^\]\n]*)\])?[ \t]*([^\r\n]*)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Ignore:
    """One ignore. `words` are its codes and names as written; `place` is its position.

    A comment covers `line` of its source. An annotation covers `path` in its object and everything
    below. `used` collects the words that covered a finding. After all rules have run, `unknown` are
    the words that name no rule, and `idle` those whose rule ran and found nothing here.
    """

    words: tuple[str, ...]
    reason: str
    place: SourceSpan
    line: int | None = None
    manifest: KubernetesObject | None = None
    path: Path = ()
    used: set[str] = field(default_factory=set)
    unknown: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[int, int | None]:
        """What it is looked up by: its source and line, or its object."""
        owner = self.manifest if self.line is None else self.place.source
        return id(owner), self.line

    def covers(self, fault: Fault) -> bool:
        """Whether it covers a fault that has the same key."""
        if self.line is not None or fault.view is None:
            return True
        depth = len(self.path)
        return self.path in (fault.view.path[:depth], fault.at[:depth])

    def fault(self, message: str, *, hint: str | None = None) -> Fault:
        return Fault(message=message, place=self.place, hint=hint)


def comments_in(source: SourceText) -> Iterator[Ignore]:
    """The ignores in the comments of a file."""
    below: dict[int, int] | None = None
    for match in _COMMENT.finditer(source.text):
        line, column = source.position(match.start())
        if not source.line_text(line)[: column - 1].strip():
            below = below or _content_below(source)
            line = below.get(line, line)
        yield Ignore(
            words=_words(match[1] or ""),
            reason=match[2].strip(),
            place=SourceSpan(source=source, start=match.start(), end=match.end()),
            line=line,
        )


def annotations_in(manifest: KubernetesObject, pods: Iterable[Pod]) -> Iterator[Ignore]:
    """The ignores in the annotations of an object and of its Pod templates."""
    if ANNOTATION in manifest.annotations:
        yield from _entries(manifest, ("metadata", "annotations", ANNOTATION), ())
    for pod in pods:
        for key in pod.annotations:
            at = (*pod.path, "metadata", "annotations", key)
            if key == ANNOTATION and pod.path:
                yield from _entries(manifest, at, pod.path)
            elif key.startswith(ANNOTATION + "."):
                name = key.removeprefix(ANNOTATION + ".")
                for container in pod.all_containers:
                    if container.name == name:
                        yield from _entries(manifest, at, container.path)


def _entries(manifest: KubernetesObject, at: Path, covered: Path) -> Iterator[Ignore]:
    for line in (manifest.text(*at) or "").splitlines():
        if line.strip():
            words, _, reason = line.partition(":")
            yield Ignore(
                words=_words(words),
                reason=reason.strip(),
                place=manifest.place(at),
                manifest=manifest,
                path=covered,
            )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


def _content_below(source: SourceText) -> dict[int, int]:
    """For each line, the first one below that is neither blank nor only a comment."""
    found: dict[int, int] = {}
    content: int | None = None
    for number in range(source.line_count, 0, -1):
        if content is not None:
            found[number] = content
        text = source.line_text(number).strip()
        if text and not text.startswith("#"):
            content = number
    return found
