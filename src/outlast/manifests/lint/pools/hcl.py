"""A tolerant reader of Terraform's language: blocks, attributes and literal values.

Anything but literals and their `merge` (another call, a condition, an unknown reference) reads as
`UNKNOWN`, and invalid syntax is skipped. Nothing else is evaluated, and nothing is fetched.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from outlast.yamltext.source import SourceText

DEPTH_MAX = 40


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
"""The value of an expression that only Terraform can compute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HclAttribute:
    """A value and the position of its name."""

    value: Any
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HclBlock:
    """`type "label" "label" { ... }`, with the position of its first line."""

    type: str
    labels: tuple[str, ...]
    start: int
    end: int
    attributes: dict[str, HclAttribute] = field(default_factory=dict)
    blocks: list["HclBlock"] = field(default_factory=list)

    def value(self, name: str) -> Any:
        """The value of an attribute, None if it is not set."""
        found = self.attributes.get(name)
        return None if found is None else found.value

    def block(self, type: str) -> "HclBlock | None":
        return next((block for block in self.blocks if block.type == type), None)

    def all_blocks(self, type: str) -> Iterator["HclBlock"]:
        return (block for block in self.blocks if block.type == type)


def read_hcl(text: str, variables: Mapping[str, Any] | None = None) -> HclBlock:
    """The blocks of a text, in a root without a type. `variables` are values of `var.NAME`."""
    return _parsed(tuple(_tokens(text)), variables or {})


def read_hcl_file(source: SourceText, variables: Mapping[str, Any] | None = None) -> HclBlock:
    """The blocks of a file. It may be read with several sets of variables, but is split once."""
    tokens = _known_tokens.get(source)
    if tokens is None:
        tokens = _known_tokens[source] = tuple(_tokens(source.text))
    return _parsed(tokens, variables or {})


def _parsed(tokens: "Sequence[_Token]", variables: Mapping[str, Any]) -> HclBlock:
    root = HclBlock(type="", labels=(), start=0, end=0)
    _Parser(tokens, variables).body(root, depth=0)
    return root


