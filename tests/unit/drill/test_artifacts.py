import io
import json
import math
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from outlast.drills.compare import values
from outlast.drills.compare.artifacts import Comparison, compare
from outlast.drills.compare.formats import torn, torn_among
from outlast.drills.compare.pickles import same_pickles
from outlast.drills.compare.values import agree

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def pair(tmp_path: Path, name: str, baseline: bytes, evicted: bytes) -> tuple[Path, Path]:
    for folder, content in (("baseline", baseline), ("evicted", evicted)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(content)
    return tmp_path / "baseline" / name, tmp_path / "evicted" / name


def compared(
    tmp_path: Path, name: str, baseline: bytes, evicted: bytes, tolerance: float = 0.0
) -> Comparison:
    return compare(name, *pair(tmp_path, name, baseline, evicted), tolerance=tolerance)


def test_equal_bytes_are_the_same_whatever_they_are(tmp_path: Path) -> None:
    found = compared(tmp_path, "model.bin", b"\0\1" * 3_000_000, b"\0\1" * 3_000_000)

    assert found == Comparison(name="model.bin", how="bit for bit")


def test_the_first_differing_byte_is_told_beyond_a_megabyte_too(tmp_path: Path) -> None:
    baseline = bytes(1_500_000)
    evicted = baseline[:1_200_000] + b"\1" + baseline[1_200_001:]

    assert compared(tmp_path, "m.bin", baseline, evicted).difference == (
        "it differs from byte 1200000"
    )
    assert compared(tmp_path, "n.bin", b"abc", b"ab").difference == "it differs from byte 2"


def test_json_is_compared_by_content_and_tells_the_path(tmp_path: Path) -> None:
    baseline = b'{"a": {"loss": [1.0, 2.0]}, "b": 1}'

    assert (
        compared(tmp_path, "r.json", baseline, b'{"b":1,"a":{"loss":[1.0,2.0]}}').difference is None
    )
    found = compared(tmp_path, "r.json", baseline, b'{"a": {"loss": [1.0, 2.5]}, "b": 1}')
    assert found.difference == "a.loss[1] is 2.5, not 2.0"
    shorter = compared(tmp_path, "r.json", baseline, b'{"a": {"loss": [1.0]}, "b": 1}')
    assert shorter.difference == "a.loss has 1 entries, not 2"
    assert compared(tmp_path, "r.json", baseline, b'{"a": {"loss": [1.0, 2.0]}}').difference == (
        "b is only in one of them"
    )


@pytest.mark.parametrize(("tolerance", "same"), [(0.0, False), (1e-9, False), (1e-5, True)])
def test_numbers_may_differ_within_the_tolerance(
    tolerance: float, same: bool, tmp_path: Path
) -> None:
    baseline, evicted = b'{"loss": 100.0, "n": NaN}', b'{"loss": 100.0001, "n": NaN}'

    found = compared(tmp_path, "r.json", baseline, evicted, tolerance)

    assert (found.difference is None) == same


def test_text_is_compared_line_by_line(tmp_path: Path) -> None:
    found = compared(tmp_path, "log.txt", b"loss 1.0\nend 2\n", b"loss 1.00001\nend 3\n", 0.001)

    assert found.difference == "line 2 is 'end 3', not 'end 2'"
    assert compared(tmp_path, "log.txt", b"a\nb\n", b"a\n").difference == "it has 1 lines, not 2"


def test_arrays_are_compared_with_their_place(tmp_path: Path) -> None:
    baseline, evicted = tmp_path / "a.npz", tmp_path / "b.npz"
    np.savez(baseline, weight=np.zeros((2, 3)), bias=np.array([np.nan, 1.0]))
    np.savez(evicted, weight=np.array([[0, 0, 0], [0, 0.5, 0]]), bias=np.array([np.nan, 1.0]))

    found = compare("w.npz", baseline, evicted)

    assert found.difference is not None
    assert found.difference.startswith("its array 'weight' differs at [1, 1]")
    assert compare("w.npz", baseline, evicted, tolerance=0.6).difference is None


def test_an_array_of_another_shape_or_dtype_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros(4))

    found = compare("w.npy", tmp_path / "a.npy", tmp_path / "b.npy", tolerance=1.0)

    assert found.difference == "it is float64(4,), not float64(3,)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (9007199254740992060, 9007199254740992025),
        (1234567890123456789, 1234567890123456700),
        (10**400, 10**400 + 1),
        ("007", "7"),
        ("1234567890123456789", "1234567890123456700"),
        (1.0, "1.0"),
        (math.nan, 1.0),
        (math.inf, 1.0),
    ],
)
def test_without_a_tolerance_only_equal_values_agree(one: object, other: object) -> None:
    assert not agree(one, other, 0.0)
    assert agree(one, one, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "same"),
    [
        (9007199254740992060, 9007199254740992025, 1e-19, False),
        (9007199254740992060, 9007199254740992025, 1e-9, True),
        ("1234567890123456789", "1234567890123456700", 1e-18, False),
        ("007", "7", 1e-9, True),
        (100, 101, 0.1, True),
        (1.0, "1.0", 1e-9, True),
        ("nan", "NaN", 1e-9, True),
        (math.inf, 1.0, 0.5, False),
        (math.inf, -math.inf, 0.5, False),
        ("inf", "Infinity", 0.5, True),
        (10**400, 1, 0.5, False),
        (True, 0.999999, 0.1, False),
    ],
)
def test_with_a_tolerance_integers_stay_integers(
    one: object, other: object, tolerance: float, same: bool
) -> None:
    assert agree(one, other, tolerance) == same


