"""The page of a training's rollouts (`harness explain TRAINING`), in HTML.

A group is the rollouts of one prompt at one step. Groups are chosen from the training's record,
and drawn on images with their boxes if the data is here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError, ParseError, StoreError
from harness.leaderboards.images import describe_answer
from harness.leaderboards.rollouts import ROLLOUTS, Group, choose_groups, groups_of, with_images
from harness.leaderboards.runs import is_rehearsed
from harness.models.prompted_requests import LOCATED
from harness.models.response_writer import objects_of, training_answer
from harness.run.batching import samples_of
from harness.run.training_record import Training
from harness.spec import parse
from harness.store.atomic import read_json
from harness.types import Answer, AnswerForm, Sample

MANIFEST = "manifest.json"
REHEARSED = (
    "A rehearsal: stand-ins with random weights wrote the responses. No number means anything."
)


def is_training(folder: Path) -> bool:
    """Return True if a folder's manifest names a method: a training's does, a run's does not."""
    path = folder / MANIFEST
    try:
        manifest = read_json(path) if path.is_file() else None
    except StoreError:  # the reader of runs reports the damage
        return False
    return isinstance(manifest, dict) and "method" in manifest


def page_of(training: Training, groups: Sequence[Group], notes: Sequence[str]) -> str:
    """Return the page (HTML) of groups of rollouts; `notes` are shown above them."""
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
    """Return the groups to show and notes about them, such as that the data cannot be read.

    Args:
        training: The training of the rollouts.
        limit: Largest number of groups.
        sample: Show only groups of this sample's id; None: of all samples.
        data_root: Folder of the data that the images come from; None: the training's own.

    Raises:
        StoreError: the training has no rollouts, or none of the sample.
    """
    path = training.folder / ROLLOUTS
    if not path.is_file():
        raise StoreError(
            f"training {training.folder}",
            expected=ROLLOUTS,
            found="none",
            fix="Methods with GRPO write it, unless keep_rollouts=0.",
        )
    groups = groups_of(path)
    shown_groups = choose_groups(groups, limit=limit, sample=sample)
    count_note = f"{len(shown_groups)} of {len(groups)} groups that were kept."
    notes = [REHEARSED] if is_rehearsed(training.manifest) else []
    notes += [count_note] if len(shown_groups) < len(groups) else []
    try:
        samples = _samples(training, shown_groups, data_root)
    except HarnessError as error:
        return shown_groups, [
            *notes,
            f"The data cannot be read here, so there are no images. {error}",
        ]
    return [_with_image(group, samples) for group in shown_groups], notes


def _samples(
    training: Training, groups: Sequence[Group], root: Path | None
) -> Mapping[tuple[str, str], Sample]:
    """Return the groups' samples by (task name, sample id), and by ("", sample id).

    The empty task name finds the sample of a group that does not record its task.
    """
    data_root = root or Path(training.manifest["data_root"])
    sample_ids, samples = {group.sample for group in groups}, {}
    for task_entry in training.manifest["tasks"]:
        with plugins.plugin_errors(f"task {task_entry['spec']}"):
            task = plugins.build("tasks", parse(task_entry["spec"]), data_root)
        for sample in samples_of(task):
            if sample.id in sample_ids:
                samples[task.name, sample.id] = sample
                samples.setdefault(("", sample.id), sample)
    return samples


def _with_image(group: Group, samples: Mapping[tuple[str, str], Sample]) -> Group:
    """Return a group with its sample's image and ground truth, or a note that it is missing."""
    sample = samples.get((group.task, group.sample))
    if sample is None:
        return replace(group, note="The data has no such sample any more.")
    target = sample.target
    text = "" if target is None else describe_answer(target.answer)
    return with_images(
        group, sample, ground_truth=lambda frame: ground_truth_on(frame, sample), text=text
    )


def ground_truth_on(frame: int, sample: Sample) -> Answer:
    """Return the true boxes of a sample on one frame, or its true points, in pixels.

    There is one box per instance; if the instances are unknown, one per connected part of the mask.
    Empty if the ground truth has no place in the image.
    """
    query, target = sample.query, sample.target
    if target is None or query.form not in LOCATED or target.answer.no_target:
        return Answer()
    answer = target.answer
    if query.form is AnswerForm.COUNT and answer.boxes is None:
        return Answer()  # a number has no box or point
    if answer.boxes is not None and len(query.media[0]) == 1:
        return Answer(boxes=answer.boxes)
    try:
        items = objects_of(query.form, training_answer(answer, [frame]), frame, query.size)
    except (ParseError, IndexError):  # no response can express this ground truth
        return Answer()
    if answer.points is not None and answer.boxes is None and answer.masks is None:
        return Answer(points=answer.points)
    return Answer(boxes=tuple(item.bounds for item in items))


def _summary(training: Training) -> str:
    """Return method, start and tasks of a training in one line."""
    manifest = training.manifest
    model = manifest["model"]["spec"] if manifest["model"] else "no model"
    tasks = ", ".join(task["spec"] for task in manifest["tasks"])
    return f"{manifest['method']['spec']}, from {model}, on {tasks}"
