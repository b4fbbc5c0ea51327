"""Parse a plan: a JSON object that maps each perception node to the nodes whose output it needs.

For example `{"SAM2": [], "DINOv2": ["SAM2"]}`. `parse_plan` checks names, types of inputs and
cycles; its error (`PlanError`) is shown to the network, which may plan again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any

from harness.errors import ParseError
from harness.models.dt_r1.catalog import Catalog
from harness.node import NodeKind
from harness.responses import loads_lenient

MAX_NAME = 40  # characters of a name in an error
MAX_CYCLE = 6  # names of a cycle in an error


class PlanError(ParseError):
    """A plan is not a JSON object, has a cycle, or names nodes that do not exist or do not fit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A valid plan, in the names of the catalog."""

    nodes: Mapping[str, tuple[str, ...]]
    """Dependencies of each node, in an order in which every node follows its dependencies."""

    def text(self) -> str:
        """Return the plan as JSON."""
        return json.dumps({name: list(needed) for name, needed in self.nodes.items()})


def parse_plan(text: str, catalog: Catalog) -> Plan:
    """Return the plan in a text; the time is linear in its length.

    Raises:
        PlanError: the text is not a JSON object from names to lists of names; it is empty; a node
            is unknown, listed twice, or depends on a node that is not in the plan or has an output
            that it cannot use; an input that it needs is missing; or there is a cycle.
    """
    plan = _canonical(_read(text), catalog)
    for name, needed in plan.items():
        _check_types(name, needed, catalog)
    return Plan(_ordered(plan))


def _read(text: str) -> dict[str, list[str]]:
    """Return a plan as written: the names of dependencies by the name of each node.

    `loads_lenient` repairs single quotes (as in HuggingGPT), escaped underscores (as in TaskBench),
    and commas before a bracket.

    Raises:
        PlanError: the text is not a JSON object from names to lists of names, or it is empty.
    """
    try:
        plan, _ = loads_lenient(_braced_part(text))
    except ParseError as error:
        raise PlanError(
            "plan", expected='a JSON object such as {"SAM2": []}', found=f"none ({error})"[:200]
        ) from error
    if not isinstance(plan, dict):
        raise PlanError(
            "plan", expected='a JSON object such as {"SAM2": []}', found=f"a {_json_type(plan)}"
        )
    if not plan:
        raise PlanError("plan", expected="at least one node", found="none")
    for name, needed in plan.items():
        if not isinstance(needed, list):
            raise PlanError(
                f"node {_excerpt(name)}",
                expected="a list of the nodes before it, [] if there are none",
                found=f"a {_json_type(needed)}",
            )
        for before in needed:
            if not isinstance(before, str):
                raise PlanError(
                    f"node {_excerpt(name)}",
                    expected="names of nodes in its list",
                    found=f"a {_json_type(before)}",
                )
    return plan


def _braced_part(text: str) -> str:
    """Return a text from its first to its last brace, without words and code fences around it.

    HuggingGPT's `find_json` does the same. A text without braces is returned whole.
    """
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _canonical(plan: Mapping[str, list[str]], catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Return the plan in the catalog's names, without repeated dependencies.

    Raises:
        PlanError: a node is unknown or listed twice, or a dependency is not in the plan.
    """
    names: dict[str, str] = {}  # written name to canonical name
    written_names: dict[str, str] = {}  # canonical name to written name
    for name in plan:
        role = catalog.canonical(name)
        if role is None:
            raise PlanError(
                f"node {_excerpt(name)}",
                expected=f"one of {', '.join(catalog)}",
                found="another name",
                fix=_nearest(name, catalog),
            )
        if role in written_names:
            raise PlanError(
                f"node {role}",
                expected="it once",
                found=f"it twice, as {_excerpt(written_names[role])} and {_excerpt(name)}",
            )
        names[name], written_names[role] = role, name
    renamed: dict[str, tuple[str, ...]] = {}
    for name, needed in plan.items():
        dependencies: dict[str, None] = {}
        for before in needed:
            role = catalog.canonical(before)
            if role is None or role not in written_names:
                raise PlanError(
                    f"node {_excerpt(name)}",
                    expected="dependencies that are nodes of the plan",
                    found=f"{_excerpt(before)}, which is not one of its keys",
                    fix=f'Add "{role}": [] to the plan.' if role else _nearest(before, catalog),
                )
            dependencies[role] = None
        renamed[names[name]] = tuple(dependencies)
    return renamed


def _check_types(name: str, needed: tuple[str, ...], catalog: Catalog) -> None:
    """Raise PlanError if a node cannot use an input in `needed`, or lacks one that it requires."""
    node_kind: NodeKind = catalog[name]
    for before in needed:
        if catalog[before].produces not in node_kind.inputs:
            usable = ", ".join(sorted(type_.value for type_ in node_kind.inputs))
            raise PlanError(
                f"node {name}",
                expected=f"dependencies that give {usable}",
                found=f"{before}, which gives {catalog[before].produces}",
            )
    available = {catalog[before].produces for before in needed}
    for lacking in sorted(node_kind.requires - available):
        makers = [
            maker for maker in catalog if catalog[maker].produces == lacking and maker != name
        ]
        raise PlanError(
            f"node {name}",
            expected=f"a dependency with the output {lacking}",
            found=f"[{', '.join(needed)}]",
            fix=f"Add {' or '.join(makers)} to its list." if makers else "",
        )


def _ordered(plan: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the plan with each node after its dependencies, otherwise in the order written.

    Raises:
        PlanError: there is a cycle.
    """
    sorter = TopologicalSorter(dict.fromkeys(plan, ()))
    for name, needed in plan.items():
        sorter.add(name, *needed)
    try:
        return {name: plan[name] for name in sorter.static_order()}
    except CycleError as error:
        # graphlib lists a cycle backwards, its first node also as the last: reverse, and drop one
        cycle = error.args[1][:0:-1]
        names = [*cycle[:MAX_CYCLE], *(["…"] if len(cycle) > MAX_CYCLE else []), cycle[0]]
        raise PlanError(
            "plan", expected="no node that waits for itself", found=f"a cycle {' ← '.join(names)}"
        ) from error


def _nearest(name: str, catalog: Catalog) -> str:
    """Return the hint "Did you mean …?" for a misspelt name; "" if no name is similar."""
    near = get_close_matches(name[:MAX_NAME], catalog, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else ""


def _excerpt(name: str) -> str:
    """Return a name in quotes for an error, cut to `MAX_NAME` characters."""
    return json.dumps(name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…")


def _json_type(value: Any) -> str:
    """Return the name of a JSON value's type, for errors that the network reads."""
    names = {dict: "JSON object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