def test_large_integers_are_told_apart_in_every_format(tmp_path: Path) -> None:
    baseline, evicted = b'{"tokens": 9007199254740992060}', b'{"tokens": 9007199254740992025}'

    found = compared(tmp_path, "r.json", baseline, evicted)
    assert found.difference == "tokens is 9007199254740992025, not 9007199254740992060"
    found = compared(tmp_path, "r.csv", b"id,n\n1,007\n", b"id,n\n1,7\n")
    assert found.difference == "'n' of '1' is '7', not '007'"


ARRAYS = [
    (np.array([2**63 + 1], "u8"), np.array([2**63 + 5], "u8")),
    (np.array([2**62 + 1], "i8"), np.array([2**62], "i8")),
    (np.array([-(2**63)], "i8"), np.array([2**63 - 1], "i8")),
    (np.array([0, 255], "u1"), np.array([0, 254], "u1")),
    (np.array([-128], "i1"), np.array([127], "i1")),
    (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
    (np.array([np.inf]), np.array([1.0])),
    (np.array([1 + 1j]), np.array([1 - 1j])),
    (np.array([60_000], "f2"), np.array([-60_000], "f2")),
    (np.array(7), np.array(9)),
    (np.array([True, False]), np.array([True, True])),
]


@pytest.mark.parametrize(("one", "other"), ARRAYS, ids=lambda one: str(one.dtype))
@pytest.mark.parametrize("tolerance", [0.0, 1e-20])
def test_arrays_of_different_numbers_differ(
    one: Array, other: Array, tolerance: float, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", one)
    np.save(tmp_path / "b.npy", other)

    found = compare("w.npy", tmp_path / "a.npy", tmp_path / "b.npy", tolerance=tolerance)

    assert found.difference is not None and "differs" in found.difference


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "same"),
    [
        (np.array([2**63 + 1], "u8"), np.array([2**63 + 5], "u8"), 1e-18, True),
        (np.array([2**63 + 1], "u8"), np.array([2**63 + 900], "u8"), 1e-17, False),
        (np.array([-(2**63)], "i8"), np.array([2**63 - 1], "i8"), 1.0, False),
        (np.array([-100], "i1"), np.array([-101], "i1"), 0.01, True),
        (np.array([np.inf]), np.array([1.0]), 0.5, False),
        (np.array([np.inf, np.nan, 2.0]), np.array([np.inf, np.nan, 2.1]), 0.1, True),
        (np.array([60_000], "f2"), np.array([-60_000], "f2"), 0.1, False),
        (np.array([1 + 1j]), np.array([1 + 1.001j]), 0.01, True),
    ],
)
def test_a_tolerance_over_arrays_neither_rounds_nor_overflows(
    one: Array, other: Array, tolerance: float, same: bool, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", one)
    np.save(tmp_path / "b.npy", other)

    found = compare("w.npy", tmp_path / "a.npy", tmp_path / "b.npy", tolerance=tolerance)

    assert (found.difference is None) == same


@pytest.mark.parametrize(
    ("baseline", "evicted", "said"),
    [
        (b"a\nb\n", b"a\x0cb\n", "line 1 is 'a\\x0cb', not 'a'"),
        (b"a\nb\n", b"a\r\nb\n", "line 1 is 'a\\r', not 'a'"),
        (b"a\nb\n", b"a\nb", "only one of them ends with a newline"),
        (b"", b"\n", "only one of them ends with a newline"),
        (b"a\n", b"a\n\n", "it has 2 lines, not 1"),
    ],
)
def test_every_difference_of_texts_is_told(
    baseline: bytes, evicted: bytes, said: str, tmp_path: Path
) -> None:
    assert compared(tmp_path, "log.txt", baseline, evicted).difference == said


def safetensors(values: list[float]) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<2f", *values)


def test_safetensors_are_compared_within_a_tolerance(tmp_path: Path) -> None:
    baseline, evicted = safetensors([1.0, 2.0]), safetensors([1.0, 2.001])

    assert compared(tmp_path, "m.safetensors", baseline, evicted, 0.01).difference is None
    found = compared(tmp_path, "m.safetensors", baseline, evicted, 1e-6)
    assert found.difference is not None and "its tensor 'w' differs at [1]" in found.difference


def test_a_tensor_that_differs_is_named_without_a_tolerance_too(tmp_path: Path) -> None:
    found = compared(tmp_path, "m.safetensors", safetensors([1.0, 2.0]), safetensors([1.0, 2.5]))

    assert found.difference is not None and "its tensor 'w' differs at [1]" in found.difference


def test_tensors_of_other_names_or_types_are_named(tmp_path: Path) -> None:
    def one(name: str, kind: str) -> bytes:
        entry = {name: {"dtype": kind, "shape": [1], "data_offsets": [0, 2]}}
        header = json.dumps(entry).encode()
        return struct.pack("<Q", len(header)) + header + b"\x80?"

    def said(evicted: bytes) -> str | None:
        return compared(tmp_path, "m.safetensors", one("w", "BF16"), evicted).difference

    assert said(one("v", "BF16")) == "its tensor 'v' is only in one of them"
    assert said(one("w", "F16")) == "its tensor 'w' is F16, not BF16"


def test_tensors_that_are_no_numbers_here_are_compared_by_their_bytes(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    baseline, evicted = (struct.pack("<Q", len(header)) + header + n for n in (b"\x80?", b"\x80@"))

    found = compared(tmp_path, "m.safetensors", baseline, evicted, 0.1)

    assert found.difference == "its tensor 'w' differs"


def archive(path: Path, when: tuple[int, int, int, int, int, int], content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(zipfile.ZipInfo("data/0", when), content)
    return path


def test_archives_are_compared_by_their_members_not_by_their_dates(tmp_path: Path) -> None:
    baseline = archive(tmp_path / "a.pt", (2024, 1, 1, 0, 0, 0), b"weights")
    later = archive(tmp_path / "b.pt", (2025, 2, 2, 0, 0, 0), b"weights")
    other = archive(tmp_path / "c.pt", (2024, 1, 1, 0, 0, 0), b"others!")

    assert compare("m.pt", baseline, later).difference is None
    assert compare("m.pt", baseline, other).difference == "its member 'data/0' differs"


def torch_archive(path: Path, root: str, pickled: bytes, weights: bytes = b"weights") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{root}/data.pkl", pickled)
        file.writestr(f"{root}/data/0", weights)
        file.writestr(f"{root}/.data/serialization_id", f"hash of {pickled!r}")
    return path


def test_a_checkpoint_of_torch_counts_whatever_its_name_was_while_it_was_written(
    tmp_path: Path,
) -> None:
    baseline = torch_archive(tmp_path / "a.pt", "final", pickle.dumps({"step": 1}))
    same = torch_archive(tmp_path / "b.pt", "tmp81fz2k", pickle.dumps({"step": 1}))
    later = torch_archive(tmp_path / "c.pt", "final", pickle.dumps({"step": 2}))
    other = torch_archive(tmp_path / "d.pt", "final", pickle.dumps({"step": 1}), b"others!")

    assert compare("m.pt", baseline, same).difference is None
    assert compare("m.pt", baseline, later).difference == "its member 'data.pkl' differs"
    assert compare("m.pt", baseline, other).difference == "its member 'data/0' differs"


def test_an_archive_of_anything_else_keeps_its_names(tmp_path: Path) -> None:
    for name, root in (("a.zip", "one"), ("b.zip", "two")):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr(f"{root}/notes.txt", "the same")

    assert compare("m.zip", tmp_path / "a.zip", tmp_path / "b.zip").difference == (
        "the two archives have different members"
    )


@pytest.mark.needs("torch")
def test_a_resumed_training_with_torch_save_ends_in_the_same_checkpoint(tmp_path: Path) -> None:
    import torch

    def state(resume_from: Path | None, steps: int) -> dict[str, object]:
        torch.manual_seed(1)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        first = 0
        if resume_from is not None:
            kept = torch.load(resume_from)
            model.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])
            scheduler.load_state_dict(kept["scheduler"])
            torch.set_rng_state(kept["rng"])
            first = kept["step"]
        for _ in range(first, steps):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
            scheduler.step()
        return {
            "step": steps,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
        }

    torch.save(state(None, 3), tmp_path / "half.pt")
    torch.save(state(None, 6), tmp_path / "calm.pt")
    torch.save(state(tmp_path / "half.pt", 6), tmp_path / "aside.tmp")
    torch.save(state(tmp_path / "half.pt", 7), tmp_path / "longer.pt")

    baseline = tmp_path / "calm.pt"
    assert compare("final.pt", baseline, tmp_path / "aside.tmp").difference is None
    assert compare("final.pt", baseline, tmp_path / "longer.pt").difference is not None


def equal_text(text: str) -> str:
    """Another object of the same letters, as it comes out of a file."""
    return text.encode().decode()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_equal_contents_are_the_same_whatever_they_share(
    protocol: int, tmp_path: Path
) -> None:
    name, pair_ = "learning rate", (0.9, "beta")
    shared = {name: [name, pair_, pair_, b"bytes", float("nan")], "more": {name, 1}}
    copied = {
        equal_text(name): [equal_text(name), (0.9, equal_text("beta")), pair_, b"bytes", math.nan],
        "more": {equal_text(name), 1},
    }
    one, other = pickle.dumps(shared, protocol), pickle.dumps(copied, protocol)

    assert one != other
    assert compared(tmp_path, "s.pkl", one, other).difference is None
    copied["more"] = {equal_text(name), 2}
    other = pickle.dumps(copied, protocol)
    assert "it differs from byte" in str(compared(tmp_path, "s.pkl", one, other).difference)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "a"], ["a", "b"]),
        ([1], [True]),
        ([1], [1.0]),
        ([0.0], [-0.0]),
        (("a", "b"), ["a", "b"]),
        ([[], ["x"]], [["x"], []]),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (["x"] * 3, ["x"] * 4),
        (Path("a"), Path("b")),
    ],
)
def test_pickles_of_different_contents_differ(one: object, other: object) -> None:
    assert not same_pickles(pickle.dumps(one), pickle.dumps(other))


