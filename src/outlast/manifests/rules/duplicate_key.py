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
        text = file.source.line_text(file.source.position(start)[0]).strip()
        # A complete entry, not the beginning of a block.
        is_same = text == file.source.line_text(line).strip() and not text.endswith((":", "|", ">"))
        what = ", to the same value" if is_same else "; only this value is used"
        yield file.fault(
            f"The key {repeated.key!r} is already set on line {line}{what}.",
            start=start,
            end=end,
            is_minor=is_same,
        )
