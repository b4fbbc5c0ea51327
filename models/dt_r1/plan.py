"""Plans: a JSON object that gives each perception node the list of nodes before it."""

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

SHOWN = 40  # characters of a name in an error
LISTED = 6  # names of a cycle in an error


class PlanError(ParseError):
    """A plan is not a JSON object, has a cycle, or names nodes that are not there or do not fit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A valid plan, by the names of the catalog."""

    nodes: Mapping[str, tuple[str, ...]]
    """Dependencies of each node, in an order in which every node follows its dependencies."""

    def text(self) -> str:
        """The plan as JSON."""
        return json.dumps({name: list(needed) for name, needed in self.nodes.items()})


def parse_plan(text: str, catalog: Catalog) -> Plan:
    """Read a plan; takes time linear in its length.

    Raises:
        PlanError: it is not a JSON object from names to lists of names; a node is given twice,
            unknown, or depends on one that is not in the plan or of a type that it cannot use; a
            needed type is missing; there is a cycle; or there is no node.
    """
    named = _canonical(_read(text), catalog)
    for name, needed in named.items():
        _check_types(name, needed, named, catalog)
    return Plan(_ordered(named))


def _read(text: str) -> dict[str, list[str]]:
    """Return the names of a plan, with the repairs of `loads_lenient`: single quotes as HuggingGPT
    takes them, escaped underscores as TaskBench does, and commas before a bracket.
    """
    try:
        plan, _ = loads_lenient(_object(text))
    except ParseError as error:
        raise PlanError(
            "plan", expected='a JSON object such as {"SAM2": []}', found=f"none ({error})"[:200]
        ) from error
    if not isinstance(plan, dict):
        raise PlanError(
            "plan", expected='a JSON object such as {"SAM2": []}', found=f"a {_type(plan)}"
        )
    if not plan:
        raise PlanError("plan", expected="at least one node", found="none")
    for name, needed in plan.items():
        if not isinstance(needed, list):
            raise PlanError(
                f"node {_shown(name)}",
                expected="a list of the nodes before it, [] if there are none",
                found=f"a {_type(needed)}",
            )
        for before in needed:
            if not isinstance(before, str):
                raise PlanError(
                    f"node {_shown(name)}",
                    expected="names of nodes in its list",
                    found=f"a {_type(before)}",
                )
    return plan


def _object(text: str) -> str:
    """Return a text from its first to its last brace: words and code fences around a plan are left
    out, as `find_json` of HuggingGPT does; all of it where there is none.
    """
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _canonical(plan: Mapping[str, list[str]], catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The plan in the catalog's names, repeated dependencies left out."""
    names: dict[str, str] = {}
    written: dict[str, str] = {}
    for name in plan:
        known = catalog.canonical(name)
        if known is None:
            raise PlanError(
                f"node {_shown(name)}",
                expected=f"one of {', '.join(catalog)}",
                found="another name",
                fix=_nearest(name, catalog),
            )
        if known in written:
            raise PlanError(
                f"node {known}",
                expected="it once",
                found=f"it twice, as {_shown(written[known])} and {_shown(name)}",
            )
        names[name], written[known] = known, name
    renamed: dict[str, tuple[str, ...]] = {}
    for name, needed in plan.items():
        dependencies: dict[str, None] = {}
        for before in needed:
            known = catalog.canonical(before)
            if known is None or known not in written:
                raise PlanError(
                    f"node {_shown(name)}",
                    expected="dependencies that are nodes of the plan",
                    found=f"{_shown(before)}, which is not one of its keys",
                    fix=f'Add "{known}": [] to the plan.' if known else _nearest(before, catalog),
                )
            dependencies[known] = None
        renamed[names[name]] = tuple(dependencies)
    return renamed


def _check_types(
    name: str, needed: tuple[str, ...], plan: Mapping[str, tuple[str, ...]], catalog: Catalog
) -> None:
    kind: NodeKind = catalog[name]
    for before in needed:
        if catalog[before].produces not in kind.inputs:
            usable = ", ".join(sorted(type_.value for type_ in kind.inputs))
            raise PlanError(
                f"node {name}",
                expected=f"dependencies that give {usable}",
                found=f"{before}, which gives {catalog[before].produces}",
            )
    given = {catalog[before].produces for before in needed}
    for lacking in sorted(kind.requires - given):
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
    """The nodes so that each follows its dependencies, ties as written."""
    sorter = TopologicalSorter(dict.fromkeys(plan, ()))
    for name, needed in plan.items():
        sorter.add(name, *needed)
    try:
        return {name: plan[name] for name in sorter.static_order()}
    except CycleError as error:
        circle = error.args[1][:0:-1]
        shown = [*circle[:LISTED], *(["…"] if len(circle) > LISTED else []), circle[0]]
        raise PlanError(
            "plan", expected="no node that waits for itself", found=f"a cycle {' ← '.join(shown)}"
        ) from error


def _nearest(name: str, catalog: Catalog) -> str:
    near = get_close_matches(name[:SHOWN], catalog, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else ""


def _shown(name: str) -> str:
    return json.dumps(name if len(name) <= SHOWN else name[:SHOWN] + "…")


def _type(value: Any) -> str:
    names = {dict: "JSON object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
