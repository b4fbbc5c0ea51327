"""Facts about a benchmark's files: `check_task` for `harness data check`, `task_facts` for `info`.

The first finds problems, counts, duplicates and notes; the second gives sizes and an example.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

from harness import plugins
from harness.errors import counted
from harness.files import read_text
from harness.hub.fetch import fetched_sources
from harness.interchange.journal_form import answer_to_json
from harness.leaderboards.published_results import papers, published_results
from harness.media import Media
from harness.run.batching import samples_of, select
from harness.run.duplicates import same_media, same_questions
from harness.run.preflight import undecodable
from harness.run.survey import survey
from harness.task import Task
from harness.types import Sample

MANIFEST = "shapes.json"
"""File at the root of a generated world (`harness.world.shapes` writes it)."""
MANY_CHOICES = 8
"""Smallest number of questions that hardly have all the same right letter by chance."""


def check_task(
    key: str, task: Task, root: Path, decode: Literal["ends", "all", "none"]
) -> dict[str, Any]:
    """Check the files of a task; return problems, numbers and differences as plain data.

    Args:
        key: The task as it is typed.
        task: The task.
        root: The data root.
        decode: The frames that are decoded: the first and last of each video, all, or none.
    """
    card = plugins.find_card(task.name)
    with plugins.plugin_errors(f"the check of {task.name}"):
        problems = [asdict(problem) for problem in task.check()]
    if not problems and decode != "none":
        problems = [asdict(fault) for fault in undecodable(task, every=decode == "all")]
    samples, videos = (0, 0) if card is None else card.published_counts(task.split, task.arguments)
    line: dict[str, Any] = {
        "name": key,
        "split": task.split,
        "problems": problems,
        "published": samples or None,
        "published_videos": videos or None,
        "differences": [],
        "generated": (root / MANIFEST).is_file(),
        "fetched": [] if card is None else fetched_sources(root, card),
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
    """Return counts, notes and duplicates of a task whose files are complete."""
    surveyed = survey(task, select(task, None), every_frame=True)
    groups: set[str] = set()
    unanswered: set[str] = set()
    asked: list[tuple[str, str]] = []
    ends: set[str] = set()
    letters: Counter[str] = Counter()

    def count_samples() -> Iterator[Sample]:
        for sample in samples_of(task):
            groups.add(sample.group)
            if sample.target is None:
                unanswered.add(sample.id)
            elif sample.target.answer.choice and sample.query.options:
                letters[sample.target.answer.choice] += 1
                ends.update(_conventions(sample.target.answer.choice, len(sample.query.options)))
            elif sample.target.answer.boxes:
                asked.append((sample.group, sample.query.text))
            yield sample

    media = same_media(count_samples())
    same, contradictions = same_questions(partial(samples_of, task))
    return {
        "samples": surveyed.n_total,
        "videos": len(groups),
        "fingerprint": surveyed.fingerprint,
        # Rows that lost their image belong to the published list, but are not samples.
        "conversions": dict(surveyed.conversions),
        "odd": list(surveyed.odd),
        "notes": [
            *_without_ground_truth(task, len(unanswered)),
            *_repeated(task, len(asked) - len(set(asked))),
            *_unchecked(task),
            *_other_places(task, ends),
            *_one_letter(task, letters),
        ],
        "left_out": int(task.arguments.get("without_image") or 0),
        "duplicates": media + same,
        "contradictions": contradictions,
    }


def _without_ground_truth(task: Task, n_unanswered: int) -> Iterator[str]:
    """Yield a note on samples without ground truth, unless a submission for a server uses them."""
    if n_unanswered and task.submission is None:
        yield (
            f"{counted(n_unanswered, 'sample')} without ground truth cannot be scored; the "
            "description of a table names its field: field = … in [answer]"
        )


def _repeated(task: Task, n_repeated: int) -> Iterator[str]:
    """Yield a note on a table's samples that ask for boxes with the text and medium of another."""
    if n_repeated and _descriptions(task):
        yield (
            f"{counted(n_repeated, 'sample')} with the question and the image of another: if each "
            "has one of several right boxes, put these into one record"
        )


