"""DT-R1's reward: R = α (R_token + R_dag) + β (R_exec + R_task + R_result).

Shen and Unberath (2025), Eq. 1 and the paragraphs after it. With α = β = 1 it lies between -3 and
2.75. Every term is a function of the target and of the facts that the environment noted about a
rollout (`models/dt_r1/environment.py`); only the judge of free answers also sees the question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from harness.errors import HarnessError, ParseError, UsageError
from harness.judge import Judge
from harness.judging import Case, judgement, rubric, same_words
from harness.masks import BoolArray, Rle
from harness.metrics.overlap import region_similarity, region_similarity_frame
from harness.metrics.tracks import track_ious
from harness.models.dt_r1.answers import answer_for, instance_tracks, joint_boxes
from harness.models.dt_r1.environment import ResolvedAnswer
from harness.models.dt_r1.grammar import Instance, Task
from harness.options import Only
from harness.plugins import plugin_errors
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.method import (
    TOTAL,
    ComponentReward,
    Group,
    RewardComponents,
    Rollout,
)
from harness.types import Answer, AnswerForm, Box, Sample

RUBRIC = "same_meaning"
MIN_IOU = 0.5
"""An answer with masks, boxes or an interval is right if its IoU is larger than this."""
SUMMARIES = ("rvtbench_summary", "summe")
"""Tasks whose texts are summaries; the texts of others are answers to a question."""
GROUNDING = ("groundmore",)
"""Tasks with masks whose questions ask for the boxes around them."""
SEGMENTED = (AnswerForm.MASK, AnswerForm.MASK_TRACK)
GROUNDED = (AnswerForm.BOXES, AnswerForm.BOX_TRACK)


def token_reward(facts: Mapping[str, Any], *, require_execute: bool = False) -> float:
    """Return R_token: 1 if all tags are there in their legal order, else -1."""
    legal = facts.get("fault") == "" and (not require_execute or bool(facts.get("blocks")))
    return 1.0 if legal else -1.0


def task_of(sample: Sample, name: str = "") -> Task:
    """Return the kind of a sample, by its form of answer and the `name` of its benchmark."""
    form = sample.query.form
    if form in GROUNDED or name in GROUNDING:
        return Task.GROUNDING
    if form in SEGMENTED:
        return Task.SEGMENTATION
    return Task.SUMMARIZATION if name in SUMMARIES else Task.VQA


def drawn(boxes: Sequence[Box], size: tuple[int, int]) -> BoolArray:
    """Return the union of boxes as a mask (height × width), edges rounded to whole pixels."""
    mask = np.zeros((size[1], size[0]), dtype=np.bool_)
    for box in boxes:
        left, top, right, bottom = (max(0, round(edge)) for edge in box)
        mask[top:bottom, left:right] = True
    return mask


def location_iou(sample: Sample, facts: Mapping[str, Any], task: Task) -> float:
    """Return the IoU (0 to 1) of an answer's masks or boxes with the target's.

    The instances of an answer are joined. Masks: mean over frames. Tracks of boxes: mean over
    frames with a true box, or over all if none has one. Boxes in an image: IoU of the areas that
    they cover together. 0 if the answer is of another kind.
    """
    target, answer, query = sample.target, facts.get("answer") or {}, sample.query
    assert target is not None, "samples without targets are left out"
    ground_truth = target.answer
    if task is Task.SEGMENTATION and ground_truth.masks is not None and "masks" in answer:
        masks = [Rle.from_json(mask) for mask in answer["masks"]]
        return float(region_similarity(ground_truth.masks, masks, target.ignore).mean())
    if task is Task.GROUNDING and "boxes" in answer:
        instances = [
            Instance(box["name"], box=Box(*box["bbox"]), frame=box["frame"])
            for box in answer["boxes"]
        ]
        tracks = instance_tracks(instances, len(query.media[0]))
        if query.form is AnswerForm.BOXES:
            boxes = drawn([track[0] for track in tracks], query.size)
            return region_similarity_frame(drawn(ground_truth.boxes or (), query.size), boxes)
        joint = joint_boxes(tracks, len(query.media[0]))
        pairs = list(zip(joint, ground_truth.box_track or (), strict=False))
        # A predicted box stays until the answer names the next one: an answer cannot say that the
        # object has left. So frames without a true box do not count.
        counted = [pair for pair in pairs if pair[1] is not None] or pairs
        if counted:
            predicted, true = zip(*counted, strict=True)
            return float(track_ious(list(true), list(predicted)).mean())
    return 0.0


@dataclass(frozen=True, kw_only=True)
class DTR1Reward(ComponentReward):
    """The reward of a group; its settings are those of the plugin `dt_r1`."""

    alpha: Annotated[float, Only(r_token=True) | Only(r_dag=True), OF_REWARD] = 1.0
    """α, the weight of R_token + R_dag."""
    beta_accuracy: Annotated[
        float, Only(r_exec=True) | Only(r_task=True) | Only(r_result=True), OF_REWARD
    ] = 1.0
    """β, the weight of R_exec + R_task + R_result. (`beta` weighs the divergence.)"""
    r_token: Annotated[bool, OF_REWARD] = True
    """Reward tags in their legal order (Table 7)."""
    r_dag: Annotated[bool, OF_REWARD] = True
    """Reward a valid plan."""
    r_exec: Annotated[bool, OF_REWARD] = True
    """Punish code that fails."""
    r_task: Annotated[bool, OF_REWARD] = True
    """Reward the right task."""
    r_result: Annotated[bool, OF_REWARD] = True
    """Reward the right answer."""
    require_execute: Annotated[bool, Only(r_token=True), OF_REWARD] = False
    """R_token wants a block of code, as the paper's list of tags read literally."""
    judge: Judge | None = None
    """Judge of free answers; None: they must be in the words of a reference."""

    def __post_init__(self) -> None:
        for name in ("alpha", "beta_accuracy"):
            if not 0 <= getattr(self, name) < float("inf"):
                value = str(getattr(self, name))
                raise UsageError(f"dt_r1({name}=…)", expected="at least 0", found=value)

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the terms of each rollout, and further numbers that are only logged."""
        task = task_of(group.sample, group.task)
        return [self._components(group, rollout, task) for rollout in group.rollouts]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return R of each rollout, and its two sums without their weights."""
        of_format = {"token": self.r_token, "dag": self.r_dag}
        of_accuracy = {"exec": self.r_exec, "task": self.r_task, "result": self.r_result}
        totals = list[RewardComponents]()
        for terms in components:
            form = sum(terms[name] for name, is_used in of_format.items() if is_used)
            accuracy = sum(terms[name] for name, is_used in of_accuracy.items() if is_used)
            total = self.alpha * form + self.beta_accuracy * accuracy
            totals.append({"format": form, "accuracy": accuracy, TOTAL: total})
        return totals

    def _components(self, group: Group, rollout: Rollout, task: Task) -> dict[str, float]:
        """Return the terms of one rollout, and further numbers that are only logged."""
        facts, sample = rollout.facts, group.sample
        blocks = facts.get("blocks", ())
        token = token_reward(facts, require_execute=self.require_execute)
        dag = 0.5 if facts.get("plan") else -0.5  # the environment notes only valid plans
        # A block has no error if the sandbox itself failed to run it.
        executed = -0.5 if any(block["error"] is not None for block in blocks) else 0.0
        task_term = 0.25 if facts.get("task") == task else 0.0
        result, logged = self._result(sample, facts, task)
        return {
            "token": token,
            "dag": dag,
            "exec": executed,
            "task": task_term,
            "result": result,
            **logged,
            "success": float(token > 0 and dag > 0 and executed == 0),
            "blocks": float(len(blocks)),
            "uses_code": float(bool(blocks)),
        }

    def _result(
        self, sample: Sample, facts: Mapping[str, Any], task: Task
    ) -> tuple[float, dict[str, float]]:
        """Return R_result, 1 or -1, and further numbers that are only logged.

        R_result is 0 if the judge gave no answer.
        """
        if task in (Task.SEGMENTATION, Task.GROUNDING):
            iou = location_iou(sample, facts, task)
            return (1.0 if iou > MIN_IOU else -1.0), {"iou": iou}
        answer = facts.get("answer") or {}
        if "text" not in answer:
            return -1.0, {}
        try:
            right = self._is_right(sample, str(answer["text"]))
        except HarnessError:
            return 0.0, {"unjudged": 1.0}
        return (1.0 if right else -1.0), {}

    def _is_right(self, sample: Sample, text: str) -> bool:
        """Return True if an answer in words is right.

        Free texts are right in the words of a reference, or if the judge says so; other forms, if
        the value that the text states agrees with the ground truth.

        Raises:
            HarnessError: the judge gave no answer.
        """
        target, query = sample.target, sample.query
        assert target is not None, "samples without targets are left out"
        ground_truth = target.answer
        if query.form is not AnswerForm.TEXT:
            try:
                answer = answer_for(query, query.form, ResolvedAnswer(Task.VQA, text=text))
            except ParseError:
                return False
            return _same(answer, ground_truth)
        references = [
            reference for reference in (ground_truth.text, *target.references) if reference
        ]
        in_words = any(same_words(text, reference) for reference in references)
        if in_words or self.judge is None or not references:
            return in_words
        case = Case(query.text, text, references[0])
        with plugin_errors(f"judge {self.judge.name}"):
            return judgement(self.judge, rubric(RUBRIC), case).correct


def _same(answer: Answer, ground_truth: Answer) -> bool:
    """Return True for equal choices or counts, numbers within 5 %, or intervals with IoU > 0.5."""
    if ground_truth.choice is not None:
        return answer.choice == ground_truth.choice
    if ground_truth.count is not None:
        return answer.count == ground_truth.count
    if ground_truth.number is not None and answer.number is not None:
        return abs(answer.number - ground_truth.number) <= 0.05 * abs(ground_truth.number)
    if ground_truth.interval is not None and answer.interval is not None:
        ours, true = answer.interval, ground_truth.interval
        shared = max(0.0, min(ours.end, true.end) - max(ours.start, true.start))
        outer_length = max(ours.end, true.end) - min(ours.start, true.start)
        return outer_length > 0 and shared / outer_length > MIN_IOU
    return False
