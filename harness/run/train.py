"""Train a model on tasks, and write a folder that records all that is needed to repeat it.

`train` resumes whatever an interrupted or killed call left. The order is: drop unreadable samples,
write or compare the manifest, call the trainer, complete the checkpoint's records.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from harness import checkpoint_config, provenance
from harness.errors import ModelError, UsageError
from harness.plain import json_scalar
from harness.plugin_code import plugin_code, spec_names
from harness.plugins import check_contract, plugin_errors
from harness.record import config_hash
from harness.run.batching import Selection, lost_image, samples_of
from harness.run.contamination import samples_of_model, with_images
from harness.run.interrupts import interrupts
from harness.run.preflight import problem_line
from harness.run.resumed_training import forget_unbegun, refuse_used, repeatable, start_or_resume
from harness.run.survey import conversion_text, survey
from harness.run.timing import gpu_peak
from harness.run.training_record import (
    ADAPTER,
    COPIED,
    GROUND_TRUTH_VERSION,
    MANIFEST,
    SAMPLES,
    VERSION,
    TrainedSample,
    Training,
    write_samples,
)
from harness.run.workers import WorkerInfo, build_model, worker_info
from harness.spec import Spec, parse
from harness.store.atomic import write_json, writing
from harness.store.lease import lease
from harness.task import Task
from harness.trainer import CHECKPOINT, NullProgress, Trainer, TrainingProgress, TrainingRun
from harness.types import Sample
from harness.version import __version__

MAX_LISTED = 10  # faulty files in a note


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """Settings of a training."""

    seed: int = 0
    resume: bool = False
    every: int | None = None
    """Steps between calls of `evaluate` while training."""
    evaluate: Callable[[Path, int], Mapping[str, float]] | None = None
    evaluated: tuple[str, ...] = ()
    """Names of the numbers that `evaluate` returns; empty: they are not known."""
    accept_code: bool = False
    """Go on although the code of plugins has changed; the manifest lists the changes."""
    keep_state: bool = False
    """Keep the last state of a finished training."""
    data_root: str = ""
    """The data root; recorded, and not compared when a training is resumed."""
    method_spec: str = ""
    """The trainer's SPEC as typed, for the record."""
    task_specs: tuple[str, ...] = ()
    """The tasks' SPECs as typed, for the record."""
    eval_model: str | None = None
    """SPEC of the model that evaluates the checkpoint, if not `model`, for the record."""
    refuse: Callable[[Sequence[TrainedSample]], None] | None = None
    """Called before training, in the main process alone, with the samples of this training and of
    the model's earlier trainings; it may raise."""
    progress: TrainingProgress = field(default_factory=NullProgress)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTraining:
    """A training that can start: its data are read and its manifest is made; nothing is written."""

    trainer: Trainer
    tasks: list[Task]
    """The tasks, without samples whose image is missing."""
    samples_by_task: list[list[TrainedSample]]
    before: list[TrainedSample]
    """Samples of the model's earlier trainings; none in a process that is not the main one."""
    manifest: dict[str, object]
    run: TrainingRun
    """The trainer's input, as long as no signal has come."""
    options: TrainingOptions


