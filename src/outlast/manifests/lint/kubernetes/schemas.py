"""Check objects against the schemas of Kubernetes, each compiled once and only if needed.

The schemas are the strict ones from the package kubernetes-validate, compiled by jsonschema-rs. A
kind without a schema is a custom resource, not an error. The Pod and Job templates inside known
custom resources are checked.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import Any

from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.kubernetes.placeholders import is_in_templates, is_replaced
from outlast.manifests.lint.kubernetes.templates import SLOTS, expand
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.errors import PlanningPackageMissing
from outlast.yamltext.nodes import Map, Path, get

_FOLDER = re.compile(r"v1\.(\d+)\.\d+-local-strict")
_VERSION = re.compile(r"v?1\.(\d+)(?:[.-].*)?")
_WORD = re.compile(r"[A-Za-z0-9]+")
_JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"
_POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
# Placeholders of envsubst, charts and scripts. Kubernetes expands `$(NAME)`, in strings only.
_PLACEHOLDER = re.compile(
    r"\$\{?[A-Za-z_]|\{\{|^ENC\[|^<[^<>]+>$|^__\w+__$|^[A-Z]+(?:_[A-Z0-9]+)+$"
)
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]+")
# The server reads an empty value of these types as none, or as 0.
_NUMBERS = (
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
)
# More errors in one object are not helpful.
_ERRORS_MAX = 50


class SchemaProblem(StrEnum):
    """How an object violates its schema."""

    UNKNOWN_FIELD = "unknown field"
    MISSING = "missing field"
    UNQUOTED = "unquoted text"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaError:
    """A violation of the schema at a path of the object.

    `known` are the available fields, for an unknown field; `expected` the types, for a wrong one.
    """

    problem: SchemaProblem
    path: Path
    message: str
    known: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


class Schemas:
    """The schemas of one version of Kubernetes."""

    def __init__(self, folder: FilePath, minor: int) -> None:
        self._folder = folder
        self.version = f"1.{minor}"
        self._validators: dict[str, Any] = {}
        self._local: dict[str, tuple[Any, list[str]]] = {}

    def errors(self, manifest: KubernetesObject) -> Iterator[SchemaError]:
        """The violations in an object."""
        name = _file_name(manifest)
        found = self._of_kind(name, manifest) if name else None
        parts = [((), found, False)] if found else list(self._parts(manifest))
        for path, (schema, validator), is_partial in parts:
            data = get(manifest.data, path)
            if validator.is_valid(data):
                continue
            for _, error in zip(range(_ERRORS_MAX), validator.iter_errors(data), strict=False):
                if error.instance is None and _is_optional(error):
                    continue
                for one in _explained(error, schema, path):
                    # A partial template may lack fields, and have some of its own.
                    if is_partial and one.problem is not SchemaProblem.UNQUOTED:
                        continue
                    if not _is_excused(one, manifest):
                        yield one

    def _parts(self, manifest: KubernetesObject) -> Iterator[tuple[Path, Any, bool]]:
        """The templates in a custom resource, with their schemas, and whether they are partial."""
        for slot in SLOTS.get((manifest.group, manifest.kind), ()):
            is_job = slot.job is not None
            name = _JOB_TEMPLATE if is_job else _POD_TEMPLATE
            for path in expand(manifest.data, slot.job if slot.job is not None else slot.template):
                # A kind of Kubernetes in a version that it does not have is no template.
                if path and isinstance(get(manifest.data, path), Map):
                    yield path, self._of_definition(name), slot.is_partial

    def _of_kind(self, name: str, manifest: KubernetesObject) -> Any:
        """The schema and its validator, None if there is none for this kind."""
        if name not in self._validators:
            path = self._folder / name
            schema = json.loads(path.read_bytes()) if path.is_file() else None
            self._validators[name] = self._compiled(schema) if schema else None
        found = self._validators[name]
        if found is None:
            return None
        # File names omit the domain of the group, so groups may share a name.
        kinds = found[0].get("x-kubernetes-group-version-kind", [])
        return found if any(kind.get("group") == manifest.group for kind in kinds) else None

    def _of_definition(self, name: str) -> Any:
        if name not in self._validators:
            self._validators[name] = self._compiled(dict(self._definitions[name]))
        return self._validators[name]

    def _compiled(self, schema: dict[str, Any]) -> Any:
        """The schema with the definitions it needs, and its validator."""
        needed: dict[str, Any] = {}
        waiting: list[str] = []
        complete = _localized(schema, waiting)
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed[name], more = self._definition(name)
                waiting += more
        complete = {key: value for key, value in complete.items() if key not in ("$id", "$schema")}
        complete["$defs"] = needed
        return complete, _jsonschema().Draft202012Validator(complete)

    def _definition(self, name: str) -> tuple[Any, list[str]]:
        """A definition and what it refers to. Most kinds share most of them."""
        if name not in self._local:
            names: list[str] = []
            self._local[name] = _localized(self._definitions[name], names), names
        return self._local[name]

    @cached_property
    def _definitions(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._folder / "_definitions.json").read_bytes())
        return found["$defs"]  # type: ignore[no-any-return]


@cache
def schemas_for(version: str | None = None) -> Schemas:
    """The schemas of a version such as `1.33`, by default the newest."""
    found = _folders()
    if version is None:
        return Schemas(found[max(found)], max(found))
    match = _VERSION.fullmatch(version)
    minor = int(match[1][:4]) if match else -1
    if minor not in found:
        raise LintError(
            f"There are no schemas for Kubernetes {version!r}.",
            hint=f"Use a version from 1.{min(found)} to 1.{max(found)}.",
        )
    return Schemas(found[minor], minor)


def _folders() -> dict[int, FilePath]:
    # Located, not imported: the package would load another validator, which takes longer than
    # the lint.
    spec = find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        raise PlanningPackageMissing("kubernetes-validate")
    root = FilePath(spec.submodule_search_locations[0]) / "kubernetes-json-schema"
    return {
        int(match[1]): folder
        for folder in root.iterdir()
        if (match := _FOLDER.fullmatch(folder.name))
    }


@cache
def _jsonschema() -> Any:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise PlanningPackageMissing("jsonschema-rs") from error
    return jsonschema_rs


def _file_name(manifest: KubernetesObject) -> str | None:
    group = manifest.group.partition(".")[0]
    version = manifest.api_version.rpartition("/")[2]
    words = [word for word in (manifest.kind.lower(), group, version) if word]
    if not manifest.kind or not all(_WORD.fullmatch(word) for word in words):
        return None
    return "-".join(words) + ".json"


def _localized(schema: Any, names: list[str]) -> Any:
    """The schema with local references and without descriptions. Adds the references to `names`."""
    if isinstance(schema, list):
        return [_localized(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            name = value.rpartition("/")[2]
            names.append(name)
            result[key] = f"#/$defs/{name}"
        elif key != "description" or not isinstance(value, str):
            result[key] = _localized(value, names)
    return result


def _is_excused(error: SchemaError, manifest: KubernetesObject) -> bool:
    """Whether it is acceptable, because a tool changes the text before it is applied."""
    if error.problem is SchemaProblem.MISSING and error.path[0] == "status":
        # The server replaces the status.
        return True
    if error.path == ("sops",):
        # What SOPS adds to an object that it encrypts, and removes before it is applied.
        return True
    if manifest.is_patch or manifest.is_base:
        is_directive = str(error.path[-1]).startswith("$") if error.path else False
        # The target of a patch may be named elsewhere.
        is_name = manifest.is_patch and error.path == ("metadata", "name")
        if error.problem is SchemaProblem.MISSING or is_directive or is_name:
            return True
    given = get(manifest.data, error.path)
    if given is None and error.problem is SchemaProblem.OTHER:
        return is_in_templates(manifest.source)
    if isinstance(given, Map) and given.is_flow and list(given.values()) == [None]:
        # {volume-id}, which the reader replaces.
        return True
    if not isinstance(given, str):
        return False
    if error.expected and "string" not in error.expected and _CAPITALS.fullmatch(given):
        # PORT, where a number is due.
        return True
    return bool(_PLACEHOLDER.search(given)) or is_replaced(given, manifest.source)


def _is_optional(error: Any) -> bool:
    is_number = any(name in error.schema_path for name in _NUMBERS)
    return is_number and error.instance_path[-1:] != ["port"]


def _explained(error: Any, schema: dict[str, Any], base: Path) -> Iterator[SchemaError]:
    path: Path = (*base, *error.instance_path)
    where = dotted(path)
    kind = error.kind
    match kind.name:
        case "additionalProperties":
            known = tuple(get(schema, (*error.schema_path[:-1], "properties"), ()))
            for name in kind.unexpected:
                yield SchemaError(
                    problem=SchemaProblem.UNKNOWN_FIELD,
                    path=(*path, name),
                    message=f"Unknown field {name!r} in {where}.",
                    known=known,
                )
        case "required":
            yield SchemaError(
                problem=SchemaProblem.MISSING,
                path=(*path, kind.property),
                message=f"{where} is missing the required field {kind.property!r}.",
            )
        case "type" | "oneOf" | "anyOf":
            yield _wrong_type(error, path)
        case "enum":
            options = ", ".join(map(str, kind.options))
            if len(kind.options) > 1:
                options = f"one of {options}"
            yield SchemaError(
                problem=SchemaProblem.OTHER,
                path=path,
                message=f"{where} is {_shown(error.instance)}; expected {options}.",
            )
        case _:
            yield SchemaError(
                problem=SchemaProblem.OTHER, path=path, message=f"{where}: {_short(error.message)}."
            )


def _wrong_type(error: Any, path: Path) -> SchemaError:
    expected = _types(error)
    given = error.instance
    is_plain = isinstance(given, bool | int | float)
    message = f"{dotted(path)} is {_shown(given)}"
    if expected:
        message += f"; expected {' or '.join(_TYPE_WORDS.get(name, name) for name in expected)}"
    return SchemaError(
        problem=SchemaProblem.UNQUOTED
        if is_plain and expected == ("string",)
        else SchemaProblem.OTHER,
        path=path,
        message=message + ".",
        expected=expected,
    )


_TYPE_WORDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def _types(error: Any) -> tuple[str, ...]:
    """The accepted types, without null."""
    if error.kind.name == "type":
        names = list(error.kind.types)
    else:
        names = [name for option in error.kind.context for one in option for name in _types(one)]
    return tuple(dict.fromkeys(name for name in names if name != "null"))


def dotted(path: Path) -> str:
    """A path in the usual notation: `spec.template.spec.containers[0].image`."""
    text = ""
    for part in path:
        is_plain = isinstance(part, str) and _WORD.fullmatch(part)
        text += f".{part}" if is_plain else f"[{part!r}]"
    return text.lstrip(".") or "the object"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"the string {_short(value)!r}" if isinstance(value, str) else f"the number {value}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
