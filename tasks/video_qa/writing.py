"""Choose generated videos with multiple-choice questions, and write them as MP4 and Parquet.

Writers of sample data of the video benchmarks share this.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.tasks.spatial.shapes import write_video
from harness.world.qa import QA, every_qa
from harness.world.scene import Scene, Split
from harness.world.shapes import World

FAMILIES = ("qa_video", "arrivals")
"""Families of the generated world's examples that have videos with multiple-choice questions."""


def choose_questions(
    world: World, split: Split, *, limit: int = 3
) -> list[tuple[Scene, tuple[QA, ...]]]:
    """Return videos with at most `limit` multiple-choice questions each, `world.size` in total.

    A video's own questions come first, then further questions about its scene.
    """
    videos: list[tuple[Scene, tuple[QA, ...]]] = []
    remaining = world.size
    for family in FAMILIES:
        for example in world.examples_of(family, split):
            if remaining < 1:
                return videos
            candidates = _multiple_choice((*example.quizzes, *every_qa(example.scene)))
            questions = tuple(candidates)[: min(limit, remaining)]
            if questions:
                videos.append((example.scene, questions))
                remaining -= len(questions)
    return videos


def _multiple_choice(questions: Sequence[QA]) -> Iterator[QA]:
    """Yield the multiple-choice questions; of questions with equal texts, only the first."""
    earlier_texts = set()
    for question in questions:
        if not question.is_number and question.text not in earlier_texts:
            earlier_texts.add(question.text)
            yield question


def name(scene: Scene) -> str:
    """Return the file name of a scene, without suffix; the family makes it unique in a folder."""
    return f"{scene.family}_{scene.index:05d}"


def write_videos(
    folder: Path, scenes: Sequence[Scene], *, names: Sequence[str] | None = None
) -> None:
    """Write each scene as an MP4 of one frame per second.

    Args:
        folder: The folder of the files.
        scenes: The scenes.
        names: File names without suffix, one per scene; by default those of `name`.
    """
    for scene, stem in zip(scenes, names or map(name, scenes), strict=True):
        write_video(folder / f"{stem}.mp4", scene)


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as one Parquet file, as on the Hugging Face hub; create its folder."""
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(list(rows)), path, compression="zstd")
