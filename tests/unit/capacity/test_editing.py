"""Values in a YAML file are changed where they stand, and nothing else is; or it is refused."""

import random

import pytest

from outlast.capacity.editing import edited
from outlast.capacity.errors import WorkloadError
from outlast.capacity.reading import read_yaml

CHANGES = {"measured": {"save": "30s", "grace": "14s"}, "checkpoint": {"size": "954MiB"}}
START = "name: a\ncheckpoint: {size: 1GiB}\n"
SEED = 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"# why\n{START}measured:\n  grace: 9s  # short\n# at the edge\n  stall: 1s\nnext: b\n",
            "# why\nname: a\ncheckpoint: {size: 954MiB}\nmeasured:\n  grace: 14s  # short\n"
            "# at the edge\n  stall: 1s\n  save: 30s\nnext: b\n",
        ),
        (
            f"{START}measured: {{save: 1h,  # long\n  stall: 1s}}\n",
            "name: a\ncheckpoint: {size: 954MiB}\n"
            "measured: {grace: 14s, save: 30s,  # long\n  stall: 1s}\n",
        ),
        (
            "name: a\ncheckpoint:\n  size: 12 GiB # old\n",
            "name: a\ncheckpoint:\n  size: 954MiB # old\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
        (
            "name: a\ncheckpoint: {size: '1 GiB', url: b}\nmeasured:\n  save:\n  grace: ~\n",
            "name: a\ncheckpoint: {size: 954MiB, url: b}\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
        (
            f"---\n{START}measured: {{}}\n...\n",
            "---\nname: a\ncheckpoint: {size: 954MiB}\nmeasured: {save: 30s, grace: 14s}\n...\n",
        ),
        (
            f"{START}...\n",
            "name: a\ncheckpoint: {size: 954MiB}\nmeasured:\n  save: 30s\n  grace: 14s\n...\n",
        ),
        (
            '{"name": "a", "checkpoint": {"url": "b", "size": "1GiB"}}',
            '{measured: {save: 30s, grace: 14s}, "name": "a", '
            '"checkpoint": {"url": "b", "size": 954MiB}}',
        ),
        (
            "  name: a\r\n  checkpoint:\r\n    url: b",
            "  name: a\r\n  checkpoint:\r\n    url: b\r\n    size: 954MiB\r\n"
            "  measured:\r\n    save: 30s\r\n    grace: 14s",
        ),
        (
            'checkpoint: {size: "1\\x20GiB"}\nnote: |+\n  k\n\n',
            "checkpoint: {size: 954MiB}\nnote: |+\n  k\n\nmeasured:\n  save: 30s\n  grace: 14s\n",
        ),
    ],
    ids=[
        "block",
        "flow over lines",
        "a space before the unit",
        "keys without values",
        "empty",
        "the end of the document",
        "one line",
        "indented, CRLF",
        "kept blank lines",
    ],
)
def test_a_value_is_changed_where_it_stands(text: str, expected: str) -> None:
    assert edited(text, CHANGES, name="w") == expected


@pytest.mark.parametrize(
    "text",
    [
        "checkpoint: {size: &s 1GiB}\nother: *s\n",
        "other: &m {save: 1h}\nmeasured: *m\ncheckpoint: {size: 1GiB}\n",
        "checkpoint:\n  size: 12\n    GiB\n",
        "checkpoint:\n  size: >-\n    12 GiB\n",
        f"{START}measured: ~\n",
        f"{START}measured: [1]\n",
        "[1]\n",
        "a\n",
    ],
    ids=["anchor", "alias", "two lines", "folded", "null", "list", "only a list", "only a word"],
)
def test_what_it_cannot_follow_is_left_to_the_user(text: str) -> None:
    assert edited(text, CHANGES, name="w") is None


def test_no_changes_leave_the_text_as_it_is() -> None:
    assert edited(START, {}, name="w") == START


def test_whatever_comes_out_says_what_was_meant() -> None:
    chance = random.Random(SEED)
    pieces = ["measured:", "  save: 1h", "  grace: {", "}", "# c", "", "...", "  ", "checkpoint:"]
    pieces += ["checkpoint: {size: 1 GiB}", "measured: {", "save: 1h,", "other: |", "    size: 2GB"]
    done = 0
    for _ in range(3000):
        text = "\n".join(chance.choices(pieces, k=chance.randrange(1, 7)))
        try:
            before = read_yaml(text, source="w").plain()
        except WorkloadError:
            continue

        result = edited(text, CHANGES, name="w")

        if result is None:
            continue
        done += 1
        after = read_yaml(result, source="w").plain()
        assert isinstance(before, dict) and isinstance(after, dict)
        for part, values in CHANGES.items():
            assert after.pop(part) == {**before.pop(part, {}), **values}, (SEED, text)
        assert after == before, (SEED, text)
    assert done > 100
