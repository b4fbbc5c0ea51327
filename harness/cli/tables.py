"""Results as a table on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

SHOWN = 3  # metrics beside the headline


def show_results(model: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Two lines a task: headline, interval, coverage, failures; below, the other metrics."""
    table = Table(box=SIMPLE_HEAD, title=f"model {model}", title_justify="left", title_style="bold")
    table.add_column("task", overflow="fold")
    for name in ("score", "95 % interval", "samples", "covered"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failed", overflow="fold")
    for key, one in results.items():
        table.add_row(
            f"{key}\n[dim]{one['protocol']}[/dim]",
            f"{one['headline']} [bold]{number(headline(one))}[/bold]\n[dim]{others(one)}[/dim]",
            interval(one), str(one["n_total"]), coverage(one), failures(one),
        )  # fmt: skip
    Console().print(table)


def headline(one: Mapping[str, Any]) -> float | None:
    """The headline metric's number."""
    value = one["metrics"][one["headline"]]
    return None if value is None else float(value)


def number(value: float | None) -> str:
    """Four decimals, or a dash."""
    return "–" if value is None else f"{value:.4f}"


def interval(one: Mapping[str, Any]) -> str:
    """The headline's interval."""
    pair = one["intervals"].get(one["headline"])
    return f"{number(pair[0])} – {number(pair[1])}" if pair else "–"


def others(one: Mapping[str, Any]) -> str:
    """Some metrics beside the headline."""
    rest = [(name, value) for name, value in one["metrics"].items() if name != one["headline"]]
    return "\n".join(f"{name} {number(value)}" for name, value in rest[:SHOWN])


def coverage(one: Mapping[str, Any]) -> str:
    """The share of samples with an answer."""
    return f"{one['n_scored'] / one['n_total']:.1%}"


def failures(one: Mapping[str, Any]) -> str:
    """Failures by kind."""
    kinds = [f"{count} {kind}" for kind, count in one["failures"].items() if count]
    return ", ".join(kinds) or "0"


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table; its last column is wrapped where the terminal is narrow."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns[:-1]:
        table.add_column(column, overflow="fold")
    table.add_column(columns[-1], overflow="fold", min_width=8)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
