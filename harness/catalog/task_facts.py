"""Answer forms and protocols of a task, for `harness list`, boards, `harness score --protocols`.

They serve tasks without a card. `stated_facts` reads them in the source, without an import: the
`forms` of `Task(…)`, and the name, headline and description of each `Protocol(…)`.
`protocol_facts` and `metric_names` import the task.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint
from typing import Any

from harness import plugins
from harness.catalog.settings import ModuleSource, offered_settings
from harness.errors import HarnessError

FORM_CLASS = "AnswerForm"  # by name, as harness.types imports NumPy, which listing does not need


def stated_facts(entry: EntryPoint) -> dict[str, object]:
    """Return answer forms, protocols, headline and default split under the keys of a card.

    The headline is that of the first protocol. Facts that the source does not state are left out.
    """
    source = ModuleSource.of_module(entry.module)
    if source is None:
        return {}
    forms = [
        node.attr.lower()
        for call in _keywords_of_calls(source.tree, "Task")
        for node in ast.walk(source.resolve_default(call.get("forms")) or ast.Pass())
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == FORM_CLASS
    ]
    protocols = [
        {key: _literal_text(source, call.get(key)) for key in ("name", "headline", "about")}
        for call in _keywords_of_calls(source.tree, "Protocol")
    ]
    with_names = [protocol for protocol in protocols if protocol["name"]]
    split = offered_settings(entry).get("split")
    facts: dict[str, object] = {
        "forms": list(dict.fromkeys(forms)),
        "headline": with_names[0]["headline"] if with_names else "",
        "protocol": with_names[0]["name"] if with_names else "",
        "protocols": {protocol["name"]: protocol["about"] for protocol in with_names},
        "default_split": _literal_text(source, split.default if split is not None else None),
    }
    return {key: value for key, value in facts.items() if value}


def protocol_facts(entry: EntryPoint) -> dict[str, object]:
    """Return `protocols`, `protocol` (the default) and `headline` under the keys of a card.

    They are read from `PROTOCOLS`, the mapping of the task's module from names to protocols.
    Without it, return `stated_facts`.

    Raises:
        HarnessError: the task cannot be imported.
    """
    function = plugins.load("tasks", entry.name)
    protocols = _protocols(entry)
    if not protocols:
        return stated_facts(entry)
    parameter = inspect.signature(function).parameters.get("protocol")
    default = parameter.default if parameter is not None else None
    name = default if default in protocols else next(iter(protocols))
    return {
        "protocols": {name: protocol.about for name, protocol in protocols.items()},
        "protocol": name,
        "headline": protocols[name].headline,
    }


def unstated_facts(entry: EntryPoint) -> dict[str, object]:
    """Return facts of a task's protocols that it has no card for, or that its card leaves empty."""
    card = plugins.find_card(entry.name)
    if card is None:
        return protocol_facts(entry)
    if not all(card.protocols.values()):
        with suppress(HarnessError):  # the card is shown without them
            protocols = protocol_facts(entry).get("protocols")
            if isinstance(protocols, Mapping):
                return {"protocols": {**card.protocols, **protocols}}
    return {}


def metric_names(entry: EntryPoint, protocol: str) -> tuple[str, ...]:
    """Return the names of the metrics of a protocol in a task's `PROTOCOLS`; none if it has none.

    Raises:
        HarnessError: the task cannot be imported.
    """
    plugins.load("tasks", entry.name)
    chosen = _protocols(entry).get(protocol)
    return tuple(metric.name for metric in chosen.metrics) if chosen is not None else ()


def _protocols(entry: EntryPoint) -> Mapping[Any, Any]:
    """Return `PROTOCOLS` of a task's module, which is imported; empty without it."""
    protocols = getattr(sys.modules[entry.module], "PROTOCOLS", None)
    return protocols if isinstance(protocols, Mapping) else {}


def _keywords_of_calls(tree: ast.Module, name: str) -> Iterator[dict[str | None, ast.expr]]:
    """Yield the keyword arguments of each call `name(…)` in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield {keyword.arg: keyword.value for keyword in node.keywords}


def _literal_text(source: ModuleSource, value: ast.expr | None) -> str:
    """Return the string that an expression, or the name of a constant, stands for; else ""."""
    resolved = source.resolve_default(value)
    if isinstance(resolved, ast.Constant) and isinstance(resolved.value, str):
        return resolved.value
    return ""
