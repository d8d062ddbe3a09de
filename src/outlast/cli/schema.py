"""`outlast schema`: the JSON Schema of workload files, for editors and checks."""

import json

from outlast.capacity.schema import workload_schema


def schema() -> None:
    """Print the JSON Schema of workload files.

    Editors that know YAML take it from a first line such as
    `# yaml-language-server: $schema=workload.schema.json`.
    """
    print(json.dumps(workload_schema(), indent=2, ensure_ascii=False))
