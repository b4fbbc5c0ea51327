"""Videos of the generated world in the layout of MVBench: one question of each of its tasks."""

from itertools import cycle
from pathlib import Path

from harness.tasks.mvbench.task import FOLDERS
from harness.tasks.rvos.writing import write_json
from harness.tasks.video_qa.benchmarks import asked
from harness.tasks.video_qa.writing import name, write_videos
from harness.world.shapes import World

CLIPPED = ("action_sequence", "action_prediction", "object_interaction", "action_localization")


def write(world: World, root: Path) -> None:
    """Write `root/mvbench/json/*.json` and the videos below `root/mvbench/video`."""
    place = root / "mvbench"
    for task, (_, scene, question) in zip(FOLDERS, cycle(asked(world)), strict=False):
        if not (place / "video" / FOLDERS[task] / f"{name(scene)}.mp4").exists():
            write_videos(place / "video" / FOLDERS[task], [scene])
        record: dict[str, object] = {
            "video": f"{name(scene)}.mp4",
            "question": question.text,
            "candidates": list(question.options),
            "answer": question.answer,
        }
        if task in CLIPPED:
            record |= {"start": 0.0, "end": scene.frames / 2}
        write_json(place / "json" / f"{task}.json", [record])
