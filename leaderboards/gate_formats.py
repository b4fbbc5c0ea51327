"""The gate's report for other programs: Markdown, JUnit XML, GitHub Actions, a badge."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from harness.errors import counted, printable
from harness.leaderboards import gate_report
from harness.leaderboards.gate_report import GateReport, TaskVerdict
from harness.leaderboards.render import badge as badges
from harness.leaderboards.render.markdown import escape, grid

SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable of GitHub Actions: the file that a step's summary is appended to."""


def markdown(report: GateReport) -> str:
    """Return the report as Markdown, for pull requests and job summaries."""
    title = "✅ Gate passed" if report.is_passed else "❌ Gate failed"
    rows = [
        [
            gate_report.symbol(verdict),
            escape(verdict.task),
            escape(verdict.headline),
            gate_report.numbers(verdict),
            "; ".join(gate_report.evidence(verdict)),
        ]
        for verdict in report.verdicts
    ]
    lines = [
        f"### {title}: {escape(gate_report.sentence(report))}",
        "",
        escape(gate_report.models(report)),
        "",
        *(f"- {escape(line)}" for line in gate_report.changes(report)),
        "",
        *grid(("", "task", "metric", "baseline → candidate", "evidence"), rows, left=5),
        "",
    ]
    for verdict in report.verdicts:
        reasons = gate_report.details(verdict, report, with_samples=False)
        lines.extend(f"- **{escape(verdict.task)}**: {escape(line)}" for line in reasons)
    lines.extend(f"- {escape(name)}: only in the candidate" for name in report.ignored)
    lines += ["", *_worst(report), escape(gate_report.rule(report)), ""]
    return "\n".join(lines)


def _worst(report: GateReport) -> Iterator[str]:
    """Yield the lines of a folded table of the samples that lost most, in tasks that failed."""
    rows = [
        [
            escape(verdict.task),
            _linked(change.sample, report.link(verdict, change.sample)),
            f"{change.before:.3f}",
            f"{change.after:.3f}",
            f"<code>{escape(gate_report.explain_command(verdict, rank))}</code>",
        ]
        for verdict in report.verdicts
        if not verdict.is_passed and verdict.changes is not None
        for rank, change in enumerate(verdict.changes.worst)
    ]
    if rows:
        yield from ("<details><summary>Worst samples</summary>", "")
        yield from grid(("task", "sample", "baseline", "candidate", "look"), rows, left=2)
        yield from ("", "</details>", "")


def _linked(sample: str, link: str) -> str:
    return f"[{escape(sample)}]({escape(link)})" if link else escape(sample)


def junit(report: GateReport) -> str:
    """Return the report as JUnit XML: a test case for each task; inconclusive ones are skipped."""
    failed = sum(not verdict.is_passed for verdict in report.verdicts)
    attributes = {
        "name": "harness gate",
        "tests": str(len(report.verdicts)),
        "failures": str(failed),
        "errors": "0",
        "skipped": str(sum(map(_is_skipped, report.verdicts))),
        "time": "0",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for verdict in report.verdicts:
        name = f"{verdict.task} ({verdict.headline})"
        case = {"name": _xml(name), "classname": "harness.gate", "time": "0"}
        test = ElementTree.SubElement(suite, "testcase", case)
        if not verdict.is_passed:
            message = {"message": _xml("; ".join(verdict.reasons)), "type": "regression"}
            failure = ElementTree.SubElement(test, "failure", message)
            failure.text = _xml("\n".join(gate_report.details(verdict, report)))
        elif _is_skipped(verdict):
            ElementTree.SubElement(test, "skipped", {"message": _xml(verdict.inconclusive)})
        output = ElementTree.SubElement(test, "system-out")
        output.text = _xml(
            "\n".join(
                (
                    gate_report.models(report),
                    *gate_report.changes(report),
                    gate_report.numbers(verdict),
                    *gate_report.evidence(verdict),
                )
            )
        )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _is_skipped(verdict: TaskVerdict) -> bool:
    """Return True for a task that passes only because its samples can show too little."""
    return verdict.is_passed and bool(verdict.inconclusive)


def badge(report: GateReport) -> tuple[str, str, str]:
    """Return the label, text and colour of a badge (`render.badge`)."""
    tasks = counted(len(report.verdicts), "task")
    if report.is_passed:
        if blind := sum(verdict.is_blind for verdict in report.verdicts):
            return "gate", f"too few samples, {blind} of {tasks}", badges.UNKNOWN
        if hidden := sum(bool(verdict.inconclusive) for verdict in report.verdicts):
            return "gate", f"passed, {hidden} of {tasks} inconclusive", badges.UNKNOWN
        return "gate", f"passed, {tasks}", badges.GOOD
    failed = sum(not verdict.is_passed for verdict in report.verdicts)
    return "gate", f"failed, {failed} of {tasks}", badges.BAD


def badge_file(report: GateReport, suffix: str) -> str:
    """Return the content of a badge's file: SVG for the suffix `.svg`, else JSON of shields.io."""
    parts = badge(report)
    return badges.svg(*parts) if suffix == ".svg" else json.dumps(badges.shields(*parts)) + "\n"


def _xml(text: str) -> str:
    """Return a text with escapes for the characters that XML cannot hold."""
    return "\n".join(map(printable, text.split("\n")))


def annotations(report: GateReport) -> str:
    """Return a GitHub workflow command for each task that fails: `::error title=…::…`."""
    lines = []
    for verdict in report.verdicts:
        if not verdict.is_passed:
            title = _property(f"{verdict.task} {verdict.headline}")
            lines.append(f"::error title={title}::{_data(_message(verdict, report))}\n")
    return "".join(lines)


def _message(verdict: TaskVerdict, report: GateReport) -> str:
    return "\n".join(
        (
            gate_report.numbers(verdict),
            *gate_report.evidence(verdict),
            *gate_report.details(verdict, report),
        )
    )


def _data(text: str) -> str:
    """Escape the message of a workflow command."""
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property of a workflow command, such as its title."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def github(report: GateReport, environment: Mapping[str, str]) -> str:
    """Append the report to the job's summary file, if there is one; return the text for its log."""
    if path := environment.get(SUMMARY):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown(report))
    return report.text() + annotations(report)