def _descriptions(task: Task) -> list[Path]:
    """Return the description of a table as the only member; [] for another task.

    Other tasks may have a TOML file of another kind, as RVTBench's mapping.
    """
    name = task.arguments.get("description")
    return [path for path in task.annotations if path.name == name]


def _unchecked(task: Task) -> Iterator[str]:
    """Yield a note on each description of a table with lines that its draft marked to check."""
    from harness.tasks.table.description import CHECK

    for path in _descriptions(task):
        if n_marked := read_text(path).count(f"# {CHECK}"):
            yield (
                f"{path.name} still has {counted(n_marked, 'line')} marked {CHECK}: correct each, "
                "and remove the mark"
            )


def _conventions(letter: str, n_options: int) -> Iterator[str]:
    """Yield the conventions of writing a right option for which this option is evidence.

    These are "choice" (a letter), "place" (a number from 0) for the first option, whose 0 is not a
    number from 1, and "place_from_1" for the last, whose number is too large for one from 0.

    >>> list(_conventions("A", 2)), list(_conventions("B", 2)), list(_conventions("A", 30))
    (['choice', 'place'], ['choice', 'place_from_1'], ['choice', 'place'])
    """
    yield "choice"
    if letter == "A":
        yield "place"
    if letter == ascii_uppercase[:n_options][-1]:
        yield "place_from_1"


def _other_places(task: Task, conventions: Collection[str]) -> Iterator[str]:
    """Yield a note on places of a table that may be counted from 0 as well as from 1."""
    from harness.tasks.table.description import read_description

    for path in _descriptions(task) if "choice" in conventions else ():
        written = read_description(path).answer.written
        if written in ("place", "place_from_1") and written not in conventions:
            start, end = ("1", "first") if written == "place" else ("0", "last")
            yield (
                f"no question's {end} option is right: are places counted from {start}? "
                f"{path.name} says written = {written!r}, and the values allow both"
            )


def _one_letter(task: Task, letters: Mapping[str, int]) -> Iterator[str]:
    """Yield a note on a table in all of whose questions the option of one letter is right."""
    if _descriptions(task) and len(letters) == 1 and sum(letters.values()) >= MANY_CHOICES:
        ((letter, count),) = letters.items()
        yield (
            f"{letter} is the right option of all {count} questions: is the right option always at "
            "one place in the file? A model that says this letter has them all right. Shuffle them"
        )


def task_facts(key: str, task: Task) -> dict[str, object]:
    """Return the sizes, forms, categories, licence and one example of a task, by their names."""
    categories: dict[str, dict[str, int]] = {}
    groups: dict[str, int] = {}
    first = None
    count = 0
    for sample in samples_of(task):
        first = first or sample
        count += 1
        if sample.group not in groups:
            groups[sample.group] = sum(map(_encoded_bytes, sample.query.media))
        for name, value in sample.categories.items():
            n_by_value = categories.setdefault(name, {})
            n_by_value[value] = n_by_value.get(value, 0) + 1
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
    """Yield, in words, each number of samples that a paper prints for a benchmark."""
    for paper in papers():
        for result in published_results(paper):
            if result.unit == "count" and result.task == task:
                what = " ".join(filter(None, (result.split, result.part)))
                yield f"{result.source}, Table {result.table}: {result.printed} of {what}"


def _encoded_bytes(media: Media) -> int:
    """Return the size of a medium's files in bytes; 0 if one is missing."""
    try:
        return media.weight
    except OSError:
        return 0


def _shorten(value: Any) -> Any:
    """Return plain data with long texts and lists cut."""
    if isinstance(value, str) and len(value) > 40:
        return value[:40] + "…"
    if isinstance(value, list) and len(value) > 4:
        return [*map(_shorten, value[:4]), f"… {len(value) - 4} more"]
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    return value
