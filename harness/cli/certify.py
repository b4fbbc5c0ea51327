"""`harness certify`: test by questions whether two ways of calling one network are the same."""

from argparse import Namespace
from itertools import islice

from harness import plugins
from harness.cli.model_choice import requested_models
from harness.cli.output import note, say, show_json, write_text
from harness.cli.spec_arguments import require_minimum
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.cli.tables import show_columns, wrap_lines
from harness.errors import UsageError
from harness.leaderboards.certification.battery import battery
from harness.leaderboards.certification.certify import certify as compare
from harness.leaderboards.certification.page import page, rows
from harness.model import Model
from harness.run.batching import select
from harness.store.atomic import json_bytes, write_bytes, writing
from harness.types import Query


def certify(arguments: Namespace) -> int:
    """Compare two models, print the verdict, and write the page; exit code 0 if they are equal."""
    require_minimum(arguments, 1, "questions")
    specs = requested_models([arguments.model, arguments.against], tell=True)
    if len(specs) != 2:
        raise UsageError("--model and --against", expected="one model each", found="several")
    a, b = (plugins.build("models", spec) for spec in specs)
    certificate = compare(
        (str(specs[0]), str(specs[1])),
        (a, b),
        _queries(arguments, a, b),
        progress=lambda done, total: note(f"{done} of {total} questions asked"),
    )
    if arguments.out is not None:
        with writing(arguments.out):
            arguments.out.mkdir(parents=True, exist_ok=True)
        write_bytes(arguments.out / "certificate.json", json_bytes(certificate.to_json()))
        write_text(arguments.out / "certificate.html", page(certificate))
    if arguments.json:
        show_json(certificate.to_json())
    else:
        say(*wrap_lines(certificate.summary), "")
        show_columns([("", "compared", "times", ""), *rows(certificate)])
        if certificate.settings:
            say("", "recorded settings that differ:", *(f"  {row}" for row in certificate.settings))
        if arguments.out is not None:
            say("", arguments.out / "certificate.html")
    return 0 if certificate.verdict == "equal" else 1


def _queries(arguments: Namespace, a: Model, b: Model) -> list[Query]:
    """Return questions of `--tasks`, else of the battery in forms that both models answer."""
    if arguments.tasks is None:
        forms = [model.forms for model in (a, b) if model.forms is not None]
        return battery(arguments.questions, frozenset.intersection(*forms) if forms else None)
    chosen = [
        sample.query
        for _, _, task in requested_tasks(arguments)
        for sample in select(task, f"seed0-{arguments.questions}").samples(task)
    ]
    return list(islice(chosen, arguments.questions))
