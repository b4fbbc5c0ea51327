"""Questions of the generated world in the layout of SITE-Bench: records, images beside them."""

import json
from pathlib import Path

from harness.tasks.video_qa.benchmarks import asked
from harness.world.encode import encode_png
from harness.world.raster import render
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/site_bench/image_test.jsonl` and its images."""
    place = root / "site_bench"
    (place / "images").mkdir(parents=True)
    lines = []
    for number, scene, question in asked(world):
        name = f"images/{number:03d}.png"
        (place / name).write_bytes(encode_png(render(scene)))
        record = {
            "question": question.text,
            "options": list(question.options),
            "answer": question.letter,
            "category": "spatial relationship reasoning",
            "dataset": "shapes",
            "visual": [name],
        }
        lines.append(json.dumps(record))
    (place / "image_test.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
