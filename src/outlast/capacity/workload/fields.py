"""The base class of workload file sections, and the types of their fields.

The only file that imports pydantic. Every type accepts text as written in the file and Python
values of its own type; an error says what is expected.
"""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, get_args

from outlast.capacity.errors import PlanningPackageMissing
from outlast.capacity.workload.quantities import (
    DURATION_EXPECTED,
    SIZE_EXPECTED,
    format_exact_duration,
    format_size,
    parse_exact_duration,
    parse_instant,
    parse_size,
)

try:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Field,
        PlainSerializer,
        PlainValidator,
        ValidationError,
        WithJsonSchema,
        model_validator,
    )
except ImportError as error:
    raise PlanningPackageMissing("pydantic") from error

__all__ = [
    "BeforeValidator",
    "Duration",
    "Field",
    "FieldError",
    "GoogleEmail",
    "GoogleName",
    "HttpPath",
    "ImageName",
    "Interval",
    "Label",
    "LabelKey",
    "LabelValue",
    "Moment",
    "MountPath",
    "Reason",
    "SecretRef",
    "Size",
    "Text",
    "ValidationError",
    "VariableName",
    "Version",
    "WorkloadSection",
    "model_validator",
    "section_of",
]

NAME_CHARACTERS_MAX = 40
"""Node pool names have at most 40. Names derived for Pods, Services and labels stay below 63."""

VERSION_MINOR_MIN = 30
"""Older versions have no ComputeClass and no sleep action in preStop hooks."""


class WorkloadSection(BaseModel):
    """A section of a workload file: immutable, and no unknown keys allowed."""

    # The input is hidden in pydantic's own errors because an address may contain a password.
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


def section_of(model: type[WorkloadSection], key: str | int) -> type[WorkloadSection] | None:
    """The section under a key of a section, or the section of the items in a list there."""
    if isinstance(key, int):
        return model
    if key not in model.model_fields:
        return None
    pending: list[Any] = [model.model_fields[key].annotation]
    while pending:
        one = pending.pop()
        if isinstance(one, type) and issubclass(one, WorkloadSection):
            return one
        pending.extend(get_args(one))
    return None


class FieldError(ValueError):
    """A check across several fields failed. `path` leads to the offending field."""

    def __init__(self, path: tuple[str | int, ...], sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def _size(given: object) -> object:
    if isinstance(given, str):
        return parse_size(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise ValueError(SIZE_EXPECTED)


def _duration(given: object) -> timedelta:
    if isinstance(given, str):
        given = parse_exact_duration(given)
    if not isinstance(given, timedelta):
        raise ValueError(DURATION_EXPECTED)
    if given <= timedelta(0):
        raise ValueError("Expected a duration above 0.")
    return given


def _moment(given: object) -> timedelta | datetime:
    if isinstance(given, str):
        if re.match(r"\s*\d{4}-", given):
            return parse_instant(given)
        if re.match(r"\s*\d+(\.\d+)?\s*[a-z]", given) is None:
            raise ValueError(
                "Expected a duration such as 72h, or a time such as 2026-11-20T18:00:00Z."
            )
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError("Expected a time with a time zone.")
        return given
    return _duration(given)


def _interval(given: object) -> timedelta | int | None:
    """None for automatic, else a number of steps or a duration."""
    if given is None or given == "auto":
        return None
    if isinstance(given, str) and re.fullmatch(r"\d{1,10}", given, re.ASCII):
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if not 1 <= given < 2**31:
            raise ValueError("Expected a number of steps of at least 1.")
        return given
    try:
        duration = _duration(given)
    except ValueError:
        duration = timedelta(0)
    if duration < timedelta(seconds=1):
        raise ValueError("Expected auto, a number of steps, or a duration of at least 1s.")
    return duration


def _label(given: str) -> str:
    if re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", given) and len(given) <= NAME_CHARACTERS_MAX:
        return given
    better = re.sub(r"[^a-z0-9]+", "-", given.lower()).lstrip("-0123456789")
    better = better[:NAME_CHARACTERS_MAX].strip("-")
    raise ValueError(
        f"Expected up to {NAME_CHARACTERS_MAX} lowercase letters, digits and '-', starting with a "
        "letter." + (f" Try {better!r}." if better else "")
    )


def _label_key(given: str) -> str:
    name = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
    if not re.fullmatch(rf"([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{name}", given):
        raise ValueError("Expected a label key such as team or example.com/team.")
    return given


def _label_value(given: str) -> str:
    if not re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", given):
        raise ValueError("Expected up to 63 letters, digits, '-', '_' and '.'.")
    return given


def _text(given: str) -> str:
    # Tabs and newlines are legitimate; other control characters only hide text.
    if re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]", given
    ):
        raise ValueError("Control characters are not allowed.")
    return given


