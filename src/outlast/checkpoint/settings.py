"""The settings of a run: their names, what they take and what they mean."""

from outlast._base.settings import Setting


def _parse_url(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError("A folder or a URL is expected.")
    return given


RUN_URL = Setting(
    keyword="url",
    variable="OUTLAST_RUN_URL",
    default="",
    default_text="`CHECKPOINT_DIR`, if set",
    parse=_parse_url,
    meaning="Where a run keeps its checkpoints. An indexed Job appends its index.",
    hint="Give a folder, or a URL such as gs://bucket/run.",
)
