"""The studies of `learning.py`: each method, its controls and its measures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

Settings: TypeAlias = Mapping[str, Any]

TOKENS = "reasoning tokens"
METHOD, CONTROL = "method", "random reward"
RELATIONS = ("relation", "relation4", "nearest", "extreme", "end_relation")
"""Kinds of questions of `shapes_qa` that ask where things are to each other."""
ORDERED = ("direction", "order", "order3", "leaves", "end_relation")
"""Kinds of questions whose answer changes with the order of the frames."""
BUDGETS, THRESHOLDS = "6+12+18", "3.5+4.5"
"""VideoSeg-R1's token budgets and difficulty thresholds, scaled to pocket and to stills."""
UNPENALISED: Settings = {"budgets": "96+176+256", "thresholds": "3+6"}
"""The defaults of what only a penalty reads."""

ROOM: Settings = {"max_completion_length": 160}
"""For long reasoning: a response that is cut earns nothing, and would be a reason of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number of the held-out runs."""

    title: str
    task: str
    metric: str
    """A metric of the task, or `TOKENS`."""
    kinds: tuple[str, ...] = ()
    """Only samples of these kinds; none: all."""
    level: str = ""
    """Only samples of this difficulty, as VideoSeg-R1's `measured` rates their ground truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """Supervised steps that teach a grammar which the checkpoint has never seen."""

    trainer: str
    tasks: str
    settings: Settings = field(default_factory=dict)
    """Beside those of the trainer's `pocket_cpu`."""
    steps: int = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One method on generated scenes."""

    method: str
    model: str
    """SPEC with `{start}` for the checkpoint."""
    tasks: str
    """Tasks to train on."""
    measures: tuple[Measure, ...]
    """The first is the headline."""
    settings: Settings = field(default_factory=dict)
    """Settings of every training, added to the method's `pocket_cpu`."""
    arms: Mapping[str, Settings] = field(default_factory=dict)
    """Further trainings, each with what sets it apart from the method's."""
    warm_up: WarmUp | None = None
    policy: str = ""
    """Program beside this one that makes the checkpoint to start from; empty: the plan's."""

    @property
    def every_arm(self) -> dict[str, Settings]:
        """The method, the control that learns from random numbers, and the further ones."""
        return {METHOD: {}, CONTROL: {"reward": "random"}, **self.arms}

    @property
    def held_out(self) -> tuple[str, ...]:
        """The tasks that are evaluated."""
        return tuple(dict.fromkeys(measure.task for measure in self.measures))


def _warm(tasks: str, *, steps: int = 400, **settings: Any) -> WarmUp:
    own = {"reasoning": "short", "text_source": "shapes", "learning_rate": 3e-4, **settings}
    return WarmUp(trainer="sft", tasks=tasks, settings=own, steps=steps)


ALL = "shapes_referring(split=train)"
SINGLE, REASONING = (
    f"shapes_referring(split=train,asks={asks})" for asks in ("single", "reasoning")
)
HELD_SINGLE, HELD_REASONING = (f"shapes_referring(asks={asks})" for asks in ("single", "reasoning"))
STILLS, CLIPS = (f"shapes_qa(split=train,part={part})" for part in ("still", "video"))
HELD_STILLS, HELD_CLIPS = (f"shapes_qa(part={part})" for part in ("still", "video"))

