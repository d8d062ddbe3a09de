"""Keyword options that are declared once: in a TypedDict whose fields carry their settings.

class Options(TypedDict, total=False):
    keep_last: Annotated[int | None, setting(...)]

class Thing:
    @takes_options(Options)
    def __init__(self, url: str, **options: Unpack[Options]) -> None: ...
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from outlast._base.settings import Setting

F = TypeVar("F", bound=Callable[..., Any])


def settings_of(options: type) -> dict[str, Setting[Any]]:
    """The settings of a TypedDict's fields, by field."""
    hints = get_type_hints(options, include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: data[0] for name, data in found.items() if data}


def takes_options(options: type) -> Callable[[F], F]:
    """Show the fields of a TypedDict in `help()` and signatures, and refuse other keywords."""
    hints = get_type_hints(options)
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in hints.items()
    ]
    lines = [f"    {name}: {s.meaning}" for name, s in settings_of(options).items()]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        known = {*hints, *(parameter.name for parameter in own)}

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    what = function.__qualname__.removesuffix(".__init__")
                    raise TypeError(f"{what}() got an unexpected keyword argument {name!r}")
            return function(*args, **given)

        checked.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
        checked.__doc__ = "\n".join(
            ["Options, all None for their variable or default:", "", *lines]
        )
        return checked  # type: ignore[return-value]

    return decorate
