"""Options that name SPECs, for several commands: check them, and build their tasks and metrics.

Errors for missing data say how to get it.
"""

import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness import plugins
from harness.errors import DataError, HarnessError, UsageError
from harness.spec import Spec, parse_list, slug
from harness.store.atomic import read_json
from harness.task import CostMetric, ExtraMetric, Task, with_metrics

TABLE_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
NEEDED = {
    "method": "a trainer; see `harness list trainers`",
    "model": "NAME or NAME(key=value,…), see `harness list models`",
    "vary": "SETTING=VALUE,VALUE,…",
    "predictions": "a file, or in its place a RUN",
    "tasks": "NAME or NAME(split=…,protocol=…), see `harness list tasks`",
    "data": "the folder with one folder per benchmark",
    "out": "a folder for the runs",
}
"""Purpose of each option that commands require, by its name."""


def specs(texts: Sequence[str] | None, option: str) -> list[Spec]:
    """Return the SPECs of a repeatable option; raise UsageError if there are none."""
    if not texts:
        raise UsageError(option, expected="at least one NAME or NAME(key=value,…)", found="none")
    return [spec for text in texts for spec in parse_list(text)]


def require(arguments: Namespace, *names: str, **options: str) -> None:
    """Raise one UsageError that names all required options without a value.

    Args:
        arguments: The parsed command line. Tasks that name their own files need no `--data`.
        names: Required options whose purpose is in `NEEDED`.
        options: Further required options, each with its purpose.
    """
    required = {name: NEEDED[name] for name in names} | options
    if "tasks" in required:
        _refuse_files(arguments.tasks)
    if {"data", "tasks"} <= required.keys() and _name_their_files(arguments.tasks):
        arguments.data = arguments.data or Path()
    missing = [
        f"--{name.replace('_', '-')} ({purpose})"
        for name, purpose in required.items()
        if getattr(arguments, name) in (None, [], "")
    ]
    if missing:
        raise UsageError("missing options", expected="; ".join(missing), found="nothing")


def _refuse_files(tasks: Sequence[str] | None) -> None:
    """Raise UsageError if `--tasks` names a table's file instead of the task that reads it."""
    for text in tasks or ():
        if Path(text).suffix.lower() in TABLE_SUFFIXES:
            raise UsageError(
                f"--tasks {text}",
                expected=NEEDED["tasks"],
                found="a file",
                fix=f'A table is a task as --tasks "table(file={text})".',
            )


def _name_their_files(tasks: Sequence[str] | None) -> bool:
    """Return True if every task has its own `file=`, so that no root of benchmarks is needed."""
    requested = [spec for text in tasks or () for spec in parse_list(text)]
    return bool(requested) and all("file" in spec.arguments for spec in requested)


