"""Which names an object may have. Pure.

The same name must work as a path on any file system and as a key in any object store, and must
never lead out of the store. Hidden parts are refused because stores keep their own files there.
"""

import re

from outlast.storage.errors import BadName

NAME_CHARACTERS_MAX = 600
PART_CHARACTERS_MAX = 200

_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]*")


def check_name(name: str) -> None:
    """Raise `BadName` unless `name` can name an object."""
    if not is_name(name):
        raise BadName(
            f"{name!r} cannot name an object.",
            hint="Use letters, digits, '.', '_' and '-', in parts set apart by '/', "
            "none of which starts with a dot.",
            name=name,
        )


def is_name(name: str) -> bool:
    return len(name) <= NAME_CHARACTERS_MAX and all(
        len(part) <= PART_CHARACTERS_MAX and _PART.fullmatch(part) for part in name.split("/")
    )


def folder_of(prefix: str) -> str:
    """The deepest folder that holds every name starting with `prefix`; empty for the top."""
    folder, slash, _ = prefix.rpartition("/")
    if not _PREFIX.fullmatch(prefix) or (slash and not is_name(folder)):
        raise BadName(
            f"No name of an object starts with {prefix!r}.",
            hint="Give the start of a name, such as 'manifests/'.",
            name=prefix,
        )
    return folder
