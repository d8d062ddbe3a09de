"""What is pointed at for a path."""

import pytest

from outlast.yamltext.nodes import Path, get, span_at
from outlast.yamltext.reading import read

TEXT = """\
metadata:
  name: train
  empty:
spec:
  list:
    - name: a
      image: &image !!str b
    - c
  flow: {x: 1, z: [2, 3]}
"""


@pytest.mark.parametrize(
    ("path", "of_key", "text"),
    [
        ((), False, "metadata"),
        (("metadata",), False, "metadata"),
        (("metadata", "name"), False, "train"),
        (("metadata", "name"), True, "name"),
        (("metadata", "empty"), False, "empty"),
        (("metadata", "labels", "app"), False, "metadata"),
        (("spec", "list"), False, "list"),
        (("spec", "list", 0), False, "name"),
        (("spec", "list", 0, "image"), False, "b"),
        (("spec", "list", 1), False, "c"),
        (("spec", "list", 7), False, "list"),
        (("spec", "flow", "x"), False, "1"),
        (("spec", "flow", "z", 1), False, "3"),
        (("spec", "flow", "z"), False, "z"),
    ],
)
def test_a_path_points_at_its_scalar_its_key_or_what_should_hold_it(
    path: Path, of_key: bool, text: str
) -> None:
    (root,) = read(TEXT).documents

    start, end = span_at(root, path, of_key=of_key)

    assert TEXT[start:end] == text


def test_get_gives_the_default_where_a_path_leaves_the_object() -> None:
    root = {"a": [1, {"b": 2}]}

    assert get(root, ("a", 1, "b")) == 2
    assert get(root, ("a", 5)) is None
    assert get(root, ("a", "b"), "no") == "no"
