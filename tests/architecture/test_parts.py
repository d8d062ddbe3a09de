"""Where the tests find the data of others."""

from pathlib import Path

from tests.parts import data_folder


def test_data_beside_the_repository_is_found_unless_a_folder_is_set(tmp_path: Path) -> None:
    repository, other = tmp_path / "repository", tmp_path / "other"
    assert data_folder("", repository) is None

    beside = tmp_path / "shared" / "data"
    for folder in (beside, other):
        folder.mkdir(parents=True)

    assert data_folder("", repository) == beside
    assert data_folder(str(other), repository) == other
    assert data_folder(str(tmp_path / "missing"), repository) is None
