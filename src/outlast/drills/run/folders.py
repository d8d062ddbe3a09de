"""The folders of a drill: a fresh one for each run, with its logs, hashes and copies.

All of them are in one folder, which is removed when the drill ends. If the drill is killed: that
folder remains among the system's temporary files.
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

from outlast._redact import redact
from outlast.drills.errors import DrillError
from outlast.drills.run import outputs
from outlast.storage.settings import shared_mode

_SHELL_SECONDS_MAX = 120.0
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_SHARED_NAME = "job"
_SCRIPTS = frozenset({".py", ".sh", ".pl", ".rb", ".js", ".jl", ".R", ".pyz"})


@contextlib.contextmanager
def drill_folder(keep: Path | None) -> Iterator[Path]:
    """A new folder for one drill. It is removed at the end, unless it is one to `keep`."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="outlast-drill-"))
    else:
        folder = keep.absolute()
        if folder.exists() and not folder.is_dir():
            raise DrillError(f"{str(keep)!r} is not a folder.", hint="Give --keep a new folder.")
        if folder.exists() and any(folder.iterdir()):
            raise DrillError(
                f"The folder {str(keep)!r} is not empty.", hint="Give --keep a new folder."
            )
        private_folder(folder)
    try:
        yield folder
    finally:
        if keep is None:
            _remove_tree(folder)
        else:
            for log in folder.glob("*-logs/*"):
                outputs.redact_log(log)


class JobFolder:
    """The folder of one run of the job. `expand` replaces `{dir}` with its path.

    All runs use the same path, one after the other, so that a file which contains the path is the
    same in each. `set_aside` moves the folder away when its run is over.
    """

    def __init__(self, root: Path, name: str, source: Path | None) -> None:
        self.name = name
        self.folder = root / _SHARED_NAME
        self._aside = root / name
        self.logs = root / f"{name}-logs"
        self.hashes = root / f"{name}-hashes"
        self.kept = root / f"{name}-kept"
        # Short, because programs create sockets there, and the length of their paths is limited.
        self._nodes = root / "tmp"
        for folder in (self.logs, self.hashes, self.kept):
            folder.mkdir(mode=shared_mode(0o700))
        if source is None:
            self.folder.mkdir(mode=shared_mode(0o700))
        else:
            _copy(source, self.folder)

    def set_aside(self) -> None:
        """Move the folder to its own name, and remove the temporary files of its nodes.

        If killed: it may still be at the shared path.
        """
        self.folder.rename(self._aside)
        self.folder = self._aside
        _remove_tree(self._nodes)

    def expand(self, text: str) -> str:
        return text.replace("{dir}", str(self.folder))

    def path(self, expected: str) -> Path:
        """The path of an expected file; a relative one is resolved in the folder of the run."""
        return self.folder / self.expand(expected)

    def node_folder(self, number: int, node: int | None = None) -> Path:
        """The folder for temporary files of a node, which no other node shares."""
        folder = self._nodes / (str(number) if node is None else f"{number}-{node}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def hash_files(self) -> list[Path]:
        """The hashes of each attempt; of several ranks, those of the first."""
        return sorted(self.hashes.glob("*.jsonl"))

    def hash_path(self, number: int) -> Path:
        """Where an attempt writes its hashes. Ranks other than the first append `.RANK`."""
        return self.hashes / f"attempt-{number:04}.jsonl"

    def open_runs(self, number: int) -> int:
        """How many ranks of an attempt have opened their run: they write hashes from then on."""
        return len(list(self.hashes.glob(f"{self.hash_path(number).name}*")))

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """The command for this run.

        It runs in this folder, so a script that was not copied here is given by its full path.
        """
        expanded = [self.expand(word) for word in words]
        for index, word in enumerate(expanded):
            if _is_program(word, is_first=index == 0) and not (self.folder / word).exists():
                expanded[index] = str(Path(word).absolute())
                if index > 0:
                    break
        return tuple(expanded)

    def remove_expected(self, expected: Sequence[str]) -> None:
        """Remove the expected files, so that an old one is not mistaken for a result.

        If killed: some are removed.
        """
        for path in map(self.path, expected):
            self._refuse_link_out(path)
            if path.is_dir() and not path.is_symlink():
                self._refuse_folder_elsewhere(path)
                _remove_tree(path)
            else:
                for suffix in ("", *_BESIDE_DATABASE):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)

    def keep_outside(self, expected: Sequence[str]) -> None:
        """Copy the files that the next run would overwrite. If killed: copies may be missing."""
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
        """Whether it is inside the folder of the run once `..` and links are resolved."""
        return self.folder.resolve() in path.resolve().parents

    def _refuse_link_out(self, path: Path) -> None:
        """Refuse a file that a linked folder puts elsewhere than its path reads.

        A file outside that the command line names is the user's choice; a link in a copied folder
        is not. The kernel follows a link before `..`, so `link/../file` is not beside the link.
        """
        named = Path(os.path.normpath(path))
        if named.parent.resolve() != path.parent.resolve():
            raise DrillError(
                f"{str(path)!r} follows a symbolic link and then '..'.",
                hint="Name the file by its real path.",
            )
        if self.folder in named.parents and not self._is_inside(named.parent / "file"):
            raise DrillError(
                f"{str(path)!r} is outside the folder of the run: a folder in its path is a "
                "symbolic link.",
                hint="Replace the link in --workdir with a folder, or name the file by its "
                "real path.",
            )

    def _refuse_folder_elsewhere(self, path: Path) -> None:
        if self._is_inside(path):
            return
        if path.resolve() == self.folder.resolve():
            raise DrillError(
                "Cannot compare the entire folder of the run.",
                hint="Name the files or a folder in it.",
            )
        raise DrillError(
            f"{str(path)!r} is a folder outside the folder of the run.",
            hint="Make the command write below {dir}, or name single files.",
        )

    def artifact(self, index: int, expected: str) -> Path:
        """Where to read an expected file after the run."""
        path = self.path(expected)
        aside = self.kept / str(index) / path.name
        return aside if aside.exists() else path

    def shell(self, script: str, environ: Mapping[str, str]) -> tuple[int, str]:
        """Run a shell command in the folder of the run. Returns its exit code and its output.

        Its background processes keep running, unless the drill is stopped meanwhile.
        """
        # Not a pipe: reading it would wait for background processes that have it open.
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
                # Not chained: Python's own error quotes the script, which may contain a secret.
                raise DrillError(
                    f"{script!r} did not end within {_SHELL_SECONDS_MAX:g} s.",
                    hint="It should only test something or clean up.",
                ) from None
            output.seek(0)
            return code, output.read().decode(errors="replace")

    def reset(self, script: str, environ: Mapping[str, str]) -> None:
        code, printed = self.shell(script, environ)
        if code != 0:
            # Redacted before it is cut, because half a secret would not be recognized.
            last = redact(printed).strip()[-400:] or "It printed nothing."
            raise DrillError(
                f"The reset command {script!r} failed with exit code {code}: {last}",
                hint="It runs before each run, in its folder.",
            )


