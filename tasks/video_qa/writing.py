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
    found: list[tuple[Scene, tuple[QA, ...]]] = []
    left = world.size
    for family in FAMILIES:
        for example in world.examples_of(family, split):
            if left < 1:
                return found
            chosen = tuple(_distinct((*example.quizzes, *every_qa(example.scene))))
            if chosen := chosen[: min(limit, left)]:
                found.append((example.scene, chosen))
                left -= len(chosen)
    return found


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


def write_table(
    path: Path, rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]
) -> None:
    """Write rows as one Parquet file, as the hub has it.

    Args:
        path: The file; its folder is made.
        rows: The cells of each row by column. Others are left out.
        columns: The type of each column: `text`, `texts`, `whole`, `real`, `images`, or `image`
            (`{"bytes": …, "path": …}`).
    """
    import pyarrow as pa
    from pyarrow import parquet

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    types = {
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "whole": pa.int64(),
        "real": pa.float64(),
        "image": image,
        "images": pa.list_(image),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    cells = [{name: row[name] for name in columns} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(cells, schema=schema), path, compression="zstd")
