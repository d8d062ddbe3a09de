"""Check that a tag, the version and the changelog agree: `python -m tests.release v0.1.0`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(tag: str) -> None:
    version = re.search(
        r'__version__ = "(.+)"', (ROOT / "src/outlast/_base/version.py").read_text()
    )
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found = {
        "tag": tag.removeprefix("v"),
        "version.py": version[1] if version else "none",
        "CHANGELOG.md": heading[1] if heading else "none",
    }
    if len(set(found.values())) > 1:
        sys.exit(f"error: The release is not consistent: {found}.\nhint:  See docs/releases.md.")
    print(f"Tag, version and changelog agree on {found['tag']}.")


if __name__ == "__main__":
    main(sys.argv[1])
