"""Text that is not meant literally: placeholders that are filled in, and other projects' files."""

import re

from outlast.yamltext.source import SourceText

_SIGNS = re.compile(r"[$<{]|^ko://|(?:^|[/:])your[_-]")
# PROJECT_ID, V_IMAGE_URL, __TAG__, in a text or a part of a path.
_CAPITALS = re.compile(r"(?:^|[/:\x40.-])_{0,2}[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_{0,2}(?=$|[/:\x40.-])")
# FILLED BY THE OPERATOR
_SENTENCE = re.compile(r"[A-Z]{2,}(?: [A-Z]{2,})+")
# enterYourSecret==, Replace_this_with_your_key
_REQUEST = re.compile(
    r"(?i)<|todo|xxx|replace|change[ _-]?(?:me|this)|your[ _-]|(?:enter|insert|put|add)[ _-]?your"
)
# service_name, which Kubernetes never accepts as a name, in template.yaml or service-template.yaml.
_SNAKE_CASE = re.compile(r"[a-z]_[a-z]")
_TEMPLATE = re.compile(r"(?i)(?:^|[._-])template$")


def is_placeholder(text: str) -> bool:
    """Whether a name contains something that a tool or the reader replaces."""
    return bool(_SIGNS.search(text) or _CAPITALS.search(text) or is_instruction(text))


def is_instruction(text: str) -> bool:
    """Whether a text is several words in capitals, which no name or image is."""
    return bool(_SENTENCE.fullmatch(text))


def asks_for_value(text: str) -> bool:
    """Whether a text, such as a secret, asks the reader to put another in its place."""
    return bool(_REQUEST.search(text))


def is_replaced(text: str, source: SourceText) -> bool:
    """Whether a text in a template is replaced when the template is copied."""
    if source.path is None or not _TEMPLATE.search(source.path.stem):
        return False
    return bool(_SNAKE_CASE.search(text))


def is_in_templates(source: SourceText) -> bool:
    """Whether a file is in a folder for templates, whose empty values a program fills in."""
    return source.path is not None and "templates" in source.path.parts


def is_vendored(source: SourceText) -> bool:
    """Whether a file is part of another project that this one includes."""
    return source.path is not None and "vendor" in source.path.parts
