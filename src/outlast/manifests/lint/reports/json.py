"""For programs: one object with everything in it."""

import json

from outlast.manifests.lint.report import Report


def write(report: Report) -> str:
    data = {
        "findings": [finding.as_json() for finding in report],
        "summary": {
            **report.counts(),
            "files": report.files,
            "objects": report.objects,
            "pools": report.pools,
            "ignored": report.ignored,
            "known": report.known,
            "fixed": report.fixed,
        },
        "notices": list(report.notices),
    }
    return json.dumps(data, indent=2) + "\n"
