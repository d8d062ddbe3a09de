"""Whether the API server serves the kinds of the objects, by discovery."""

from collections.abc import Iterator

from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, warn
from outlast.cluster.submitting.refusals import install_hint
from outlast.cluster.submitting.submitting import is_optional


def check_kinds(subject: Subject) -> Iterator[CheckResult]:
    kinds = dict.fromkeys(
        (str(item.get("apiVersion")), str(item.get("kind"))) for item in subject.objects
    )
    missing = [one for one in kinds if subject.cluster.find(*one) is None]
    for api_version, kind in missing:
        text = f"{kind} of {api_version} is not served"
        if is_optional(api_version):
            yield warn(f"{text}: no metrics and no alerts", install_hint(api_version))
        else:
            yield fail(text, install_hint(api_version))
    if kinds and not missing:
        yield ok(f"all {len(kinds)} kinds of objects are served")
