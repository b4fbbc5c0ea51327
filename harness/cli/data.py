"""`harness data`: make, fetch, describe and check the files of benchmarks.

The actions are `make`, `fetch`, `check`, `init` (the function `draft`) and `info`.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

from harness.cli.output import note, say, show_json, tell
from harness.cli.spec_arguments import require, specs
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.dataset_facts import check_task, task_facts
from harness.errors import UsageError, counted
from harness.hub.fetch import card_of
from harness.hub.fetch import fetch as fetch_files
from harness.run.preflight import problem_lines
from harness.run.survey import conversion_text, odd_text
from harness.store.atomic import writing
from harness.task import Problem

SHOWN = 20  # problems, duplicates and members of a duplicate that are printed


def make(arguments: Namespace) -> int:
    """Write the generated world in the layouts of `--tasks`, or of every task that has a writer."""
    from harness.testing.shapes import make_shapes

    texts = arguments.tasks
    names = [spec.name for spec in specs(texts, "--tasks")] if texts else None
    with writing(arguments.out):
        example_counts = make_shapes(
            arguments.out, tasks=names, size=arguments.size, seed=arguments.seed
        )
    plain = {"out": str(arguments.out), "tasks": example_counts}
    tell(arguments, plain, f"{arguments.out}: {', '.join(example_counts)}")
    return 0


def draft(arguments: Namespace) -> int:
    """Write a first description beside a table, guessed from its fields' names and values.

    Raises:
        UsageError: the table has a description.
        DataError: the table cannot be read.
    """
    from harness.tasks.table.description import CHECK
    from harness.tasks.table.draft import draft

    table = Path(arguments.table)
    table = table if table.name.strip(".") else table.resolve()  # . and .. have no suffix
    path = table.with_suffix(".toml")
    if path.exists():
        raise UsageError(
            f"description {path}", expected="no such file", found="one", fix="Edit it, or move it."
        )
    name = arguments.name or _identifier(table.stem)
    text = draft(table).toml(name)
    path.write_text(text, encoding="utf-8")
    doubts = text.count(f"# {CHECK}")
    if arguments.json:
        show_json({"description": str(path), "doubts": doubts, "text": text})
        return 0
    checked = f"{doubts} to check (see {CHECK})" if doubts else "nothing to check"
    steps = [f"edit each line with {CHECK} in {path}"] if doubts else []
    first, *others = [*steps, f'harness data check "table(file={table})"']
    after = [f"next: {first}", *(f"      {step}" for step in others)]
    say(*text.splitlines(), "", f"{path}: {checked}", *after)
    return 0


def _identifier(stem: str) -> str:
    """Return the stem of a table's name as the name of a benchmark.

    >>> _identifier("val-2"), _identifier("4_count")
    ('val_2', 'table_4_count')
    """
    name = "".join(sign if f"_{sign}".isidentifier() else "_" for sign in stem)
    return name if name.isidentifier() else f"table_{name}"


def fetch(arguments: Namespace) -> int:
    """Fetch the repositories that a task's card names; print what remains to do by hand."""
    require(arguments, "data")
    root: Path = arguments.data
    card = card_of(arguments.task)
    records = fetch_files(
        card,
        root,
        only=arguments.only,
        revision=arguments.revision,
        quiet=arguments.json or arguments.quiet,
        tell=note,
    )
    if arguments.json:
        show_json({"task": card.name, "root": str(root), "repositories": records})
        return 0
    for record in records:
        folder = root / card.folder / str(record["folder"])
        files = f"{record['files']} file(s) → {folder}"
        print(f"{record['repository']}: commit {record['commit']}, {files}")
    print(f"What is left to do by hand: {card.data}")
    print(f"Then: harness data check {card.name} --data {root}")
    return 0


def _with_name(arguments: Namespace) -> Namespace:
    """Add the positional TASK to `--tasks`."""
    if arguments.task:
        arguments.tasks = [*(arguments.tasks or []), arguments.task]
    return arguments


def check(arguments: Namespace) -> int:
    """List what is wrong with the files of each task, or their numbers of samples and videos.

    Exit code 1 if anything is wrong; with `--strict` also if the numbers are not the published
    ones. Without it such a difference is only printed, so that a generated world, an example or a
    part of a download passes.
    """
    opened = requested_tasks(_with_name(arguments))
    results = [check_task(key, task, arguments.data, arguments.decode) for key, _, task in opened]
    if arguments.json:
        show_json(results)
    else:
        for line in results:
            _show_check(line, strict=arguments.strict)
    wrong = (line["problems"] or (arguments.strict and line["differences"]) for line in results)
    return int(any(wrong))


def _show_check(line: dict[str, Any], *, strict: bool) -> None:
    """Print the result of `check_task`."""
    where = f"{line['name']}, split {line['split']}"
    if line["problems"]:
        say(f"{where}: {counted(len(line['problems']), 'problem')}")
        problems = [Problem(**problem) for problem in line["problems"]]
        say(*(f"  {text}" for text in problem_lines(problems, SHOWN)))
        if len(problems) > SHOWN:
            say("  (--json lists all)")
    else:
        say(f"{where}: {_counts_text(line)}, fingerprint {line['fingerprint']}")
        _show_differences(line, strict=strict)
        if converted := conversion_text(line["conversions"]):
            print(f"  {converted}")
        if line["odd"]:
            say(f"  {odd_text(line['odd'])}")
        say(*(f"  note: {text}" for text in line["notes"]))
        for key, label in (
            ("duplicates", "the same content"),
            ("contradictions", "the same question, with different answers"),
        ):
            for names in line[key][:SHOWN]:
                say(f"  {label}: {', '.join(names[:SHOWN])}")
            if (n_more := len(line[key]) - SHOWN) > 0:
                say(f"  … and {n_more} more (--json lists all)")
    for source in line["fetched"]:
        part = "" if source.get("files") is not None else ", not complete: run data fetch again"
        say(f"  fetched from {source['repository']}, commit {source['commit']}{part}")
    if line.get("data") and (line["problems"] or (strict and line["differences"])):
        say(f"  Source: {line['data']}")


def _counts_text(line: dict[str, object]) -> str:
    """Return the number of samples in words, with the published one if it differs."""
    text = counted(int(str(line["samples"])), "sample")
    if line["published"]:
        same = line["published"] == line["samples"]
        text += ", as published" if same else f" (published: {line['published']})"
    if line["left_out"]:
        text += f", {line['left_out']} more without an image"
    return text


def _show_differences(line: dict[str, Any], *, strict: bool) -> None:
    """Print the numbers that differ from the published ones, as errors or as notes."""
    if not line["differences"]:
        return
    text = ", ".join(
        f"{difference['found']} of {difference['published']} {difference['what']}"
        for difference in line["differences"]
    )
    label = "error" if strict else "difference"
    remark = " (a generated world)" if line["generated"] else ""
    say(f"  {label}: {text}{remark}")


def info(arguments: Namespace) -> int:
    """Print sizes, licence, categories, answer forms and one example of each task."""
    results = [task_facts(key, task) for key, _, task in requested_tasks(_with_name(arguments))]
    if arguments.json:
        show_json(results)
        return 0
    for facts in results:
        for name, value in facts.items():
            say(*f"{name}: {str(_with_unknown(name, value)).strip()}".splitlines())
        print()
    return 0


def _with_unknown(name: str, value: Any) -> object:
    """Return published numbers by split as a text, with `unknown` for 0; other facts unchanged."""
    if name not in ("splits", "videos"):
        return value
    return ", ".join(f"{split} {number or 'unknown'}" for split, number in value.items())
