"""`harness data make | fetch | check | info`."""

import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from harness import plugins
from harness.cli.output import note, say, show_json, tell
from harness.cli.spec_arguments import require, specs
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.errors import UsageError, counted
from harness.files import read_text
from harness.hub.fetch import card_of, fetched_sources
from harness.hub.fetch import fetch as fetch_files
from harness.interchange.journal_form import answer_to_json
from harness.leaderboards.published_results import papers, published_results
from harness.media import Media
from harness.run.batching import samples_of, select
from harness.run.duplicates import same_media, same_samples
from harness.run.preflight import conversion_text, odd_text, problem_lines, survey, undecodable
from harness.store.atomic import writing
from harness.task import Problem, Task
from harness.types import Sample

SHOWN = 20
MANIFEST = "shapes.json"
"""File at the root of a generated world (`harness.world.shapes` writes it)."""


def make(arguments: Namespace) -> int:
    """Write the generated world in the layouts of `--tasks`, or of every task that has a writer."""
    from harness.testing.shapes import make_shapes

    texts = arguments.tasks
    names = [spec.name for spec in specs(texts, "--tasks")] if texts else None
    with writing(arguments.out):
        written = make_shapes(arguments.out, tasks=names, size=arguments.size, seed=arguments.seed)
    plain = {"out": str(arguments.out), "tasks": written}
    tell(arguments, plain, f"{arguments.out}: {', '.join(written)}")
    return 0


def draft(arguments: Namespace) -> int:
    """Write a description beside a table, from its fields' names and values.

    Raises:
        UsageError: there is one.
        DataError: the table cannot be read.
    """
    from harness.tasks.table.draft import CHECK, draft

    table = Path(arguments.table)
    path = table.with_suffix(".toml")
    if path.exists():
        raise UsageError(
            f"description {path}", expected="no such file", found="one", fix="Edit it, or move it."
        )
    name = arguments.name or re.sub(r"\W", "_", table.stem)
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


def fetch(arguments: Namespace) -> int:
    """Fetch the files that a task's card names; print commits and the steps that remain by hand."""
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
    if arguments.task:
        arguments.tasks = [*(arguments.tasks or []), arguments.task]
    return arguments


def check(arguments: Namespace) -> int:
    """List everything that is wrong with the files, and count them.

    Exit code 1 if anything is wrong; with `--strict` also if the numbers of samples or videos are
    not the published ones. Without it such a difference is named, so that a generated world, an
    example or a part of a download passes.
    """
    opened = requested_tasks(_with_name(arguments))
    shown = [_check_task(arguments, key, task) for key, _, task in opened]
    if arguments.json:
        show_json(shown)
    else:
        for line in shown:
            _show_check(line, strict=arguments.strict)
    wrong = (line["problems"] or (arguments.strict and line["differences"]) for line in shown)
    return int(any(wrong))


def _check_task(arguments: Namespace, key: str, task: Task) -> dict[str, Any]:
    card = plugins.find_card(task.name)
    with plugins.plugin_errors(f"the check of {task.name}"):
        problems = [asdict(problem) for problem in task.check()]
    if not problems and arguments.decode != "none":
        problems = [asdict(fault) for fault in undecodable(task, every=arguments.decode == "all")]
    samples, videos = (0, 0) if card is None else card.published_counts(task.split, task.arguments)
    line: dict[str, Any] = {
        "name": key,
        "split": task.split,
        "problems": problems,
        "published": samples or None,
        "published_videos": videos or None,
        "differences": [],
        "generated": (arguments.data / MANIFEST).is_file(),
        "fetched": [] if card is None else fetched_sources(arguments.data, card),
    }
    if card is not None:
        line["data"] = card.data
    if not problems:
        line |= _complete(task)
        line["differences"] = [
            {"what": what, "found": counted, "published": published}
            for what, counted, published in (
                ("samples", line["samples"] + line["left_out"], samples),
                ("videos", line["videos"], videos),
            )
            if published and counted != published
        ]
    return line


def _complete(task: Task) -> dict[str, object]:
    """Return the counts of files that are complete."""
    surveyed = survey(task, select(task, None), every_frame=True)
    groups: set[str] = set()
    unanswered: set[str] = set()

    def count_samples() -> Iterator[Sample]:
        for sample in samples_of(task):
            groups.add(sample.group)
            if sample.target is None:
                unanswered.add(sample.id)
            yield sample

    same = same_media(count_samples()) + same_samples(partial(samples_of, task))
    return {
        "samples": surveyed.n_total,
        "videos": len(groups),
        "fingerprint": surveyed.fingerprint,
        # Rows that lost their image belong to the published list, but are not samples.
        "conversions": dict(surveyed.conversions),
        "odd": list(surveyed.odd),
        "notes": [*_without_ground_truth(task, len(unanswered)), *_unchecked(task)],
        "left_out": int(task.arguments.get("without_image") or 0),
        "duplicates": same,
    }


def _without_ground_truth(task: Task, n_unanswered: int) -> Iterator[str]:
    """Yield a note on samples without ground truth, where no file for a server is made of them."""
    if n_unanswered and task.submission is None:
        yield (
            f"{counted(n_unanswered, 'sample')} without ground truth cannot be scored; the "
            "description of a table names its field: field = … in [answer]"
        )


