"""Remove secrets from text before a person, a log or a file can see it.

Two kinds of secrets are masked: those recognized by their place or shape (the password in a URL,
even a malformed one; `--token X`; `mysql -pX`; `HF_TOKEN=...`; `the password is X`; well-known
token formats), and values that this process knows to be secret (environment variables with
secret-like names, passwords in URLs it was given). Hashes, paths and numbers are kept.

Redacting never raises, takes time linear in the length of the text, and is idempotent. This package
imports nothing else from Outlast, because the errors use it.
"""

from outlast._redact.names import MASK, is_secret_name
from outlast._redact.redactor import (
    known_secrets,
    redact,
    redact_all,
    redact_excerpt,
    redact_words,
    remember,
    secrets_in,
    secrets_shown,
    shows_secret,
)

__all__ = [
    "MASK",
    "is_secret_name",
    "known_secrets",
    "redact",
    "redact_all",
    "redact_excerpt",
    "redact_words",
    "remember",
    "secrets_in",
    "secrets_shown",
    "shows_secret",
]
