"""Options of several plugins, declared once as the fields of a dataclass.

    @with_options(Composition, max_new_tokens=2048)
    def visionreasoner(parts: Composition, *, canvas: Carried[int] = 840) -> PromptedModel: …

A SPEC gives `canvas` and every field of `Composition` side by side; the function gets the fields as
one value. `Carried` marks the options that a checkpoint carries: the prompt and the input of its
VLM, which must be the same in evaluation as in training. `Only` marks options that count only with
values of others; given without them, they are refused:

    gamma: Annotated[float, Only(r_len=True)] = 0.05
"""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Annotated, Any, TypeAlias, TypeVar

from harness.errors import UsageError

CARRIED = "carried by a checkpoint"

T = TypeVar("T")
R = TypeVar("R")


Carried: TypeAlias = Annotated[T, CARRIED]

GIVEN = object()
"""In `Only`: any value but None."""


class Only:
    """Mark of an option that changes something only where other options have some values.

    `Only(r_desc=True) | Only(r_len=True)`: where one of them has; `Only(mode=("a", "b"))`: one of
    these values; `Only(mode=function)`: a value for which it returns True. What is not an option of
    the plugin has no value. Of several marks each must be met.
    """

    def __init__(self, **values: object) -> None:
        self.alternatives: tuple[Mapping[str, object], ...] = (values,)

    def __or__(self, other: "Only") -> "Only":
        both = Only()
        both.alternatives = self.alternatives + other.alternatives
        return both

    def unmet(self, given: Mapping[str, object]) -> str:
        """Return the values that make the option idle; empty: it counts."""
        unmet: dict[str, None] = {}
        for values in self.alternatives:
            wrong = [name for name, wanted in values.items() if not _met(given.get(name), wanted)]
            if not wrong:
                return ""
            unmet |= dict.fromkeys(f"{name}={_shown(given.get(name))}" for name in wrong)
        return " and ".join(unmet)


def _met(value: object, wanted: object) -> bool:
    if wanted is GIVEN:
        return value is not None
    if callable(wanted):
        return bool(wanted(value))
    return value in wanted if isinstance(wanted, tuple) else value == wanted


def _shown(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def idle_options(
    known: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> dict[str, str]:
    """Return the options of a plugin that other values make idle, each with these values; none
    that is as it is by default.
    """
    values = {**{name: parameter.default for name, parameter in known.items()}, **given}
    unmet = [
        (name, mark.unmet(values))
        for name, parameter in known.items()
        for mark in _marks(parameter.annotation)
        if isinstance(mark, Only) and values[name] != parameter.default
    ]
    return {name: why for name, why in unmet if why}


def _refuse_idle(
    plugin: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> None:
    for name, why in idle_options(known, given).items():
        idle, usual = f"{name}={_shown(given[name])}", _shown(known[name].default)
        raise UsageError(
            f"{plugin} with {why}",
            expected="settings that change something",
            found=idle,
            fix=f"Leave {idle} out ({usual} is the default), or change {why}.",
        )


def _marks(hint: object) -> tuple[object, ...]:
    marks: tuple[object, ...] = getattr(hint, "__metadata__", ())
    return marks


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
        parameters = signature.parameters.values()
        own = [option for option in parameters if option.kind is option.KEYWORD_ONLY]

        @wraps(function)
        def built(**given: Any) -> R:
            _refuse_idle(function.__name__, options, given)
            parts = {name: given.pop(name) for name in shared if name in given}
            values = (
                replace(value, **{name: parts[name] for name in known if name in parts})
                for value, known in zip(usual, names, strict=True)
            )
            return function(*values, **given)

        built.__dict__["__signature__"] = signature.replace(parameters=[*own, *shared.values()])
        options = {parameter.name: parameter for parameter in (*own, *shared.values())}
        hints = {name: parameter.annotation for name, parameter in options.items()}
        built.__annotations__ = {**hints, "return": signature.return_annotation}
        return built

    return offered


def carried_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a plugin function's options that a checkpoint carries."""
    hints = typing.get_type_hints(function, include_extras=True)
    return frozenset(name for name, hint in hints.items() if CARRIED in _marks(hint))
