"""Videos of the generated world in the layout of Charades-STA: when a thing is in the picture."""

from pathlib import Path

import numpy as np

from harness.tasks.video_qa.writing import name, write_table, write_videos
from harness.world.qa_video import interval
from harness.world.quiz import called
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/charades_sta/data/test-00000-of-00001.parquet` and `Charades_v1_480`."""
    place = root / "charades_sta"
    scenes = world.scenes("arrivals", "test")
    write_videos(place / "Charades_v1_480", scenes)
    rows = []
    for number in range(world.size):
        scene = scenes[number % len(scenes)]
        things = called(scene)
        index, words = things[number % len(things)]
        seen = interval(scene, index)
        rows.append(
            {
                "video": f"{name(scene)}.mp4",
                "caption": f"the {words} is in the picture",
                "timestamp": [np.float16(seen.start), np.float16(seen.end)],  # as on the hub
            }
        )
    write_table(place / "data" / "test-00000-of-00001.parquet", rows)