def prepare(
    trainer: Trainer,
    tasks: Sequence[Task],
    model: Spec | None,
    out: Path,
    options: TrainingOptions,
) -> PreparedTraining:
    """Read and check what a training starts from, and write nothing; see `train`."""
    check_contract("trainers", f"trainer {type(trainer).__name__}", trainer)
    if model is None and trainer.needs_model:
        raise UsageError(
            f"trainer {trainer.name}", expected="a model to start from (--model)", found="none"
        )
    if not tasks and trainer.needs_tasks:
        raise UsageError(
            f"trainer {trainer.name}", expected="tasks to train on (--train-tasks)", found="none"
        )
    main = is_main()
    if main:
        trainer.check_installation()
    # The same command resumes: the manifest in the folder decides whether it is this training.
    options = replace(options, resume=options.resume or (out / MANIFEST).is_file())
    refuse_used(out, resume=options.resume or not main)
    readable = [_drop_unreadable(task, options.progress) for task in tasks]
    tasks, faults = [task for task, _ in readable], [fault for _, fault in readable]
    samples_by_task = [
        [TrainedSample.of_sample(task, sample) for sample in samples_of(task)] for task in tasks
    ]
    manifest = manifest_of(trainer, tasks, model, samples_by_task, options, faults)
    before = (samples_of_model(model) or []) if main else []
    if main and options.refuse is not None:
        samples_by_task = _with_hashes(tasks, samples_by_task, options.progress)
        options.refuse([*(row for rows in samples_by_task for row in rows), *before])
    run = TrainingRun(
        out=out,
        tasks=tuple(tasks),
        model=model,
        seed=options.seed,
        resume=options.resume,
        main=main,
        progress=options.progress,
        every=options.every,
        evaluate=options.evaluate,
        evaluated=options.evaluated,
    )
    return PreparedTraining(
        trainer=trainer,
        tasks=tasks,
        samples_by_task=samples_by_task,
        before=before,
        manifest=manifest,
        run=run,
        options=options,
    )


def train(
    trainer: Trainer,
    tasks: Sequence[Task],
    model: Spec | None,
    out: Path,
    options: TrainingOptions,
) -> Training:
    """Train, and return the finished training.

    Args:
        trainer: The trainer.
        tasks: The tasks to train on.
        model: SPEC of the model to start from; None: the trainer makes its own.
        out: The training's folder.
        options: Settings of the training.

    Raises:
        UsageError: the folder is not empty and has no training; or the trainer needs a model or
            tasks, and there are none.
        DataError: a file of a benchmark is missing or damaged, or an id occurs twice.
        ResumeMismatch: the folder was begun with another configuration; the differences are named.
        Locked: another process trains in this folder.
        KeyboardInterrupt: Ctrl-C; the state was saved, and `resume` continues it.
    """
    prepared = prepare(trainer, tasks, model, out, options)
    requested, samples_by_task = prepared.manifest, prepared.samples_by_task
    main = prepared.run.main
    if main and options.refuse is None and not (out / SAMPLES).exists():
        samples_by_task = _with_hashes(prepared.tasks, samples_by_task, options.progress)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with lease(out) if main else nullcontext():
        is_new = main and not (out / MANIFEST).exists()
        manifest, finished = start_or_resume(
            trainer,
            out,
            requested,
            samples_by_task,
            main=main,
            accept_code=options.accept_code,
        )
        if finished:
            options.progress.note(_finished_note(out, manifest, requested))
            return Training(out)
        if options.accept_code and manifest.get("changed"):
            options.progress.note(f"{MANIFEST} lists what has changed since the training began")
        with interrupts(speaks=main) as stopping:
            run = replace(
                prepared.run,
                stopping=stopping,
                interruptible=stopping.at_once if main else nullcontext,
            )
            if options.eval_model is not None:  # it may differ when a training is resumed
                manifest = {**manifest, "eval_model": options.eval_model}
            try:
                _run_training(trainer, run, manifest, prepared.before)
            except UsageError:
                if is_new:
                    forget_unbegun(out)
                raise
        if main and not options.keep_state:
            shutil.rmtree(run.state, ignore_errors=True)
    return Training(out)


def _finished_note(out: Path, manifest: Mapping[str, Any], requested: Mapping[str, Any]) -> str:
    """Return a note that a training is finished, with requested settings that it did not use."""
    settings, requested_settings = (
        record["method"]["settings"] for record in (manifest, requested)
    )
    unused = sorted(
        name for name in requested_settings if requested_settings[name] != settings.get(name)
    )
    effect = f"; without effect: {', '.join(unused)}" if unused else ""
    return f"{out} is finished already{effect}"