def test_what_is_filled_after_it_was_remembered_counts_where_it_is_recalled() -> None:
    def holding_itself(value: int) -> list[object]:
        found: list[object] = [value]
        found.append(found)
        return [found, found]

    one, other = holding_itself(1), holding_itself(2)

    assert same_pickles(pickle.dumps([one, "k", "k"]), pickle.dumps([one, "k", equal_text("k")]))
    assert not same_pickles(pickle.dumps(one), pickle.dumps(other))


def test_bytes_behind_a_pickle_count_too() -> None:
    one = pickle.dumps(["k" * 9] * 2)
    other = pickle.dumps(["k" * 9, equal_text("k" * 9)])

    assert one != other and same_pickles(one + b"rest", other + b"rest")
    assert not same_pickles(one + b"rest", other + b"test")


def ring(length: int) -> bytes:
    """Lists of which each holds the next, and the last the first."""
    return b"\x80\x02]q\x00" + b"]" * (length - 1) + b"h\x00" + b"a" * length + b"."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"", b"."),
        (b"K\x01", b"K\x02"),
        (b"h\x05.", b"h\x06."),
        (b"t.", b"(t"),
        (b"(0.", b"(1."),
        (b"X\xff\xff\xff\x7fabc.", b"X\xff\xff\xff\x7fabd."),
        (b"\x8e" + b"\xff" * 8 + b".", b"\x8e" + b"\xff" * 7 + b"."),
        (b"N" + b"\x85" * 100_000 + b".", b"K\x01" + b"\x85" * 100_000 + b"."),
        (b"(" + b"K\x01" * 600_000 + b"t.", b"(" + b"K\x01" * 599_999 + b"K\x02t."),
        (ring(30_000), ring(30_001)),
    ],
    ids="empty cut recall mark pop length long deep large ring".split(),
)
def test_a_hostile_pickle_is_compared_by_its_bytes_in_bounded_time(
    one: bytes, other: bytes
) -> None:
    assert not same_pickles(one, other)


