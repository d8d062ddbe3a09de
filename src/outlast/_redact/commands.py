"""Find the passwords on command lines: `--token X`, and `-pX` where a program reads it so. Pure."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from outlast._redact.names import MASK, is_placeholder, is_secret_name

_OPTION = re.compile(r"-[A-Za-z]|--|--[a-z][a-z0-9\-]*(?:=.*)?", re.DOTALL)

# To most programs, -p is a port, a path or a process.
_ATTACHED = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mycli"), "-p"),
    **dict.fromkeys(("mariadb", "mariadb-dump", "mariadb-admin", "7z", "7za", "sshpass"), "-p"),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore"), "-p"),
    "redis-cli": "-a",
}
_QUICK = ("mysql", "maria", "mycli", "mongo", "sshpass", "redis-cli", "7z")
_SEPARATE = frozenset({"sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "redis-cli"})

_COMMAND = re.compile(
    rf"(?<![\w.\-])(?P<name>{'|'.join(map(re.escape, sorted(_ATTACHED, reverse=True)))})"
    r"(?=[ \t])(?P<rest>[^\r\n|;&]{1,1000})"
)
_WORD = re.compile(r"(?<=[ \t])(?:[^\s\"']{1,500}+|\"[^\"]{0,500}+\"?|'[^']{0,500}+'?){1,8}+")
_TRAILING = "\"'`,;)]}>."


def command_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the passwords are in commands such as `mysql -pX`, in order and without overlap."""
    if not any(name in text for name in _QUICK):
        return
    for command in _COMMAND.finditer(text):
        words = list(_WORD.finditer(command["rest"]))
        for index, offset in password_words([command["name"], *(word[0] for word in words)]):
            word = words[index - 1]
            start = command.start("rest") + word.start() + offset
            value = word[0][offset:]
            quotes = len(value) - len(value.lstrip("\"'"))
            end = start + len(value.rstrip(_TRAILING))
            if start + quotes < end and text[start + quotes : end] != MASK:
                yield start + quotes, end


def password_words(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Which words hold a password, and at which offset in the word it begins."""
    program = option = ""
    for index, (before, word) in enumerate(pairwise(words), start=1):
        name = PurePosixPath(before).name
        if name in _ATTACHED:
            program, option = name, _ATTACHED[name]
        offset = len(option) if option and word.startswith(option) else 0
        is_separate = bool(option) and before == option and program in _SEPARATE
        is_named = before.startswith("-") and "=" not in before and is_secret_name(before)
        has_value = offset or ((is_separate or is_named) and not _OPTION.fullmatch(word))
        if has_value and word != option and not is_placeholder(word[offset:]):
            yield index, offset
            # What follows may be another program, as after sshpass.
            option = option if is_named else ""
