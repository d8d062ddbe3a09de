"""The real parts of the system that tests run against, and how they are had.

`python -m tests.parts install` installs what is missing where apt and root are there. Elsewhere the
tests that need a part are skipped and say so; with CI=true a missing part fails them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """`works` says whether the part can be used; `packages` are Debian's that bring it.

    One that is not `required` may be missing in CI too, and its tests are then left out.
    """

    packages: tuple[str, ...]
    works: Callable[[], bool]
    required: bool = True


def _on_path(*names: str) -> Callable[[], bool]:
    return lambda: all(map(shutil.which, names))


def _succeeds(*command: str) -> Callable[[], bool]:
    def works() -> bool:
        try:
            return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    return works


def _fuse_works() -> bool:
    return all(map(shutil.which, ("bindfs", "fusermount3"))) and os.access("/dev/fuse", os.W_OK)


def _has_emulator() -> bool:
    return shutil.which("java") is not None and pubsub_emulator_jar() is not None


def pubsub_emulator_jar() -> Path | None:
    """Google's own emulator, which is installed beside the programs of the Cloud CLI."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        return None
    folder = Path(gcloud).resolve().parents[1] / "platform/pubsub-emulator/lib"
    return next(iter(sorted(folder.glob("cloud-pubsub-emulator-*-all.jar"))), None)


def postgres_program(name: str) -> Path | None:
    """A program of the PostgreSQL server, which Debian keeps off the PATH."""
    if (found := shutil.which(name)) is not None:
        return Path(found)
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((one / name for one in folders if (one / name).is_file()), None)


def control_plane_folder() -> Path | None:
    """The folder with the programs of a control plane, by the convention of envtest."""
    folder = Path(_ASSETS or "/usr/local/kubebuilder/bin")
    return folder if all((folder / name).is_file() for name in _PLANE) else None


def _has_torch() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None


def data_folder(setting: str, root: Path) -> Path | None:
    """The traces and prices that others published: as set, or else beside this repository."""
    folder = Path(setting) if setting else root.parent / "shared" / "data"
    return folder if folder.is_dir() else None


# Read now, because tests run without the settings of whoever started them.
TEST_DATA = data_folder(os.environ.get("OUTLAST_TEST_DATA", ""), Path(__file__).parents[1])
_ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

PARTS = {
    "bash": Part(packages=("bash",), works=_on_path("bash")),
    "zsh": Part(packages=("zsh",), works=_on_path("zsh")),
    "fish": Part(packages=("fish",), works=_on_path("fish")),
    "cc": Part(packages=("gcc", "libc6-dev"), works=_on_path("cc")),
    "openssl": Part(packages=("openssl",), works=_on_path("openssl")),
    "pid-namespace": Part(
        packages=("util-linux",),
        works=_succeeds("unshare", "--pid", "--fork", "--kill-child", "true"),
    ),
    "fuse": Part(packages=("bindfs", "fuse3"), works=_fuse_works),
    "mount-namespace": Part(
        packages=("mount",),
        works=_succeeds("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/run"),
    ),
    "net-namespace": Part(packages=("util-linux",), works=_succeeds("unshare", "--net", "true")),
    "torch": Part(packages=(), works=_has_torch),
    "postgres": Part(
        packages=("postgresql",),
        works=lambda: all(map(postgres_program, ("initdb", "postgres"))),
    ),
    "pubsub-emulator": Part(packages=("default-jre-headless",), works=_has_emulator),
    "promtool": Part(packages=("prometheus",), works=_on_path("promtool")),
    "chromium": Part(packages=("chromium",), works=_on_path("chromium")),
    "gcloud": Part(packages=(), works=_on_path("gcloud")),
    "traces": Part(packages=(), works=lambda: TEST_DATA is not None, required=False),
    "control-plane": Part(
        packages=(), works=lambda: control_plane_folder() is not None, required=False
    ),
    "terraform": Part(packages=(), works=_on_path("terraform")),
}


def install() -> None:
    missing = sorted(
        {name for part in PARTS.values() if not part.works() for name in part.packages}
    )
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"Not installed, for want of root or apt: {', '.join(missing)}. Their tests skip.")
        return
    print(f"Installing for the tests: {', '.join(missing)}")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        command = ["apt-get", "-qq", *arguments]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=environ)


if __name__ == "__main__":
    assert sys.argv[1:] == ["install"], "usage: python -m tests.parts install"
    install()
