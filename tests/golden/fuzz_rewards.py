"""Compare rewards of trainings and masks of polygons with official functions, for fuzz.py."""

import contextlib
import importlib.util
import io
import json
import logging
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import make
import make_polygons
import numpy as np
from fuzz import Finding

from harness import media
from harness.metrics.polygons import rasterise
from harness.models.visionreasoner import scoring as objects
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.seg_zero import rewards as one_object
from harness.trainers.spacer.rewards import SpacerAccuracy
from harness.trainers.video_r1.rewards import VideoR1Accuracy, format_reward
from harness.types import Answer, AnswerForm, Box, Point, Query, Sample, Target

HERE = Path(__file__).resolve().parent
COUNT = 5_000
"""Responses in a round."""
SAME = 1e-9


def visionreasoner_files(official: Path) -> None:
    """The golden files of VisionReasoner's samples and of its boxes, which are compared at once."""
    make.visionreasoner(official)
    make.visionreasoner_boxes(official)


def polygons(official: Path, seed: int) -> Iterator[Finding]:
    """LISA's masks, drawn by the OpenCV that is installed."""
    version = tuple(map(int, cv2.__version__.split(".")[:2]))
    opencv = "4.11" if version >= (4, 11) else "4.8"
    draw = make.module(official / "LISA/utils/data_processing.py").get_mask_from_json
    make_polygons.SEED = seed

    def rows() -> Iterator[tuple[Any, Any, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "case.json")
            for size, drawn in make_polygons.drawings():
                path.write_text(json.dumps({"shapes": drawn, "text": ["x"], "is_sentence": False}))
                theirs, _, _ = draw(str(path), np.zeros((*size, 3), np.uint8))
                ours = rasterise(drawn, *size, opencv=opencv)
                yield [size, drawn], [float(np.count_nonzero(ours != theirs))], [0.0]

    yield compared(f"masks from polygons, OpenCV {cv2.__version__}: pixels", rows())


def local(folder: str, name: str) -> ModuleType:
    """A module of a folder of golden files."""
    path = HERE / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def beside(folder: str, name: str) -> ModuleType:
    """A generator that imports `responses` from its own folder."""
    import sys

    sys.modules["responses"] = local(folder, "responses")
    return local(folder, name)


def compared(what: str, rows: Iterable[tuple[Any, Any, Any]]) -> Finding:
    """The largest difference of (case, ours, official), and the shortest case that has one."""
    count, worst, smallest = 0, 0.0, ""
    for case, ours, official in rows:
        count += 1
        gaps = [abs(a - b) for a, b in zip(ours, official, strict=True)]
        gap = max((one if math.isfinite(one) else math.inf for one in gaps), default=0.0)
        if gap > SAME:
            text = json.dumps({"case": case, "ours": ours, "official": official}, default=str)
            smallest = text if not smallest else min(smallest, text, key=len)
            worst = max(worst, gap)
    return Finding(what, count, worst, smallest)


def seg_zero(official: Path, seed: int) -> Iterator[Finding]:
    """VisionReasoner's three terms and Seg-Zero's five, soft and strict."""
    made = beside("visionreasoner_reward", "make_scores")
    responses = made.cases.__globals__
    responses["SEED"], responses["COUNT"] = seed, COUNT
    place = official / "Seg-Zero"
    many = made.module(place, "vision_reasoner")
    both = {
        name: made.module(place, file)
        for name, file in (("soft", "seg"), ("strict", "seg_restrict"))
    }
    cases = list(made.cases())

    def several() -> Iterator[tuple[Any, Any, Any]]:
        for response, target, _, _ in cases:
            items = [objects.Item(Box(*one["bbox_2d"]), Point(*one["point_2d"])) for one in target]
            ground_truth = json.dumps(target)
            ours = (
                objects.thinking_format(response) + objects.answer_format(response),
                objects.accuracy(response, items).total,
                objects.non_repeat(response),
            )
            theirs = (
                many.vision_reasoner_format_reward(response),
                many.vision_reasoner_accuracy_reward(response, ground_truth),
                many.vision_reasoner_non_repeat_reward(response),
            )
            yield [response, target], ours, tuple(map(float, theirs))

    def single(name: Any) -> Iterator[tuple[Any, Any, Any]]:
        for _, _, response, alone in cases:
            box, *points = alone
            target = one_object.TargetObject(Box(*box), (Point(*points[0]), Point(*points[1])))
            ours = (
                one_object.thinking_format(response),
                one_object.answer_format(response, semantics=name),
                *one_object.place_terms(response, target, semantics=name).values(),
            )
            yield (
                [response, alone],
                ours,
                made.bits(both[name], response, made.seg_ground_truth(alone)),
            )

    yield compared("VisionReasoner's reward", several())
    for name in both:
        yield compared(f"Seg-Zero's reward, {name}", single(name))


def group(case: Mapping[str, str], extra: Mapping[str, Any]) -> Group:
    """One rollout of a question of a kind."""
    kind, ground_truth = case["kind"], case["ground_truth"]
    forms = {"multiple choice": (AnswerForm.CHOICE, "choice"), "OCR": (AnswerForm.TEXT, "text")}
    form, name = forms.get(kind, (AnswerForm.NUMBER, "number"))
    answer = Answer(**{name: float(ground_truth) if name == "number" else ground_truth})  # type: ignore[arg-type]
    image = media.pixels([np.zeros((4, 4, 3), np.uint8)], times=[0], is_video=False, id="p")
    return Group(
        sample=Sample(
            id="s",
            query=Query(id="q", text="?", media=(image,), forms=(form,)),
            target=Target(
                answer=answer, extra={**extra, "problem_type": kind, "solution": ground_truth}
            ),
        ),
        rollouts=(Rollout(text=case["response"], tokens=1),),
        canvas=(4, 4),
        count_tokens=len,
    )


def answered(
    what: str,
    made: ModuleType,
    space: dict[str, Any],
    seed: int,
    accuracy: Callable[..., float],
    **others: Any,
) -> Finding:
    """Accuracy and format of responses to questions; a "nan" that is officially right is
    left out.
    """

    def rows() -> Iterator[tuple[Any, Any, Any]]:
        for case in made.cases(seed, COUNT):
            shown = group(case, {"map": made.TRUE_MAP})
            with contextlib.redirect_stdout(io.StringIO()):
                official = made.scored(space, case, **others)
            ours = [accuracy(shown, shown.rollouts[0]), format_reward(case["response"])]
            if case["kind"] == "regression" and "nan" in case["response"]:
                official[0] = ours[0]  # documented: officially right whatever is true
            yield case, ours, official

    logging.disable(logging.CRITICAL)
    return compared(what, rows())


def spacer(official: Path, seed: int) -> Iterator[Finding]:
    """SpaceR's accuracy, which counts its map, and its format."""
    made = beside("spatial_rewards", "make_rewards")
    yield answered(
        "SpaceR's reward",
        made,
        made.spacer(official),
        seed,
        SpacerAccuracy(),
        path=["data/video.mp4"],
    )


def video_r1(official: Path, seed: int) -> Iterator[Finding]:
    """Video-R1's accuracy and format."""
    made = beside("spatial_rewards", "make_rewards")
    space = made.functions(
        official / made.VIDEO_R1 / "grpo.py",
        ("accuracy_reward", "format_reward"),
        made.plain_names(),
    )
    yield answered("Video-R1's reward", made, space, seed, VideoR1Accuracy())
