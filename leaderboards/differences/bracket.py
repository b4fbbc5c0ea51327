"""Score the same predictions by every published protocol of their benchmark."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import plugins
from harness.card import Card
from harness.errors import HarnessError, StoreError, UsageError
from harness.judge import Judge
from harness.leaderboards.differences.scoring import results_by, task_for
from harness.leaderboards.published_results import papers, published_results
from harness.record import Run
from harness.store.atomic import json_bytes, read_json
from harness.store.checksums import PROTOCOLS, journal_of, write_later


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracketed:
    """A run's number by one protocol."""

    protocol: str
    about: str
    """Owner of the scorer, from the benchmark's card."""
    papers: tuple[str, ...]
    """Papers on file with numbers of this protocol; `assumed` if the paper does not state it."""
    headline: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    n_failed: int = 0
    """Number of samples without an answer that this protocol can read."""
    reason: str = ""
    """Reason why there is no number."""


def bracket(
    run: Run,
    *,
    data_root: Path | None = None,
    names: Sequence[str] | None = None,
    judge: Judge | None = None,
) -> list[Bracketed]:
    """Score a run's predictions by the protocols of its task, the run's own first.

    Args:
        run: A finished run with its predictions.
        data_root: Root of the data; None: the root that the run used.
        names: Names of the protocols; None: all on the task's card.
        judge: Grades free answers; None: use the verdicts that the run has.

    Raises:
        HarnessError: the run's own protocol cannot be scored any more.
        UsageError: the task has no card, or no protocol of a name.
    """
    own, task = run.manifest["task"]["protocol"], run.manifest["task"]["name"]
    card = plugins.find_card(task)
    if card is None:
        raise UsageError(
            f"protocols of {task}", expected="a card that names them", found="no card.toml"
        )
    if unknown := set(names or ()) - set(card.protocols):
        raise UsageError(
            f"protocol {', '.join(sorted(unknown))}",
            expected=f"one of {', '.join(card.protocols)}, or all",
            found="another",
        )
    order = [own, *(name for name in names or card.protocols if name != own)]
    return [_bracketed(run, card, name, data_root, judge) for name in order]


def _bracketed(
    run: Run, card: Card, name: str, data_root: Path | None, judge: Judge | None
) -> Bracketed:
    bracketed = Bracketed(
        protocol=name,
        about=card.protocols.get(name, ""),
        papers=tuple(papers_of(card.name, name)),
    )
    try:
        results = results_by(task_for(run, data_root, protocol=name, judge=judge), run)
    except HarnessError as error:
        if name == run.manifest["task"]["protocol"]:
            raise
        return replace(bracketed, reason=str(error))
    headline = results["headline"]
    return replace(
        bracketed,
        headline=headline,
        value=results["metrics"][headline],
        interval=_pair(results["intervals"][headline]),
        metrics=results["metrics"],
        n_failed=results["n_failed"],
    )


def _pair(plain: Sequence[float] | None) -> tuple[float, float] | None:
    return None if plain is None else (plain[0], plain[1])


def papers_of(task: str, protocol: str) -> Iterator[str]:
    """Yield the papers on file that have a number of a task by a protocol, with their tables."""
    for paper, title in papers().items():
        rows = [
            result
            for result in published_results(paper)
            if (result.task, result.protocol) == (task, protocol)
        ]
        if rows:
            tables = ", ".join(dict.fromkeys(result.table for result in rows))
            stated = any(result.protocol_is == "stated" for result in rows)
            yield f"{title}, Table {tables}" + ("" if stated else " (assumed)")


def write(run: Run, protocols: Sequence[Bracketed]) -> None:
    """Write a bracket of all protocols to a run's folder, where boards find it."""
    plain = {
        "journal": journal_of(run.folder),
        "protocols": [asdict(bracketed) for bracketed in protocols],
    }
    write_later(run.folder, PROTOCOLS, json_bytes(plain))


def read(folder: Path) -> tuple[Bracketed, ...]:
    """Read the bracket of a run's folder; empty if it is missing or of other predictions.

    Raises:
        StoreError: the file is damaged.
    """
    path = folder / PROTOCOLS
    if not path.is_file():
        return ()
    plain: Any = read_json(path)
    try:
        if plain["journal"] != journal_of(folder):
            return ()
        return tuple(
            Bracketed(
                **{**entry, "papers": tuple(entry["papers"]), "interval": _pair(entry["interval"])}
                | {"metrics": dict(entry["metrics"])}
            )
            for entry in plain["protocols"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"file {path}",
            expected="a run's numbers by protocol",
            found=f"{type(error).__name__}: {error}",
            fix="`harness score RUN --protocols all` writes it again.",
        ) from error
