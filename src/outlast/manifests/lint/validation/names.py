"""The syntax of names, labels, keys and ports that the API server demands.

Each function returns what is wrong with a text, None if nothing is.
"""

import re
from functools import lru_cache

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PORT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_VARIABLE = re.compile(r"[ -<>-~]+")
_LABEL_MAX, _SUBDOMAIN_MAX, _PORT_MAX, _PORT_NUMBER_MAX = 63, 253, 15, 65535
_KNOWN = 4096

LABEL_HINT = (
    "Use lowercase letters, digits and '-', at most 63, with a letter or digit at both ends."
)
NAME_HINT = (
    "Use lowercase letters, digits, '-' and '.', at most 253, with a letter or digit at both ends."
)
QUALIFIED_HINT = (
    "Use letters, digits, '-', '_' and '.', at most 63, with a letter or digit at both ends; a "
    "domain and '/' may come first."
)
VALUE_HINT = (
    "Use letters, digits, '-', '_' and '.', at most 63, with a letter or digit at both ends."
)


@lru_cache(_KNOWN)
def label_problem(value: str) -> str | None:
    """A DNS label: names of containers, volumes and namespaces."""
    if len(value) > _LABEL_MAX:
        return f"it has {len(value)} characters, at most {_LABEL_MAX} are allowed"
    return None if _LABEL.fullmatch(value) else f"{value!r} is not a DNS label"


@lru_cache(_KNOWN)
def name_problem(value: str) -> str | None:
    """A DNS subdomain: names of most objects."""
    if len(value) > _SUBDOMAIN_MAX:
        return f"it has {len(value)} characters, at most {_SUBDOMAIN_MAX} are allowed"
    return None if _SUBDOMAIN.fullmatch(value) else f"{value!r} is not a DNS subdomain"


@lru_cache(_KNOWN)
def qualified_problem(value: str) -> str | None:
    """A name with an optional domain: keys of labels and annotations, resources, conditions."""
    domain, slash, name = value.rpartition("/")
    if slash and ("/" in domain or name_problem(domain) is not None):
        return f"{value!r} needs a DNS subdomain before one '/'"
    if not name or len(name) > _LABEL_MAX or not _QUALIFIED.fullmatch(name):
        return f"{value!r} is not a qualified name"
    return None


@lru_cache(_KNOWN)
def value_problem(value: str) -> str | None:
    """The value of a label, which may be empty."""
    if len(value) > _LABEL_MAX:
        return f"it has {len(value)} characters, at most {_LABEL_MAX} are allowed"
    return None if not value or _QUALIFIED.fullmatch(value) else f"{value!r} is not a label value"


def port_name_problem(value: str) -> str | None:
    if len(value) > _PORT_MAX:
        return f"{value!r} has {len(value)} characters, at most {_PORT_MAX} are allowed"
    if not _PORT.fullmatch(value) or "--" in value or not re.search("[a-z]", value):
        return f"{value!r} is not a port name (lowercase letters, digits and single '-')"
    return None


def port_number_problem(value: int) -> str | None:
    return None if 1 <= value <= _PORT_NUMBER_MAX else f"{value} is not between 1 and 65535"


def port_problem(value: object) -> str | None:
    """A port by number or by name. Values of other types are left to the schema."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return port_number_problem(value)
    return port_name_problem(value) if isinstance(value, str) else None


def variable_problem(value: str) -> str | None:
    return None if _VARIABLE.fullmatch(value) else f"{value!r} is not a variable name"


def config_key_problem(value: str) -> str | None:
    """A key of a ConfigMap or Secret."""
    if len(value) > _SUBDOMAIN_MAX:
        return f"the key has {len(value)} characters, at most {_SUBDOMAIN_MAX} are allowed"
    if value in (".", "..") or value.startswith("..") or not _CONFIG_KEY.fullmatch(value):
        return f"{value!r} is not a key (letters, digits, '-', '_' and '.')"
    return None
