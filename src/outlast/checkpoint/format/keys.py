"""Hash chunks and sign manifests, with the keys of `OUTLAST_KEY_FILE` if it is set.

Without a key, hashes only detect damage, because anyone can compute them. With a key, each manifest
has a MAC and chunks are hashed with the key, so that only holders of the key can create a
checkpoint that is resumed from. Keys are never logged, shown or stored.
"""

import hashlib
import hmac
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from outlast._base.logs import get_logger
from outlast._base.settings import setting, text_of
from outlast.errors import SettingError

log = get_logger(__name__)

KEY_BYTES_MIN = 32
KEYS_MAX = 16
FILE_BYTES_MAX = 64 * 1024

PLAIN_NAME = "xxh3_128"
KEYED_NAME = "hmac_sha256_128"

KEY_FILE = setting(
    "key_file",
    text_of("A path"),
    "",
    meaning="A file of secret keys, one per line. The first one signs checkpoints, and only "
    "checkpoints signed by one of them are read.",
    hint="Create one with `openssl rand -hex 32 > outlast.key && chmod 600 outlast.key`.",
)


@dataclass(frozen=True, slots=True)
class Hashing:
    """How chunks are hashed and manifests are signed, with or without a key."""

    key: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> str:
        return KEYED_NAME if self.key else PLAIN_NAME

    def digest(self, data: Any) -> str:
        """The 128-bit hash of a chunk. Releases the interpreter lock."""
        if not self.key:
            return xxhash.xxh3_128_hexdigest(data)
        # SHA-256, because most processors have instructions for it: four times as fast as BLAKE2b.
        return self._hmac(b"outlast-chunk", data).hexdigest()[:32]

    def mac(self, name: str, body: bytes) -> str | None:
        """Proof that a holder of the key wrote this manifest; None without a key."""
        if not self.key:
            return None
        found = self._hmac(b"outlast-manifest", name.encode() + b"\n")
        found.update(body)
        return found.hexdigest()

    def _hmac(self, purpose: bytes, data: Any) -> hmac.HMAC:
        # One key per purpose: the hash of a chunk must never be valid as the MAC of a manifest.
        key = hashlib.sha256(purpose + b"\0" + self.key).digest()
        return hmac.new(key, data, "sha256")


PLAIN = Hashing()


def load_hashings(environ: Mapping[str, str] = os.environ) -> tuple[Hashing, ...]:
    """One hashing per key, the one that signs first; none without `OUTLAST_KEY_FILE`.

    The file is read each time, so that a new key is used at once.
    """
    setting = KEY_FILE.read(environ=environ)
    if not setting.value:
        return ()
    path = Path(setting.value)
    if _looks_like_key(setting.value):
        # Never quoted, as it may be the secret itself.
        raise SettingError(
            f"{KEY_FILE.variable} looks like a key rather than the path of a key file: no file "
            f"with this name of {len(setting.value)} characters exists.",
            hint=f"Set {KEY_FILE.variable} to the path of a file that contains the key. "
            f"{KEY_FILE.hint}",
            source=setting.source,
        )
    try:
        return tuple(map(Hashing, _keys(_content(path))))
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except ValueError as error:
        reason = str(error)
    raise SettingError(
        f"The key file {str(path)!r} cannot be used: {reason}.",
        hint=KEY_FILE.hint,
        source=setting.source,
    )


def saving_hashing(environ: Mapping[str, str] = os.environ) -> Hashing:
    """The hashing of new checkpoints."""
    return next(iter(load_hashings(environ)), PLAIN)


def warn_of_open_key_file(environ: Mapping[str, str] = os.environ) -> None:
    """Log a warning if every user of this machine can read the keys."""
    path = KEY_FILE.read(environ=environ).value
    if path and Path(path).stat().st_mode & stat.S_IROTH:
        log.warning(
            "Every user of this machine can read the key file %r. Restrict it: chmod 600.", path
        )


def _looks_like_key(text: str) -> bool:
    if len(text) < KEY_BYTES_MIN or "/" in text:
        return False
    # `Path.exists` raises for a name that is too long.
    return not os.path.exists(text)  # noqa: PTH110


def _content(path: Path) -> bytes:
    # Opening a pipe would block forever. Links are followed: mounted secrets are links.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX:,} bytes")
    return content


def _keys(content: bytes) -> list[bytes]:
    """The keys of a file. Errors never quote them."""
    keys = [line.strip() for line in content.splitlines() if line.strip()]
    if not keys:
        raise ValueError("it is empty")
    if len(keys) > KEYS_MAX:
        raise ValueError(f"it has {len(keys)} keys, more than {KEYS_MAX}")
    for number, key in enumerate(keys, start=1):
        if not key.isascii() or not key.decode("ascii").isprintable():
            raise ValueError(f"key {number} is not printable ASCII text")
        if len(key) < KEY_BYTES_MIN:
            raise ValueError(
                f"key {number} has {len(key)} bytes, but at least {KEY_BYTES_MIN} are required"
            )
    return keys