def is_main() -> bool:
    """Return True if this is the first, or the only, process that a launcher has started."""
    return os.environ.get("RANK", "0") == "0"


def manifest_of(
    trainer: Trainer,
    tasks: Sequence[Task],
    model: Spec | None,
    samples_by_task: Sequence[Sequence[TrainedSample]],
    options: TrainingOptions,
    faults: Sequence[Mapping[str, int]],
) -> dict[str, object]:
    """Return the manifest before training; `result`, `devices` and `seconds` are added after it.

    Args:
        trainer: The trainer.
        tasks: The tasks.
        model: SPEC of the model to start from.
        samples_by_task: The training samples of each task.
        options: Settings of the training.
        faults: Counts of faulty files and left-out samples of each task.
    """
    with plugin_errors(f"trainer {trainer.name}", ModelError):
        settings = json.loads(
            json.dumps(dict(trainer.describe()), allow_nan=False, default=json_scalar)
        )
    specs = options.task_specs or tuple(task.name for task in tasks)
    built = None if model is None else build_model(model, options.seed)
    worker = None if built is None else worker_info(built)
    typed = (options.method_spec or trainer.name, *specs)
    names = spec_names([*(parse(spec) for spec in typed), settings, model])
    code = plugin_code(names, *(part for part in (trainer, built) if part is not None))
    plain: dict[str, object] = {
        "version": VERSION,
        "ground_truth": GROUND_TRUTH_VERSION,
        "harness": __version__,
        "method": {
            "name": trainer.name,
            "spec": options.method_spec or trainer.name,
            "settings": settings,
        },
        "finetune": settings.get("finetune"),
        "model": None if worker is None else {"spec": str(model), **_describe_model(worker)},
        "tasks": [
            {**_task(task, spec, rows, options.progress), "faults": fault}
            for task, spec, rows, fault in zip(tasks, specs, samples_by_task, faults, strict=True)
        ],
        "seed": options.seed,
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "provenance": provenance.collect(
            provenance.CPU if worker is None else worker.device,
            plugins=code,
        ),
    }
    evaluated = {} if options.eval_model is None else {"eval_model": options.eval_model}
    base = None if worker is None else _describe_model(worker)["base"]["checkpoint"]
    return {
        **plain,
        "config_hash": config_hash(repeatable(plain)),
        "data_root": options.data_root,
        "base_is_folder": base is not None and Path(str(base)).expanduser().is_dir(),
        **evaluated,
    }


def _describe_model(worker: WorkerInfo) -> dict[str, Any]:
    """Return name, base network (checkpoint, weights) and description of the model."""
    description = dict(worker.description)
    chat = description.get("chat")
    network = chat if isinstance(chat, Mapping) else description
    base = {name: network.get(name) for name in ("checkpoint", "weights")}
    return {"name": worker.name, "base": base, "description": description}


def _task(
    task: Task, spec: str, rows: Sequence[TrainedSample], progress: TrainingProgress
) -> dict[str, object]:
    """Return a task's entry in the manifest."""
    surveyed = survey(task, Selection(None, None))
    if converted := conversion_text(surveyed.conversions):
        progress.note(f"{task.name}: {converted}")
    ids = hashlib.blake2b("\n".join(row.id for row in rows).encode(), digest_size=16).hexdigest()
    return {
        "spec": spec,
        "name": task.name,
        "version": task.version,
        "split": task.split,
        "arguments": dict(task.arguments),
        "fingerprint": surveyed.fingerprint,
        "images": surveyed.images,
        "n_total": surveyed.n_total,
        "ids": ids,
        **({"conversions": dict(surveyed.conversions)} if surveyed.conversions else {}),
    }


