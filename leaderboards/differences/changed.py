"""List the differences between the records of two runs of a task, as lines `name: before → after`.

The gate, `harness diff` and sites show them: differences in model, settings, weights and code.
"""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any

from harness.plugin_code import code_changes
from harness.provenance import PLUGINS
from harness.record import WORDS_TEXT, Run, without_words

UNCOMPARED_SETTINGS = frozenset({"device", "batch_size", "prefers", "compiled", "trained"})
"""Settings that do not change answers, such as the device, and facts that the weights imply."""
PACKAGE_WORDS: Mapping[str, Sequence[str]] = {
    "bert-score": ["bertscore"],
    "lmms-eval": ["lmms"],
    "peft": ["adapter", "lora"],
    "pycocoevalcap": ["bleu", "rouge", "meteor", "cider"],
    "sam2": ["sam2"],
    "trl": [],  # trains only
    "vllm": ["vllm"],
}
"""Words by package that not every run uses. A run uses it if its model, task arguments (with the
judge) or metrics contain one of its words, in lower case."""
IN_WORDS = frozenset({"choice", "number", "text", "interval", "box_3d"})
"""Forms of answer that are asked for with another prompt than places (`PROMPT_TEXT`)."""
PROMPT_TEXT = "prompt_text"
MAX_SHOWN = 60
"""Largest number of characters of a value that are shown."""


def changed(a: Run, b: Run) -> list[str]:
    """Return the differences between the records of two runs as lines `name: before → after`.

    If the models have different names, their settings are not compared.
    """
    used = [
        (run.manifest["model"], run.manifest["task"]["arguments"], [*run.results["metrics"]])
        for run in (a, b)
    ]
    record = json.dumps(used, default=str).lower()
    unused = {
        name for name, words in PACKAGE_WORDS.items() if not any(word in record for word in words)
    }
    return [*answer_changes(a, b), *_code_changes(a.manifest, b.manifest, unused)]


def answer_changes(a: Run, b: Run) -> list[str]:
    """Return the differences in what determines two runs' answers: models and code of plugins."""
    code = [run.manifest["provenance"] for run in (a, b)]
    return [*_model_changes(a, b), *plugin_changes(*code)]


def _model_changes(a: Run, b: Run) -> list[str]:
    """Return the differences between the models of two runs; see `changed`."""
    names = [_answerer(run.manifest["model"]) for run in (a, b)]
    # `pocket/own` is `pocket` with another prompt: a difference of settings.
    if len({name.partition("/")[0] for name in names}) > 1:
        return [_line("model", *names)]
    return list(_differences(*sent_settings(a, b), ""))


def sent_settings(a: Run, b: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the descriptions of two runs' models, of the prompts only those that were sent.

    The prompt in words for a form of answer is the setting `prompt_text.FORM`; it is left out if
    one of the two records, of an earlier version, does not have it.
    """
    recorded = [run.manifest["model"]["description"] for run in (a, b)]
    words = [description.get(WORDS_TEXT, {}) for description in recorded]
    described: list[dict[str, Any]] = list(map(without_words, recorded))
    forms = set(a.results.get("forms", ())) | set(b.results.get("forms", ()))
    if forms and forms <= IN_WORDS:
        for description in described:
            description.pop(PROMPT_TEXT, None)
    for description, text_of_form in zip(described, words, strict=True):
        sent = forms & words[0].keys() & words[1].keys()
        description |= {f"{PROMPT_TEXT}.{form}": text_of_form[form] for form in sorted(sent)}
    return described[0], described[1]


def _answerer(model: Mapping[str, Any]) -> str:
    """Return the name of a model, or of a file of predictions with its format."""
    described = model["description"]
    if (form := described.get("predictions")) is not None:
        return f"{model['name']} (predictions, {form})"
    return str(described.get("name", model["spec"]))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield a line for each difference of two nested descriptions, whose own key path is `path`."""
    for key in sorted({*old, *new} - UNCOMPARED_SETTINGS):
        before, after = old.get(key), new.get(key)
        name = f"{path}.{key}".lstrip(".")
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, name)
        elif before != after:
            yield _line(name, *(setting_text(key, _part(value)) for value in (before, after)))


def setting_text(key: str, value: object) -> str:
    """Return a setting's value as text; a prompt is quoted, with `{question}` for the question."""
    if key.startswith(PROMPT_TEXT) and isinstance(value, str):
        return repr(value.replace("QUESTION", "{question}"))
    return "none" if value is None else str(value)


def _part(value: object) -> object:
    """Return the name of a part of a model; return other values unchanged."""
    return value.get("name", "other settings") if isinstance(value, Mapping) else value


def _code_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], unused: Set[str]
) -> Iterator[str]:
    """Yield a line for each difference in seed, commit and versions of packages but `unused`."""
    if old.get("seed") != new.get("seed"):
        yield _line("seed", old.get("seed"), new.get("seed"))
    sides = [manifest["provenance"] for manifest in (old, new)]
    commits = [
        str(side.get("commit") or "unknown")[:7] + (" with changes" if side.get("dirty") else "")
        for side in sides
    ]
    if commits[0] != commits[1]:
        yield _line("code", *commits)
    before, after = (
        {name: side["packages"][name] for name in (side.get("packages") or {}).keys() - unused}
        for side in sides
    )
    yield from _differences(before, after, "")


def plugin_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each package of plugins whose code differs between two provenances."""
    before, after = ((side.get(PLUGINS) or {}) for side in (old, new))
    for package in sorted(before.keys() & after.keys()):
        sides = {package: before[package]}, {package: after[package]}
        # A text that one of the runs lacks is a difference, whichever of them is the first.
        if changes := code_changes(*sides) or code_changes(*reversed(sides)):
            yield ", ".join(str(change["setting"]) for change in changes) + " differs"


def _line(name: str, before: object, after: object) -> str:
    values = ["none" if value is None else str(value) for value in (before, after)]
    return f"{name}: {' → '.join(cut_alike(*values))}"


def cut_alike(before: str, after: str, *, longest: int = MAX_SHOWN) -> tuple[str, str]:
    """Return two texts of at most `longest` characters each, with the place where they differ.

    >>> cut_alike("x" * 99 + "in one word", "x" * 99 + "in short")
    ('…xxxxxxxxxxxxxxxxxin one word', '…xxxxxxxxxxxxxxxxxin short')
    """
    start = 0
    if max(len(before), len(after)) > longest:
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        n_alike = len(list(alike))
        start = max(n_alike - longest // 3, 0)

    def cut(text: str) -> str:
        text = f"…{text[start:]}" if start else text
        return text if len(text) <= longest else f"{text[: longest - 1]}…"

    return cut(before), cut(after)
