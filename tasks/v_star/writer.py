"""Write sample data: generated videos in V-STaR's format.

The scenes are of the family `arrivals`, in which things enter and leave the image.
"""

import json
from pathlib import Path

from harness.tasks.spatial.shapes import RATE, write_video
from harness.world.qa_video import interval, visible_frames
from harness.world.quiz import called
from harness.world.raster import edges, visible_masks
from harness.world.scene import Scene
from harness.world.shapes import World

FAMILY = "arrivals"


def write(world: World, root: Path) -> None:
    """Write `world.size` items and the videos of all scenes below `root/v_star`."""
    scenes = world.scenes(FAMILY, "test")
    folder = root / "v_star"
    items = [_item(scenes[number % len(scenes)], number) for number in range(world.size)]
    for scene in scenes:
        write_video(folder / "videos" / f"{_name(scene)}.mp4", scene)
    text = json.dumps(items, indent=1) + "\n"
    (folder / "V_STaR_test.json").write_text(text, encoding="utf-8", newline="\n")


def _name(scene: Scene) -> str:
    """Return a video's `vid`, its file name without suffix."""
    return f"{FAMILY}_{scene.index:05d}"


def _item(scene: Scene, number: int) -> dict[str, object]:
    """Return an item about a thing of the scene; `number` counts all items."""
    named_things = called(scene)
    index, phrase = named_things[number % len(named_things)]
    thing, visible = scene.things[index], interval(scene, index)
    return {
        "vid": _name(scene),
        "domain": "Shapes",
        "fps": float(RATE),
        "width": scene.width,
        "height": scene.height,
        "frame_count": scene.frames,
        "question": f"Is the {phrase} small, medium or large?",
        "chain": "",
        "object": phrase,
        "answer": f"It is {thing.size}.",
        "temporal_question": f"When is the {phrase} in the picture?",
        "timestamps": [visible.start, visible.end],
        "spatial_question": f"Where is the {phrase} while it is in the picture?",
        "spatial_question_2": f"Where is the {phrase}?",
        "bboxes": [_box(scene, index, frame) for frame in visible_frames(scene, index)],
    }


def _box(scene: Scene, index: int, frame: int) -> dict[str, int]:
    """Return the entry of `bboxes` for a thing in a frame, in pixels."""
    sides = edges(visible_masks(scene, frame)[index])
    box = dict(zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=True))
    return {"timestamp": frame // RATE, "frame_index": frame, **box}
