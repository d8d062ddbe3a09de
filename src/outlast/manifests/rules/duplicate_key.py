"""A key that stands twice in one mapping.

Why: only the last one counts, and nothing says so. Two nodeSelector blocks look as if they added
up; half of what was written has no effect.
Instead: keep one, with everything that is meant in it.
"""

from collections.abc import Iterator

from outlast.manifests.lint.file import File
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, file_rule
from outlast.manifests.lint.view import Fault


@file_rule("OL902", Severity.ERROR)
def duplicate_key(file: File, review: Review) -> Iterator[Fault]:
    for repeated in file.repeated:
        line, _ = file.source.position(repeated.first[0])
        start, end = repeated.second
        yield file.fault(
            f"The key {repeated.key!r} stands in line {line} already; only this one counts.",
            start=start,
            end=end,
        )
