"""Write sample data: generated videos in the layout of ActivityNet-QA."""

from pathlib import Path

from harness.tasks.rvos.writing import write_json
from harness.tasks.spatial.shapes import write_video
from harness.tasks.training.activitynet_qa.task import TYPES
from harness.world.scene import Scene, Split
from harness.world.shapes import World

SPLITS: dict[str, Split] = {"train": "train", "val": "val", "test": "test"}


def write(world: World, root: Path) -> None:
    """Write `root/activitynet_qa`: questions and answers of three splits, and their videos.

    A video has three questions, so a third of `world.size` videos has about `size` questions.
    """
    folder = root / "activitynet_qa"
    for name, split in SPLITS.items():
        requested, answered = [], []
        for scene in world.scenes("qa_video", split)[: max(1, world.size // 3)]:
            video = f"{split}{scene.index:05d}"
            write_video(folder / "videos" / f"v_{video}.mp4", scene)
            for number, (question, answer, type_number) in enumerate(questions(scene)):
                key = f"v_{video}_{number}"
                requested.append({"video_name": video, "question": question, "question_id": key})
                answered.append({"answer": answer, "type": type_number, "question_id": key})
        for letter, rows in (("q", requested), ("a", answered)):
            write_json(folder / "dataset" / f"{name}_{letter}.json", rows)


def questions(scene: Scene) -> list[tuple[str, str, int]]:
    """Return (question, short answer, number of its type in `TYPES`) for a scene's questions."""
    first = scene.things[0]
    moving = "yes" if any(thing.is_moving for thing in scene.things) else "no"
    return [
        ("does anything move in the video", moving, TYPES.index("yes/no")),
        (
            f"what colour is the {first.shape} or one of them",
            first.colour,
            TYPES.index("colour"),
        ),
        ("how many things are there", str(len(scene.things)), TYPES.index("number")),
    ]
