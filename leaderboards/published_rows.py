"""Rows of a board that papers print: no rank, no interval; neither ranks nor the gate read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import plugins
from harness.leaderboards.published_results import PAPERS, PublishedResult, published_results
from harness.leaderboards.row import Row
from harness.record import Run

GENERATED = "shapes.json"
"""File at the root of a generated world, which published numbers are not of."""
LEAST = 100
"""Samples of a benchmark of unknown size; the examples in this repository have fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """The numbers of one row of a paper's table which belong to one table of a board."""

    name: str
    metrics: Mapping[str, float]
    """Scores as fractions by the board's metrics."""
    results: tuple[PublishedResult, ...]
    """The same, as printed, the headline's first."""
    is_comparable: bool
    """True if the protocol is stated or assumed to be the table's, and all samples are counted."""

    def to_json(self) -> dict[str, object]:
        """Return plain data: a row of kind `published`, without rank and interval."""
        first = self.results[0]
        return {
            "kind": "published",
            "rank": None,
            "name": self.name,
            "metrics": dict(self.metrics),
            "comparable": self.is_comparable,
            "source": {
                "paper": first.paper,
                "title": PAPERS[first.paper],
                "table": first.table,
                "row": first.row,
                "backbone": first.backbone,
                "protocol": first.protocol,
                "protocol_is": first.protocol_is,
                "subset": first.subset,
                "defect": "; ".join(
                    dict.fromkeys(one.defect for one in self.results if one.defect)
                ),
                "note": first.note,
                "printed": {one.metric: one.printed for one in self.results},
                "unit": first.unit,
            },
        }


def published_rows(made: Row, metrics: Sequence[str]) -> tuple[PublishedRow, ...]:
    """Return the published rows of a table of a board, the best first.

    Variants of ablations stand on the boards of their papers alone. A row that a paper prints in
    several of its tables is taken from the first.

    Args:
        made: Any row of the table.
        metrics: The table's metrics, the headline first.
    """
    found: dict[tuple[str, str, str], dict[str, PublishedResult]] = {}
    for one in (one for paper in PAPERS for one in published_results(paper)):
        if (one.task, one.split, one.part) != (made.task, made.split, "") or one.is_variant:
            continue
        if one.metric in metrics and one.is_score and bool(one.subset) == bool(made.subset):
            found.setdefault((one.paper, one.row, one.backbone), {}).setdefault(one.metric, one)
    rows = [
        _row([numbers[name] for name in metrics if name in numbers], made)
        for numbers in found.values()
        if metrics[0] in numbers
    ]
    sign = -1.0 if made.better[metrics[0]] == "higher" else 1.0
    return tuple(sorted(rows, key=lambda row: sign * row.metrics[metrics[0]]))


def _row(results: Sequence[PublishedResult], made: Row) -> PublishedRow:
    return PublishedRow(
        name=results[0].name,
        metrics={one.metric: one.value for one in results},
        results=tuple(results),
        is_comparable=results[0].protocol == made.protocol and not results[0].subset,
    )


def is_benchmark(run: Run, made: Row) -> bool:
    """Return False if a run's data is not known to be the benchmark that papers print numbers of.

    It is if there are as many samples as are published. Where their number is not, or a subset was
    evaluated, it is if there are at least LEAST, in a folder that is still there and is no
    generated world.
    """
    root = Path(run.manifest["data"]["root"] or "/nowhere")
    if (root / GENERATED).is_file():
        return False
    card, arguments = plugins.find_card(made.task), run.manifest["task"].get("arguments", {})
    known = 0 if card is None else card.published_counts(made.split, arguments)[0]
    if known and made.subset is None:
        return made.n_total == known - int(arguments.get("without_image") or 0)
    return root.is_dir() and made.n_total >= LEAST
