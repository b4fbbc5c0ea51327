"""The generated world's videos and their questions with options, as the writers need them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.tasks.spatial.shapes import write_video
from harness.world.qa import QA, every_qa
from harness.world.scene import Scene, Split
from harness.world.shapes import World

FAMILIES = ("qa_video", "arrivals")


def asked(world: World, split: Split, *, most: int = 3) -> list[tuple[Scene, tuple[QA, ...]]]:
    """Videos of the world, each with up to `most` questions with options, `size` in all.

    The world's own questions come first, then others that the scene allows.
    """
    found: list[tuple[Scene, tuple[QA, ...]]] = []
    left = world.size
    for family in FAMILIES:
        for example in world.of(family, split):
            if left < 1:
                return found
            chosen = tuple(_different((*example.quizzes, *every_qa(example.scene))))
            if chosen := chosen[: min(most, left)]:
                found.append((example.scene, chosen))
                left -= len(chosen)
    return found


def _different(questions: Sequence[QA]) -> Iterator[QA]:
    seen = set()
    for question in questions:
        if not question.is_number and question.text not in seen:
            seen.add(question.text)
            yield question


def name(scene: Scene) -> str:
    """A file's name for a scene; scenes of several families lie in one folder."""
    return f"{scene.family}_{scene.index:05d}"


def write_videos(folder: Path, scenes: Sequence[Scene]) -> None:
    """Write scenes as MP4 into a folder, one frame a second."""
    for scene in scenes:
        write_video(folder / f"{name(scene)}.mp4", scene)
