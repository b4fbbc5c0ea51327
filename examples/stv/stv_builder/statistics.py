"""Statistics of a built set, as numbers and as a page: Figure 3 of the Video-STR paper."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stv_builder.drafts import KINDS, TEMPORAL

BAR = 24  # characters of the longest bar


@dataclass(slots=True)
class Statistics:
    """Counts of questions, by the fields of each line of `questions.jsonl`."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    total: int = 0
    graphs: int = 0
    letters: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any], *, has_graph: bool) -> None:
        """Count a question."""
        self.total += 1
        self.graphs += has_graph
        kind = str(line["task"])
        for what, value in (
            ("task", kind),
            ("source", line["source"]),
            ("medium", line["data_type"]),
            ("answer", line["problem_type"]),
            ("reasoning", "temporal" if kind in TEMPORAL else "spatial"),
            ("task and source", f"{kind} / {line['source']}"),
        ):
            self.counts.setdefault(what, Counter())[str(value)] += 1
        if line["options"]:
            which = f"{len(line['options'])} options"
            letter = str(line["solution"])[len("<answer>")]
            self.letters.setdefault(which, Counter())[letter] += 1

    def to_json(self) -> dict[str, object]:
        """Plain data, in a fixed order of keys."""
        return {
            "total": self.total,
            "graphs": self.graphs,
            **{what: _sorted_counts(counts) for what, counts in sorted(self.counts.items())},
            "letters": {
                which: _sorted_counts(counts) for which, counts in sorted(self.letters.items())
            },
        }


def _sorted_counts(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}


def page(report: Mapping[str, Any]) -> str:
    """The statistics of a build as Markdown."""
    found = report["questions"]
    lines = [
        "# STV: what was built",
        "",
        f"{found['total']} questions, {found['graphs']} of them with a graph; seed "
        f"{report['seed']}. The paper's set has 205,000.",
        "",
    ]
    order = {"task": [kind for kind in KINDS if kind in found.get("task", {})]}
    for what, title in (
        ("reasoning", "By reasoning"),
        ("task", "By type"),
        ("source", "By source"),
        ("medium", "By medium"),
        ("answer", "By form of answer"),
    ):
        counts = found.get(what, {})
        lines += _table(title, {name: counts[name] for name in order.get(what, counts)})
    lines += _crossed(found.get("task and source", {}))
    for which, counts in found["letters"].items():
        lines += _table(f"Right letters, of questions with {which}", counts)
    lines += [
        "## What was dropped",
        "",
        "Objects are counted once in each frame. Reasons that "
        "begin with a type are of what would have been questions of it.",
        "",
        "| source | reason | objects in frames, or questions |",
        "| --- | --- | ---: |",
    ]
    lines += [
        f"| {source} | {reason} | {number} |"
        for source, reasons in report["filters"].items()
        for reason, number in reasons.items()
    ]
    return "\n".join(lines) + "\n"


def _table(title: str, counts: Mapping[str, int]) -> list[str]:
    total, limit = sum(counts.values()), max(counts.values(), default=0)
    rows = [
        f"| {name} | {number} | {number / total:.1%} | {'█' * max(1, number * BAR // limit)} |"
        for name, number in counts.items()
    ]
    return [
        f"## {title}",
        "",
        "| | questions | share | |",
        "| --- | ---: | ---: | --- |",
        *rows,
        "",
    ]


def _crossed(counts: Mapping[str, int]) -> list[str]:
    sources = sorted({name.partition(" / ")[2] for name in counts})
    rows = []
    for kind in KINDS:
        numbers = [counts.get(f"{kind} / {source}", 0) for source in sources]
        rows.append(f"| {kind} | {' | '.join(map(str, numbers))} |")
    head = f"| | {' | '.join(sources)} |"
    return ["## By type and source", "", head, "| --- |" + " ---: |" * len(sources), *rows, ""]
