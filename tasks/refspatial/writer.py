"""Write sample data: still scenes as the Hugging Face tables of RefSpatial-Bench."""

from collections.abc import Mapping
from pathlib import Path

from harness.tasks.pointing.writing import pointed
from harness.tasks.refer.tables import image
from harness.tasks.video_qa.writing import write_table
from harness.world.scene import Split
from harness.world.shapes import World

SPLITS: Mapping[str, Split] = {"location": "val", "placement": "test", "unseen": "train"}
SUFFIX = "Your answer should be formatted as a list of tuples, i.e. [(x1, y1)]."


def write(world: World, root: Path, *, splits: Mapping[str, Split] = SPLITS) -> None:
    """Write `root/refspatial/data/{location,placement,unseen}-*.parquet`."""
    for name, split in splits.items():
        rows = [
            {
                "id": number,
                "image": image(example.scene, f"{example.scene.index}.png"),
                "mask": {"bytes": example.encoded, "path": f"mask_{example.scene.index}.png"},
                "object": example.question.text,
                "prompt": f"Please point out {example.question.text}",
                "suffix": SUFFIX,
                "step": 1 + number % 3,
            }
            for number, example in enumerate(pointed(world, split))
            if number < world.size
        ]
        write_table(root / "refspatial" / "data" / f"{name}-00000-of-00001.parquet", rows)
