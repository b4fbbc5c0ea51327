"""`harness train`."""

import inspect
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import plugins
from harness.chosen import checkpoints
from harness.chosen.checkpoint_evaluator import CheckpointEvaluator
from harness.chosen.names import spelled_out
from harness.cli import progress as terminal
from harness.cli.config import option_value, read_toml
from harness.cli.contamination import print_contamination
from harness.cli.judge import judge_for
from harness.cli.output import note, say, show_json
from harness.cli.progress import LineProgress
from harness.cli.spec_arguments import NEEDED, require, require_minimum
from harness.cli.spec_arguments import metrics as asked_metrics
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.cli.training_progress import StepBars, TrainingLines
from harness.errors import HarnessError, UsageError
from harness.options import idle_options
from harness.record import Run, runs_below
from harness.run.contamination import (
    Contamination,
    Training,
    trained_on,
)
from harness.run.preflight import preflight
from harness.run.train import TrainingOptions, is_main
from harness.run.train import train as run_training
from harness.spec import Spec, Value, parse
from harness.task import Task
from harness.trainer import EVALUATIONS, Trainer, TrainingProgress

OURS = (
    "method",
    "model",
    "train_tasks",
    "data",
    "out",
    "eval_tasks",
    "eval_metrics",
    "eval_model",
    "every",
    "seed",
    "judge",
)
"""Options that a configuration may give; its other keys are settings of the trainer, and so is one
that the trainer has too, such as the judge of DT-R1's reward."""
OUT = "a folder for the training"


def train(arguments: Namespace) -> int:
    """Train, evaluate the checkpoint, and print a table or one JSON object."""
    given, settings = configured(arguments)
    if not given.method:
        require(given, "method", out=OUT)
    method = method_of(given, settings)
    trainer: Trainer = plugins.build("trainers", method)
    tasks, root = NEEDED["tasks"], NEEDED["data"]
    needed = {"model": "a model to start from", "train_tasks": tasks, "data": root}
    require(given, **(needed if trainer.needs_model else {}), out=OUT)
    out: Path = given.out
    model = spelled_out(parse(given.model)) if given.model else None
    if model is not None:
        checkpoints.check_network(model)
    data = given.data.resolve() if given.data else ""
    train_tasks = _tasks(given, given.train_tasks)
    watched = _tasks(given, given.eval_tasks, given.eval_metrics)
    judge = judge_for(given, [task for _, task in watched])
    further = tuple(asked.metric.name for asked in asked_metrics(given.eval_metrics))
    seed, evaluated = given.seed or 0, checkpoints.evaluated_by(given.eval_model)
    watch = CheckpointEvaluator(
        watched, model, trainer, out, seed, str(data), judge, evaluated, further, LineProgress()
    )
    _check(given, watch)
    main = is_main()
    with _progress(given, main=main) as progress:
        training = run_training(
            trainer,
            [task for _, task in train_tasks],
            model,
            out,
            TrainingOptions(
                seed=seed,
                resume=given.resume,
                keep_state=given.keep_state,
                every=given.every,
                evaluate=watch.while_training if given.every else None,
                evaluated=watch.numbers,
                data_root=str(data),
                method_spec=str(method),
                task_specs=tuple(str(spec) for spec, _ in train_tasks),
                progress=progress,
                eval_model=None if evaluated is None else str(evaluated),
                refuse=watch.refuse if given.strict_split else None,
            ),
        )
    if main:
        overlaps = watch.overlaps(trained_on(training.folder) or [])
        with terminal.progress(quiet=given.quiet or given.json or not watch.tasks) as shown:
            results = watch.after_training(shown, overlaps)
        _write_card(training)
        _show(given, training, watch, results, overlaps)
    return 0


def _write_card(training: Training) -> None:
    """Write the checkpoint's card; without one the training is finished all the same."""
    from harness.hub.model_card import write_card

    folder = training.folder / EVALUATIONS
    try:
        runs = [Run.open(path) for path in runs_below(folder)] if folder.is_dir() else []
        write_card(training, runs)
    except HarnessError as error:
        note(f"the checkpoint's card was not written: {error}")


def configured(arguments: Namespace) -> tuple[Namespace, dict[str, Value]]:
    """Return the options with the values of a configuration, and its settings; what is typed wins.

    Raises UsageError if the configuration cannot be read, or a value is of another type.
    """
    if arguments.configuration is None:
        return arguments, {}
    path = _configuration(arguments)
    options = {action.dest: action for action in arguments.parser._actions}
    given, settings = dict(vars(arguments)), dict[str, Value]()
    plain = {key.replace("-", "_"): value for key, value in read_toml(path).items()}
    method = given["method"] or plain.get("method")
    trainer = parse(method).name if isinstance(method, str) else ""
    for name, value in plain.items():
        if name not in OURS or (trainer and plugins.accepts("trainers", trainer, name)):
            settings[name] = _setting(path, name, value)
        elif given.get(name) is None:
            given[name] = option_value(path, options[name], value)
    return Namespace(**given), settings


