"""Video-STR: GRPO with rewards for answers and for graphs of the objects in a scene.

harness train --method video_str --model "video_str(checkpoint=…,frames=video_str_train)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR --set graphs=shapes
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any

from harness.models.pipeline import PromptedModel
from harness.models.video_str.answer_prompts import Aid, AnswerPrompts
from harness.models.video_str.boxes import BoxPrompt
from harness.models.video_str.composed import TextAnswerModel
from harness.options import Only, with_options
from harness.trainer import TrainingRun
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.method import SecondPass
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.video_str.answers import ground_truth_of
from harness.trainers.video_str.extra import extra_of, no_extra
from harness.trainers.video_str.graphs import Extra, extend_task, named_or_drawn
from harness.trainers.video_str.rewards import VideoStrReward
from harness.types import Sample

PAPER_DEFAULTS: dict[str, Any] = {
    "num_generations": 8,
    "per_device_train_batch_size": 1,
    "loss_type": "grpo",
    "beta": 0.04,
    "lr_scheduler_type": "cosine",
    "weight_decay": 0.01,
    "max_grad_norm": 5.0,
    "top_p": 0.95,
}
"""Defaults of `Settings` for Video-R1, SpaceR and Video-STR: those of their official runs."""


@dataclass(frozen=True, kw_only=True)
class TextAnswerTrainer(GrpoTrainer):
    """GRPO on samples with true graphs or maps; their prompts list the objects of the graph."""

    extra: Extra = no_extra
    """Returns additional data for a sample's target, such as its true graph."""
    listed_objects: Callable[[Sample], tuple[str, ...]]
    """Returns the objects that a sample's prompt lists; if empty, it asks for no graph or map."""
    contrast: Callable[[PromptedModel], SecondPass] | None = None
    """Returns the second pass for the trained model: a second request for each rollout."""

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Add the graphs to the samples of all tasks, then train as `GrpoTrainer.train`."""
        tasks = tuple(
            extend_task(task, self.extra, listed=self.listed_objects) for task in run.tasks
        )
        return GrpoTrainer.train(self, replace(run, tasks=tasks))

    def bound(self, model: PromptedModel) -> "TextAnswerTrainer":
        """Return the trainer with the second pass for `model`, if it has one."""
        return self if self.contrast is None else replace(self, second=self.contrast(model))


def answer_prompt_of(
    method: str, *, aid: Aid = "listed"
) -> Callable[[PromptedModel], PromptedModel]:
    """Return a function that gives a model a method's prompts and keeps its other settings.

    A method's rewards parse the tags of its own prompts, so a response to another prompt earns
    almost nothing even if it is correct. As in SpaceR's official code, the prompt asks for a graph
    or map only if the sample has one or its benchmark lists objects; else a graph earns no reward.

    Args:
        method: Name of the folder in `harness.models` with the prompts.
        aid: Objects that a graph or map prompt lists. A model with the method's own prompts and
            `aid="off"` keeps that.
    """
    package = f"harness.models.{method}"

    def with_prompt(model: PromptedModel) -> PromptedModel:
        """Return the model with the method's prompts; other settings stay as they are."""
        if isinstance(model, TextAnswerModel) and model.words.package == package:
            if model.words.aid == "off":
                return model
            return replace(model, words=replace(model.words, aid=aid))
        model_settings = {
            setting.name: getattr(model, setting.name) for setting in fields(PromptedModel)
        }
        own_settings = {"prompt": BoxPrompt(package), "words": AnswerPrompts(package, aid=aid)}
        return TextAnswerModel(**{**model_settings, "name": method, **own_settings})

    return with_prompt


@with_options(
    VideoStrReward,
    Settings,
    without=("frames",),
    **PAPER_DEFAULTS,
    generation_batch_size=64,
    max_completion_length=1024,
)
def video_str(
    reward_settings: VideoStrReward,
    settings: Settings,
    *,
    graphs: str | None = None,
    graph_frames: Annotated[int, Only(with_nodes=True) | Only(with_edges=True), OF_REWARD] = 4,
) -> TextAnswerTrainer:
    """Video-STR (2025), Eq. 9: R_format + R_ans + R_graph (+ R_l), with GRPO.

    Args:
        reward_settings: Settings of the reward.
        settings: Settings of GRPO.
        graphs: Source of true graphs that targets do not carry: `shapes` (generated again from
            the seed of the data, in metres), `shapes_canvas` (in pixels of pocket's canvas, which
            need sigma=42), or a JSON Lines file.
        literal: Sum R_e as Eq. 6 prints it, up to n², instead of its mean over pairs.
        angle: Compare directions as they are given (`joint`), or after the best rotation
            (`kabsch`), so that a rotated camera does not change R_e.
        sigma: Distance, in the unit of the graphs (metres), at which a node or an edge earns 1/e.
        graph_frames: Number of true frames that a graph is compared with.
        omega: R_l, the reward for a correct answer with a length within the bounds.
        shortest: Fewest completion tokens for R_l.
        longest: Most completion tokens for R_l.
        with_format: Count R_format.
        with_nodes: Count R_n.
        with_edges: Count R_e.
        with_length: Count R_l.
    """
    reward = replace(reward_settings, frames=graph_frames)
    return TextAnswerTrainer(
        name="video_str",
        settings=settings,
        reward=reward,
        own={"graphs": graphs, **asdict(reward)},
        with_prompt=answer_prompt_of("video_str"),
        usable=ground_truth_of,
        extra=extra_of(graphs),
        listed_objects=named_or_drawn,
    )
