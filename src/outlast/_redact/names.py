"""Decide which names hold secrets, and which values only stand for one. Pure."""

import re
import unicodedata
from functools import lru_cache

MASK = "***"

HEADERS = ("authorization", "proxy-authorization", "cookie", "set-cookie")

_SECRET_WORDS = frozenset({"pwd", "jwt", "credential", "credentials", "cred", "creds"})
_SECRET_ENDINGS = (
    *("password", "passwd", "passphrase", "passcode", "secret", "secrets", "token"),
    *("apikey", "accesskey", "secretkey", "privatekey", "accountkey", "signature"),
)
_SECRET_KEYS = frozenset(
    "api access secret private account shared encryption signing master service ssh auth storage "
    "license deploy client session subscription".split()
)
_PLAIN_KEYS = frozenset(
    "item primary sort partition cache foreign row public group join index map dict object "
    "routing idempotency dedup queue sink result chunk state config order lookup".split()
)
# To a language model, a token is a piece of text.
_TEXT_TOKENS = frozenset(
    "pad eos bos unk sep cls mask special stop image audio num per max min next prev first last "
    "begin end each new input output n total train eval context prompt completion batch sequence "
    "seq target cached reasoning generated seen processed".split()
)
_SECRET_TOKENS = frozenset("auth api access refresh bearer session secret".split())
_VENDORS_OF_SK = frozenset("api openai stripe anthropic clerk".split())
_AUTH_SCHEMES = frozenset("basic http proxy npm registry docker".split())
_AUTH_SWITCHES = frozenset("require use enable disable no skip with without".split())
_ABOUT_A_SECRET = frozenset(
    "file files path dir folder id ids name names type count ttl seconds expiry len length size "
    "limit url uri host port ref refs env var column field sock socket arn issuer provider "
    "algorithm policy helper mode version hint".split()
)
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*")
_PLACEHOLDERS = frozenset(
    {"PASSWORD", "NAME/KEY", "None", "null", "true", "false", "True", "False", "..."}
)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|\((\w+)\)|([A-Z][A-Z0-9_]*))")
_COUNT = re.compile(r"[0-9][0-9_,.]{0,40}[kKmMbBeE]?[0-9]{0,3}")
_COUNT_NAMES = ("tokens", "pass")


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether a variable, an option or a parameter with this name holds a secret."""
    # Full-width and other compatible letters look the same to a person.
    name = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if name in ("PWD", "OLDPWD", "GOOGLE_APPLICATION_CREDENTIALS"):
        return False
    words = _words(name)
    if not words:
        return False
    if words[-1] in _ABOUT_A_SECRET and words[-2:] != ["secret", "id"]:
        return False
    pairs = zip(["", *words], words, strict=False)
    if any(_is_secret_word(word, before) for before, word in pairs):
        return True
    return _has_secret_ending(name, words)


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret: a reference to a variable, or a word of our hints."""
    if value in _PLACEHOLDERS:
        return True
    found = _VARIABLE.fullmatch(value)
    return found is not None and is_secret_name(found[1] or found[2] or found[3])


def is_count(name: str, value: str) -> bool:
    """Whether the value is a number under a name that may also count things, such as TOKENS."""
    words = _words(name)
    return bool(words) and words[-1] in _COUNT_NAMES and _COUNT.fullmatch(value) is not None


def _words(name: str) -> list[str]:
    words = [word.lower().rstrip("0123456789") for word in _NAME_WORD.findall(name)]
    return [word for word in words if word]


def _is_secret_word(word: str, before: str) -> bool:
    if word in _SECRET_WORDS:
        return True
    if word.endswith("token"):
        return before not in _TEXT_TOKENS
    return word.endswith(_SECRET_ENDINGS)


def _has_secret_ending(name: str, words: list[str]) -> bool:
    """Whether the last word makes the name secret, considering the word before and the case."""
    before = words[-2] if len(words) > 1 else ""
    match words[-1]:
        case "pass":
            return len(words) > 1 or name.startswith("-") or name in ("pass", "PASS")
        case "key" | "keys" if before:
            if before in _SECRET_KEYS:
                return True
            return (name.isupper() or name.startswith("--")) and before not in _PLAIN_KEYS
        case "sk" if before:
            return name.isupper() or name.startswith("-") or before in _VENDORS_OF_SK
        case "pat":
            return bool(before) or name == "PAT"
        case "tokens":
            return before in _SECRET_TOKENS or (name.isupper() and before not in _TEXT_TOKENS)
        case "auth" if before:
            return before in _AUTH_SCHEMES or (name.isupper() and before not in _AUTH_SWITCHES)
    return name.lstrip("-_").lower() in ("auth", *HEADERS)
