"""Replace parts of a workload's tree by dotted keys, as `--set work.hours=40` does.

Values are text, which the field reads as it would in the file; `[a, b]` and `{a: b}` are read as
YAML, and nothing or `null` takes the key away.
"""

from collections.abc import Mapping

from outlast.capacity.reading import Entry, Mark, Node, read_yaml


def apply_overrides(tree: Node, overrides: Mapping[str, str]) -> None:
    """Change `tree` in place. A key that the workload lacks is found out by its own checks."""
    for key, value in overrides.items():
        _apply(tree, key, _node(value, Mark(source=f"--set {key}")))


def _apply(tree: Node, key: str, node: Node) -> None:
    mark = node.mark
    parts = key.split(".")
    if not all(parts):
        raise mark.error(
            f"{key!r} is not a key.", hint="Write keys with dots between them: work.hours=40."
        )
    here = tree
    for part in parts[:-1]:
        here = _child(here, part, mark)
    last = parts[-1]
    if isinstance(here.value, list):
        index = _index(here.value, last, mark)
        here.value[index] = node
    elif isinstance(here.value, dict):
        here.value[last] = Entry(mark=mark, node=node)
    else:
        raise mark.error(f"{key!r} lies below {str(here.value)!r}, which is a single value.")


def _child(node: Node, part: str, mark: Mark) -> Node:
    if isinstance(node.value, list):
        return node.value[_index(node.value, part, mark)]
    if not isinstance(node.value, dict):
        raise mark.error(f"{part!r} lies below a single value.")
    entry = node.value.get(part)
    if entry is None or entry.node.value is None:
        entry = Entry(mark=mark, node=Node(mark=mark, value={}))
        node.value[part] = entry
    return entry.node


def _index(items: list[Node], part: str, mark: Mark) -> int:
    if not part.isdecimal() or int(part[:9]) >= len(items):
        raise mark.error(f"{part!r} is not the place of one of {len(items)} in the list, from 0.")
    return int(part)


def _node(value: str, mark: Mark) -> Node:
    if value.strip()[:1] in ("[", "{"):
        return Node(mark=mark, value=read_yaml(value, source=mark.source).value)
    return Node(mark=mark, value=None if value in ("", "null") else value)
