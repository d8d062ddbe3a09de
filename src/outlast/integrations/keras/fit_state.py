"""What a fit of Keras changes besides its data: variables, and attributes of the program's objects.

Variables are those of the model, its optimizer and its metrics, and of what else of Keras a
callback, the model or a layer keeps, such as a second optimizer. Of all other attributes, those are
saved that have changed since `begin`: settings stay as the program sets them.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position.container_state import is_plain
from outlast.checkpoint.position.sources import same
from outlast.checkpoint.state.arrays import library_of
from outlast.checkpoint.state.randomness import as_value
from outlast.checkpoint.state.tree import has_state_dict
from outlast.integrations.attributes import is_of_program
from outlast.integrations.plain import SCALARS, NotPlain, filled, separated

log = get_logger(__name__)

_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_OF_KERAS = ("params", "_model", "stop_training")
_DEPTH_MAX = 3
_NOTED_BYTES_MAX = 65_536
# Parts of names.
_STATE, _TRAINS, _TRAINABLE = " state", " trains", "trainable"
_NOTHING = object()


class FitState:
    """Reads and restores what the callbacks, the model and its layers keep."""

    def __init__(self, keras: Any, model: Any, callbacks: Callable[[], list[Any]]) -> None:
        self._keras = keras
        self._saveable = import_module("keras.src.saving.keras_saveable").KerasSaveable
        self._model = model
        self._callbacks = callbacks
        self._settings: dict[str, Any] = {}
        # What cannot be saved, with its length if it has one, and what was reported of it.
        self._unsaved: dict[str, tuple[Any, int]] = {}
        self._reported: set[str] = set()
        self._restored: list[Callable[[], object]] = []

    def begin(self) -> None:
        """Note what there is before the first batch of this process."""
        found = self._saved_attributes(self._unsaved)
        # What is large is not copied to be compared, but always saved.
        self._settings = {
            name: separated(one) for name, one in found.items() if not _has_large_array(one)
        }

    def restore_again(self) -> None:
        """Undo what callbacks have changed since it was restored."""
        for restore in self._restored:
            restore()

    def forget_restored(self) -> None:
        """Let go of what `restore_again` needs."""
        self._restored.clear()

    def variables(self) -> dict[str, Any]:
        found = self._all_variables()
        names = {id(one): name for name, one in found.items()}
        trains = {
            f"{name}{_TRAINS}": [names.get(id(one)) for one in optimizer._trainable_variables]
            for name, optimizer in self._other_optimizers().items()
            if optimizer.built
        }
        return {name: tensor_of(one) for name, one in found.items()} | trains

    def set_variables(self, saved: dict[str, Any]) -> None:
        self._build_optimizers(saved)
        # Tensors are filled in place, so what Keras does with them next would change these, too.
        kept = {
            name: getattr(one, "clone", lambda one=one: one)()
            for name, one in saved.items()
            if not name.endswith(_TRAINS)
        }
        if differences := tuple(_differences(self._all_variables(), kept)):
            raise StateMismatch(
                "The checkpoint does not match the model:",
                differences=differences,
                hint="Build the same model as the run that saved it, or use another URL.",
            )

        def restore() -> None:
            for name, one in self._all_variables().items():
                one.assign(kept[name])

        restore()
        self._restored.append(restore)

    def attributes(self) -> dict[str, Any]:
        unsaved: dict[str, tuple[Any, int]] = {}
        found = self._saved_attributes(unsaved)
        self._report(unsaved)
        changed = {
            name: one
            for name, one in found.items()
            if name not in self._settings or not _is_same(one, self._settings[name])
        }
        self._report_compiled(changed)
        return changed

    def set_attributes(self, saved: dict[str, Any]) -> None:
        def restore() -> None:
            holders = self._holders()
            for name, found in copy.deepcopy(saved).items():
                path, _, attribute = name.rpartition(".")
                if path in holders:
                    _write(holders[path], attribute, found)
                elif name not in self._reported:
                    self._reported.add(name)
                    log.warning(
                        "The run has saved %s, which does not exist when this fit begins: it is "
                        "not restored. Create it before fit().",
                        _short(name),
                    )

        restore()
        self._restored.append(restore)

    def _holders(self) -> dict[str, Any]:
        """The objects by names that are the same in each process.

        Callbacks, the model with its layers, its optimizer and its metrics, and objects of the
        program's own classes that these keep.
        """
        model, skipped = self._model, self._keras.callbacks.ProgbarLogger
        layers = model._flatten_layers(include_self=False)
        metrics = [part for one in model.metrics for part in (one, *getattr(one, "metrics", ()))]
        objects = [*self._callbacks(), model, *layers, model.optimizer, *metrics]
        found = {
            f"{number} {type(one).__name__}": one
            for number, one in enumerate(objects)
            if one is not None and not isinstance(one, skipped)
        }
        seen = set(map(id, objects))
        waiting = deque((name, one, 0) for name, one in found.items())
        while waiting:
            name, holder, depth = waiting.popleft()
            for key, item in _attributes_of(holder):
                if id(item) not in seen and depth < _DEPTH_MAX and self._is_own(item):
                    seen.add(id(item))
                    found[f"{name}.{key}"] = item
                    waiting.append((f"{name}.{key}", item, depth + 1))
        return found

    def _is_own(self, item: Any) -> bool:
        """Whether an object is of a class of the program itself, and has no state of its own."""
        kind: Any = type(item)
        return (
            is_of_program(kind)
            and hasattr(item, "__dict__")
            and not has_state_dict(item)
            and not isinstance(item, (*_CONTAINERS, type, self._saveable, self._keras.Variable))
        )

    def _saved_attributes(self, unsaved: dict[str, tuple[Any, int]]) -> dict[str, Any]:
        """All attributes that can be saved. Notes those of the program's objects that cannot."""
        found: dict[str, Any] = {}
        for name, holder in self._holders().items():
            kind: Any = type(holder)
            if isinstance(getattr(holder, _TRAINABLE, None), bool):
                found[f"{name}.{_TRAINABLE}"] = holder.trainable
            for key, item in _attributes_of(holder):
                if self._is_of_keras(item):
                    continue
                path = f"{name}.{key}"
                try:
                    found.update([self._saved(path, item)])
                except NotPlain:
                    if isinstance(item, _CONTAINERS):
                        unsaved[path] = (item, len(item))
                    elif is_of_program(kind) and not self._is_own(item) and not callable(item):
                        unsaved[path] = (item, 0)
        return found

    def _saved(self, path: str, item: Any) -> tuple[str, Any]:
        if (generator := as_value(item)) is not None:
            return path + _STATE, generator.get()
        if has_state_dict(item):
            return path + _STATE, _copied(item.state_dict())
        return path, _copied(item)

    def _is_of_keras(self, item: Any) -> bool:
        """Whether the state of something is in its variables."""
        return isinstance(item, (self._saveable, self._keras.Variable))

    def _report(self, unsaved: dict[str, tuple[Any, int]]) -> None:
        """Name what the program has put in attributes, but a resume would lose."""
        for name, (item, length) in unsaved.items():
            before, length_before = self._unsaved.get(name, (None, 0))
            has_changed = length != length_before or (before is not item and not length)
            if has_changed and name not in self._reported:
                self._reported.add(name)
                log.warning(
                    "%s cannot be saved, and a resume loses it. Use lists, sets and dicts of plain "
                    "values or arrays.",
                    _short(name),
                )

    def _report_compiled(self, changed: dict[str, Any]) -> None:
        """Name settings of Keras' layers that were changed too late to matter, until a resume."""
        if self._keras.config.backend() != "jax" or self._model.run_eagerly:
            return
        holders = self._holders()
        for name in sorted(changed.keys() & self._settings.keys() - self._reported):
            holder: Any = holders[name.rpartition(".")[0]]
            kind: Any = type(holder)
            if isinstance(holder, self._keras.Layer) and not is_of_program(kind):
                self._reported.add(name)
                log.warning(
                    "%s has changed during fit(). JAX goes on with the value that it compiled, but "
                    "will compile the new one after a resume, which gives other results. Set it "
                    "before fit(), or compile the model with run_eagerly=True.",
                    _short(name),
                )

    def _all_variables(self) -> dict[str, Any]:
        model = self._model
        if hasattr(model, "jax_state_sync"):
            model.jax_state_sync()
        groups: dict[str, Iterable[Any]] = {
            "model": model.variables,
            "optimizer": getattr(model.optimizer, "variables", ()),
            "metrics": model.metrics_variables,
        }
        known = {id(one) for found in groups.values() for one in found}
        for name, thing in self._others():
            groups[name] = [one for one in self._variables_of(thing) if id(one) not in known]
            known.update(map(id, groups[name]))
        return {
            f"{group}[{number}] {one.path}": one
            for group, found in groups.items()
            for number, one in enumerate(found)
        }

    def _variables_of(self, thing: Any) -> list[Any]:
        if isinstance(thing, self._keras.Variable):
            return [thing]
        return list(getattr(thing, "variables", ()))

    def _others(self) -> Iterator[tuple[str, Any]]:
        """Things of Keras in attributes, each by the name of its attribute."""
        for name, holder in self._holders().items():
            for key, item in _attributes_of(holder):
                yield from self._things_in(f"{name}.{key}", item, 0)

    def _things_in(self, name: str, item: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if self._is_of_keras(item):
            if as_value(item) is None:
                yield name, item
        elif isinstance(item, dict | list | tuple) and depth < _DEPTH_MAX:
            pairs = item.items() if isinstance(item, dict) else enumerate(item)
            for key, one in pairs:
                if type(one) not in SCALARS:
                    yield from self._things_in(f"{name}.{key}", one, depth + 1)

    def _other_optimizers(self) -> dict[str, Any]:
        kind = self._keras.optimizers.Optimizer
        return {
            name: one
            for name, one in self._others()
            if isinstance(one, kind) and one is not self._model.optimizer
        }

    def _build_optimizers(self, saved: dict[str, Any]) -> None:
        """Give optimizers of the program's own their variables, as the first update would."""
        variables = self._all_variables()
        for name, optimizer in self._other_optimizers().items():
            trains = saved.get(f"{name}{_TRAINS}", ())
            if trains and not optimizer.built and variables.keys() >= set(trains):
                optimizer.build([variables[one] for one in trains])


def tensor_of(variable: Any) -> Any:
    """The value of a variable, without its gradient."""
    found = variable.value
    return found.detach() if hasattr(found, "detach") else found


def _attributes_of(holder: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that belong to the program. Layers and optimizers have many of their own."""
    attributes = vars(holder)
    found = dict(attributes)
    is_of_keras = hasattr(holder, "add_weight") or hasattr(holder, "add_variable")
    if is_of_keras:
        # On torch, a layer is a module.
        for part in ("_modules", "_buffers"):
            found |= attributes.get(part) or {}
    for name, item in found.items():
        if name not in _OF_KERAS and not (is_of_keras and name.startswith("_")):
            yield name, item


def _copied(thing: Any) -> Any:
    """A copy of the containers, which keeps the arrays. Raises `NotPlain`."""
    if is_plain(thing):
        return thing
    if library_of(thing) is not None:
        return thing.detach() if hasattr(thing, "detach") else thing
    if isinstance(thing, dict) and all(type(key) in SCALARS for key in thing):
        return {key: _copied(item) for key, item in thing.items()}
    if isinstance(thing, list | deque):
        return [_copied(item) for item in thing]
    if type(thing) is tuple:
        return tuple(_copied(item) for item in thing)
    if isinstance(thing, set | frozenset) and all(type(item) in SCALARS for item in thing):
        return set(thing)
    raise NotPlain


def _write(holder: Any, attribute: str, found: Any) -> None:
    if attribute.endswith(_STATE):
        item = vars(holder).get(attribute.removesuffix(_STATE), _NOTHING)
        if item is _NOTHING:
            item = getattr(holder, attribute.removesuffix(_STATE), _NOTHING)
        if (generator := as_value(item)) is not None:
            generator.set(found)
        elif has_state_dict(item):
            item.load_state_dict(found)
        return
    if getattr(holder, "monitor_op", holder) is None:
        # Keras would do this later, and change the sign of what is restored here.
        holder._set_monitor_op()
    live = vars(holder).get(attribute)
    if isinstance(live, list) and isinstance(found, list):
        live[:] = found
    else:
        setattr(holder, attribute, filled(live, found))


def _has_large_array(found: Any) -> bool:
    if isinstance(found, dict):
        return any(map(_has_large_array, found.values()))
    if isinstance(found, list | tuple):
        return any(map(_has_large_array, found))
    return library_of(found) is not None and found.nbytes > _NOTED_BYTES_MAX


def _is_same(one: Any, other: Any) -> bool:
    try:
        return same(one, other)
    except (TypeError, ValueError, RuntimeError):
        # Arrays of a kind that NumPy does not have.
        return False


def _differences(live: dict[str, Any], saved: dict[str, Any]) -> Iterator[str]:
    """How the variables of the model differ from those that were saved."""
    for name in sorted(live.keys() | saved.keys()):
        if name not in live:
            yield f"{name}: saved, but not in this model"
        elif name not in saved:
            yield f"{name}: in this model, but not saved"
        elif tuple(live[name].shape) != tuple(saved[name].shape):
            shapes = tuple(saved[name].shape), tuple(live[name].shape)
            yield f"{name}: the saved shape is {shapes[0]}, and that of this model {shapes[1]}"


def _short(name: str) -> str:
    """A name without the number by which equal classes are told apart."""
    return name.partition(" ")[2]
