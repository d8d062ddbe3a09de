"""Makes the trainer of a program durable without a change to the program: `outlast exec --durable`.

The command starts with a folder on PYTHONPATH whose `sitecustomize` calls `watch_imports` in every
Python process. When the program imports a known framework, the method that starts its training is
replaced by one that makes the trainer durable first. Nothing else is touched. Standard library
only, until a training starts.

If killed: nothing is left, because all changes are in the memory of the program.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from outlast.errors import OutlastError
from outlast.interruption.exec_settings import NOTES

VARIABLE = "OUTLAST_DURABLE"
URL_VARIABLES = ("OUTLAST_RUN_URL", "CHECKPOINT_DIR")
_PATH = "PYTHONPATH"
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")  # noqa: PTH100, PTH118, PTH120
_MARK = "made-durable"
_OWNER = "owner-of"
# What shells and launchers change when they start the same program again.
_CHANGING = frozenset({"_", "SHLVL", "OLDPWD", "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK"})
_CHANGING_PREFIXES = ("OUTLAST_", "MASTER_", "TORCHELASTIC_")


class SharedRun(OutlastError):
    """Two programs of one command would have used the same run."""


class Framework(NamedTuple):
    """Where the class of a framework's trainer is, the method that trains, and our integration."""

    name: str
    module: str
    method: str
    integration: str


