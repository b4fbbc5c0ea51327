"""Write sample data: generated questions in the layout of SITE-Bench: records and image files."""

from pathlib import Path

from harness.tasks.rvos.writing import write_lines
from harness.tasks.site_bench.task import FIELDS
from harness.tasks.video_qa.benchmarks import asked, record
from harness.world.shapes import World

CATEGORY = "spatial relationship reasoning"


def write(world: World, root: Path) -> None:
    """Write `root/site_bench/image_test.jsonl` and its images."""
    folder = root / "site_bench"
    (folder / "images").mkdir(parents=True)
    rows = []
    for example in asked(world):
        name = f"images/{example.number:03d}.png"
        (folder / name).write_bytes(example.image["bytes"])
        row = record(FIELDS, example, category=CATEGORY, dataset="shapes", visual=[name])
        rows.append(row)
    write_lines(folder / "image_test.jsonl", rows)
