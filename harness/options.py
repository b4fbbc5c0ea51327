"""Options that several plugins share, declared once as the fields of a dataclass.

    @with_options(Composition, max_new_tokens=2048)
    def visionreasoner(parts: Composition, *, canvas: Carried[int] = 840) -> PromptedModel: …

A SPEC gives `canvas` and every field of `Composition` side by side; the function gets the fields as
one value. `Carried` marks options that are recorded with a checkpoint: the prompt and the input of
its VLM, which must be the same in evaluation as in training. `Only` marks an option that has an
effect only with certain values of other options; giving it without them is a UsageError:

    gamma: Annotated[float, Only(r_len=True)] = 0.05
"""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Annotated, Any, TypeAlias, TypeVar

from harness.errors import UsageError

T = TypeVar("T")
R = TypeVar("R")

CARRIED = "carried by a checkpoint"  # the mark of such an option
Carried: TypeAlias = Annotated[T, CARRIED]
GIVEN = object()
"""In `Only`: any value but None."""


class Only:
    """Mark of an option that has an effect only with certain values of other options.

    `Only(mode="a")`: this value; `Only(mode=("a", "b"))`: one of these; `Only(mode=function)`: a
    value for which it returns True; `Only(r_desc=True) | Only(r_len=True)`: one of the two. An
    option that the plugin does not have counts as None. All marks of an option must be met.
    """

    def __init__(self, **values: object) -> None:
        self.alternatives: tuple[Mapping[str, object], ...] = (values,)

    def __or__(self, other: "Only") -> "Only":
        both = Only()
        both.alternatives = self.alternatives + other.alternatives
        return both

    def unmet(self, options: Mapping[str, object]) -> str:
        """Return the values of other options that make this one idle; empty: it has an effect."""
        unmet: dict[str, None] = {}
        for values in self.alternatives:
            wrong = [
                name
                for name, expected in values.items()
                if not _is_met(options.get(name), expected)
            ]
            if not wrong:
                return ""
            unmet |= dict.fromkeys(f"{name}={_as_typed(options.get(name))}" for name in wrong)
        return " and ".join(unmet)


def _is_met(value: object, expected: object) -> bool:
    """Return True if an option's value equals, or satisfies, an `Only` condition."""
    if expected is GIVEN:
        return value is not None
    if callable(expected):
        return bool(expected(value))
    return value in expected if isinstance(expected, tuple) else value == expected


def _as_typed(value: object) -> str:
    """Return a value as a SPEC has it: `none`, `true`, `false`, or its text."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def idle_options(
    parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, object]
) -> dict[str, str]:
    """Return the given options without effect, each with the values that make it idle.

    Options with their default values are left out.

    Args:
        parameters: The plugin's parameters.
        arguments: Values that the user gave, by name; the others have their defaults.
    """
    values = {**{name: parameter.default for name, parameter in parameters.items()}, **arguments}
    idle: dict[str, str] = {}
    for name, parameter in parameters.items():
        if values[name] == parameter.default:
            continue
        for mark in _marks(parameter.annotation):
            if isinstance(mark, Only) and (why := mark.unmet(values)):
                idle[name] = why
    return idle


def _refuse_idle(
    plugin: str, parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, object]
) -> None:
    """Raise UsageError for the first of `idle_options`."""
    for name, why in idle_options(parameters, arguments).items():
        idle = f"{name}={_as_typed(arguments[name])}"
        usual = _as_typed(parameters[name].default)
        raise UsageError(
            f"{plugin} with {why}",
            expected="settings that change something",
            found=idle,
            fix=f"Leave {idle} out ({usual} is the default), or change {why}.",
        )


def _marks(hint: object) -> tuple[object, ...]:
    """Return the marks of `Annotated[type, mark, …]`."""
    marks: tuple[object, ...] = getattr(hint, "__metadata__", ())
    return marks


def with_options(
    *option_classes: type[Any], without: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds the fields of frozen dataclasses to a plugin's options.

    `harness list` describes a field by the `Args:` of the function, or else by its docstring. A
    field that several of the dataclasses have is one option.

    Args:
        option_classes: The dataclasses; the function takes a value of each as its first arguments.
        without: Fields that this plugin does not offer; they have the dataclass's defaults.
        defaults: Values of fields where this plugin's differ from the dataclass's.
    """
    field_names = [[field.name for field in fields(class_)] for class_ in option_classes]
    if unknown := set(defaults).difference(*field_names):
        raise TypeError(f"no field is called {', '.join(sorted(unknown))}")
    default_values = [  # a wrong default is found when the module is imported
        class_(**{name: value for name, value in defaults.items() if name in names})
        for class_, names in zip(option_classes, field_names, strict=True)
    ]
    shared = {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(value, name),
            annotation=typing.get_type_hints(type(value), include_extras=True)[name],
        )
        for value, names in zip(default_values, field_names, strict=True)
        for name in names
        if name not in without
    }

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        """Return a function with the shared options, which makes the dataclasses for `function`."""
        signature = inspect.signature(function)
        parameters = signature.parameters.values()
        own = [option for option in parameters if option.kind is option.KEYWORD_ONLY]
        options = {parameter.name: parameter for parameter in (*own, *shared.values())}

        @wraps(function)
        def build(**arguments: Any) -> R:
            _refuse_idle(function.__name__, options, arguments)
            given = {name: arguments.pop(name) for name in shared if name in arguments}
            values = (
                replace(value, **{name: given[name] for name in names if name in given})
                for value, names in zip(default_values, field_names, strict=True)
            )
            return function(*values, **arguments)

        # Plugins' options are read from the signature and the annotations.
        build.__dict__["__signature__"] = signature.replace(parameters=[*own, *shared.values()])
        hints = {name: parameter.annotation for name, parameter in options.items()}
        build.__annotations__ = {**hints, "return": signature.return_annotation}
        return build

    return decorate


def carried_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a plugin function's options that a checkpoint carries."""
    hints = typing.get_type_hints(function, include_extras=True)
    return frozenset(name for name, hint in hints.items() if CARRIED in _marks(hint))
