"""Find the server of an object store from its URL and the usual environment variables.

Pure. Credentials are not read here: the client finds them where each cloud keeps them.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from outlast._base.logs import get_logger
from outlast._base.settings import Setting
from outlast.storage.errors import BadURL
from outlast.storage.settings import (
    AWS_ALLOW_HTTP,
    AWS_ENDPOINT_URL,
    AWS_ENDPOINT_URL_S3,
    AWS_UNSIGNED_PAYLOAD,
    AZURE_ALLOW_HTTP,
    AZURE_ENDPOINT,
    AZURE_STORAGE_ENDPOINT,
    GCS_ENDPOINT,
    STORAGE_EMULATOR_HOST,
)

log = get_logger(__name__)

# The first one that is set is used. Most are the variables of the vendors' own tools.
_ENDPOINTS: Mapping[str, tuple[Setting[str], ...]] = {
    "gs": (GCS_ENDPOINT, STORAGE_EMULATOR_HOST),
    "s3": (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL),
    "az": (AZURE_STORAGE_ENDPOINT, AZURE_ENDPOINT),
}
_ALLOW_HTTP = {"s3": AWS_ALLOW_HTTP, "az": AZURE_ALLOW_HTTP}
_ENDPOINT_KEYS = {"gs": "base_url", "s3": "endpoint", "az": "endpoint"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """The server and the place of the objects. `config` uses the client's names."""

    scheme: str
    bucket: str
    prefix: str
    config: Mapping[str, str] = field(default_factory=dict)
    allows_http: bool = False

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")


def find_endpoint(url: str, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of a URL such as `gs://bucket/folder`. Raises `BadURL`."""
    split = urlsplit(url)
    # The part before an @ could be a password, so the URL is not quoted in that case.
    if "@" in split.netloc or split.query or split.fragment:
        raise BadURL(
            f"A {split.scheme}:// URL may contain only a bucket and a folder.",
            hint=f"Use {split.scheme}://bucket/folder and pass credentials in the environment.",
        )
    if re.search(r"[^A-Za-z0-9._-]", split.netloc):
        raise BadURL(
            f"The bucket name in {url!r} is invalid: use letters, digits, '.', '_' and '-'.",
            hint=f"Use {split.scheme}://bucket/folder",
        )
    if not split.netloc:
        raise BadURL(f"{url!r} has no bucket name.", hint=f"Use {split.scheme}://bucket/folder")
    server = _server(split.scheme, environ)
    return Endpoint(
        scheme=split.scheme,
        bucket=split.netloc,
        prefix=split.path.strip("/"),
        config=_config(split.scheme, server, environ),
        allows_http=server is not None and server.startswith("http://"),
    )


def _server(scheme: str, environ: Mapping[str, str]) -> str | None:
    """The server to use instead of the cloud itself; None if no variable names one."""
    for setting in _ENDPOINTS[scheme]:
        if given := setting.read(environ=environ).value:
            server = given if "://" in given else f"http://{given}"
            _check_server(scheme, setting, server, environ)
            return server.rstrip("/")
    return None


def _check_server(
    scheme: str, setting: Setting[str], server: str, environ: Mapping[str, str]
) -> None:
    """Refuse a server that would receive credentials or data by mistake."""
    if is_loopback(server):
        return
    if setting is STORAGE_EMULATOR_HOST:
        raise BadURL(
            f"{setting.variable} names a server that is not on this machine. It would receive "
            "your access token.",
            hint="Run the emulator on 127.0.0.1 or localhost. "
            f"To use a private endpoint, set {GCS_ENDPOINT.variable}=https://...",
        )
    if server.startswith("https://"):
        return
    allow_http = _ALLOW_HTTP.get(scheme)
    if allow_http is None or not allow_http.read(environ=environ).value:
        hint = "Use https://, or a server on 127.0.0.1 or localhost."
        if allow_http is not None:
            hint += f" To send data unencrypted anyway, set {allow_http.variable}=true."
        raise BadURL(f"The server in {setting.variable} does not use encryption.", hint=hint)
    log.warning(
        "Data and credentials for %s:// are sent unencrypted, because %s is set.",
        scheme,
        allow_http.variable,
    )


def _config(scheme: str, server: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    config = {}
    if server is not None:
        config[_ENDPOINT_KEYS[scheme]] = server
        if scheme == "gs" and is_loopback(server):
            # Emulators do not check tokens, but the client does not write without one.
            config["bearer_token"] = "emulator"
    if scheme == "s3" and not (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")):
        config["region"] = "us-east-1"
    if scheme == "s3":
        # A signature of the content shows whether it was changed on the way, which TLS does, too.
        # Its hash takes three times as much of the processors as sending the content.
        is_safe = server is None or server.startswith("https://") or is_loopback(server)
        is_unsigned = is_safe and AWS_UNSIGNED_PAYLOAD.read(environ=environ).value
        config["unsigned_payload"] = "true" if is_unsigned else "false"
    return config


def is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
