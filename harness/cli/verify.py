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
            key, one.protocol, one.way, str(one.n),
            f"{one.metric} " + ("–" if one.value is None else f"{one.value:.9g}"),
            f"{one.ceiling:.9g}" + (f" − {one.tolerance:g}" if one.tolerance else ""),
            "reached" if one.passed else "MISSED: " + ", ".join(one.worst),
        )
        for key, one in verdicts
    ]  # fmt: skip
    show_rows(("task", "protocol", "perfect", "units", "score", "ceiling", ""), rows)
    for why in dict.fromkeys(one.why for _, one in verdicts if one.why):
        print(f"ceiling: {why}")
