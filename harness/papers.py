"""Differences between the settings of a run and those of its method's paper, shown with results.

`deviations` compares a model's SPEC and recorded description with the `paper.toml` in the method's
folder, and with its vendor's settings:

    [dr2seg]
    paper = "DR2Seg (2026)"               # named where a run differs

    [[dr2seg.settings]]
    setting = "segmenter"
    forms = ["mask", "mask_track"]        # answers that it decides; default: all
    tasks = ["vsi_bench"]                 # tasks that it holds for; default: all
    other_than = ["vsi_bench"]            # tasks that it does not hold for
    where = {form = "sam2"}               # other settings with which this is the paper's value
    paper = ["sam2(checkpoint=facebook/sam2-hiera-large)"]
    published = "SAM2-Large"                   # in place of the first value, if that says it better

The value in use is the one recorded under the setting's name (or under `record`, a path with dots),
such as a segmenter with its checkpoint; else the SPEC's; else the plugin's default. It has to equal
one of `paper`. A part does if it has the name and all arguments of the value, also where it is
recorded as a SPEC (`record = "perception.nodes.SAM2"`). Checkpoints are compared by the last part
of their names, so that a copy in a folder counts.
"""

import inspect
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from harness import plugins
from harness.errors import DataError, HarnessError, raised_as
from harness.plain import from_plain
from harness.spec import Spec, Value, parse
from harness.types import AnswerForm

FILE_NAME = "paper.toml"
MAX_SHOWN = 200  # characters of a value, such as a system message, in a vendor's deviation


@dataclass(frozen=True, slots=True)
class Deviation:
    """A setting of a run that is not its paper's."""

    setting: str
    used: str
    paper: str
    """Value of the paper."""
    of: str = "paper"
    """Source of that value: the paper's, or a vendor's."""

    def __str__(self) -> str:
        return f"{self.setting} {self.used} ({self.of}: {self.paper})"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as a `paper.toml` declares it."""

    setting: str
    paper: tuple[object, ...] = ()
    """Values of the paper; empty: the paper has no such thing."""
    forms: frozenset[AnswerForm] = frozenset()
    tasks: frozenset[str] = frozenset()
    other_than: frozenset[str] = frozenset()
    where: Mapping[str, object] | None = None
    published: str = ""
    record: str = ""


def declared_settings(model: str) -> tuple[str, tuple[Setting, ...]]:
    """Return the paper of an installed model and its settings; empty where none is declared.

    Raises:
        DataError: the file is not in the form.
    """
    entry = plugins.installed_plugins("models").get(model)
    folder = plugins.folder(entry) if entry is not None else None
    declared = _read_paper(folder / FILE_NAME).get(model) if folder is not None else None
    if declared is None:
        return "", ()
    with raised_as(
        DataError,
        f"{FILE_NAME} of {model}",
        "the form in harness/papers.py",
        *(KeyError, TypeError, ValueError),
    ):
        return str(declared["paper"]), tuple(
            from_plain(Setting, plain) for plain in declared["settings"]
        )


@lru_cache
def _read_paper(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    with raised_as(DataError, f"file {path}", "TOML", OSError, ValueError):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def deviations(
    model: str, description: Mapping[str, object], forms: Iterable[AnswerForm], task: str = ""
) -> list[Deviation]:
    """List the settings in which a model differs on a task from its paper, and from its vendor.

    For a task that is not installed, such as a user's own table, no paper has numbers: only the
    vendor's settings are compared.

    Args:
        model: The model's SPEC, as it is recorded.
        description: What the model's `describe` returned.
        forms: Forms of answer that the task asks for.
        task: The task's name; empty: any.
    """
    try:
        spec = parse(model)
    except HarnessError:  # the name of a ready model, which has no paper.toml
        return []
    is_own = task and task not in plugins.installed_plugins("tasks")
    of_paper = () if is_own else _deviations_of_papers(spec, description, frozenset(forms), task)
    return [*of_paper, *_deviations_of_vendor(description)]


def _deviations_of_papers(
    spec: Spec, description: Mapping[str, object], forms: frozenset[str], task: str
) -> Iterator[Deviation]:
    """Yield the settings that differ from the papers of a model and of the models in it."""
    inner, reader = spec.arguments.get("model"), description.get("reader")
    if isinstance(inner, Spec) and isinstance(reader, Mapping):
        # The inner model reads responses that exist already.
        yield from _deviations_of_papers(inner, reader, forms, task)
    base = spec.arguments.get("base")
    if isinstance(base, Spec):
        # The outer model answers by calling its base.
        yield from _deviations_of_papers(base, description, forms, task)
    for setting in declared_settings(spec.name)[1]:
        where = (setting.where or {}).items()
        if setting.forms and not setting.forms & forms:
            continue
        if (setting.tasks and task not in setting.tasks) or task in setting.other_than:
            continue
        if not all(_spec_value(spec, name) == value for name, value in where):
            continue
        used = _recorded_part(description, setting.record or setting.setting)
        if used is None:
            used = _spec_value(spec, setting.setting)
        if not any(_equals_papers(used, value) for value in setting.paper):
            first = _format_value(setting.paper[0]) if setting.paper else "none"
            yield Deviation(setting.setting, _format_value(used), setting.published or first)


def _deviations_of_vendor(description: Mapping[str, object]) -> Iterator[Deviation]:
    """Yield the run's settings that differ from those that the vendor recommends, as recorded."""
    vendor, chat = description.get("vendor"), description.get("chat")
    if not isinstance(vendor, Mapping):
        return
    for part, recorded in (("settings", description), ("backend", chat)):
        for setting, value in vendor[part].items():
            used = recorded.get(setting) if isinstance(recorded, Mapping) else None
            if used != value:
                ours, theirs = _format_value(used)[:MAX_SHOWN], _format_value(value)[:MAX_SHOWN]
                yield Deviation(setting, ours, theirs, of=f"vendor's {vendor['name']}")


