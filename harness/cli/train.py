"""`harness train`: train a model, evaluate its checkpoint, and print the results.

Options come from the command line or from a configuration (`--config`), whose other keys are
settings of the trainer. `harness.run.train` trains; a `CheckpointEvaluator` evaluates.
"""

import inspect
import os
import shlex
import sys
from argparse import Action, Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import plugins
from harness.chosen import checkpoints
from harness.chosen.checkpoint_evaluator import CheckpointEvaluator
from harness.chosen.names import spelled_out
from harness.cli import progress as terminal
from harness.cli.arguments.shared import count
from harness.cli.config import option_value, read_toml
from harness.cli.contamination import print_contamination
from harness.cli.judge import judge_for
from harness.cli.output import note, say, show_json
from harness.cli.progress import LineProgress
from harness.cli.spec_arguments import NEEDED, require, require_minimum
from harness.cli.spec_arguments import metrics as asked_metrics
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.cli.tables import wrap_lines
from harness.cli.training_progress import StepBars, TrainingLines
from harness.errors import HarnessError, UsageError
from harness.options import idle_options
from harness.provenance import REHEARSAL
from harness.record import Run, runs_below
from harness.run.contamination import Contamination, samples_of_checkpoint
from harness.run.preflight import preflight
from harness.run.train import TrainingOptions, is_main
from harness.run.train import train as run_training
from harness.run.training_record import Training
from harness.spec import Spec, Value, parse
from harness.task import Task
from harness.trainer import EVALUATIONS, Trainer, TrainingProgress

COMMAND_KEYS = (
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
    "processes",
)
"""Keys of a configuration that are options of the command, unless the trainer has a setting of the
same name, such as the judge of DT-R1's reward. All other keys are settings of the trainer."""
OUT_PURPOSE = "a folder for the training"


def train(arguments: Namespace) -> int:
    """Train, evaluate the checkpoint, and print a table or one JSON object."""
    options, settings = configured(arguments)
    if options.device and not options.dry_run:
        raise UsageError("--device", expected="--dry-run, whose estimate it is for", found="none")
    if not options.method:
        require(options, "method", out=OUT_PURPOSE)
    method = method_of(options, settings)
    trainer: Trainer = plugins.build("trainers", method)
    tasks, root = NEEDED["tasks"], NEEDED["data"]
    needed = {"model": "a model to start from", "train_tasks": tasks, "data": root}
    require(options, **(needed if trainer.needs_model else {}), out=OUT_PURPOSE)
    out: Path = options.out
    model = spelled_out(parse(options.model)) if options.model else None
    if model is not None:
        checkpoints.check_network(model)
    data = options.data.resolve() if options.data else ""
    train_tasks = _tasks(options, options.train_tasks)
    eval_tasks = _tasks(options, options.eval_tasks, options.eval_metrics)
    judge = judge_for(options, [task for _, task in eval_tasks])
    metrics = tuple(extra.metric.name for extra in asked_metrics(options.eval_metrics))
    seed, eval_model = options.seed or 0, checkpoints.parse_eval_model(options.eval_model)
    watch = CheckpointEvaluator(
        eval_tasks, model, trainer, out, seed, str(data), judge, eval_model, metrics, LineProgress()
    )
    main = is_main()
    training_options = TrainingOptions(
        seed=seed,
        resume=options.resume,
        keep_state=options.keep_state,
        accept_code=options.accept_code,
        every=options.every,
        evaluate=watch.while_training if options.every else None,
        evaluated=watch.numbers,
        data_root=str(data),
        method_spec=str(method),
        task_specs=tuple(str(spec) for spec, _ in train_tasks),
        eval_model=None if eval_model is None else str(eval_model),
        refuse=watch.refuse if options.strict_split else None,
    )
    if options.dry_run:
        from harness.training_plan import training_plan

        plan: dict[str, Any] = {}
        paragraphs = training_plan(
            plan,
            method,
            trainer,
            train_tasks,
            watch,
            replace(training_options, progress=TrainingLines()),
            check_evaluations=partial(_check, options, watch),
            device_name=options.device,
            processes=int(os.environ.get("WORLD_SIZE") or vars(options).get("processes", 1)),
        )
        for title, text in paragraphs if main else ():
            if not options.json:
                say(*wrap_lines(f"{title:<9} {text}", indent=10))
        if main and options.json:
            show_json(plan)
        return 0
    _check(options, watch)
    with _progress(options, main=main) as progress:
        training = run_training(
            trainer,
            [task for _, task in train_tasks],
            model,
            out,
            replace(training_options, progress=progress),
        )
    if main:
        overlaps = watch.overlaps(samples_of_checkpoint(training.folder) or [])
        with terminal.progress(quiet=options.quiet or options.json or not watch.tasks) as bars:
            results = watch.after_training(bars, overlaps)
        _write_card(training)
        _show(options, training, watch, results, overlaps)
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
    """Return the options, completed by the configuration, and its settings of the trainer.

    Typed options take precedence.

    Raises:
        UsageError: the configuration cannot be read, or a value has another type.
    """
    if arguments.configuration is None:
        return arguments, {}
    path = _configuration(arguments)
    actions = {action.dest: action for action in arguments.parser._actions}
    actions["processes"] = Action((), "processes", type=count)  # of a file alone
    values, settings = dict(vars(arguments)), dict[str, Value]()
    plain = {key.replace("-", "_"): value for key, value in read_toml(path).items()}
    method = values["method"] or plain.get("method")
    trainer = parse(method).name if isinstance(method, str) else ""
    for name, value in plain.items():
        if name not in COMMAND_KEYS or (trainer and plugins.accepts("trainers", trainer, name)):
            settings[name] = _setting(path, name, value)
        elif values.get(name) is None:
            values[name] = option_value(path, actions[name], value)
    return Namespace(**values), settings