def _reason(given: str) -> str:
    if len(re.findall(r"\w+", given)) < 2:
        raise ValueError("Expected a reason of a few words. It becomes a comment in the manifests.")
    return _text(given)


def _image(given: str) -> str:
    if not given.isprintable() or re.search(r"[\s\"'`$\\]", given) or not given:
        raise ValueError("Expected an image reference such as registry.example/trainer:1.4.")
    return given


def _google_name(given: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.:_-]{0,98}[a-z0-9])?", given):
        raise ValueError("Expected lowercase letters, digits and '-'.")
    return given


def _google_email(given: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z0-9.-]+\.gserviceaccount\.com", given):
        raise ValueError(
            "Expected a Google service account such as trainer@project.iam.gserviceaccount.com."
        )
    return given


def _http_path(given: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._~/?=&%-]{0,200}", given):
        raise ValueError("Expected a URL path such as /healthz.")
    return given


def _variable(given: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,250}", given):
        raise ValueError("Expected a variable name of letters, digits and '_'.")
    return given


def _secret(given: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9._-]{1,253}", given):
        raise ValueError("Expected NAME/KEY of a Secret, such as database/url.")
    return given


def _mount_path(given: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", given) or {"..", "."} & set(given.split("/")):
        raise ValueError("Expected an absolute path of letters, digits, '.', '_' and '-'.")
    return given


def _version(given: str) -> str:
    match = re.fullmatch(r"v?1\.(\d{1,3})(?:\.\d{1,4})?(?:-gke\.\d{1,10})?", given, re.ASCII)
    if match is None:
        raise ValueError("Expected a Kubernetes version such as 1.35 or 1.35.1-gke.1000000.")
    if int(match[1]) < VERSION_MINOR_MIN:
        raise ValueError(f"Kubernetes 1.{VERSION_MINOR_MIN} or newer is required.")
    return given.removeprefix("v")


def _as_text(value: object) -> object:
    """The value as written in a file, so that JSON made from a workload can be read back."""
    if isinstance(value, timedelta):
        return format_exact_duration(value)
    return value.isoformat() if isinstance(value, datetime) else value


_DURATION_SCHEMA: dict[str, Any] = {
    "type": "string",
    "pattern": r"^(\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+$",
    "examples": ["90s", "15m", "3h", "2d"],
}
_SIZE_SCHEMA: dict[str, Any] = {
    "type": "string",
    "pattern": r"^\d+(\.\d+)?\s*([kKMGTP]i?B?|B)$",
    "examples": ["12GiB", "500MB"],
}
_LABEL_SCHEMA: dict[str, Any] = {
    "type": "string",
    "pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$",
    "maxLength": NAME_CHARACTERS_MAX,
}
# The reader keeps every scalar as written, so an editor should not ask for quotes.
_WORD_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean"]}

_IN_JSON = PlainSerializer(_as_text, when_used="json-unless-none")

Size = Annotated[
    int,
    Field(gt=0),
    BeforeValidator(_size),
    PlainSerializer(format_size, when_used="json"),
    WithJsonSchema(_SIZE_SCHEMA),
]
Duration = Annotated[
    timedelta, BeforeValidator(_duration), _IN_JSON, WithJsonSchema(_DURATION_SCHEMA)
]
Moment = Annotated[
    timedelta | datetime,
    PlainValidator(_moment),
    _IN_JSON,
    WithJsonSchema({"anyOf": [_DURATION_SCHEMA, {"type": "string", "format": "date-time"}]}),
]
Interval = Annotated[
    timedelta | int | None,
    PlainValidator(_interval),
    _IN_JSON,
    WithJsonSchema(
        {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}, _DURATION_SCHEMA]}
    ),
]
Label = Annotated[str, AfterValidator(_label), WithJsonSchema(_LABEL_SCHEMA)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value), WithJsonSchema(_WORD_SCHEMA)]
Text = Annotated[str, AfterValidator(_text), WithJsonSchema(_WORD_SCHEMA)]
Reason = Annotated[str, AfterValidator(_reason)]
ImageName = Annotated[str, AfterValidator(_image)]
GoogleName = Annotated[str, AfterValidator(_google_name)]
GoogleEmail = Annotated[str, AfterValidator(_google_email)]
HttpPath = Annotated[str, AfterValidator(_http_path)]
VariableName = Annotated[str, AfterValidator(_variable)]
SecretRef = Annotated[
    str,
    AfterValidator(_secret),
    WithJsonSchema({"type": "string", "pattern": "^[^/]+/[^/]+$", "examples": ["database/url"]}),
]
MountPath = Annotated[str, AfterValidator(_mount_path)]
Version = Annotated[str, AfterValidator(_version), WithJsonSchema({"type": ["string", "number"]})]
