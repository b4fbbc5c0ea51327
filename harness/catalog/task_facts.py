"""Facts of a task without a card, read from its module's source: nothing is imported to list them.

Literal parts of its calls are read: the `forms` of `Task(…)`, and the name, headline and words of
each `Protocol(…)`. What code decides is not stated.
"""

import ast
from collections.abc import Iterator
from importlib.metadata import EntryPoint

from harness.catalog.settings import ModuleSource, offered_settings

FORMS = "AnswerForm"  # harness.types, which imports NumPy, is not needed to list tasks


def stated_facts(entry: EntryPoint) -> dict[str, object]:
    """Return answer forms, protocols, headline and default split under the keys of a card."""
    source = ModuleSource.of_module(entry.module)
    if source is None:
        return {}
    forms = [
        node.attr.lower()
        for call in _calls(source.tree, "Task")
        for node in ast.walk(source.resolve_default(call.get("forms")) or ast.Pass())
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == FORMS
    ]
    protocols = [
        {key: _text(source, call.get(key)) for key in ("name", "headline", "about")}
        for call in _calls(source.tree, "Protocol")
    ]
    named = [protocol for protocol in protocols if protocol["name"]]
    split = offered_settings(entry).get("split")
    facts: dict[str, object] = {
        "forms": list(dict.fromkeys(forms)),
        "headline": named[0]["headline"] if named else "",
        "protocol": named[0]["name"] if named else "",
        "protocols": {protocol["name"]: protocol["about"] for protocol in named},
        "default_split": _text(source, split.default if split is not None else None),
    }
    return {key: value for key, value in facts.items() if value}


def _calls(tree: ast.Module, name: str) -> Iterator[dict[str | None, ast.expr]]:
    """Yield the keyword arguments of each call of a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield {keyword.arg: keyword.value for keyword in node.keywords}


def _text(source: ModuleSource, value: ast.expr | None) -> str:
    """Return a text that is written out, or that a name of the module stands for; else ""."""
    stated = source.resolve_default(value)
    if isinstance(stated, ast.Constant) and isinstance(stated.value, str):
        return stated.value
    return ""
