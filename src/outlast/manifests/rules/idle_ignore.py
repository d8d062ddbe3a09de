"""An ignore that silences nothing.

Why: its rule was satisfied long ago, or its code is mistyped; either way it will hide the next
fault at this place.
Instead: remove the ignore, or correct its code.
"""

from collections.abc import Iterator

from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, ignore_rule
from outlast.manifests.lint.suppression import Ignore
from outlast.manifests.lint.view import Fault


@ignore_rule("OL905", Severity.WARNING)
def idle_ignore(ignore: Ignore, review: Review) -> Iterator[Fault]:
    if not ignore.words:
        yield ignore.fault(
            "This ignore names no rule, so it ignores nothing.",
            hint="Name the rules in brackets, and say why: # outlast: ignore[OL101] reason",
        )
    for word in ignore.unknown:
        yield ignore.fault(f"There is no rule {word!r}.", hint="`outlast rules` lists them all.")
    for word in ignore.idle:
        yield ignore.fault(f"{word} finds nothing here any more.")
