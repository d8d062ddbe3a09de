"""`outlast schema`: the JSON Schema of workload files, for editors and validators."""

import json

from outlast.capacity.workload.file import workload_schema
from outlast.cli.printing import write_document


def schema() -> None:
    """Print the JSON Schema of workload files.

    Editors with YAML support use it if the first line of the workload file is
    `# yaml-language-server: $schema=workload.schema.json`.
    """
    write_document(json.dumps(workload_schema(), indent=2, ensure_ascii=False) + "\n")
