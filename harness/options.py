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
from typing import Annotated, Any, ClassVar, Concatenate, Protocol, TypeAlias, TypeVar

CARRIED = "carried by a checkpoint"

T = TypeVar("T")
R = TypeVar("R")


class Fields(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


F = TypeVar("F", bound=Fields)

Carried: TypeAlias = Annotated[T, CARRIED]


def with_options(
    kind: type[F], *, without: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[Concatenate[F, ...], R]], Callable[..., R]]:
    """Let a plugin function offer the fields of a frozen dataclass beside its own parameters.

    `harness list` says of each field what the `Args:` of the function say, or else its docstring.

    Args:
        kind: The dataclass; the function takes a value of it as its first argument.
        without: Fields that this plugin does not offer; they have the dataclass's defaults.
        defaults: Values of fields where this plugin's differ from the dataclass's.
    """
    usual = kind(**defaults)  # a wrong default is found when the module is imported
    hints = typing.get_type_hints(kind, include_extras=True)
    shared = {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(usual, field.name),
            annotation=hints[field.name],
        )
        for field in fields(kind)
        if field.name not in without
    }

    def offered(function: Callable[Concatenate[F, ...], R]) -> Callable[..., R]:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]

        @wraps(function)
        def built(**given: Any) -> R:
            parts = {name: given.pop(name) for name in shared if name in given}
            return function(replace(usual, **parts), **given)

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
