"""A document is not valid YAML.

Why: kubectl cannot apply the document, and nothing in it has been checked.
Instead: fix the document at the position shown. The usual causes are wrong indentation, an unclosed
quote or a tab, at that position or shortly before it.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, LoadedFile, Review, Severity, file_rule


@file_rule("OL901", Severity.ERROR)
def invalid_yaml(file: LoadedFile, review: Review) -> Iterator[Fault]:
    for broken in file.broken:
        end = min(broken.offset + 1, len(file.source.text))
        yield file.fault(
            f"This document cannot be parsed: {broken.reason}.", start=broken.offset, end=end
        )
