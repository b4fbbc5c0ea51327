"""Videos of the generated world in the layout of MVBench: one question of each of its tasks."""

from itertools import cycle
from pathlib import Path

from harness.tasks.mvbench.task import FIELDS, FOLDERS
from harness.tasks.rvos.writing import write_json
from harness.tasks.video_qa.benchmarks import asked, record
from harness.tasks.video_qa.writing import name, write_videos
from harness.world.shapes import World

CLIPPED = ("action_sequence", "action_prediction", "object_interaction", "action_localization")


def write(world: World, root: Path) -> None:
    """Write `root/mvbench/json/*.json` and the videos below `root/mvbench/video`."""
    place = root / "mvbench"
    for task, one in zip(FOLDERS, cycle(asked(world)), strict=False):
        if not (place / "video" / FOLDERS[task] / f"{name(one.scene)}.mp4").exists():
            write_videos(place / "video" / FOLDERS[task], [one.scene])
        clip = {"start": 0.0, "end": one.scene.frames / 2} if task in CLIPPED else {}
        row = record(FIELDS, one, video=f"{name(one.scene)}.mp4", **clip)
        write_json(place / "json" / f"{task}.json", [row])
