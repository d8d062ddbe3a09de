"""A document that is not YAML.

Why: what cannot be read cannot be applied, and nothing in it was looked at here.
Instead: mend it at the place shown; mostly it is the indentation, a quote or a tab before it.
"""

from collections.abc import Iterator

from outlast.manifests.lint.file import File
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, file_rule
from outlast.manifests.lint.view import Fault


@file_rule("OL901", Severity.ERROR)
def unreadable(file: File, review: Review) -> Iterator[Fault]:
    for broken in file.broken:
        end = min(broken.offset + 1, len(file.source.text))
        yield file.fault(
            f"This document cannot be read: {broken.reason}.", start=broken.offset, end=end
        )
