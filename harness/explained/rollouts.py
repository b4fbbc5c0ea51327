"""Sampled rollouts of a training as a page, with their boxes drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError, ParseError, StoreError
from harness.leaderboards.images import describe_answer
from harness.leaderboards.rollouts import ROLLOUTS, Group, choose_groups, groups_of, with_images
from harness.models.prompted_requests import LOCATED
from harness.models.response_writer import objects_of, training_answer
from harness.run.batching import samples_of
from harness.run.contamination import Training
from harness.spec import parse
from harness.store.atomic import read_json
from harness.types import Answer, AnswerForm, Sample

MANIFEST = "manifest.json"


def is_training(folder: Path) -> bool:
    """Return True if a folder is a training's; a run's manifest names no method."""
    path = folder / MANIFEST
    try:
        plain = read_json(path) if path.is_file() else None
    except StoreError:  # as a run, it is told what is wrong with it
        return False
    return isinstance(plain, dict) and "method" in plain


def page_of(training: Training, groups: Sequence[Group], notes: Sequence[str]) -> str:
    """Return the page of some groups of rollouts, with remarks about their choice."""
    from harness.leaderboards.render.pages import fill

    return fill(
        "rollouts.html",
        "page.css",
        "rollouts.css",
        "transcripts.css",
        title=f"Rollouts of {training.folder.resolve().name}",
        groups=groups,
        summary=_summary(training),
        notes=notes,
    )


def select_groups(
    training: Training, *, limit: int, sample: str | None, data_root: Path | None
) -> tuple[list[Group], list[str]]:
    """Return the groups to show, with images where the data is there, and remarks about them."""
    path = training.folder / ROLLOUTS
    if not path.is_file():
        raise StoreError(
            f"training {training.folder}",
            expected=ROLLOUTS,
            found="none",
            fix="Methods with GRPO write it, unless keep_rollouts=0.",
        )
    every = groups_of(path)
    picked = choose_groups(every, limit=limit, sample=sample)
    few = f"{len(picked)} of {len(every)} groups that were kept."
    notes = [few] if len(picked) < len(every) else []
    try:
        samples = _samples(training, picked, data_root)
    except HarnessError as error:
        return picked, [*notes, f"The data cannot be read here, so there are no images. {error}"]
    return [_with_image(group, samples) for group in picked], notes


def _samples(
    training: Training, groups: Sequence[Group], root: Path | None
) -> Mapping[tuple[str, str], Sample]:
    """The samples that groups are of, by task and id."""
    place = root or Path(training.manifest["data_root"])
    wanted, samples = {group.sample for group in groups}, {}
    for recorded in training.manifest["tasks"]:
        with plugins.plugin_errors(f"task {recorded['spec']}"):
            task = plugins.build("tasks", parse(recorded["spec"]), place)
        for sample in samples_of(task):
            if sample.id in wanted:
                samples[task.name, sample.id] = sample
                samples.setdefault(("", sample.id), sample)
    return samples


def _with_image(group: Group, samples: Mapping[tuple[str, str], Sample]) -> Group:
    sample = samples.get((group.task, group.sample))
    if sample is None:
        return replace(group, note="The data has no such sample any more.")
    target = sample.target
    text = "" if target is None else describe_answer(target.answer)
    return with_images(
        group, sample, ground_truth=lambda frame: ground_truth_on(frame, sample), text=text
    )


def ground_truth_on(frame: int, sample: Sample) -> Answer:
    """Return the true boxes of a sample on one frame, or its true points.

    As a perfect response would name them: one box an instance, or a connected part of a mask where
    instances are not known.
    """
    query, target = sample.query, sample.target
    if target is None or query.form not in LOCATED or target.answer.no_target:
        return Answer()
    answer = target.answer
    if query.form is AnswerForm.COUNT and answer.boxes is None:
        return Answer()  # a number has no places
    if answer.boxes is not None and len(query.media[0]) == 1:
        return Answer(boxes=answer.boxes)
    try:
        items = objects_of(query.form, training_answer(answer, [frame]), frame, query.size)
    except (ParseError, IndexError):  # a ground truth that no response can say has nothing to draw
        return Answer()
    if answer.points is not None and answer.boxes is None and answer.masks is None:
        return Answer(points=answer.points)
    return Answer(boxes=tuple(item.bounds for item in items))


def _summary(training: Training) -> str:
    manifest = training.manifest
    model = manifest["model"]["spec"] if manifest["model"] else "no model"
    tasks = ", ".join(task["spec"] for task in manifest["tasks"])
    return f"{manifest['method']['spec']}, from {model}, on {tasks}"
