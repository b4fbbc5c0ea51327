"""Options of several plugins, declared once as the fields of a dataclass.

    @with_options(Composition, max_new_tokens=2048)
    def visionreasoner(parts: Composition, *, canvas: Carried[int] = 840) -> PromptedModel: …

A SPEC gives `canvas` and every field of `Composition` side by side; the function gets the fields as
one value. `Carried` marks the options that a checkpoint carries: the prompt and the input of its
VLM, which must be the same in evaluation as in training.
"""

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Annotated, Any, TypeAlias, TypeVar

CARRIED = "carried by a checkpoint"

T = TypeVar("T")
R = TypeVar("R")


Carried: TypeAlias = Annotated[T, CARRIED]


def with_options(
    *kinds: type[Any], without: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a plugin function offer the fields of frozen dataclasses beside its own parameters.

    `harness list` says of each field what the `Args:` of the function say, or else its docstring.
    A field that several of them have is one option.

    Args:
        kinds: The dataclasses; the function takes a value of each as its first arguments.
        without: Fields that this plugin does not offer; they have the dataclass's defaults.
        defaults: Values of fields where this plugin's differ from the dataclass's.
    """
    names = [[field.name for field in fields(kind)] for kind in kinds]
    if unknown := set(defaults).difference(*names):
        raise TypeError(f"no field is called {', '.join(sorted(unknown))}")
    usual = [  # a wrong default is found when the module is imported
        kind(**{name: value for name, value in defaults.items() if name in own})
        for kind, own in zip(kinds, names, strict=True)
    ]
    shared = {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(value, name),
            annotation=typing.get_type_hints(type(value), include_extras=True)[name],
        )
        for value, own in zip(usual, names, strict=True)
        for name in own
        if name not in without
    }

    def offered(function: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]

        @wraps(function)
        def built(**given: Any) -> R:
            parts = {name: given.pop(name) for name in shared if name in given}
            values = (
                replace(value, **{name: parts[name] for name in known if name in parts})
                for value, known in zip(usual, names, strict=True)
            )
            return function(*values, **given)

        built.__dict__["__signature__"] = signature.replace(parameters=[*own, *shared.values()])
        hints = {one.name: one.annotation for one in (*own, *shared.values())}
        built.__annotations__ = {**hints, "return": signature.return_annotation}
        return built

    return offered


def carried_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a plugin function's options that a checkpoint carries."""
    hints = typing.get_type_hints(function, include_extras=True)
    return frozenset(
        name for name, hint in hints.items() if CARRIED in getattr(hint, "__metadata__", ())
    )
