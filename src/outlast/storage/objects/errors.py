"""Convert errors of the object store client into storage errors with hints. Pure.

The client's text quotes the server's response and the URL, which may contain secrets. Only the safe
parts are used: the status, the error code, and the kind of failure.
"""

import re

from outlast.storage.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    StorageError,
    StorageTimeout,
    StoreFull,
    StoreUnavailable,
)
from outlast.storage.settings import AWS_UNSIGNED_PAYLOAD

_STATUS = re.compile(r"status code: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_TIMED_OUT = re.compile(r"kind: Timeout|TimedOut|timed out")
# The requested URL is quoted. An object may have "metadata" in its name, too.
_NO_CREDENTIALS = re.compile(r"performing token request|//169\.254\.169\.254\b|//metadata[./:]")
_BAD_CERTIFICATE = re.compile(r"invalid peer certificate|certificate verify failed")
_PASSING_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_CREDENTIAL_CODES = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
)
# Classes by name, so that tests of this module do not need the client.
_CONFLICTS = frozenset({"AlreadyExistsError", "PreconditionError"})
_DENIALS = frozenset({"PermissionDeniedError", "UnauthenticatedError"})
_TIMEOUT_HINT = "If this happens again, check the network. A write may still have taken effect."
_DENIED_HINT = "Check that the credentials have not expired and allow reading and writing."
_UNSIGNED_HINT = (
    f"If a bucket policy requires signed content, set {AWS_UNSIGNED_PAYLOAD.variable}=false."
)


def as_storage_error(
    error: BaseException, doing: str, url: str, name: str | None = None
) -> StorageError:
    """The storage error for an error of the client. `doing` is a verb: "write"."""
    text = str(error)
    kind = type(error).__name__
    code = match[1] if (match := _CODE.search(text)) else ""
    thing = f"{name!r} in {url}" if name else url
    message = f"Could not {doing} {thing}: {_reason(text, code)}."
    if kind in _CONFLICTS:
        return AlreadyExists(f"{name!r} already exists in {url}.", name=name)
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StoreUnavailable(message, hint="Create the bucket, or correct its name.", name=name)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{name!r} does not exist in {url}.", name=name)
    if kind in _DENIALS or code in _CREDENTIAL_CODES:
        is_upload = doing == "write" and url.startswith("s3://")
        hint = f"{_DENIED_HINT} {_UNSIGNED_HINT}" if is_upload else _DENIED_HINT
        return AccessDenied(message, hint=hint, name=name)
    if status(text) == 507 or code == "QuotaExceeded":
        return StoreFull(message, hint="Raise the quota, or delete old runs.", name=name)
    if _TIMED_OUT.search(text):
        return StorageTimeout(message, hint=_TIMEOUT_HINT, name=name)
    return StoreUnavailable(message, hint=_unavailable_hint(text), name=name)


def may_pass(error: BaseException, *, has_worked: bool) -> bool:
    """Whether the same request may succeed later.

    `has_worked`: a request has succeeded before, so the endpoint and the credentials are valid.
    """
    text = str(error)
    if type(error).__name__ != "GenericError":
        return False
    if _NO_CREDENTIALS.search(text) or _BAD_CERTIFICATE.search(text):
        return has_worked
    if "<Code>RequestTimeout</Code>" in text:
        return True
    number = status(text)
    return number is None or number in _PASSING_STATUSES


def status(text: str) -> int | None:
    """The HTTP status that the client quotes, if there was a response."""
    match = _STATUS.search(text)
    return int(match[1]) if match else None


def _reason(text: str, code: str) -> str:
    number = status(text)
    if number is not None:
        return f"the server answered {number}" + (f" ({code})" if code else "")
    if _TIMED_OUT.search(text):
        return "the server did not answer in time"
    if "dns error" in text:
        return "the server name could not be resolved"
    if "Connection refused" in text or "ConnectionRefused" in text:
        return "the connection was refused"
    if _NO_CREDENTIALS.search(text):
        return "no credentials were found"
    return "the request failed"


def _unavailable_hint(text: str) -> str:
    if _NO_CREDENTIALS.search(text) and status(text) is None:
        return "Provide credentials in the environment, or run where the cloud provides them."
    return "Check the network, the bucket name and the status of the service."