def require_minimum(arguments: Namespace, minimum: int, *names: str) -> None:
    """Raise UsageError if one of these options is a number below the minimum."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value < minimum:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(option, expected=f"a number ≥ {minimum}", found=str(value))


def tasks(arguments: Namespace) -> Iterator[tuple[str, Spec, Task]]:
    """Yield (key, SPEC, task) of each task of `--tasks`, with the metrics of `--metrics`.

    The key is the task's name, or its SPEC if the name comes twice.

    Raises:
        UsageError: an option is missing, or `--data` is not the root of the benchmarks.
        DataError: a task's data is missing or damaged; the fix says how to get it.
    """
    require(arguments, "tasks", "data")
    root: Path = arguments.data
    if not root.is_dir():
        raise UsageError(
            f"--data {root}", expected="a folder", found="none", fix=_how_to_begin(arguments.tasks)
        )
    requested = specs(arguments.tasks, "--tasks")
    names = [spec.name for spec in requested]
    extras = metrics(getattr(arguments, "metrics", None))
    for spec in requested:
        try:
            task = plugins.build("tasks", spec, root)
        except DataError as error:
            _refuse_own_folder(root, spec, error)
            source = how_to_make(spec.name, root) or how_to_fetch(spec.name)
            hints = filter(None, [_splits_here(root, spec), source])
            if fix := " ".join(hints):
                raise DataError(str(error), fix=fix) from error
            raise
        key = task.name if names.count(spec.name) == 1 else str(spec)
        yield key, spec, with_metrics(task, extras)


def _how_to_begin(tasks: Sequence[str] | None) -> str:
    """Return the advice for a missing data root: make a world, or obtain the benchmarks."""
    names = dict.fromkeys(spec.name for text in tasks or () for spec in parse_list(text))
    sources = [f"{name}: {source}" for name in names if (source := how_to_fetch(name))]
    begin = "Name the benchmarks' folder, or make a world: harness data make shapes --out DIR."
    return " ".join([begin, *sources])


def how_to_make(name: str, root: Path) -> str:
    """Return the command that adds a task to a generated world.

    Empty if the root is not one, has a folder of this name, or no world can have the task.
    """
    from harness.testing.shapes import writers
    from harness.world.shapes import MANIFEST

    path = root / MANIFEST
    if not path.is_file() or (root / name).exists() or name not in writers():
        return ""
    world = read_json(path)
    chosen = f"--seed {world['seed']} --size {world['size']} --tasks {name}"
    out = shlex.quote(str(root))
    return f"Add it to the generated world: harness data make shapes --out {out} {chosen}"


def how_to_fetch(name: str) -> str:
    """Return the way to obtain a task's data, from its card; empty if the card does not give it."""
    card = plugins.find_card(name)
    return f"Source: {card.data}" if card is not None and card.data else ""


def data_folders() -> dict[str, str]:
    """Return the folder below the root, by task, for each installed task that has a card."""
    cards = {name: plugins.find_card(name) for name in sorted(plugins.installed_plugins("tasks"))}
    return {name: card.folder for name, card in cards.items() if card is not None}


def _refuse_own_folder(root: Path, spec: Spec, error: DataError) -> None:
    """Raise UsageError if `--data` is a benchmark's own folder, or in it, instead of the root."""
    root_folder = root.resolve()
    for folder in (root_folder, *root_folder.parents[:2]):
        if folder.name != spec.name:
            continue
        try:
            plugins.build("tasks", spec, folder.parent)
        except HarnessError:
            continue
        raise UsageError(
            f"--data {root}",
            expected=f"the folder that holds {spec.name}/",
            found=f"{spec.name}/ itself" if folder == root_folder else f"a folder in {spec.name}/",
            fix=f"Give --data {folder.parent}",
        ) from error


def _splits_here(root: Path, spec: Spec) -> str:
    """Return a sentence that names other splits of a benchmark below a root; "" for none."""
    card = plugins.find_card(spec.name)
    splits_here = []
    for split in card.splits if card is not None else ():
        if split == spec.arguments.get("split"):
            continue
        with suppress(HarnessError):
            plugins.build(
                "tasks", replace(spec, arguments={**spec.arguments, "split": split}), root
            )
            splits_here.append(f"{spec.name}(split={split})")
    return f"Splits that are there: {', '.join(splits_here)}." if splits_here else ""


def metrics(texts: Sequence[str] | None) -> list[ExtraMetric | CostMetric]:
    """Build the metrics of `--metrics`."""
    return [plugins.build("metrics", spec) for text in texts or () for spec in parse_list(text)]


def run_folder(out: Path, model: str, task: str, subset: str | None) -> Path:
    """Return the folder for the run of a model on a task: `out/MODEL/TASK`, or `…/TASK@SUBSET`."""
    task_and_subset = f"{task}@{Path(subset).name}" if subset else task
    return _folder(_folder(out, model), task_and_subset)


def _folder(parent: Path, text: str) -> Path:
    """Return the folder of a SPEC; one with a hash in its name, of an earlier version, is kept."""
    folder, earlier = parent / slug(text), parent / slug(text, hashed=True)
    return earlier if earlier.is_dir() and not folder.is_dir() else folder
