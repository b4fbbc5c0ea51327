"""Questions of the generated world in the layout of SITE-Bench: records, images beside them."""

import json
from pathlib import Path

from harness.tasks.site_bench.task import FIELDS
from harness.tasks.video_qa.benchmarks import asked, record
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/site_bench/image_test.jsonl` and its images."""
    place = root / "site_bench"
    (place / "images").mkdir(parents=True)
    lines = []
    for example in asked(world):
        name = f"images/{example.number:03d}.png"
        own = {"category": "spatial relationship reasoning"}
        (place / name).write_bytes(example.image["bytes"])
        lines.append(json.dumps(record(FIELDS, example, **own, dataset="shapes", visual=[name])))
    (place / "image_test.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