def _configuration(arguments: Namespace) -> Path:
    text = str(arguments.configuration)
    if Path(text).is_file():
        return Path(text)
    known_trainers = plugins.installed_plugins("trainers")
    entry = known_trainers.get(parse(arguments.method).name) if arguments.method else None
    folder = plugins.folder(entry) if entry is not None else None
    own = sorted((folder / "configs").glob("*.toml")) if folder is not None else []
    for path in own:
        if path.stem == text:
            return path
    known = ", ".join(path.stem for path in own)
    raise UsageError(
        f"--config {text}",
        expected="a TOML file, or a name that the method brings",
        found="neither",
        fix=f"It brings: {known}." if known else "",
    )


def _setting(path: Path, name: str, value: object) -> Value:
    if not isinstance(value, (str, int, float, bool)):
        raise UsageError(
            f"config {path}: {name!r}",
            expected="a number, text, true or false",
            found=repr(value)[:60],
        )
    return value


def method_of(given: Namespace, settings: Mapping[str, Value]) -> Spec:
    """The trainer's SPEC: settings of the file, then those of `--method`, then `--set`.

    What these make idle of the file, such as γ where they switch its term off, is left out.
    """
    spec = parse(given.method)
    typed: dict[str, Value] = {}
    for text in given.set or ():
        if "=" not in text:
            raise UsageError(f"--set {text}", expected="key=value", found=text)
        typed.update(parse(f"set({text})").arguments)
    typed = {**spec.arguments, **typed}
    known = inspect.signature(plugins.load("trainers", spec.name)).parameters
    idle = idle_options(known, {**settings, **typed}).keys() - idle_options(known, settings).keys()
    kept = {name: value for name, value in settings.items() if name in typed or name not in idle}
    return Spec(spec.name, {**kept, **typed})


def _tasks(
    given: Namespace, texts: list[str] | None, metrics: list[str] | None = None
) -> list[tuple[Spec, Task]]:
    if not texts:
        return []
    namespace = Namespace(data=given.data, tasks=texts, metrics=metrics)
    return [(spec, task) for _, spec, task in requested_tasks(namespace)]


def _check(given: Namespace, watch: CheckpointEvaluator) -> None:
    """Refuse before training what could not be done after it."""
    require_minimum(given, 1, "every")
    require_minimum(given, 0, "seed")
    for name in ("every", "strict_split", "eval_metrics"):
        if getattr(given, name) and not watch.tasks:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(option, expected="tasks to evaluate (--eval-tasks)", found="none")
    if watch.tasks:
        spec = watch.spec(watch.out)
        if watch.evaluated is not None:
            checkpoints.check_parts(spec)
        forms = frozenset(form for _, task in watch.tasks for form in task.forms)
        checkpoints.check_default_parts(spec, forms)
    for _, task in watch.tasks:
        preflight(task, LineProgress(), allow_missing=False)


def _progress(given: Namespace, *, main: bool) -> AbstractContextManager[TrainingProgress]:
    quiet = given.quiet or given.json
    if not main or quiet or not sys.stderr.isatty():
        lines: TrainingProgress = TrainingLines(speaking=main, quiet=quiet)
        return nullcontext(lines)
    return StepBars()


def _show(
    given: Namespace,
    training: Training,
    watch: CheckpointEvaluator,
    results: Mapping[str, Mapping[str, Any]],
    overlaps: Mapping[str, Contamination],
) -> None:
    if given.json:
        manifest = training.manifest
        show_json(
            {
                "out": str(training.folder),
                "checkpoint": str(training.checkpoint),
                "method": manifest["method"],
                "result": manifest["result"],
                "seconds": manifest["seconds"],
                "tasks": results,
                "trained_on": {name: asdict(overlap) for name, overlap in overlaps.items()},
            }
        )
        return
    result = training.manifest["result"]
    facts = ", ".join(f"{name} {result[name]}" for name in ("steps", "loss") if name in result)
    if raised := result.get("alarms"):
        facts += ", alarms " + ", ".join(
            f"{alarm['name']} at step {alarm['step']}" for alarm in raised
        )
    say(f"{training.checkpoint}: {facts}" if facts else training.checkpoint)
    if results:
        from harness.cli.tables import show_results

        show_results(str(watch.spec(training.folder)), results)
    print_contamination(overlaps)
    say(
        *next_commands(training, given.data, evaluated=watch.evaluated is not None or bool(results))
    )


def next_commands(training: Training, data: Path | None, *, evaluated: bool) -> list[str]:
    """Return lines with the next commands: score, unless that was done, and look at rollouts.

    Tasks are scored on their default split, except where it was learned from.
    """
    from harness.leaderboards.rollouts import ROLLOUTS

    folder, commands = shlex.quote(str(training.folder)), list[str]()
    trained = [(parse(task["spec"]).name, task["split"]) for task in training.manifest["tasks"]]
    names = [name for name, split in trained if _default_split(name) not in (None, split)]
    if names and data is not None and not evaluated:
        tasks, root = ",".join(dict.fromkeys(names)), shlex.quote(str(data))
        commands.append(f"harness eval --model {folder} --tasks {tasks} --data {root} --out runs")
    if (training.folder / ROLLOUTS).is_file():
        commands.append(f"harness explain {folder}")
    starts = ["next:", *["     "] * len(commands)]
    return [f"{start} {command}" for start, command in zip(starts, commands, strict=False)]


def _default_split(task: str) -> object:
    """Return the split that a task has without `split=…`; None: it has no splits."""
    split = inspect.signature(plugins.load("tasks", task)).parameters.get("split")
    return None if split is None else split.default
