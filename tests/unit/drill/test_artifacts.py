import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from outlast.drill.artifacts import Comparison, compare
from outlast.drill.formats import torn, torn_among


def pair(tmp_path: Path, name: str, calm: bytes, disturbed: bytes) -> tuple[Path, Path]:
    for folder, content in (("calm", calm), ("disturbed", disturbed)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(content)
    return tmp_path / "calm" / name, tmp_path / "disturbed" / name


def compared(
    tmp_path: Path, name: str, calm: bytes, disturbed: bytes, tolerance: float = 0.0
) -> Comparison:
    return compare(name, *pair(tmp_path, name, calm, disturbed), tolerance=tolerance)


def test_equal_bytes_are_the_same_whatever_they_are(tmp_path: Path) -> None:
    found = compared(tmp_path, "model.bin", b"\0\1" * 3_000_000, b"\0\1" * 3_000_000)

    assert found == Comparison(name="model.bin", how="bit for bit")


def test_the_first_differing_byte_is_told_beyond_a_megabyte_too(tmp_path: Path) -> None:
    calm = bytes(1_500_000)
    disturbed = calm[:1_200_000] + b"\1" + calm[1_200_001:]

    assert compared(tmp_path, "m.bin", calm, disturbed).difference == (
        "it differs from byte 1200000 on"
    )
    assert compared(tmp_path, "n.bin", b"abc", b"ab").difference == "it differs from byte 2 on"


def test_json_is_compared_by_content_and_tells_the_path(tmp_path: Path) -> None:
    calm = b'{"a": {"loss": [1.0, 2.0]}, "b": 1}'

    assert compared(tmp_path, "r.json", calm, b'{"b":1,"a":{"loss":[1.0,2.0]}}').difference is None
    found = compared(tmp_path, "r.json", calm, b'{"a": {"loss": [1.0, 2.5]}, "b": 1}')
    assert found.difference == "a.loss[1] is 2.5, not 2.0"
    shorter = compared(tmp_path, "r.json", calm, b'{"a": {"loss": [1.0]}, "b": 1}')
    assert shorter.difference == "a.loss has 1 entries, not 2"
    assert compared(tmp_path, "r.json", calm, b'{"a": {"loss": [1.0, 2.0]}}').difference == (
        "b is only in one of them"
    )


@pytest.mark.parametrize(("tolerance", "same"), [(0.0, False), (1e-9, False), (1e-5, True)])
def test_numbers_may_differ_within_the_tolerance(
    tolerance: float, same: bool, tmp_path: Path
) -> None:
    calm, disturbed = b'{"loss": 100.0, "n": NaN}', b'{"loss": 100.0001, "n": NaN}'

    found = compared(tmp_path, "r.json", calm, disturbed, tolerance)

    assert (found.difference is None) == same


def test_text_is_compared_line_by_line(tmp_path: Path) -> None:
    found = compared(tmp_path, "log.txt", b"loss 1.0\nend 2\n", b"loss 1.00001\nend 3\n", 0.001)

    assert found.difference == "line 2 is 'end 3', not 'end 2'"
    assert compared(tmp_path, "log.txt", b"a\nb\n", b"a\n").difference == "it has 1 lines, not 2"


def test_arrays_are_compared_with_their_place(tmp_path: Path) -> None:
    calm, disturbed = tmp_path / "a.npz", tmp_path / "b.npz"
    np.savez(calm, weight=np.zeros((2, 3)), bias=np.array([np.nan, 1.0]))
    np.savez(disturbed, weight=np.array([[0, 0, 0], [0, 0.5, 0]]), bias=np.array([np.nan, 1.0]))

    found = compare("w.npz", calm, disturbed)

    assert found.difference is not None
    assert found.difference.startswith("its array 'weight' differs at [1, 1]")
    assert compare("w.npz", calm, disturbed, tolerance=0.6).difference is None


def test_an_array_of_another_shape_or_dtype_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros(4))

    found = compare("w.npy", tmp_path / "a.npy", tmp_path / "b.npy", tolerance=1.0)

    assert found.difference == "it is float64(4,), not float64(3,)"


def safetensors(values: list[float]) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<2f", *values)


def test_safetensors_are_compared_within_a_tolerance(tmp_path: Path) -> None:
    calm, disturbed = safetensors([1.0, 2.0]), safetensors([1.0, 2.001])

    assert compared(tmp_path, "m.safetensors", calm, disturbed, 0.01).difference is None
    found = compared(tmp_path, "m.safetensors", calm, disturbed, 1e-6)
    assert found.difference is not None and "its tensor 'w' differs at [1]" in found.difference


def archive(path: Path, when: tuple[int, int, int, int, int, int], content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(zipfile.ZipInfo("data/0", when), content)
    return path


def test_archives_are_compared_by_their_members_not_by_their_dates(tmp_path: Path) -> None:
    calm = archive(tmp_path / "a.pt", (2024, 1, 1, 0, 0, 0), b"weights")
    later = archive(tmp_path / "b.pt", (2025, 2, 2, 0, 0, 0), b"weights")
    other = archive(tmp_path / "c.pt", (2024, 1, 1, 0, 0, 0), b"others!")

    assert compare("m.pt", calm, later).difference is None
    assert compare("m.pt", calm, other).difference == "its member 'data/0' differs"


def test_folders_are_compared_file_by_file(tmp_path: Path) -> None:
    for folder in ("calm", "disturbed"):
        (tmp_path / folder / "out").mkdir(parents=True)
        (tmp_path / folder / "out" / "a.txt").write_text("same")
    calm, disturbed = tmp_path / "calm" / "out", tmp_path / "disturbed" / "out"

    assert compare("out", calm, disturbed).difference is None
    (calm / "b.txt").write_text("only here")
    assert compare("out", calm, disturbed).difference == "'b.txt' is not in it"
    (disturbed / "b.txt").write_text("only hers")
    assert "line 1" in str(compare("out", calm, disturbed).difference)
    (disturbed / "c.txt").write_text("more")
    assert compare("out", calm, disturbed).difference == "'c.txt' is in it too"


def test_a_missing_artifact_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")

    assert compare("a", tmp_path / "a", tmp_path / "b").missing


def test_rows_are_compared_as_items(tmp_path: Path) -> None:
    calm = b'{"id": 1, "y": 0.5}\n{"id": 2, "y": 0.25}\n'
    disturbed = b'{"id": 2, "y": 0.2500001}\n{"id": 1, "y": 0.5}\n{"id": 1, "y": 0.5}\n'

    found = compared(tmp_path, "r.jsonl", calm, disturbed, 1e-3)

    [item] = found.items
    assert (item.lost, item.doubled, item.changed) == (0, 1, None)
    assert found.difference == "0 of 2 items are missing, 1 are there twice"


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
    assert torn(tmp_path / "calm" / "r.bin") is None


def test_a_format_that_only_looks_like_json_is_not_called_torn(tmp_path: Path) -> None:
    for name in ("1.json", "2.json"):
        (tmp_path / name).write_text("length 12\n{}")

    assert torn_among(tmp_path, ["2.json"]) == ()
    (tmp_path / "1.json").write_text("{}")
    assert torn_among(tmp_path, ["2.json"]) == ("2.json",)
