"""Questions of the generated world in BLINK's tables: one of its tasks, with two images."""

from pathlib import Path

from harness.tasks.video_qa.benchmarks import images, in_text, write_rows
from harness.world.shapes import World

COLUMNS = {
    "idx": "text",
    "sub_task": "text",
    "question": "text",
    "choices": "texts",
    "answer": "text",
    "prompt": "text",
    **{f"image_{k}": "image" for k in (1, 2, 3, 4)},
}


def write(world: World, root: Path) -> None:
    """Write `root/blink/Multi-view_Reasoning/val-00000-of-00001.parquet`."""
    write_rows(
        world,
        root / "blink" / "Multi-view_Reasoning" / "val-00000-of-00001.parquet",
        COLUMNS,
        lambda number, scene, question: {
            "idx": f"val_Multi-view_Reasoning_{number + 1}",
            "sub_task": "Multi-view_Reasoning",
            "question": question.text,
            "choices": list(question.options),
            "answer": f"({question.letter})",
            "prompt": in_text(question),
            "image_3": None,
            "image_4": None,
            **dict(zip(("image_1", "image_2"), images(scene), strict=True)),
        },
    )
