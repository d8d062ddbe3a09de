"""A key appears more than once in the same mapping.

Why: only the last value takes effect, without a warning. Two nodeSelector blocks look as if they
were combined, but everything in the first one is discarded.
Instead: keep one of them and merge the others into it.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, LoadedFile, Review, Severity, file_rule


@file_rule("OL902", Severity.ERROR)
def duplicate_key(file: LoadedFile, review: Review) -> Iterator[Fault]:
    for repeated in file.reading.repeated:
        line, _ = file.source.position(repeated.first[0])
        start, end = repeated.second
        yield file.fault(
            f"The key {repeated.key!r} is already set on line {line}; only this value is used.",
            start=start,
            end=end,
        )
