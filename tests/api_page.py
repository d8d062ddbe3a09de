"""The reference of the Python API, made from signatures and docstrings."""

import enum
import inspect
import re
from collections.abc import Iterator

import outlast

GROUPS = {
    "Training": ("Run", "Checkpointer", "value", "replicated"),
    "Interruptions": ("Guard", "Notice", "NoticeSource", "Interrupted", "shield_worker"),
    "Batch work": ("Worker", "open_queue", "open_sink", "publish", "ItemFailed"),
    "Drills": ("drill",),
    "Capacity and manifests": ("Workload", "plan", "lint"),
    "Errors": ("OutlastError", "SettingError"),
}
_LINE_MAX = 96


def api_page() -> str:
    parts = [
        "# Python API",
        "",
        "The names that `import outlast` provides, with their signatures. Each is loaded when it",
        "is first used. [Errors](errors.md) and [settings](settings.md) have their own pages.",
    ]
    for title, names in GROUPS.items():
        parts += ["", f"## {title}"]
        for name in names:
            parts += _entry(name, getattr(outlast, name))
    return "\n".join([*parts, ""])


def _entry(name: str, value: object) -> Iterator[str]:
    yield from ("", f"### outlast.{name}", "")
    if not inspect.isclass(value):
        yield from _code(_declaration(f"outlast.{name}", value))
    elif not issubclass(value, enum.Enum | BaseException) and _init(value):
        yield from _code(_declaration(f"outlast.{name}", _init(value)))
    yield from ("", inspect.getdoc(value) or "")
    if inspect.isclass(value):
        yield from _members(value)


def _init(value: type) -> object | None:
    """The constructor, unless its signature is that of a library's base class."""
    init = vars(value).get("__init__")
    return init if inspect.isfunction(init) else None


def _members(value: type) -> Iterator[str]:
    for name, member in vars(value).items():
        call = getattr(member, "__wrapped__", member)
        text = inspect.getdoc(getattr(member, "fget", member))
        if name.startswith("_") or not text:
            continue
        if isinstance(member, property):
            yield from ("", f"#### {name}", "", text)
        elif inspect.isfunction(call):
            yield from ("", f"#### {name}()", "", *_code(_declaration(name, call)), "", text)
    if issubclass(value, enum.Enum):
        yield from ("", f"Members: {', '.join(f'`{one.name}`' for one in value)}.")


def _code(text: str) -> tuple[str, ...]:
    return ("```text", text, "```")


def _declaration(name: str, call: object) -> str:
    """A signature in one line, or one parameter per line if that is too long."""
    assert callable(call)
    signature = inspect.signature(call)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    plain = signature.replace(parameters=parameters)
    if getattr(call, "__name__", "") == "__init__":
        plain = plain.replace(return_annotation=inspect.Signature.empty)
    text = name + _plain(str(plain))
    if len(text) <= _LINE_MAX:
        return text
    listed = [_plain(str(one)) for one in parameters]
    first = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    if first is not None and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        listed.insert(first, "*")
    result = _plain(str(plain)).rpartition(")")[2]
    lines = [f"    {one}," for one in listed]
    return "\n".join([f"{name}(", *lines, f"){result}"])


def _plain(text: str) -> str:
    """Without the modules of names, addresses of functions and the marks of type variables."""
    text = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", text)
    text = re.sub(r"<class '([\w.]+)'>", r"\1", text)
    text = re.sub(r"<\w+\.\w+: ('[^']*')>", r"\1", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_*])", "", text).replace("~", "")
