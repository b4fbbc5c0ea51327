"""The generated world's videos and their questions with options, as the writers need them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.tasks.spatial.shapes import write_video
from harness.world.qa import QA, every_qa
from harness.world.scene import Scene, Split
from harness.world.shapes import World

FAMILIES = ("qa_video", "arrivals")


def choose_questions(
    world: World, split: Split, *, limit: int = 3
) -> list[tuple[Scene, tuple[QA, ...]]]:
    """Videos of the world, each with up to `limit` questions with options, `size` in all.

    The world's own questions come first, then others that the scene allows.
    """
    videos: list[tuple[Scene, tuple[QA, ...]]] = []
    left = world.size
    for family in FAMILIES:
        for example in world.examples_of(family, split):
            if left < 1:
                return videos
            chosen = tuple(_distinct((*example.quizzes, *every_qa(example.scene))))
            if chosen := chosen[: min(limit, left)]:
                videos.append((example.scene, chosen))
                left -= len(chosen)
    return videos


def _distinct(questions: Sequence[QA]) -> Iterator[QA]:
    seen = set()
    for question in questions:
        if not question.is_number and question.text not in seen:
            seen.add(question.text)
            yield question


def name(scene: Scene) -> str:
    """Return a file's name for a scene; scenes of several families share one folder."""
    return f"{scene.family}_{scene.index:05d}"


def write_videos(
    folder: Path, scenes: Sequence[Scene], *, names: Sequence[str] | None = None
) -> None:
    """Write scenes as MP4 into a folder, one frame a second; `names` are other than `name`'s."""
    for scene, stem in zip(scenes, names or map(name, scenes), strict=True):
        write_video(folder / f"{stem}.mp4", scene)


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as one Parquet file, as the hub has it; its folder is made."""
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(list(rows)), path, compression="zstd")
