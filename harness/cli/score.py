"""`harness score`: score predictions that exist, in a file of any program or in runs.

A file becomes a `Submission`, whose responses a model's grammar parses if it has any. Runs are
scored again from their records, or read again by another model.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.cli.evaluate import next_commands
from harness.cli.judge import build_judge, judge_for, refuse_several
from harness.cli.model_choice import built_model
from harness.cli.output import say, show_json
from harness.cli.spec_arguments import require, require_minimum, run_folder
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.errors import UsageError
from harness.formats import FORMATS
from harness.formats.logs import lmms_eval
from harness.interchange.rows import Written
from harness.model import RecordedReader, ResponseReader
from harness.papers import sentence
from harness.record import Run
from harness.run.counts import Counting, task_of
from harness.run.external_predictions import Submission, Tree
from harness.run.judging import TaskSource, bind_judge, verdicts_of
from harness.run.rescore import rescore
from harness.run.score import score_file
from harness.spec import parse_list
from harness.summary import public

THRESHOLD_FORMATS = ("mask-tree", "coco")
"""Formats with probabilities; pixels or detections above `--threshold` count."""
FOLDER_FORMATS = ("png-tree", "label-tree", "mask-tree")
"""Formats that are folders of images."""
DEFAULT_THRESHOLD = 0.5
DEFAULT_READER = "qwen_vl(backend=stored)"
"""Model that parses responses in logs of other programs, if `--model` names none."""


def score(arguments: Namespace) -> int:
    """Score the file or the runs; print a table or one JSON object.

    Exit code 1 if a run's recorded results differ from the new ones.
    """
    require_minimum(arguments, 1, "workers")
    threshold = _threshold(arguments)
    if arguments.protocols is not None:
        from harness.cli.protocols import score_protocols

        return score_protocols(arguments)
    if arguments.runs and arguments.predictions:
        raise UsageError("harness score", expected="RUN or --predictions", found="both")
    if arguments.runs:
        return _score_runs(arguments)
    require(arguments, "predictions", "tasks", "data")
    path = arguments.predictions
    reader, reader_spec = _reader(arguments, path)
    tree = _tree(arguments.format, threshold)
    results_of_name, folders = {}, list[Path]()
    chosen = list(requested_tasks(arguments))
    judge = judge_for(arguments, [task for _, _, task in chosen])
    for key, spec, task in chosen:
        submission = Submission(
            path=path,
            name=arguments.name or path.stem,
            reader=reader,
            reader_spec=reader_spec,
            subset=arguments.subset,
            allow_extra=arguments.allow_extra,
            data_root=str(arguments.data.resolve()),
            format=arguments.format,
            tree=tree,
            allow_missing=arguments.allow_missing,
            threshold=threshold,
            written=_written(arguments),
            note=partial(print, file=sys.stderr),
        )
        folder = None
        if arguments.out is not None:
            folder = run_folder(arguments.out, submission.name, str(spec), arguments.subset)
            folders.append(folder)
        if differs := submission.deviations(task):
            say(sentence(submission.name, reader_spec, task.name, differs), to=sys.stderr)
        judged = bind_judge(task, judge, folder)
        scored = score_file(
            judged, submission, folder=folder, task_spec=str(spec), restart=arguments.restart
        )
        results_of_name[key] = public(scored)
    _show(arguments, arguments.name or path.stem, results_of_name, folders)
    return 0


def _reader(arguments: Namespace, path: Path) -> tuple[RecordedReader | None, str]:
    """Return the model that parses responses, and its SPEC; (None, "") if the format has none.

    Raises:
        UsageError: the model cannot parse stored responses.
    """
    if not arguments.model and arguments.format not in FORMATS:
        return None, ""
    text = arguments.model or DEFAULT_READER
    model, spec = built_model(text)
    if not isinstance(model, ResponseReader):
        raise UsageError(
            f"--model {text}",
            expected="a model that can read stored responses",
            found="one that cannot",
            fix="For example: qwen_vl(backend=stored)",
        )
    if not arguments.model and FORMATS[arguments.format] is lmms_eval:
        return Counting(model, task_of(path)), str(spec)
    return model, str(spec)


def _written(arguments: Namespace) -> Written | None:
    """Return `--coordinates` and `--mask-order`; None without them: the reader checks the file."""
    if arguments.coordinates is None and arguments.mask_order is None:
        return None
    if arguments.format not in ("jsonl", "coco"):
        option = "--coordinates" if arguments.coordinates else "--mask-order"
        form = "--format jsonl or coco beside it"
        raise UsageError(option, expected=form, found=f"--format {arguments.format}")
    return Written(arguments.coordinates or "pixels", by_rows=arguments.mask_order == "rows")


def _threshold(arguments: Namespace) -> float | None:
    """Return the probability above which pixels or detections count; None if the format has none.

    Raises:
        UsageError: `--threshold` does not belong to the format, or is out of range.
    """
    threshold: float | None = arguments.threshold
    if arguments.format not in THRESHOLD_FORMATS:
        if threshold is not None:
            raise UsageError(
                "--threshold",
                expected=f"--format {' or '.join(THRESHOLD_FORMATS)} beside it",
                found=f"--format {arguments.format}",
            )
        return None
    if threshold is not None and not 0 <= threshold < 1:
        raise UsageError("--threshold", expected="from 0 up to, not with, 1", found=str(threshold))
    return DEFAULT_THRESHOLD if threshold is None else threshold


def _tree(name: str, threshold: float | None = DEFAULT_THRESHOLD) -> Tree | None:
    """Return the reader of a format that is a folder of images; None for other formats."""
    if name not in FOLDER_FORMATS:
        return None
    if name == "mask-tree":
        from harness.formats.mask_tree import mask_tree

        return partial(mask_tree, threshold=DEFAULT_THRESHOLD if threshold is None else threshold)
    from harness.tasks.rvos import png_tree  # only here: it is a task's

    return {"png-tree": png_tree.png_tree, "label-tree": png_tree.label_tree}[name]


def _score_runs(arguments: Namespace) -> int:
    """Score runs again; exit code 1 if a result differs from the recorded one."""
    if arguments.format != "jsonl":
        raise UsageError("--format beside RUN", expected="the run's own", found=arguments.format)
    of_reader = () if arguments.model else ("name", "out")
    for option in ("tasks", "subset", "predictions", *of_reader):
        if getattr(arguments, option):
            raise UsageError(f"--{option} beside RUN", expected="the run's own", found="another")
    runs = [Run.open(folder) for folder in arguments.runs]
    names = [run.manifest["task"]["name"] for run in runs]
    results_of_name: dict[str, Any] = {}
    for run, name in zip(runs, names, strict=True):
        root = arguments.data or Path(run.manifest["data"]["root"])
        extras = tuple(str(spec) for text in arguments.metrics or () for spec in parse_list(text))
        judge = verdicts_of(run) if arguments.judge is None else build_judge(arguments.judge)
        refuse_several(judge, arguments.workers)
        recorded = run.manifest["task"]
        source = TaskSource(recorded["spec"], root, extras, judge, recorded["protocol"])
        key = name if names.count(name) == 1 else str(run.folder)
        if arguments.model:
            results_of_name[key] = public(_read_again(arguments, run, source, root))
            continue
        results, differing = rescore(source, run, processes=arguments.workers)
        results_of_name[key] = {**public(results), "differs": differing}
        if left_out := run.results["metrics"].keys() - results_of_name[key]["metrics"].keys():
            say(f"{run.folder}: left out without --metrics: {sorted(left_out)}", to=sys.stderr)
        if differing:
            lines = (f"  {line}" for line in differing)
            say(f"{run.folder}: differs from its results.json", *lines, to=sys.stderr)
    models = [arguments.model or run.manifest["model"]["spec"] for run in runs]
    _show(arguments, models[0] if len(set(models)) == 1 else "runs", results_of_name)
    return int(any(outcome.get("differs") for outcome in results_of_name.values()))


def _read_again(
    arguments: Namespace, run: Run, source: TaskSource, root: Path
) -> dict[str, object]:
    """Score a run's responses as `--model` parses and segments them; return the results."""
    reader, reader_spec = _reader(arguments, run.folder)
    spec, subset = run.manifest["task"]["spec"], run.manifest["subset"]
    name = arguments.name or f"{run.manifest['model']['name']} read by {reader_spec}"
    submission = Submission(
        path=run.folder,
        name=name,
        reader=reader,
        reader_spec=reader_spec,
        seed=run.manifest["seed"],
        allow_missing=True,
        data_root=str(root.resolve()),
        run=run,
    )
    folder = None
    if arguments.out is not None:
        folder = run_folder(arguments.out, name, spec, subset)
    return score_file(source.build(), submission, folder=folder, task_spec=spec)


def _show(
    arguments: Namespace, name: str, results_of_name: dict[str, Any], folders: Sequence[Path] = ()
) -> None:
    """Print results by task, then the run folders and the next commands."""
    if arguments.json:
        show_json({"model": name, "tasks": results_of_name})
        return
    from harness.cli.tables import show_results

    show_results(name, results_of_name)
    if folders:
        say(*next_commands(arguments.out, folders))
