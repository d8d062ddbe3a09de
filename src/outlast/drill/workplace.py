"""The folders of a drill: a fresh one for each leg, one for the logs, and what happens to them.

Everything lies below one folder, which goes when the drill is over. If the drill is killed: that
folder stays, under the system's folder for temporary files.
"""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from outlast.drill import outputs
from outlast.drill.errors import DrillError

_SHELL_SECONDS_MAX = 120.0
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_SCRIPTS = frozenset({".py", ".sh", ".pl", ".rb", ".js", ".jl", ".R", ".pyz"})


@contextlib.contextmanager
def drill_folder(keep: Path | None) -> Iterator[Path]:
    """A new folder for one drill. It goes at the end, unless it is one to `keep`."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="outlast-drill-"))
    else:
        folder = keep.absolute()
        if folder.exists() and not folder.is_dir():
            raise DrillError(f"What to keep, {str(keep)!r}, is no folder.", hint="Name a new one.")
        if folder.exists() and any(folder.iterdir()):
            raise DrillError(
                f"The folder to keep, {str(keep)!r}, is not empty.", hint="Name a new one."
            )
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if keep is None:
            _remove_tree(folder)


class Workplace:
    """The folder of one leg. `expand` puts its path in the place of `{dir}`."""

    def __init__(self, root: Path, name: str, source: Path | None) -> None:
        self.name = name
        self.folder = root / name
        self.logs = root / f"{name}-logs"
        self.hashes = root / f"{name}-hashes"
        self.kept = root / f"{name}-kept"
        # Short, because programs make sockets in there, whose paths have a limit.
        self._nodes = root / "tmp" / name.removeprefix("disturbed-")[:1]
        for folder in (self.logs, self.hashes, self.kept):
            folder.mkdir()
        if source is None:
            self.folder.mkdir()
        else:
            _copy(source, self.folder)

    def expand(self, text: str) -> str:
        return text.replace("{dir}", str(self.folder))

    def path(self, expected: str) -> Path:
        """Where an expected file lies; a relative one lies in the folder of the leg."""
        return self.folder / self.expand(expected)

    def node_folder(self, number: int) -> Path:
        """The temporary files of a node, which no other one sees."""
        folder = self._nodes / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """The command for this leg.

        It runs in a folder of its own, so the script that it names is given with its full path if
        there is no copy of it here.
        """
        expanded = [self.expand(word) for word in words]
        for index, word in enumerate(expanded):
            if _is_program(word, is_first=index == 0) and not (self.folder / word).exists():
                expanded[index] = str(Path(word).absolute())
                if index > 0:
                    break
        return tuple(expanded)

    def remove_expected(self, expected: Sequence[str]) -> None:
        """Remove what the command is to make, so that nothing from before is taken for it.

        If killed: some are removed.
        """
        for path in map(self.path, expected):
            if path.is_dir() and not path.is_symlink():
                self._refuse_folder_elsewhere(path)
                _remove_tree(path)
            else:
                for suffix in ("", *_BESIDE_DATABASE):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)

    def keep_outside(self, expected: Sequence[str]) -> None:
        """Copy aside what the next leg would write over. If killed: copies may be missing."""
        for index, name in enumerate(expected):
            path = self.path(name)
            if self._is_inside(path):
                continue
            if path.is_dir():
                self._refuse_folder_elsewhere(path)
            for suffix in ("", "-wal"):
                beside = path.with_name(path.name + suffix)
                if beside.is_file():
                    (self.kept / str(index)).mkdir(exist_ok=True)
                    shutil.copy2(beside, self.kept / str(index) / beside.name)

    def _is_inside(self, path: Path) -> bool:
        """Whether it really lies below the folder of the leg, whatever `..` and links say."""
        return self.folder.resolve() in path.resolve().parents

    def _refuse_folder_elsewhere(self, path: Path) -> None:
        if self._is_inside(path):
            return
        if path.resolve() == self.folder.resolve():
            raise DrillError(
                "The whole folder of the leg is more than a result.",
                hint="Name the files or the folder in it that are to be compared.",
            )
        raise DrillError(
            f"{str(path)!r} is a folder outside the folder of the leg.",
            hint="Let the command write below {dir}, or name single files.",
        )

    def artifact(self, index: int, expected: str) -> Path:
        """Where the content of an expected file is to be read after the leg."""
        path = self.path(expected)
        aside = self.kept / str(index) / path.name
        return aside if aside.exists() else path

    def shell(self, script: str, environ: Mapping[str, str]) -> tuple[int, str]:
        """Run a line of shell in the folder of the leg: its exit code, and what it printed.

        What it leaves in the background lives on, unless the drill is stopped meanwhile.
        """
        # Not a pipe: that would be waited for as long as anybody in the background has it open.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["sh", "-c", self.expand(script)],
                cwd=self.folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(_SHELL_SECONDS_MAX)
            except BaseException as error:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise DrillError(
                    f"{outputs.redacted(script)!r} did not end within {_SHELL_SECONDS_MAX:g} s.",
                    hint="It should only test, or clean up.",
                ) from error
            output.seek(0)
            return code, output.read().decode(errors="replace")

    def reset(self, script: str, environ: Mapping[str, str]) -> None:
        code, printed = self.shell(script, environ)
        if code != 0:
            last = printed.strip()[-400:] or "It printed nothing."
            said = f"The reset {script!r} failed with exit code {code}: {last}"
            raise DrillError(
                outputs.redacted(said),
                hint="It runs in the folder of the leg, before each leg.",
            )


def command_exists(command: str, folder: Path, environ: Mapping[str, str]) -> bool:
    if os.sep in command:
        path = folder / command
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(command, path=environ.get("PATH")) is not None


def _is_program(word: str, *, is_first: bool) -> bool:
    path = Path(word)
    if path.is_absolute() or not word or not path.is_file():
        return False
    if is_first:
        return os.sep in word
    return path.suffix in _SCRIPTS or os.access(path, os.X_OK)


def _copy(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise DrillError(f"{str(source)!r} is no folder.", hint="Give --workdir a folder.")
    if target.parent.resolve().is_relative_to(source.resolve()):
        raise DrillError(
            f"The folder of the drill, {str(target.parent)!r}, lies in the folder {str(source)!r} "
            "that is to be copied.",
            hint="Keep the drill elsewhere: another --keep, or another TMPDIR.",
        )
    try:
        shutil.copytree(source, target, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise DrillError(
            f"The folder {str(source)!r} could not be copied: {_reason(error)}.",
            hint="Check its rights and the room for temporary files.",
        ) from error


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def _remove_tree(folder: Path) -> None:
    """Remove a folder, also one in which the command has taken rights away."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for root, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                Path(root).chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)