def _drop_unreadable(task: Task, progress: TrainingProgress) -> tuple[Task, dict[str, int]]:
    """Return the task without samples whose images are missing or unreadable, and two counts.

    The counts are the faulty records and files that the task's check has `found`, and the samples
    `left_out` because their image is missing. Nothing is decoded here: the trainer finds images
    that cannot be decoded before its first step.
    """
    with plugin_errors(f"the check of {task.name}"):
        problems = [problem_line(problem.path, problem.message) for problem in task.check()]
    if not problems:
        return task, {"found": 0, "left_out": 0}
    lost_ids = [sample.id for sample in samples_of(task) if lost_image(sample.query)]
    problem_list = "\n  ".join(
        [*problems[:MAX_LISTED], *(["…"] if len(problems) > MAX_LISTED else [])]
    )
    progress.note(
        f"{task.name}: {len(problems)} faulty file(s), and {len(lost_ids)} sample(s) that "
        f"are left out because their image is missing\n  {problem_list}"
    )

    def samples() -> Iterator[Sample]:
        return (sample for sample in samples_of(task) if not lost_image(sample.query))

    counted = {"found": len(problems), "left_out": len(lost_ids)}
    return (replace(task, samples=samples) if lost_ids else task), counted


def _with_hashes(
    tasks: Sequence[Task],
    samples_by_task: Sequence[Sequence[TrainedSample]],
    progress: TrainingProgress,
) -> list[list[TrainedSample]]:
    """Return the rows with the perceptual hashes of their images, which decodes all images."""
    total, done = sum(map(len, samples_by_task)), 0
    hashed: list[list[TrainedSample]] = []
    progress.start("looking at images", total, 0)
    for task, rows in zip(tasks, samples_by_task, strict=True):
        hashed.append([])
        for row in with_images(rows, task):
            hashed[-1].append(row)
            done += 1
            progress.step(done, {})
    progress.end()
    return hashed


def _run_training(
    trainer: Trainer, run: TrainingRun, manifest: dict[str, Any], before: Sequence[TrainedSample]
) -> None:
    """Call the trainer, and complete the manifest; its seconds are recorded even if it fails.

    `before` are the samples of the model's earlier trainings.
    """
    started = perf_counter()
    done: dict[str, object] = {}
    try:
        with plugin_errors(f"trainer {trainer.name}", ModelError):
            facts = json.loads(json.dumps(dict(trainer.train(run)), default=json_scalar))
        done = {"result": facts}
    finally:
        seconds = manifest.get("seconds", 0.0) + perf_counter() - started
        if run.main:
            # Only now is it known whether the trainer used the GPU.
            device = provenance.device() if gpu_peak() else provenance.CPU
            devices = list(dict.fromkeys([*manifest.get("devices", []), device]))
            manifest = {**manifest, **done, "devices": devices, "seconds": seconds}
            if done:
                _complete(run, manifest, before, makes=trainer.makes)
            write_json(run.out / MANIFEST, manifest)


def _complete(
    run: TrainingRun,
    manifest: Mapping[str, Any],
    before: Sequence[TrainedSample],
    *,
    makes: str | None,
) -> None:
    """Write a checkpoint's records into its own folder, so that they are copied with it.

    They are its training samples and those of the checkpoint that it started from (`before`), the
    manifest, and the SPEC for evaluation, which an adapter's folder gets too.

    Raises:
        ModelError: the trainer made no checkpoint.
    """
    folder = run.out / CHECKPOINT
    if not folder.is_dir():
        raise ModelError(
            f"trainer {manifest['method']['name']}",
            expected=f"a checkpoint in {folder}",
            found="none",
        )
    rows = dict.fromkeys([*Training(run.out).samples(), *before])
    write_samples(folder / COPIED[SAMPLES], rows)
    write_json(folder / COPIED[MANIFEST], manifest)
    model_spec = manifest.get("eval_model") or run.model or makes
    if model_spec is not None:
        for checkpoint_folder in (folder, run.out / ADAPTER):
            if checkpoint_folder.is_dir():
                checkpoint_config.write(checkpoint_folder, parse(str(model_spec)))
