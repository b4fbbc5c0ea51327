"""Video scenes as records of RVTBench and JiTBench, by the default mapping."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from harness.masks import BoolArray, Rle
from harness.tasks.rvos.writing import (
    frame_name,
    joint_masks,
    some_frames,
    video_name,
    write_lines,
    write_some,
)
from harness.world.draws import Draws
from harness.world.language import SIZE_WORDS, Question
from harness.world.raster import edges
from harness.world.scene import COMBINATIONS, Combination, Scene, Thing
from harness.world.shapes import World

Kind: TypeAlias = Literal["segmentation", "grounding", "vqa", "summary"]
GroundTruth: TypeAlias = dict[str, object]

CATEGORIES = ("semantic", "spatial", "temporal")
OPTIONS = 4


def records_writer(
    kind: Kind, *, benchmark: str = "rvtbench", levels: int = 4, annotations: str = ""
) -> Callable[[World, Path], None]:
    """Return a writer of the world's `test` split, with a record for each of its questions.

    Args:
        kind: The kind of answer.
        benchmark: The name of its folder; tasks that share it share the videos.
        levels: Questions take turns in levels and categories.
        annotations: The file of the records below the folder; by default RVTBench's of this kind.
    """

    def write(world: World, root: Path) -> None:
        """Write the videos and the records."""
        folder = root / benchmark
        for scene in world.scenes("video", "test"):
            write_some(scene, folder / "videos" / video_name(scene))
        path = folder / (annotations or f"annotations/{kind}.jsonl")
        write_lines(path, records(world, kind, levels=levels))

    return write


def records(world: World, kind: Kind, *, levels: int) -> Iterator[dict[str, object]]:
    """One record a question."""
    number = 0
    for example in world.examples_of("video", "test"):
        for question in example.questions:
            level = 1 + number % levels
            category = CATEGORIES[(number + number // levels) % len(CATEGORIES)]
            video = video_name(example.scene)
            query, ground_truth = ASKED[kind](example.scene, question)
            yield {
                "id": f"{video}_L{level}_{category}_{number:04d}",
                "task": kind,
                "level": level,
                "category": category,
                "video": video,
                "frames": [frame_name(frame) for frame in some_frames(example.scene)],
                "query": query,
                **ground_truth,
            }
            number += 1


def _masks(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    masks = zip(some_frames(scene), _referents(scene, question), strict=True)
    rles = [
        {"frame": frame_name(frame), "rle": Rle.from_array(mask).to_json()}
        for frame, mask in masks
        if mask.any()
    ]
    return question.text, {"gt": {"masks": rles}}


def _boxes(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    boxes = {}
    for frame, mask in zip(some_frames(scene), _referents(scene, question), strict=True):
        if mask.any():
            boxes[frame_name(frame)] = list(edges(mask))
    return question.text, {"gt": {"boxes": boxes}}


def _referents(scene: Scene, question: Question) -> Sequence[BoolArray]:
    return joint_masks(scene, question.referents, some_frames(scene))


def _answer(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    """Return the text's referents in words, with three wrong options."""
    right = _join_texts([thing_phrase(scene.things[index]) for index in question.referents])
    draws = Draws(scene.seed, scene.id, "rvtbench", question.text)
    others = [text for text in map(thing_phrase, draws.shuffle(COMBINATIONS)) if text != right]
    options = draws.shuffle([right, *others[: OPTIONS - 1]])
    letter = "ABCD"[options.index(right)]
    query = f"Say size, colour and shape of what this refers to: {question.text}"
    return query, {"options": options, "gt": {"text": right, "choice": letter}}


def _summary(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    target = set(question.referents)
    counts = _join_texts(
        [
            f"{thing_phrase(thing)} that {'moves' if thing.is_moving else 'stands still'}"
            for index, thing in enumerate(scene.things)
            if index in target
        ]
    )
    query = f"Summarise the video with regard to this: {question.text}"
    return query, {"gt": {"text": f"among {len(scene.things)} objects there is {counts}"}}


def thing_phrase(thing: Thing | Combination) -> str:
    """Return the description of a thing, such as `a small red circle`."""
    return f"a {SIZE_WORDS[thing.size]} {thing.colour} {thing.shape}"


def _join_texts(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


ASKED: dict[Kind, Callable[[Scene, Question], tuple[str, GroundTruth]]] = {
    "segmentation": _masks,
    "grounding": _boxes,
    "vqa": _answer,
    "summary": _summary,
}