_TOKEN = re.compile(
    r"""
      [ \t\r]*+(?:
      (?P<blank>\#[^\n]* | //[^\n]* | /\*.*?(?:\*/|\Z) | \Z)
    | (?P<newline>\n)
    | (?P<here><<-?\w+\r?\n)
    | (?P<quote>")
    | (?P<number>-?\d+(?:\.\d+)?(?![\w.]))
    | (?P<name>[A-Za-z_][\w.-]*)
    | (?P<sign>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_LITERALS = {"true": True, "false": False, "null": None}
# Most strings have no escape and no template.
_PLAIN_STRING = re.compile(r'[^"\\\n$%]*+(?=")')


class _Token(NamedTuple):
    kind: str
    text: Any
    start: int
    end: int


_known_tokens: WeakKeyDictionary[SourceText, tuple[_Token, ...]] = WeakKeyDictionary()


def _tokens(text: str) -> Iterator[_Token]:
    index = 0
    while index < len(text):
        match = _TOKEN.match(text, index)
        assert match is not None, "every character is at least a sign"
        kind = match.lastgroup or "sign"
        start, index = match.span(kind)
        if kind == "quote":
            value, index = _string(text, index)
            yield _Token("value", value, start, index)
        elif kind == "here":
            index = _past_here(text, match)
            yield _Token("value", UNKNOWN, start, index)
        elif kind == "number":
            digits = match[kind]
            number = float(digits) if "." in digits else int(digits[:18])
            yield _Token("value", number, start, index)
        elif kind != "blank":
            yield _Token(kind, match[kind], start, index)


def _string(text: str, index: int) -> tuple[Any, int]:
    """The value of a string and its end; a template is `UNKNOWN`."""
    plain = _PLAIN_STRING.match(text, index)
    if plain is not None:
        return plain[0], plain.end() + 1
    parts: list[str] = []
    is_template = False
    # The open quotes and template braces; templates can contain quotes of their own.
    opened = ['"']
    while index < len(text):
        sign = text[index]
        if sign == "\\":
            parts.append(_ESCAPES.get(text[index + 1 : index + 2], ""))
            index += 2
            continue
        if sign == "\n" and len(opened) == 1:
            break
        if opened[-1] == '"' and text.startswith(("${", "%{"), index):
            is_template = True
            opened.append("{")
            index += 1
        elif sign == '"' and opened[-1] == '"':
            opened.pop()
            if not opened:
                break
        elif opened[-1] == "{" and sign == "}":
            opened.pop()
        elif opened[-1] == "{" and sign in '"{':
            opened.append(sign)
        parts.append(sign)
        index += 1
    return (UNKNOWN if is_template else "".join(parts)), index + 1


def _past_here(text: str, match: re.Match[str]) -> int:
    name = match[0].strip().lstrip("<-")
    end = re.compile(rf"^[ \t]*{re.escape(name)}\r?$", re.MULTILINE).search(text, match.end())
    return len(text) if end is None else end.end()


def _merged(maps: list[Any]) -> Any:
    """What Terraform's `merge` returns, if all of its arguments are known."""
    if not all(isinstance(one, dict) for one in maps):
        return UNKNOWN
    return {key: value for one in maps for key, value in one.items()}


class _Parser:
    def __init__(self, tokens: Sequence[_Token], variables: Mapping[str, Any]) -> None:
        self._tokens = tokens
        self._count = len(tokens)
        self._index = 0
        self._variables = variables

    def body(self, block: HclBlock, *, depth: int) -> None:
        """Read into `block`, up to and including its closing brace."""
        while token := self._take():
            if token.text == "}" and token.kind == "sign":
                return
            if token.kind != "name" and not (token.kind == "value" and self._sees("=")):
                continue
            if self._sees("="):
                self._take()
                value = self._expression(depth)
                block.attributes[str(token.text)] = HclAttribute(
                    value=value, start=token.start, end=token.end
                )
            else:
                self._nested(block, token, depth)

    def _nested(self, block: HclBlock, first: _Token, depth: int) -> None:
        labels: list[str] = []
        last = first
        while (token := self._peek()) and token.kind in ("value", "name"):
            labels.append(str(token.text))
            last = token
            self._take()
        if not self._sees("{") or depth >= DEPTH_MAX:
            return
        self._take()
        found = HclBlock(type=first.text, labels=tuple(labels), start=first.start, end=last.end)
        block.blocks.append(found)
        self.body(found, depth=depth + 1)

    def _expression(self, depth: int) -> Any:
        token = self._take()
        if token is None or depth >= DEPTH_MAX:
            return UNKNOWN
        value = self._primary(token, depth)
        following = self._peek()
        if following and not (
            following.kind == "newline" or following.text in (",", "]", "}", ")", ":")
        ):
            self._skip_rest()
            return UNKNOWN
        return value

    def _primary(self, token: _Token, depth: int) -> Any:
        if token.kind == "value":
            return token.text
        if token.kind == "name":
            if token.text in _LITERALS:
                return _LITERALS[token.text]
            if token.text == "merge" and self._sees("("):
                self._take()
                return _merged(self._list(depth + 1, end=")"))
            scope, _, name = token.text.partition(".")
            return self._variables.get(name, UNKNOWN) if scope == "var" else UNKNOWN
        if token.text == "[":
            return self._list(depth + 1)
        if token.text == "{":
            return self._object(depth + 1)
        self._index -= 1
        self._skip_rest()
        return UNKNOWN

    def _list(self, depth: int, *, end: str = "]") -> list[Any]:
        items: list[Any] = []
        while token := self._peek():
            if token.text == end and token.kind == "sign":
                self._take()
                break
            if token.kind == "newline" or token.text == ",":
                self._take()
                continue
            before = self._index
            items.append(self._expression(depth))
            if self._index == before:
                self._take()
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while token := self._take():
            if token.text == "}" and token.kind == "sign":
                break
            if token.kind in ("name", "value") and (self._sees("=") or self._sees(":")):
                self._take()
                found[str(token.text)] = self._expression(depth)
        return found

    def _skip_rest(self) -> None:
        """Skip the rest of an expression, including its brackets."""
        open_brackets = 0
        while token := self._peek():
            if open_brackets == 0 and (
                token.kind == "newline" or token.text in (",", "]", "}", ")")
            ):
                return
            if token.kind == "sign":
                open_brackets += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(
                    token.text, 0
                )
                open_brackets = max(0, open_brackets)
            self._take()

    def _peek(self) -> _Token | None:
        return self._tokens[self._index] if self._index < self._count else None

    def _take(self) -> _Token | None:
        index = self._index
        self._index = index + 1
        return self._tokens[index] if index < self._count else None

    def _sees(self, sign: str) -> bool:
        token = self._peek()
        if token is None or token.kind != "sign" or token.text != sign:
            return False
        following = self._index + 1
        # A lone = assigns; == compares.
        return not (sign == "=" and following < self._count and self._tokens[following].text == "=")