FRAMEWORKS = (
    Framework(
        "transformers.Trainer", "transformers.trainer", "train", "outlast.integrations.huggingface"
    ),
    Framework(
        "lightning.Trainer",
        "lightning.pytorch.trainer.trainer",
        "fit",
        "outlast.integrations.lightning",
    ),
    Framework(
        "pytorch_lightning.Trainer",
        "pytorch_lightning.trainer.trainer",
        "fit",
        "outlast.integrations.lightning",
    ),
    Framework("keras.Model", "keras.src.models.model", "fit", "outlast.integrations.keras"),
)


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a command starts, to make its trainers durable."""
    before = environ.get(_PATH, "")
    return {VARIABLE: "1", _PATH: os.pathsep.join([_FOLDER, *([before] if before else [])])}


def was_anything_durable(notes_path: str | None) -> bool:
    """Whether a process has noted that it made a trainer durable."""
    return notes_path is None or os.path.exists(f"{notes_path}/{_MARK}")  # noqa: PTH110


def watch_imports() -> None:
    """Make the trainers of known frameworks durable, once the program imports them."""
    if os.environ.get(VARIABLE) == "1":
        # Relative paths mean another place in another folder.
        _environ_at_start.update(os.environ, PWD=os.getcwd())  # noqa: PTH109
        sys.meta_path.insert(0, _ImportWatcher())


class _ImportWatcher:
    """Finds nothing itself, but changes the class of a trainer after its module was imported."""

    def __init__(self) -> None:
        self._frameworks = {one.module: one for one in FRAMEWORKS}
        self._is_asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        framework = self._frameworks.get(name)
        if framework is None or self._is_asking:
            return None
        self._is_asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_asking = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            _change(getattr(module, framework.name.rpartition(".")[2]), framework)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def _change(kind: Any, framework: Framework) -> None:
    """Replace the method that trains, also where a subclass of a trainer defines its own."""
    method = framework.method
    setattr(kind, method, _durable_method(getattr(kind, method), framework))
    if framework.name == "keras.Model":
        # A model's own `fit` prepares data, and calls that of its base.
        return
    inherited = kind.__init_subclass__

    def init_subclass(cls: Any, /, **keywords: Any) -> None:
        inherited(**keywords)
        if method in vars(cls):
            setattr(cls, method, _durable_method(vars(cls)[method], framework))

    kind.__init_subclass__ = classmethod(init_subclass)


def _durable_method(train: Callable[..., Any], framework: Framework) -> Callable[..., Any]:
    @functools.wraps(train)
    def train_durably(trainer: Any, *args: Any, **keywords: Any) -> Any:
        if _is_durable(trainer):
            return train(trainer, *args, **keywords)
        integration = importlib.import_module(framework.integration)
        url = _next_url()
        _check_owner(url)
        integration.durable(trainer, url)
        _report(framework, url)
        _keep_from_others(trainer)
        # Of the object, because it has another class, or a method of its own, now.
        return getattr(trainer, framework.method)(*args, **keywords)

    return train_durably


def _is_durable(trainer: Any) -> bool:
    """Whether the program, or this module, has made the next training of a trainer durable."""
    trainings = [
        getattr(one, "outlast_training", None) for one in getattr(trainer, "callbacks", None) or ()
    ]
    return (
        any(kind.__module__.startswith("outlast.") for kind in type(trainer).__mro__)
        or any(one is not None and not one.is_over for one in trainings)
        or "outlast_fit" in vars(trainer)
    )


_urls: list[str] = []


def _next_url() -> str:
    """The URL of the run for the first trainer of a process, and a folder in it for each other."""
    from outlast.run.place import url_for

    # As it was given, without the index of a Job, which the run appends itself.
    url = url_for(None, {name: os.environ.get(name, "") for name in URL_VARIABLES})
    if _urls:
        url = f"{url.rstrip('/')}/trainer-{len(_urls) + 1}"
    _urls.append(url)
    return url


_environ_at_start: dict[str, str] = {}


def _check_owner(url: str) -> None:
    """Raise `SharedRun` if another program of the same command has trained in the run.

    It would take over what the other one came to, and train nothing. The same program, started
    again, goes on.
    """
    folder = os.environ.get(NOTES.variable)
    if folder is None or not _is_first_rank():
        return
    own = _fingerprint()
    path = f"{folder}/{_OWNER}-{_hash(url)}"
    with contextlib.suppress(FileExistsError), open(path, "x") as file:  # noqa: PTH123
        file.write(own)
    with open(path) as file:  # noqa: PTH123
        if file.read() == own:
            return
    raise SharedRun(
        f"Another program of this command has already trained in {url}: its arguments, its "
        "variables, its folder or its process differ.",
        hint="Start each program that trains with an OUTLAST_RUN_URL of its own.",
    )


def _fingerprint() -> str:
    """What tells two programs apart: arguments, folder, variables, and which child it is."""
    variables = {
        name: found
        for name, found in _environ_at_start.items()
        if name not in _CHANGING and not name.startswith(_CHANGING_PREFIXES)
    }
    # A child that multiprocessing starts has the arguments of its parent.
    processes = sys.modules.get("multiprocessing.process")
    child = "MainProcess" if processes is None else processes.current_process().name
    # In `python -c`, the program itself is an argument.
    arguments = sys.orig_argv if sys.argv[:1] == ["-c"] else sys.argv
    return _hash(repr([arguments, child, sorted(variables.items())]))


def _hash(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _is_first_rank() -> bool:
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def _report(framework: Framework, url: str) -> None:
    """Note for `outlast exec` that something is durable, and print it once for all ranks."""
    from outlast._redact import redact

    if _is_first_rank():
        sys.stderr.write(redact(f"outlast: {framework.name} is durable in {url}\n"))
        sys.stderr.flush()
    if folder := os.environ.get(NOTES.variable):
        with open(f"{folder}/{_MARK}", "wb"):  # noqa: PTH123
            pass


def _keep_from_others(trainer: Any) -> None:
    """Take the variables out of the environment: a program started from here is not the run's.

    Except for the other ranks, which Lightning starts from the first one.
    """
    launcher = getattr(getattr(trainer, "strategy", None), "launcher", None)
    if type(launcher).__name__ == "_SubprocessScriptLauncher":
        return
    os.environ.pop(VARIABLE, None)
    paths = [one for one in os.environ.get(_PATH, "").split(os.pathsep) if one != _FOLDER]
    if any(paths):
        os.environ[_PATH] = os.pathsep.join(paths)
    else:
        os.environ.pop(_PATH, None)
