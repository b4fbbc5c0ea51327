"""`harness verify`."""

from argparse import Namespace
from dataclasses import asdict

from harness import plugins
from harness.cli.ask import tasks as asked_tasks
from harness.cli.output import show_json
from harness.errors import UsageError
from harness.model import ReplyReader
from harness.run.verify import Verdict
from harness.run.verify import verify as verify_task
from harness.spec import parse


def verify(arguments: Namespace) -> int:
    """Score perfect answers against each card's ceiling; exit code 1 if one is missed."""
    reader = _reader(arguments.model)
    verdicts = [
        (key, verdict)
        for key, _, task in asked_tasks(arguments)
        for verdict in verify_task(task, reader)
    ]
    passed = all(verdict.passed for _, verdict in verdicts)
    if arguments.json:
        lines = [{"name": key, **asdict(one), "passed": one.passed} for key, one in verdicts]
        show_json({"passed": passed, "verdicts": lines})
    else:
        _show(verdicts)
    return 0 if passed else 1


def _reader(text: str) -> ReplyReader | None:
    if text == "none":
        return None
    reader = plugins.build("models", parse(text))
    if not isinstance(reader, ReplyReader):
        raise UsageError(f"--model {text}", expected="a model that can read stored replies",
                         found="one that cannot")  # fmt: skip
    return reader


def _show(verdicts: list[tuple[str, Verdict]]) -> None:
    from harness.cli.tables import show_rows

    rows = [
        (
            key, one.protocol, one.way, str(one.n), one.metric,
            "–" if one.value is None else f"{one.value:.7f}",
            f"{one.ceiling:.7f}", "reached" if one.passed else "MISSED",
        )
        for key, one in verdicts
    ]  # fmt: skip
    show_rows(("task", "protocol", "perfect", "units", "metric", "value", "ceiling", ""), rows)
    for key, one in verdicts:
        if not one.passed:
            print(f"{key} by {one.way}: lowest are {', '.join(one.worst)}")
        elif one.tolerance:
            print(f"{key}: up to {one.tolerance:g} below the ceiling, because {one.why}")
