"""Make the links of the README absolute, because PyPI shows it without the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Sets the README of the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = metadata["urls"]["Repository"]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, repository),
        }


def with_absolute_links(text: str, repository: str) -> str:
    """The text with its relative links and pictures leading to the repository."""
    raw = repository.replace("https://github.com", "https://raw.githubusercontent.com")
    text = re.sub(r'((?:src|srcset)=")(?![a-z]+:)', rf"\1{raw}/main/", text)
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:)", rf"\1{raw}/main/", text)
    return re.sub(r"(?<!!)(\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{repository}/blob/main/", text)