def _recorded_part(description: Mapping[str, object], path: str) -> object:
    """Return a part of a description as recorded (name and settings); None if it is not there."""
    part: object = description
    for name in path.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) or "." in path else None


def _spec_value(spec: Spec, name: str) -> Value:
    """Return the value of a setting: the SPEC's, else the plugin's default, else None."""
    if name in spec.arguments:
        return spec.arguments[name]
    with suppress(HarnessError):
        parameter = inspect.signature(plugins.load("models", spec.name)).parameters.get(name)
        if parameter is not None and parameter.default is not inspect.Parameter.empty:
            default: Value = parameter.default
            return default
    return None


def _equals_papers(used: object, value: object) -> bool:
    """Return True if a value in use (plain, or a part's recorded settings) is the paper's."""
    if isinstance(used, Mapping):
        part = parse(value) if isinstance(value, str) else Spec("")
        return used.get("name") == part.name and all(
            same_value(used.get(name), expected) for name, expected in part.arguments.items()
        )
    if isinstance(used, str) and isinstance(value, str) and ")" in (used[-1:], value[-1:]):
        # One of them is a SPEC with arguments.
        with suppress(HarnessError):
            return _has_part(parse(used), parse(value))
    return same_value(used, None if value == "none" else value)


def _has_part(used: Value, expected: Value) -> bool:
    """Return True if a recorded part has the name and all arguments of the paper's."""
    if isinstance(used, Spec) and isinstance(expected, Spec):
        inner = used.arguments.get("node")
        if used.name != expected.name and isinstance(inner, Spec):  # a wrapper around the part
            return _has_part(inner, expected)
        return used.name == expected.name and all(
            _has_part(used.arguments.get(name), value) for name, value in expected.arguments.items()
        )
    return same_value(used, expected)


def same_value(used: object, value: object) -> bool:
    """Return True if a value in use is a declared one; of names with `/`, the last part counts."""
    if isinstance(used, str) and isinstance(value, str):
        cached = f"models--{value.replace('/', '--')}"  # as the Hugging Face cache names it
        used_path = PurePath(used)
        return used_path.name == PurePath(value).name or cached in used_path.parts
    if isinstance(used, Spec) and isinstance(value, str):
        return str(used) == str(parse(value))
    return bool(used == value)


def _format_value(value: object) -> str:
    """Return a part as `name(checkpoint=…)`, and anything else as a SPEC has it."""
    if isinstance(value, Mapping):
        name, weights = value.get("name"), value.get("checkpoint")
        return f"{name}(checkpoint={weights})" if weights else str(name)
    return "none" if value is None else str(value)


def sentence(model: str, spec: str, task: str, differences: Iterable[Deviation]) -> str:
    """Return the sentence about a run that differs from its paper."""
    with suppress(HarnessError):
        paper = declared_settings(parse(spec).name)[0]
        model = f"{model} on {task} does not reproduce {paper}" if paper else model
    return f"{model}: {'; '.join(map(str, differences))}"
