"""`harness data make | check | info`; `fetch` is in its own module."""

import importlib
from argparse import Namespace
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from harness import plugins
from harness.cli.ask import specs
from harness.cli.ask import tasks as asked_tasks
from harness.cli.fetch import recorded
from harness.cli.output import show_json
from harness.errors import UsageError
from harness.interchange import answer_to_json
from harness.media import Media
from harness.run.plan import samples_of, select, survey
from harness.store.atomic import cannot_write
from harness.task import Task
from harness.types import Sample

SHOWN = 20


def make(arguments: Namespace) -> int:
    """Write the generated world in the layouts asked for, or of every task that has a writer."""
    from harness.world.shapes import make as make_shapes

    if arguments.size < 1 or arguments.seed < 0:
        raise UsageError("harness data make", expected="--size ≥ 1 and --seed ≥ 0",
                         found=f"{arguments.size} and {arguments.seed}")  # fmt: skip
    found = _wanted(writers(), arguments.tasks)
    try:
        make_shapes(arguments.out, seed=arguments.seed, size=arguments.size, writers=found)
    except OSError as error:
        raise cannot_write(arguments.out, error) from error
    if arguments.json:
        show_json({"out": str(arguments.out), "tasks": sorted(found)})
    else:
        print(f"{arguments.out}: {', '.join(sorted(found))}")
    return 0


def writers() -> dict[str, Callable[..., None]]:
    """The writer of every task that has one: the module `writer` beside the task's module."""
    found = {}
    for name, entry in plugins.installed("tasks").items():
        package = entry.module.rpartition(".")[0]
        try:
            there = bool(package) and find_spec(f"{package}.writer") is not None
        except ModuleNotFoundError:
            there = False
        if there:
            found[name] = importlib.import_module(f"{package}.writer").write
    return found


def _wanted(
    found: dict[str, Callable[..., None]], asked: list[str] | None
) -> dict[str, Callable[..., None]]:
    names = [spec.name for spec in specs(asked, "--tasks")] if asked else list(found)
    for name in names:
        if name not in found:
            raise UsageError(f"--tasks {name}", expected="a benchmark with a writer: "
                             f"{', '.join(sorted(found))}", found=name)  # fmt: skip
    return {name: found[name] for name in names}


def _named(arguments: Namespace) -> Namespace:
    if arguments.task:
        arguments.tasks = [*(arguments.tasks or []), arguments.task]
    return arguments


def check(arguments: Namespace) -> int:
    """List everything that is wrong with the files; exit code 1 if anything is."""
    shown: list[dict[str, Any]] = []
    for key, spec, task in asked_tasks(_named(arguments)):
        with plugins.blamed(f"the check of {task.name}"):
            problems = [{"path": one.path, "message": one.message} for one in task.check()]
        card = _card(task)
        published = card.get("splits", {}).get(task.split) or None
        line: dict[str, Any] = {"name": key, "split": task.split, "problems": problems,
                                "published": published}  # fmt: skip
        if problems:
            line["data"] = card.get("data", "")
        else:
            line |= _complete(task)
        line["fetched"] = recorded(arguments.data / spec.name)
        shown.append(line)
    if arguments.json:
        show_json(shown)
    else:
        for line in shown:
            _show_check(line)
    return 1 if any(line["problems"] for line in shown) else 0


def _complete(task: Task) -> dict[str, Any]:
    """What is counted of files that are whole."""
    found = survey(task, select(task, None))
    return {"samples": found.n_total, "fingerprint": found.fingerprint,
            "duplicates": duplicates(samples_of(task))}  # fmt: skip


def duplicates(samples: Iterable[Sample]) -> list[list[str]]:
    """Groups of samples whose pictures or videos have the same content, as lists of their names.

    Only files of equal length are read and compared.
    """
    by_weight: dict[tuple[Any, ...], dict[str, Sample]] = {}
    for sample in samples:
        for media in sample.query.media[:1]:
            if media.fault is None and media.weight:
                key = (media.weight, media.size, len(media))
                by_weight.setdefault(key, {}).setdefault(sample.group, sample)
    same: dict[str, list[str]] = {}
    for alike in by_weight.values():
        if len(alike) > 1:
            for group, sample in alike.items():
                same.setdefault(sample.query.media[0].id, []).append(group)
    return sorted(sorted(groups) for groups in same.values() if len(groups) > 1)


def _show_check(line: dict[str, Any]) -> None:
    where = f"{line['name']}, split {line['split']}"
    if line["problems"]:
        print(f"{where}: {len(line['problems'])} problem(s)")
        for problem in line["problems"][:SHOWN]:
            print(f"  {problem['path']}: {problem['message']}")
        if (rest := len(line["problems"]) - SHOWN) > 0:
            print(f"  … and {rest} more (--json lists all)")
        if line["data"]:
            print(f"  How it is had: {line['data']}")
        return
    said = f"{where}: {line['samples']} samples"
    if line["published"] and line["published"] != line["samples"]:
        said += f" (published: {line['published']})"
    print(f"{said}, fingerprint {line['fingerprint']}")
    for groups in line["duplicates"][:SHOWN]:
        print(f"  the same content: {', '.join(groups[:SHOWN])}")
    if (rest := len(line["duplicates"]) - SHOWN) > 0:
        print(f"  … and {rest} more (--json lists all)")
    for one in line["fetched"]:
        print(f"  fetched from {one['repository']}, commit {one['commit']}")


def info(arguments: Namespace) -> int:
    """Sizes, licence, categories, answer forms and one example."""
    shown = [_info(key, task) for key, _, task in asked_tasks(_named(arguments))]
    if arguments.json:
        show_json(shown)
        return 0
    for one in shown:
        for name, value in one.items():
            print(f"{name}: {str(value).strip()}")
        print()
    return 0


def _info(key: str, task: Task) -> dict[str, Any]:
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
    plain: dict[str, Any] = {
        "name": key, "split": task.split, "samples": count, "groups": len(groups),
        "bytes": sum(groups.values()),
        "answers": [str(form) for form in task.forms], "protocol": task.protocol.name,
        "headline": task.protocol.headline, "categories": categories,
    }  # fmt: skip
    card = _card(task)
    plain |= {name: card[name] for name in ("title", "splits", "paper", "licence", "data", "hub")
              if card.get(name)}  # fmt: skip
    if first is not None:
        truth = answer_to_json(first.target.answer) if first.target else None
        plain["example"] = {"id": first.id, "text": first.query.text, "media":
                            repr(first.query.media), "truth": _short(truth)}  # fmt: skip
    return plain


def _weight(media: Media) -> int:
    """Bytes of its files; 0 where one is missing."""
    try:
        return media.weight
    except OSError:
        return 0


def _card(task: Task) -> dict[str, Any]:
    from harness.cli.show import describe

    return describe("tasks", plugins.installed("tasks")[task.name])


def _short(value: Any) -> Any:
    """Plain data with long texts and lists cut, to be read by people."""
    if isinstance(value, str) and len(value) > 40:
        return value[:40] + "…"
    if isinstance(value, list) and len(value) > 4:
        return [*map(_short, value[:4]), f"… {len(value) - 4} more"]
    if isinstance(value, list):
        return [_short(item) for item in value]
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return value