def test_nothing_of_a_pickle_is_run(tmp_path: Path) -> None:
    evil = f"cbuiltins\nopen\n(V{tmp_path / 'made'}\nVw\ntR.".encode()

    found = compared(tmp_path, "s.pkl", b"N.", evil)

    assert found.difference is not None
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["m.zip", "m.npz"])
def test_a_damaged_archive_differs_and_is_no_crash(name: str, tmp_path: Path) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", bytes(10_000))
    damaged = bytearray(whole.getvalue())
    damaged[40] ^= 0xFF

    found = compared(tmp_path, name, whole.getvalue(), bytes(damaged))

    assert found.difference == "it differs from byte 40"


def test_folders_are_compared_file_by_file(tmp_path: Path) -> None:
    for folder in ("baseline", "evicted"):
        (tmp_path / folder / "out").mkdir(parents=True)
        (tmp_path / folder / "out" / "a.txt").write_text("same")
    baseline, evicted = tmp_path / "baseline" / "out", tmp_path / "evicted" / "out"

    assert compare("out", baseline, evicted).difference is None
    (baseline / "b.txt").write_text("only here")
    assert compare("out", baseline, evicted).difference == "'b.txt' is missing from it"
    (evicted / "b.txt").write_text("only hers")
    assert "line 1" in str(compare("out", baseline, evicted).difference)
    (evicted / "c.txt").write_text("more")
    assert compare("out", baseline, evicted).difference == "'c.txt' is not in the baseline"


