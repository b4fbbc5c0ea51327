"""Write sample data: generated videos in the layout of Charades-STA, on when a thing is visible."""

from pathlib import Path

import numpy as np

from harness.tasks.video_qa.writing import name, write_table, write_videos
from harness.world.qa_video import interval
from harness.world.quiz import called
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/charades_sta/data/test-00000-of-00001.parquet` and `Charades_v1_480`."""
    folder = root / "charades_sta"
    scenes = world.scenes("arrivals", "test")
    write_videos(folder / "Charades_v1_480", scenes)
    rows = []
    for number in range(world.size):
        scene = scenes[number % len(scenes)]
        named_things = called(scene)
        index, phrase = named_things[number % len(named_things)]
        visible = interval(scene, index)
        rows.append(
            {
                "video": f"{name(scene)}.mp4",
                "caption": f"the {phrase} is in the picture",
                "timestamp": [np.float16(visible.start), np.float16(visible.end)],  # as on the hub
            }
        )
    write_table(folder / "data" / "test-00000-of-00001.parquet", rows)
