"""Write sample data: video scenes as records of RVTBench and JiTBench, with the default mapping."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from harness.masks import BoolArray, Rle
from harness.tasks.rvos.writing import (
    frame_name,
    joint_masks,
    sampled_frames,
    video_name,
    write_lines,
    write_sampled_frames,
)
from harness.world.draws import Draws
from harness.world.language import SIZE_WORDS, Question
from harness.world.raster import edges
from harness.world.scene import COMBINATIONS, Combination, Scene, Thing
from harness.world.shapes import World

AnswerKind: TypeAlias = Literal["segmentation", "grounding", "vqa", "summary"]
GroundTruth: TypeAlias = dict[str, object]

CATEGORIES = ("semantic", "spatial", "temporal")
N_OPTIONS = 4  # of a question with a choice


def records_writer(
    answer_kind: AnswerKind, *, benchmark: str = "rvtbench", levels: int = 4, annotations: str = ""
) -> Callable[[World, Path], None]:
    """Return a writer of the world's `test` split, with a record for each of its questions.

    Args:
        answer_kind: The form of answer, which is the benchmark's task.
        benchmark: Folder of the benchmark; its tasks share the videos.
        levels: Number of levels; questions take levels and categories in turns.
        annotations: File of the records below the folder; by default RVTBench's for this kind.
    """

    def write(world: World, root: Path) -> None:
        """Write the videos and the records."""
        folder = root / benchmark
        for scene in world.scenes("video", "test"):
            write_sampled_frames(scene, folder / "videos" / video_name(scene))
        path = folder / (annotations or f"annotations/{answer_kind}.jsonl")
        write_lines(path, records(world, answer_kind, levels=levels))

    return write


def records(world: World, answer_kind: AnswerKind, *, levels: int) -> Iterator[dict[str, object]]:
    """Yield one record for each question of the world's `test` videos."""
    number = 0
    for example in world.examples_of("video", "test"):
        for question in example.questions:
            level = 1 + number % levels
            category = CATEGORIES[(number + number // levels) % len(CATEGORIES)]
            video = video_name(example.scene)
            query, ground_truth = QUERY_AND_TRUTH[answer_kind](example.scene, question)
            yield {
                "id": f"{video}_L{level}_{category}_{number:04d}",
                "task": answer_kind,
                "level": level,
                "category": category,
                "video": video,
                "frames": [frame_name(frame) for frame in sampled_frames(example.scene)],
                "query": query,
                **ground_truth,
            }
            number += 1


def _masks(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    """Return the question, and the masks of its referents in each frame that shows them."""
    masks = zip(sampled_frames(scene), _referents(scene, question), strict=True)
    rles = [
        {"frame": frame_name(frame), "rle": Rle.from_array(mask).to_json()}
        for frame, mask in masks
        if mask.any()
    ]
    return question.text, {"gt": {"masks": rles}}


def _boxes(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    """Return the question, and the box around its referents in each frame that shows them."""
    boxes = {}
    for frame, mask in zip(sampled_frames(scene), _referents(scene, question), strict=True):
        if mask.any():
            boxes[frame_name(frame)] = list(edges(mask))
    return question.text, {"gt": {"boxes": boxes}}


def _referents(scene: Scene, question: Question) -> Sequence[BoolArray]:
    """Return the union of the referents' visible masks, one per written frame."""
    return joint_masks(scene, question.referents, sampled_frames(scene))


def _answer(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    """Return a question for the referents' descriptions, with the answer and its options."""
    right = _join_texts([thing_phrase(scene.things[index]) for index in question.referents])
    draws = Draws(scene.seed, scene.id, "rvtbench", question.text)
    wrong = [text for text in map(thing_phrase, draws.shuffle(COMBINATIONS)) if text != right]
    options = draws.shuffle([right, *wrong[: N_OPTIONS - 1]])
    letter = "ABCD"[options.index(right)]
    query = f"Say size, colour and shape of what this refers to: {question.text}"
    return query, {"options": options, "gt": {"text": right, "choice": letter}}


def _summary(scene: Scene, question: Question) -> tuple[str, GroundTruth]:
    """Return a request for a summary, and the true summary, which describes the referents."""
    target = set(question.referents)
    phrases = _join_texts(
        [
            f"{thing_phrase(thing)} that {'moves' if thing.is_moving else 'stands still'}"
            for index, thing in enumerate(scene.things)
            if index in target
        ]
    )
    query = f"Summarise the video with regard to this: {question.text}"
    return query, {"gt": {"text": f"among {len(scene.things)} objects there is {phrases}"}}


def thing_phrase(thing: Thing | Combination) -> str:
    """Return the description of a thing, such as `a small red circle`."""
    return f"a {SIZE_WORDS[thing.size]} {thing.colour} {thing.shape}"


def _join_texts(phrases: Sequence[str]) -> str:
    """Join at least one phrase as an enumeration: "a, b and c"."""
    *first, last = phrases
    return f"{', '.join(first)} and {last}" if first else last


QUERY_AND_TRUTH: dict[AnswerKind, Callable[[Scene, Question], tuple[str, GroundTruth]]] = {
    "segmentation": _masks,
    "grounding": _boxes,
    "vqa": _answer,
    "summary": _summary,
}
