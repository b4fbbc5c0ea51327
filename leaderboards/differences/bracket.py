"""Score the same predictions by every published protocol of their benchmark (a bracket).

`harness score --protocols` writes the bracket beside the run; boards show it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import plugins
from harness.catalog.task_facts import protocol_facts
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
        names: Names of the protocols; None: all of the task's card, or of its `PROTOCOLS`.
        judge: Grades free answers; None: use the verdicts that the run has.

    Raises:
        HarnessError: the run's own protocol cannot be scored any more.
        UsageError: the task has no protocol of a name.
    """
    run_protocol, task = run.manifest["task"]["protocol"], run.manifest["task"]["name"]
    protocols = {run_protocol: "", **_protocols(task)}
    if unknown := set(names or ()) - set(protocols):
        raise UsageError(
            f"protocol {', '.join(sorted(unknown))}",
            expected=f"one of {', '.join(protocols)}, or all",
            found="another",
        )
    return [
        _bracketed(
            run,
            Bracketed(protocol=name, about=protocols[name], papers=tuple(papers_of(task, name))),
            data_root,
            judge,
        )
        for name in dict.fromkeys((run_protocol, *(names or protocols)))
    ]


def _protocols(task: str) -> Mapping[str, str]:
    """Return the description of each protocol of a task, from its card or its module."""
    if card := plugins.find_card(task):
        return card.protocols
    entry = plugins.installed_plugins("tasks").get(task)
    protocols = None if entry is None else protocol_facts(entry).get("protocols")
    return protocols if isinstance(protocols, dict) else {}


def _bracketed(
    run: Run, bracketed: Bracketed, data_root: Path | None, judge: Judge | None
) -> Bracketed:
    """Score a run by the protocol of `bracketed`, or fill in why it cannot score the run."""
    try:
        task = task_for(run, data_root, protocol=bracketed.protocol, judge=judge)
        results = results_by(task, run)
    except HarnessError as error:
        if bracketed.protocol == run.manifest["task"]["protocol"]:
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
            is_stated = any(result.protocol_is == "stated" for result in rows)
            yield f"{title}, Table {tables}" + ("" if is_stated else " (assumed)")


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
                **{
                    **entry,
                    "papers": tuple(entry["papers"]),
                    "interval": _pair(entry["interval"]),
                    "metrics": dict(entry["metrics"]),
                }
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