def test_a_missing_artifact_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")

    assert compare("a", tmp_path / "a", tmp_path / "b").missing


def test_rows_are_compared_as_items(tmp_path: Path) -> None:
    baseline = b'{"id": 1, "y": 0.5}\n{"id": 2, "y": 0.25}\n'
    evicted = b'{"id": 2, "y": 0.2500001}\n{"id": 1, "y": 0.5}\n{"id": 1, "y": 0.5}\n'

    found = compared(tmp_path, "r.jsonl", baseline, evicted, 1e-3)

    [item] = found.items
    assert (item.lost, item.doubled, item.changed) == (0, 1, None)
    assert found.difference == "0 of 2 items are missing, 1 are duplicates"


@pytest.mark.parametrize(
    ("name", "whole", "cut"),
    [
        ("c.json", b'{"a": [1, 2, 3]}', b'{"a": [1, 2'),
        ("c.json", b"{}", b""),
        ("c.jsonl", b'{"a": 1}\n{"a": 2}\n', b'{"a": 1}\n{"a"'),
        ("c.pkl", b"\x80\x04K\x01.", b"\x80\x04K\x01"),
        ("c.safetensors", safetensors([1.0, 2.0]), safetensors([1.0, 2.0])[:-4]),
        ("c.safetensors", safetensors([1.0, 2.0]), safetensors([1.0, 2.0])[:20]),
    ],
)
def test_a_file_that_is_not_whole_is_recognised_by_its_format(
    name: str, whole: bytes, cut: bytes, tmp_path: Path
) -> None:
    path = tmp_path / name

    path.write_bytes(whole)
    assert torn(path) is None
    path.write_bytes(cut)
    assert torn(path) is not None