def private_folder(folder: Path) -> None:
    """Create a folder that only its owner can read, unless `OUTLAST_SHARE` is set or it exists.

    Missing parents are created too, with the usual permissions.
    """
    folder.mkdir(mode=shared_mode(0o700), parents=True, exist_ok=True)


def command_exists(command: str, folder: Path, environ: Mapping[str, str]) -> bool:
    if os.sep in command:
        path = folder / command
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(command, path=environ.get("PATH")) is not None


def _is_program(word: str, *, is_first: bool) -> bool:
    path = Path(word)
    try:
        if path.is_absolute() or not word or not path.is_file():
            return False
    except OSError:
        # A script that is given as an argument is too long for the name of a file.
        return False
    if is_first:
        return os.sep in word
    return path.suffix in _SCRIPTS or os.access(path, os.X_OK)


def _copy(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise DrillError(f"{str(source)!r} is not a folder.", hint="Give --workdir a folder.")
    if target.parent.resolve().is_relative_to(source.resolve()):
        raise DrillError(
            f"Cannot copy the folder {str(source)!r}, because it contains the folder of the drill, "
            f"{str(target.parent)!r}.",
            hint="Use another folder for --keep or TMPDIR.",
        )
    try:
        shutil.copytree(source, target, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise DrillError(
            f"Could not copy the folder {str(source)!r}: {_reason(error)}.",
            hint="Check its permissions and the free space for temporary files.",
        ) from error


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def _remove_tree(folder: Path) -> None:
    """Remove a folder, even if the command has removed permissions in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for root, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                Path(root).chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)
