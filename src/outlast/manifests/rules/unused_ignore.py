"""An ignore comment or annotation suppresses nothing.

Why: the problem has been fixed since, or the code of the rule is misspelled. If the ignore stays,
it hides the next problem in the same place.
Instead: remove the ignore, or correct its code.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Ignore, Review, Severity, ignore_rule


@ignore_rule("OL905", Severity.WARNING)
def unused_ignore(ignore: Ignore, review: Review) -> Iterator[Fault]:
    if not ignore.words:
        yield ignore.fault(
            "This ignore does not name a rule, so it has no effect.",
            hint="Name the rules in brackets and give a reason: # outlast: ignore[OL101] reason",
        )
    for word in ignore.unknown:
        yield ignore.fault(f"Unknown rule {word!r}.", hint="Run `outlast rules` to list all rules.")
    for word in ignore.idle:
        yield ignore.fault(f"{word} no longer finds anything here.")
