"""Write what a run contains as a folder that `from_pretrained` reads."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from outlast.checkpoint.errors import CheckpointError, StateMismatch
from outlast.checkpoint.restoring.inspection import arrays_of, find
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.integrations.huggingface.folders import write_folder
from outlast.run.place import url_for
from outlast.storage import Store, open_store

_MODEL = "model."
_FILES = "trainer.files."


def export(
    trainer: Any,
    folder: str | os.PathLike[str],
    url: str | os.PathLike[str] | None = None,
    *,
    step: int | None = None,
) -> None:
    """Write the model of a run, by default the newest, to a folder for `from_pretrained`.

    `trainer` is built as for the training; its model is filled and written with `save_model`. A run
    in files mode is written as the checkpoint of the trainer's own that it is. To continue the
    training, use the run itself.
    """
    store = open_store(url_for(url, os.environ))
    arrays = arrays_of(store, _checkpoint(store, step))
    files = {
        path.removeprefix(_FILES): content
        for path, (_, _, content) in arrays.items()
        if path.startswith(_FILES) and not path.startswith(f"{_FILES}best/")
    }
    if files:
        write_folder(Path(folder), files)
        return
    _fill(trainer.model, arrays, store.url)
    trainer.save_model(os.fspath(folder))


def _checkpoint(store: Store, step: int | None) -> Any:
    if step is not None:
        return find(store, step)
    names = manifest_names(store)
    if not names:
        raise CheckpointError(
            f"There is no checkpoint in {store.url}.", hint="Check the URL of the run."
        )
    return read_manifest(store, names[0])


def _fill(model: Any, arrays: dict[str, Any], url: str) -> None:
    torch = import_module("torch")
    live = model.state_dict()
    saved = {
        path.removeprefix(_MODEL): (dtype, tuple(shape), content)
        for path, (dtype, shape, content) in arrays.items()
        if path.startswith(_MODEL)
    }
    differences = [
        f"{name}: {_described(live.get(name))} here, {entry[0]} {entry[1]} in the run"
        for name, entry in saved.items()
        if _described(live.get(name)) != f"{entry[0]} {entry[1]}"
    ]
    filled = {live[name].data_ptr() for name in saved if name in live}
    # Tied weights are saved once.
    differences += [
        f"{name}: not in the run"
        for name, one in live.items()
        if name not in saved and one.data_ptr() not in filled
    ]
    if differences:
        raise StateMismatch(
            f"The run in {url} has another model than the trainer:", differences=tuple(differences)
        )
    with torch.no_grad():
        for name, (dtype, shape, content) in saved.items():
            found = torch.from_numpy(content).view(getattr(torch, dtype)).reshape(shape)
            live[name].copy_(found)


def _described(tensor: Any) -> str:
    if tensor is None:
        return "nothing"
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
