"""VideoSeg-R1: GRPO on boxes, positive and negative points, within a budget of reasoning.

harness train --method videoseg_r1 --config qwen2_5_vl_7b_full
    --train-tasks videoseg_r1_15k --data ROOT --out DIR --set ratings=difficulty.jsonl
    --set "scorer=openai(checkpoint=Qwen/Qwen2.5-VL-72B-Instruct,base_url=http://…/v1)"
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from harness import plugins
from harness.errors import DataError, HarnessError, UsageError
from harness.models.pipeline import PromptedModel
from harness.models.prompts import wording_of
from harness.models.videoseg_r1.drawing import Drawing
from harness.models.videoseg_r1.frame_display import FrameDisplay
from harness.models.videoseg_r1.grammar import Prompt
from harness.models.videoseg_r1.model import CONTEXT, VideoSegR1
from harness.models.videoseg_r1.sampler import Sampler
from harness.models.visionreasoner.grammar import CANVAS
from harness.options import with_options
from harness.run.batching import samples_of
from harness.spec import Spec, parse
from harness.trainer import TrainingRun
from harness.trainers.grpo.functions import OF_REWARD, reads_method_reward
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.videoseg_r1.budgets import UNKNOWN
from harness.trainers.videoseg_r1.difficulty import (
    ChatRater,
    FrameOf,
    GeometricRater,
    Rater,
    await_ratings,
    rate_samples,
)
from harness.trainers.videoseg_r1.rewards import VideoSegR1Reward
from harness.trainers.videoseg_r1.samples import SET, TrainingRequests, check_sample, key_of, of_set
from harness.types import Sample

RATINGS = "difficulty.jsonl"
MEASURED = "measured"  # the scorer that is not a VLM: `GeometricRater`


@dataclass(frozen=True, kw_only=True)
class VideoSegR1Trainer(GrpoTrainer):
    """GRPO with a length penalty by each sample's difficulty, on randomly drawn frames."""

    reward: VideoSegR1Reward
    drawing: Drawing
    scorer: Spec | None
    """Rater of difficulty, see `rater_of`; None: only `ratings` are used."""
    ratings: Path | None
    """File of ratings; None: RATINGS in the training's folder."""

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Rate the samples, then train as `GrpoTrainer`.

        Raises:
            DataError: the file of ratings lacks a sample, and there is no scorer.
            HarnessError: as in `GrpoTrainer.check`, before anything is rated.
        """
        run = replace(run, tasks=tuple(map(of_set, run.tasks)))
        drawing = replace(self.drawing, seed=run.seed)
        requests = TrainingRequests(drawing=drawing)
        requesting = replace(self, request=requests)
        requesting.check(run)
        samples = [
            sample
            for task in run.tasks
            for sample in samples_of(task)
            if sample.target is not None and _is_usable(sample)
        ]
        scores = self._scores(run, samples, requests.frame)
        bound = replace(requesting, reward=replace(self.reward, scores=scores))
        facts = GrpoTrainer.train(bound, run)
        levels = self.reward.levels.histogram(
            (sample.categories[SET], scores.get(key_of(sample, requests.frame(sample)), UNKNOWN))
            for sample in samples
        )
        return {**facts, "difficulty": levels if scores else {}, "rated": len(scores)}

    def _scores(
        self, run: TrainingRun, samples: list[Sample], frame_of: FrameOf
    ) -> dict[str, float]:
        """Return the difficulties of samples by `key_of`; the first process rates missing ones."""
        if self.scorer is None and self.ratings is None:
            return {}  # `_check_difficulties` has made sure that no reward depends on them
        file = self.ratings or run.out / RATINGS
        rater = None if self.scorer is None else rater_of(self.scorer)
        keys = [key_of(sample, frame_of(sample)) for sample in samples]
        if rater is not None and run.main:
            run.progress.start("rating difficulty", len(set(keys)), 0)
            rate_samples(
                samples, rater, file, frame_of, tell=lambda done, total: run.progress.step(done, {})
            )
            run.progress.end()
        elif rater is not None:
            await_ratings(keys, rater.name, file)
        scores = rate_samples(samples, rater, file, frame_of)
        lacking = [sample for sample, key in zip(samples, keys, strict=True) if key not in scores]
        if lacking:
            raise DataError(
                f"ratings {file}",
                expected="every sample that is trained on, rated for the frame "
                f"that seed {run.seed} draws",
                found=f"{len(lacking)} missing samples, such as {lacking[0].id!r} in frame "
                f"{frame_of(lacking[0])}",
                fix="Rate them with scorer=…, or use the seed of the file.",
            )
        return scores


def rater_of(scorer: Spec) -> Rater:
    """Build the rater of a SPEC: `measured`, or a backend with a VLM.

    The SPEC is the VLM's name in the file of ratings, so that ratings of two VLMs are not mixed.
    """
    scorer = parse(str(scorer))  # a configuration gives a SPEC as text
    if scorer.name == MEASURED:
        return GeometricRater()
    return ChatRater(chat=plugins.build("backends", scorer), name=str(scorer))


def _check_difficulties(reward: VideoSegR1Reward) -> None:
    """Raise UsageError for a length penalty with different budgets, if difficulties are unknown.

    All samples would have the budget of medium ones, which is not the paper's training.
    """
    same_budgets = len(set(reward.levels.tokens)) == 1
    if reward.length_penalty == "none" or reward.length_beta == 0 or same_budgets:
        return
    medium = reward.levels.budget(UNKNOWN)
    raise UsageError(
        "videoseg_r1 with a length penalty",
        expected="the difficulty of every sample",
        found="neither ratings nor a scorer",
        fix="Have them rated by --set scorer=…, give what was rated by --set ratings=FILE, train "
        f"by --set length_penalty=none, or give all {medium} tokens by "
        f"--set budgets={medium}+{medium} --set thresholds=5.",
    )


def _is_usable(sample: Sample) -> bool:
    """Return True if the training uses a sample; it notes those that it leaves out."""
    try:
        check_sample(sample)
    except HarnessError:
        return False
    return True


@with_options(
    VideoSegR1Reward,
    Settings,
    without=("scores",),
    beta=1e-3,
    entropy_coef=1e-3,
    freeze_vision=True,
)
def videoseg_r1(
    reward_settings: VideoSegR1Reward,
    settings: Settings,
    *,
    scorer: Annotated[Spec | None, OF_REWARD] = None,
    min_references: int = 8,
    max_references: int = 12,
    delta: float = 0.3,
    ratings: Annotated[Path | None, OF_REWARD] = None,
) -> VideoSegR1Trainer:
    """VideoSeg-R1 (Xu et al. 2025) with GRPO; the sampler of frames is not part of the training.

    The defaults are the paper's. Settings that it does not state (temperature, clipping, entropy)
    are as in VisionReasoner's official code; the vision tower is frozen up to the layers that merge
    its patches, about which the paper is unclear. Beside these, every setting of the GRPO engine
    can be given; `harness list trainers videoseg_r1` lists them.

    Args:
        reward_settings: Settings of the reward.
        settings: Settings of GRPO.
        scorer: Rater of difficulty: a backend such as
            `openai(model=Qwen/Qwen2.5-VL-72B-Instruct,…)`, or `measured`, which needs no network.
            Needed if a length penalty has several budgets and `ratings` is not given.
        min_references: Smallest number of reference frames.
        max_references: Largest number of reference frames.
        delta: Longest key segment, as a share of the video.
        ratings: File of existing ratings, to which new ones are added; None: difficulty.jsonl in
            the training's folder.
    """
    if scorer is None and ratings is None and reads_method_reward(settings.reward):
        _check_difficulties(reward_settings)
    trainer_settings = {
        "scorer": None if scorer is None else str(scorer),
        "min_references": min_references,
        "max_references": max_references,
        "delta": delta,
        "ratings": None if ratings is None else ratings.name,
    }
    return VideoSegR1Trainer(
        name="videoseg_r1",
        settings=settings,
        reward=reward_settings,
        own={name: value for name, value in vars(reward_settings).items() if name != "scores"}
        | trainer_settings,
        with_prompt=lambda model: as_videoseg(model, think=reward_settings.think),
        usable=check_sample,
        drawing=Drawing(
            seed=0, min_references=min_references, max_references=max_references, delta=delta
        ),
        scorer=scorer,
        ratings=ratings,
    )


def as_videoseg(model: PromptedModel, *, think: bool) -> VideoSegR1:
    """Return the model with VideoSeg-R1's prompt, on its own canvas.

    A `VideoSegR1` keeps its parts; another model becomes one that shows the middle frame.
    """
    canvas = model.prompt.resize or CANVAS
    prompt = Prompt(resize=canvas, think=think, wording=wording_of(model.prompt))
    if isinstance(model, VideoSegR1):
        return replace(model, prompt=prompt)
    settings: dict[str, Any] = {
        setting.name: getattr(model, setting.name) for setting in fields(PromptedModel)
    }
    context = (min(canvas[0], CONTEXT[0]), min(canvas[1], CONTEXT[1]))
    return VideoSegR1(
        **{
            **settings,
            "prompt": prompt,
            "keyframe": "middle",
            "voters": model.chat,
            "sampler": Sampler(),
            "showing": FrameDisplay(context=context),
        }
    )
