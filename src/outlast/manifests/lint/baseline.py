"""A baseline: the findings somebody has accepted for now, so that only new ones are reported.

A finding is known by its rule, its file and the text of its line, not by the line's number, which
changes with every edit above it.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.finding import Finding

_VERSION = 1
Key = tuple[str, str, str]


def read_baseline(path: Path) -> Counter[Key]:
    """The findings in a baseline, with how often each may occur."""
    try:
        data: Any = json.loads(path.read_bytes())
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']!r}")
        return Counter(
            {
                (str(e["code"]), str(e["file"]), str(e["text"])): int(e["count"])
                for e in data["findings"]
            }
        )
    except FileNotFoundError:
        raise LintError(
            f"There is no baseline {str(path)!r}.", hint="Pass --write-baseline to write it."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LintError(
            f"{str(path)!r} is no baseline: {error}.",
            hint="Pass --write-baseline to write it anew.",
        ) from error


def baseline_text(findings: Iterable[Finding]) -> str:
    """What a baseline of these findings holds."""
    counts = Counter(_key(finding) for finding in findings)
    entries = [
        {"code": code, "file": file, "text": text, "count": count}
        for (code, file, text), count in sorted(counts.items())
    ]
    return json.dumps({"version": _VERSION, "findings": entries}, indent=2) + "\n"


def without_known(
    findings: Iterable[Finding], known: Counter[Key]
) -> tuple[list[Finding], Counter[Key]]:
    """The findings that the baseline does not hold, and what it holds that no longer occurs."""
    left = known.copy()
    new = []
    for finding in findings:
        key = _key(finding)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(finding)
    return new, +left


def _key(finding: Finding) -> Key:
    source = finding.fault.place.source
    # The same file counts as the same however it was named, from the same working folder.
    file = source.name if source.path is None else Path(os.path.relpath(source.path)).as_posix()
    return finding.code, file, source.line_text(finding.line).strip()[:200]
