"""Where a test can keep a store: a real FUSE file system, or an object store that runs here."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path


def object_store_environ(kind: str, server: str) -> dict[str, str]:
    if kind == "gs":
        return {"STORAGE_EMULATOR_HOST": server}
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_REGION": "us-east-1",
    }


@contextlib.contextmanager
def fuse_mount(tmp_path: Path) -> Iterator[Path]:
    """A folder on a real FUSE file system."""
    behind, mount = tmp_path / "behind", tmp_path / "mount"
    behind.mkdir()
    mount.mkdir()
    subprocess.run(["bindfs", behind, mount], capture_output=True, check=True)
    try:
        yield mount
    finally:
        subprocess.run(["fusermount3", "-u", "-z", mount], check=True)
