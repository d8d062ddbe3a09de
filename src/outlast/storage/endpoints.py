"""Which server an address of an object store means, by the usual environment variables.

Pure. Credentials are not read here: the client finds them by itself, where each cloud keeps them.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from outlast.storage.errors import BadURL

# The first that is set counts. They are the variables of the vendors' own tools.
_ENDPOINT_VARIABLES = {
    "gs": ("STORAGE_EMULATOR_HOST",),
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_ENDPOINT_KEYS = {"gs": "base_url", "s3": "endpoint", "az": "endpoint"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where the objects are. `config` is in the client's words."""

    scheme: str
    bucket: str
    prefix: str
    config: Mapping[str, str] = field(default_factory=dict)
    allows_http: bool = False

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")


def find_endpoint(url: str, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of `gs://bucket/folder` and the like. Raises `BadURL`."""
    split = urlsplit(url)
    # What stands before an @ could be a password, so the address is not quoted in that case.
    if "@" in split.netloc or split.query or split.fragment:
        raise BadURL(
            f"The address of a {split.scheme}:// store is a bucket and a folder, nothing more.",
            hint=f"Write {split.scheme}://bucket/folder and give credentials by the environment.",
        )
    if not split.netloc:
        raise BadURL(f"{url!r} names no bucket.", hint=f"Write {split.scheme}://bucket/folder")
    server = _server(split.scheme, environ)
    return Endpoint(
        scheme=split.scheme,
        bucket=split.netloc,
        prefix=split.path.strip("/"),
        config=_config(split.scheme, server, environ),
        allows_http=server is not None and server.startswith("http://"),
    )


def _server(scheme: str, environ: Mapping[str, str]) -> str | None:
    """The server to ask instead of the cloud itself. Unencrypted only on this machine."""
    for variable in _ENDPOINT_VARIABLES[scheme]:
        if given := environ.get(variable, "").strip():
            server = given if "://" in given else f"http://{given}"
            if not server.startswith("https://") and not is_loopback(server):
                raise BadURL(
                    f"{variable} names a server that is asked without encryption.",
                    hint="Use https://, or a server on 127.0.0.1 or localhost.",
                )
            return server.rstrip("/")
    return None


def _config(scheme: str, server: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    config = {}
    if server is not None:
        config[_ENDPOINT_KEYS[scheme]] = server
        if scheme == "gs" and is_loopback(server):
            # Emulators check no token, but the client will not write without one.
            config["bearer_token"] = "emulator"
    if scheme == "s3" and not (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")):
        config["region"] = "us-east-1"
    return config


def is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