def _unchecked(task: Task) -> Iterator[str]:
    """Yield a note on each description of a table with lines that its draft marked."""
    from harness.tasks.table.draft import CHECK

    for path in task.annotations:
        if path.suffix == ".toml" and (n_marked := read_text(path).count(f"# {CHECK}")):
            yield (
                f"{path.name} still has {counted(n_marked, 'line')} marked {CHECK}: correct each, "
                "and remove the mark"
            )


def _show_check(line: dict[str, Any], *, strict: bool) -> None:
    where = f"{line['name']}, split {line['split']}"
    if line["problems"]:
        say(f"{where}: {counted(len(line['problems']), 'problem')}")
        problems = [Problem(**problem) for problem in line["problems"]]
        say(*(f"  {text}" for text in problem_lines(problems, SHOWN)))
        if len(problems) > SHOWN:
            say("  (--json lists all)")
    else:
        say(f"{where}: {_counts(line)}, fingerprint {line['fingerprint']}")
        _show_differences(line, strict=strict)
        if converted := conversion_text(line["conversions"]):
            print(f"  {converted}")
        if line["odd"]:
            say(f"  {odd_text(line['odd'])}")
        say(*(f"  note: {text}" for text in line["notes"]))
        for groups in line["duplicates"][:SHOWN]:
            say(f"  the same content: {', '.join(groups[:SHOWN])}")
        if (rest := len(line["duplicates"]) - SHOWN) > 0:
            say(f"  … and {rest} more (--json lists all)")
    for source in line["fetched"]:
        part = "" if source.get("files") is not None else ", not complete: run data fetch again"
        say(f"  fetched from {source['repository']}, commit {source['commit']}{part}")
    if line.get("data") and (line["problems"] or (strict and line["differences"])):
        say(f"  Source: {line['data']}")


def _counts(line: dict[str, object]) -> str:
    """Return the numbers found, with the published ones where they differ."""
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
    kind = "error" if strict else "difference"
    remark = " (a generated world)" if line["generated"] else ""
    say(f"  {kind}: {text}{remark}")


def info(arguments: Namespace) -> int:
    """Sizes, licence, categories, answer forms and one example."""
    shown = [_info(key, task) for key, _, task in requested_tasks(_with_name(arguments))]
    if arguments.json:
        show_json(shown)
        return 0
    for facts in shown:
        for name, value in facts.items():
            say(*f"{name}: {str(_with_unknown(name, value)).strip()}".splitlines())
        print()
    return 0


def _info(key: str, task: Task) -> dict[str, object]:
    categories: dict[str, dict[str, int]] = {}
    groups: dict[str, int] = {}
    first = None
    count = 0
    for sample in samples_of(task):
        first = first or sample
        count += 1
        if sample.group not in groups:
            groups[sample.group] = sum(map(_weight, sample.query.media))
        for name, value in sample.categories.items():
            counts = categories.setdefault(name, {})
            counts[value] = counts.get(value, 0) + 1
    plain: dict[str, object] = {
        "name": key,
        "split": task.split,
        "samples": count,
        "groups": len(groups),
        "bytes": sum(groups.values()),
        "answers": [str(form) for form in task.forms],
        "protocol": task.protocol.name,
        "headline": task.protocol.headline,
        "categories": categories,
    }
    card = plugins.find_card(task.name)
    plain |= {
        name: getattr(card, name)
        for name in ("title", "splits", "videos", "paper", "licence", "data", "folder", "hub")
        if getattr(card, name, None)
    }
    if printed := list(_printed_counts(task.name)):
        plain["counts in papers"] = printed
    if first is not None:
        ground_truth = answer_to_json(first.target.answer) if first.target else None
        plain["example"] = {
            "id": first.id,
            "text": first.query.text,
            "media": repr(first.query.media),
            "ground_truth": _shorten(ground_truth),
        }
    return plain


def _printed_counts(task: str) -> Iterator[str]:
    """Yield the numbers of samples that papers print of a benchmark, such as how many they used."""
    for paper, title in papers().items():
        for result in published_results(paper):
            if result.unit == "count" and result.task == task:
                what = " ".join(filter(None, (result.split, result.part)))
                yield f"{title}, Table {result.table}: {result.printed} of {what}"


def _with_unknown(name: str, value: Any) -> object:
    """Return published numbers by split; a 0 means that nobody has published one."""
    if name not in ("splits", "videos"):
        return value
    return ", ".join(f"{split} {number or 'unknown'}" for split, number in value.items())


def _weight(media: Media) -> int:
    """Return the size of its files in bytes; 0 where one is missing."""
    try:
        return media.weight
    except OSError:
        return 0


def _shorten(value: Any) -> Any:
    """Plain data with long texts and lists cut, to be read by people."""
    if isinstance(value, str) and len(value) > 40:
        return value[:40] + "…"
    if isinstance(value, list) and len(value) > 4:
        return [*map(_shorten, value[:4]), f"… {len(value) - 4} more"]
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    return value
