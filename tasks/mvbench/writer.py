"""Write sample data: generated videos in the layout of MVBench, one question of each task."""

from itertools import cycle
from pathlib import Path

from harness.tasks.mvbench.task import FIELDS, FOLDERS, FRAMES_PER_SECOND
from harness.tasks.rvos.writing import write_json
from harness.tasks.video_qa.benchmarks import asked, record
from harness.tasks.video_qa.writing import name, write_videos
from harness.world.encode import write_jpeg
from harness.world.raster import render
from harness.world.scene import Scene
from harness.world.shapes import World

TASKS_WITH_CLIPS = (
    "action_sequence",
    "action_prediction",
    "object_interaction",
    "action_localization",
    "episodic_reasoning",
)
"""Tasks whose questions are about a part of the video."""


def write(world: World, root: Path) -> None:
    """Write `root/mvbench/json/*.json` and the videos below `root/mvbench/video`."""
    benchmark_folder = root / "mvbench"
    for task, example in zip(FOLDERS, cycle(asked(world)), strict=False):
        video, folder = f"{name(example.scene)}.mp4", benchmark_folder / "video" / FOLDERS[task]
        if task == "episodic_reasoning":  # the only task with folders of frames
            video = name(example.scene)
            _write_frames(folder / video, example.scene)
        elif not (folder / video).exists():
            write_videos(folder, [example.scene])
        clip = {"start": 0.0, "end": example.scene.frames / 2} if task in TASKS_WITH_CLIPS else {}
        row = record(FIELDS, example, video=video, **clip)
        write_json(benchmark_folder / "json" / f"{task}.json", [row])


def _write_frames(folder: Path, scene: Scene) -> None:
    """Write a scene (one frame per second) as images at FRAMES_PER_SECOND from `00001.jpg`."""
    folder.mkdir(parents=True, exist_ok=True)
    rate = round(FRAMES_PER_SECOND)
    for number in range(rate * scene.frames):
        write_jpeg(folder / f"{number + 1:05d}.jpg", render(scene, number // rate))
