"""The workload file: what is to be run, on what, by when, and what an interruption costs it.

`Workload.read` takes a file, `Workload.parse` its text; both refuse what cannot work with the file,
line and column, and a suggestion where a word looks mistyped. Nothing is written, and nothing is
read but that file.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from outlast.capacity.checks import check_workload
from outlast.capacity.fields import ValidationError, model_validator
from outlast.capacity.overrides import apply_overrides
from outlast.capacity.problems import as_workload_error
from outlast.capacity.reading import Mark, Node, read_yaml
from outlast.capacity.spec import WorkloadSpec

FILE_BYTES_MAX = 4 * 1024**2


class Workload(WorkloadSpec):
    """One workload, as its file describes it. Ten lines suffice; the rest has defaults."""

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], *, overrides: Mapping[str, str] | None = None
    ) -> Self:
        """The workload in a file. `overrides` maps dotted keys to values: {"work.hours": "40"}.

        Raises `WorkloadError`, which knows the file, line and column.
        """
        return cls.parse(_text_of(path), name=os.fspath(path), overrides=overrides)

    @classmethod
    def parse(cls, text: str, *, name: str, overrides: Mapping[str, str] | None = None) -> Self:
        """The workload in a text. `name` is what errors call it."""
        tree = read_yaml(text, source=name)
        if not isinstance(tree.value, dict):
            raise tree.mark.error(
                f"A workload is a mapping of keys, and this is {_shape(tree)}.",
                hint="Start with lines such as `name: tiny-gpt` and `kind: training`.",
            )
        apply_overrides(tree, overrides or {})
        try:
            return cls.model_validate(tree.plain())
        except ValidationError as error:
            raise as_workload_error(error, tree, cls) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_workload(self)
        return self


def _text_of(path: str | os.PathLike[str]) -> str:
    mark = Mark(source=os.fspath(path))
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise mark.error("The file is far too large for a workload.")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise mark.error(
            f"The workload file cannot be read: {error.strerror}.",
            hint="Name a file such as workload.yaml.",
        ) from error
    except UnicodeDecodeError:
        raise mark.error("The file is not text in UTF-8.", hint="Save it as UTF-8.") from None


def _shape(node: Node) -> str:
    return "a list" if isinstance(node.value, list) else "a single value"
