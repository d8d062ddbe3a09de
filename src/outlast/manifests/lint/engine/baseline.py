"""A baseline: findings that are accepted for now, so that only new ones are reported.

A finding is identified by its rule, its file and the text of its line. The line number does not
matter, because every edit above changes it. Secrets in the text are masked.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outlast._redact import redact_all
from outlast.manifests.lint.engine.report import Finding
from outlast.manifests.lint.errors import LintError

_VERSION = 1
Key = tuple[str, str, str]


def read_baseline(path: Path) -> Counter[Key]:
    """The findings in a baseline, and how often each may occur."""
    try:
        data: Any = json.loads(path.read_bytes())
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']!r}")
        known: Counter[Key] = Counter()
        for e in data["findings"]:
            known[str(e["code"]), str(e["file"]), _masked(str(e["text"]))] += int(e["count"])
        return known
    except FileNotFoundError:
        raise LintError(
            f"There is no baseline {str(path)!r}.", hint="Pass --write-baseline to create it."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LintError(
            f"{str(path)!r} is not a valid baseline: {error}.",
            hint="Pass --write-baseline to replace it.",
        ) from error


def baseline_text(findings: Iterable[Finding]) -> str:
    """The content of a baseline of these findings."""
    counts = Counter(_key(finding) for finding in findings)
    entries = [
        {"code": code, "file": file, "text": text, "count": count}
        for (code, file, text), count in sorted(counts.items())
    ]
    return json.dumps({"version": _VERSION, "findings": entries}, indent=2) + "\n"


def without_known(
    findings: Iterable[Finding], known: Counter[Key]
) -> tuple[list[Finding], Counter[Key]]:
    """The findings that are not in the baseline, and its entries that no longer occur."""
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
    # From the same working folder, a file is the same however its path was written.
    file = source.name if source.path is None else Path(os.path.relpath(source.path)).as_posix()
    return finding.code, file, _masked(source.line_text(finding.line).strip())[:200]


def _masked(text: str) -> str:
    # Masked by pattern only: secrets this process knows must not change what is compared.
    return redact_all(text, ())