def test_archives_and_arrays_that_are_not_whole_are_recognised(tmp_path: Path) -> None:
    whole = archive(tmp_path / "a.pt", (2024, 1, 1, 0, 0, 0), b"w" * 5000)
    np.save(tmp_path / "a.npy", np.zeros(1000))

    for path in (whole, tmp_path / "a.npy"):
        assert torn(path) is None
        path.write_bytes(path.read_bytes()[:-100])
        assert torn(path) is not None


def test_a_torn_artifact_is_told_and_nothing_unknown_is_called_torn(tmp_path: Path) -> None:
    found = compared(tmp_path, "r.json", b'{"a": 1}', b'{"a"')

    assert found.torn is not None
    assert torn(tmp_path / "baseline" / "r.bin") is None


def test_a_format_that_only_looks_like_json_is_not_called_torn(tmp_path: Path) -> None:
    for name in ("1.json", "2.json"):
        (tmp_path / name).write_text("length 12\n{}")

    assert torn_among(tmp_path, ["2.json"]) == ()
    (tmp_path / "1.json").write_text("{}")
    assert torn_among(tmp_path, ["2.json"]) == ("2.json",)


@pytest.mark.parametrize("name", ["a.zip", "a.npz"])
def test_an_archive_that_unpacks_to_far_more_than_it_is_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(values, "_UNPACKED_BYTES_MIN", 1000)
    packed = []
    for date in (1990, 1991):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("zeros.npy", (date, 1, 1, 0, 0, 0)), b"", 8)
            member = zipfile.ZipInfo("bomb.npy", (date, 1, 1, 0, 0, 0))
            archive.writestr(member, bytes(10_000_000), zipfile.ZIP_DEFLATED)
        packed.append(buffer.getvalue())

    found = compared(tmp_path, name, packed[0], packed[1])

    assert found.difference is not None
    assert found.difference.startswith("it unpacks to 10,000,000 bytes; at most ")


def test_an_archive_of_too_many_members_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "_MEMBERS_MAX", 2)
    packed = []
    for date in (1990, 1991):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for member in "abc":
                archive.writestr(zipfile.ZipInfo(member, (date, 1, 1, 0, 0, 0)), b"1")
        packed.append(buffer.getvalue())

    found = compared(tmp_path, "a.zip", packed[0], packed[1])

    assert found.difference == "it has 3 members; at most 2 are compared"


def _npy_that_claims(shape: tuple[int, ...], data: bytes) -> bytes:
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_array_larger_than_its_file_is_a_difference_and_never_loaded(
    tmp_path: Path, suffix: str
) -> None:
    def content(data: bytes) -> bytes:
        array = _npy_that_claims((10**13,), data)
        if suffix == ".npy":
            return array
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x.npy", array)
        return file.getvalue()

    found = compared(tmp_path, f"a{suffix}", content(b"1"), content(b"2"))

    what = "it" if suffix == ".npy" else "its array 'x'"
    assert found.difference == f"{what} claims 80,000,000,000,000 bytes of data, but has 1"


def test_running_out_of_memory_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("numpy.load", run_out)
    one, other = (_npy_that_claims((1,), bytes([n] * 8)) for n in (1, 2))

    found = compared(tmp_path, "a.npy", one, other)

    assert found.difference is not None and "it differs from byte" in found.difference