STUDIES: Mapping[str, Study] = MappingProxyType(
    {
        "visionreasoner": Study(
            method="visionreasoner",
            model="pocket(checkpoint={start},max_new_tokens=160)",
            tasks=ALL,
            measures=(
                Measure(title="gIoU", task="shapes_referring", metric="gIoU"),
                Measure(title="box F1 at 0.5", task="shapes_referring", metric="box_f1@0.5"),
                Measure(title="gIoU, ReasonSeg layout", task="reason_seg", metric="gIoU"),
                Measure(title=TOKENS, task="shapes_referring", metric=TOKENS),
            ),
        ),
        "seg_zero": Study(
            method="seg_zero",
            model="seg_zero(checkpoint={start},canvas=168,prompt=short,max_new_tokens=160,"
            "segmenter=grabcut,propagator=flow)",
            tasks=SINGLE,
            measures=(
                Measure(title="gIoU", task=HELD_SINGLE, metric="gIoU"),
                Measure(title="box accuracy at 0.5", task=HELD_SINGLE, metric="box_accuracy@0.5"),
                Measure(title=TOKENS, task=HELD_SINGLE, metric=TOKENS),
            ),
            warm_up=_warm(SINGLE),
        ),
        "dr2seg": Study(
            method="dr2seg",
            model="dr2seg(checkpoint={start},canvas=168,prompt=short,max_new_tokens=160,"
            "segmenter=grabcut,propagator=flow)",
            tasks=REASONING,
            measures=(
                Measure(title="gIoU", task=HELD_REASONING, metric="gIoU"),
                Measure(title="box F1 at 0.5", task=HELD_REASONING, metric="box_f1@0.5"),
                Measure(title=TOKENS, task=HELD_REASONING, metric=TOKENS),
            ),
            settings=ROOM,
            arms={"VisionReasoner's reward": {"r_desc": False, "r_len": False}},
            warm_up=_warm(ALL, descriptions=True),
        ),
        "videoseg_r1": Study(
            method="videoseg_r1",
            model="videoseg_r1(checkpoint={start},canvas=168,prompt=short,context=168,beside=clips,"
            "max_new_tokens=160,segmenter=grabcut,propagator=flow)",
            tasks=REASONING,
            measures=(
                Measure(title="gIoU", task=HELD_REASONING, metric="gIoU"),
                *(
                    Measure(
                        title=f"{TOKENS}, {level}", task=HELD_REASONING, metric=TOKENS, level=level
                    )
                    for level in ("easy", "medium", "hard")
                ),
            ),
            settings={"scorer": "measured", "budgets": BUDGETS, "thresholds": THRESHOLDS, **ROOM},
            arms={"no length penalty": {"length_penalty": "none", **UNPENALISED}},
            warm_up=_warm(ALL),
        ),
        "video_str": Study(
            method="video_str",
            model="video_str(checkpoint={start},prompt=short,frames=8,pixels=28224,"
            "max_new_tokens=224)",
            tasks="shapes_qa(split=train)",
            measures=(
                Measure(
                    title="accuracy, relations",
                    task="shapes_qa",
                    metric="accuracy",
                    kinds=RELATIONS,
                ),
                Measure(title="accuracy", task="shapes_qa", metric="accuracy"),
                Measure(title=TOKENS, task="shapes_qa", metric=TOKENS),
            ),
            arms={"without the graph reward": {"with_nodes": False, "with_edges": False}},
            warm_up=WarmUp(
                trainer="video_str_sft",
                tasks="shapes_qa(split=train)",
                settings={"learning_rate": 1e-3, "graph_in_reasoning": True},
                steps=1000,
            ),
        ),
        "spacer": Study(
            method="spacer",
            model="spacer(checkpoint={start},map=named,prompt=short,frames=8,pixels=28224,"
            "max_new_tokens=224)",
            tasks=STILLS,
            measures=(
                Measure(
                    title="accuracy, relations",
                    task=HELD_STILLS,
                    metric="accuracy",
                    kinds=RELATIONS,
                ),
                Measure(title="accuracy", task=HELD_STILLS, metric="accuracy"),
                Measure(title=TOKENS, task=HELD_STILLS, metric=TOKENS),
            ),
            # Responses with a map are longer than those that `pocket_cpu` pays for their length.
            settings={"max_completion_length": 224, "longest": 200},
            arms={"without the map": {"with_maps": False}},
            warm_up=WarmUp(
                trainer="video_str_sft",
                tasks=STILLS,
                settings={"learning_rate": 1e-3},
                steps=1000,
            ),
        ),
        "video_r1": Study(
            method="video_r1",
            model="video_r1(checkpoint={start},prompt=short,frames=8,pixels=28224,max_new_tokens=160)",
            tasks=CLIPS,
            measures=(
                Measure(title="accuracy, order", task=HELD_CLIPS, metric="accuracy", kinds=ORDERED),
                Measure(title="accuracy", task=HELD_CLIPS, metric="accuracy"),
                Measure(title=TOKENS, task=HELD_CLIPS, metric=TOKENS),
            ),
            arms={"without the temporal contrast": {"temporal": False}},
            warm_up=_warm(CLIPS, steps=1000, learning_rate=1e-3),
        ),
        "dt_r1": Study(
            method="dt_r1",
            model="dt_r1(checkpoint={start},prompt=short,twin_tokens=32,max_new_tokens=300)",
            tasks=f"{SINGLE},{STILLS}",
            measures=(
                Measure(title="gIoU", task=HELD_SINGLE, metric="gIoU"),
                Measure(title="accuracy", task=HELD_STILLS, metric="accuracy"),
            ),
            policy="dt_r1_policy.py",
        ),
    }
)