def _configuration(arguments: Namespace) -> Path:
    """Return the path of `--config`: a file, or a configuration beside the trainer, by its name."""
    text = str(arguments.configuration)
    if Path(text).is_file():
        return Path(text)
    known_trainers = plugins.installed_plugins("trainers")
    entry = known_trainers.get(parse(arguments.method).name) if arguments.method else None
    folder = plugins.folder(entry) if entry is not None else None
    configurations = sorted((folder / "configs").glob("*.toml")) if folder is not None else []
    for path in configurations:
        if path.stem == text:
            return path
    names = ", ".join(path.stem for path in configurations)
    raise UsageError(
        f"--config {text}",
        expected="a TOML file, or a name that the method brings",
        found="neither",
        fix=f"It brings: {names}." if names else "",
    )


def _setting(path: Path, name: str, value: object) -> Value:
    if not isinstance(value, (str, int, float, bool)):
        raise UsageError(
            f"config {path}: {name!r}",
            expected="a number, text, true or false",
            found=repr(value)[:60],
        )
    return value


def method_of(options: Namespace, settings: Mapping[str, Value]) -> Spec:
    """Return the trainer's SPEC: settings of the file, replaced by those of `--method` and `--set`.

    A setting of the file that the typed ones make idle is left out, such as γ if they switch off
    the term that it weighs.
    """
    spec = parse(options.method)
    typed: dict[str, Value] = {}
    for text in options.set or ():
        if "=" not in text:
            raise UsageError(f"--set {text}", expected="key=value", found=text)
        typed.update(parse(f"set({text})").arguments)
    typed = {**spec.arguments, **typed}
    parameters = inspect.signature(plugins.load("trainers", spec.name)).parameters
    idle_before = idle_options(parameters, settings).keys()
    made_idle = idle_options(parameters, {**settings, **typed}).keys() - idle_before
    from_file = {
        name: value
        for name, value in settings.items()
        if name in typed or name not in made_idle  # typed ones keep their place in the SPEC
    }
    return Spec(spec.name, {**from_file, **typed})


def _tasks(
    options: Namespace, texts: list[str] | None, metrics: list[str] | None = None
) -> list[tuple[Spec, Task]]:
    """Build the tasks of an option, with further metrics; none without the option."""
    if not texts:
        return []
    namespace = Namespace(data=options.data, tasks=texts, metrics=metrics)
    return [(spec, task) for _, spec, task in requested_tasks(namespace)]


def _check(options: Namespace, watch: CheckpointEvaluator) -> None:
    """Check before the training that the evaluations after it can run.

    Raises:
        UsageError: options do not fit together, or the evaluating model cannot do the tasks.
        DataError: files of a task are missing or damaged.
    """
    require_minimum(options, 1, "every")
    require_minimum(options, 0, "seed")
    for name in ("every", "strict_split", "eval_metrics"):
        if getattr(options, name) and not watch.tasks:
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


def _progress(options: Namespace, *, main: bool) -> AbstractContextManager[TrainingProgress]:
    """Return bars for the main process on a terminal, else lines, or nothing if quiet."""
    quiet = options.quiet or options.json
    if not main or quiet or not sys.stderr.isatty():
        lines: TrainingProgress = TrainingLines(speaking=main, quiet=quiet)
        return nullcontext(lines)
    return StepBars()


def _show(
    options: Namespace,
    training: Training,
    watch: CheckpointEvaluator,
    results: Mapping[str, Mapping[str, Any]],
    overlaps: Mapping[str, Contamination],
) -> None:
    """Print the training, the results of its checkpoint by task, and the next commands."""
    if options.json:
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
        *next_commands(
            training, options.data, evaluated=watch.evaluated is not None or bool(results)
        )
    )


def next_commands(training: Training, data: Path | None, *, evaluated: bool) -> list[str]:
    """Return lines with the commands to continue with.

    They are `harness eval` unless the checkpoint is evaluated, on training tasks whose default
    split was not trained on; and `harness explain` if there are rollouts.
    """
    from harness.leaderboards.rollouts import ROLLOUTS

    folder, commands = shlex.quote(str(training.folder)), list[str]()
    trained = [(parse(task["spec"]).name, task["split"]) for task in training.manifest["tasks"]]
    names = [name for name, split in trained if _default_split(name) not in (None, split)]
    if names and data is not None and not evaluated:
        tasks, root = ",".join(dict.fromkeys(names)), shlex.quote(str(data))
        verb = "eval --rehearse" if REHEARSAL in os.environ else "eval"
        commands.append(f"harness {verb} --model {folder} --tasks {tasks} --data {root} --out runs")
    if (training.folder / ROLLOUTS).is_file():
        commands.append(f"harness explain {folder}")
    return [f"{'     ' if place else 'next:'} {command}" for place, command in enumerate(commands)]


def _default_split(task: str) -> object:
    """Return the split that a task has without `split=…`; None: it has no splits."""
    split = inspect.signature(plugins.load("tasks", task)).parameters.get("split")
    return None if split is None else split.default
