"""Differences between the records of two runs of a task: model, settings, weights, code."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.record import Run

LEFT_OUT = frozenset({"device", "batch_size", "prefers", "compiled", "trained"})
"""Settings that do not change answers, such as the device, and facts that the weights imply."""
LONGEST = 60
"""Largest number of characters of a value that are shown."""


def changed(a: Run, b: Run) -> list[str]:
    """Return the differences between the records of two runs as lines `name: before → after`.

    If the models have different names, their settings are not compared.
    """
    old, new = (run.manifest["model"] for run in (a, b))
    return [*model_changes(old, new), *_code_changes(a.manifest, b.manifest)]


def model_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the differences between the models of two manifests; see `changed`."""
    sides = [_what_answered(model) for model in (old, new)]
    if sides[0] != sides[1]:
        return [_line("model", *sides)]
    return list(_differences(old["description"], new["description"], ""))


def _what_answered(model: Mapping[str, Any]) -> str:
    described = model["description"]
    if (form := described.get("predictions")) is not None:
        return f"predictions of another program ({form})"
    return str(described.get("name", model["spec"]))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
    for key in sorted({*old, *new} - LEFT_OUT):
        before, after = old.get(key), new.get(key)
        name = f"{place}.{key}".lstrip(".")
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, name)
        elif before != after:
            yield _line(name, *(setting_text(key, _part(value)) for value in (before, after)))


def setting_text(key: str, value: object) -> str:
    """Return a setting's value as text; a prompt is quoted, with `{question}` for the question."""
    if key == "prompt_text" and isinstance(value, str):
        return repr(value.replace("QUESTION", "{question}"))
    return "none" if value is None else str(value)


def _part(value: object) -> object:
    """Return the name of a part of a model; return other values unchanged."""
    return value.get("name", "other settings") if isinstance(value, Mapping) else value


def _code_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("seed") != new.get("seed"):
        yield _line("seed", old.get("seed"), new.get("seed"))
    sides = [manifest["provenance"] for manifest in (old, new)]
    commits = [
        f"{str(side.get('commit') or 'unknown')[:7]}{' with changes' * bool(side.get('dirty'))}"
        for side in sides
    ]
    if commits[0] != commits[1]:
        yield _line("code", *commits)
    before, after = (side.get("packages") or {} for side in sides)
    yield from _differences(before, after, "")


def _line(name: str, before: object, after: object) -> str:
    texts = ["none" if value is None else str(value) for value in (before, after)]
    texts = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in texts]
    return f"{name}: {' → '.join(texts)}"
