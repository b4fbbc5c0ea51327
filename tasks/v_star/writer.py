"""Write the generated world's `arrivals` scenes, which things enter and leave, as V-STaR."""

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
    items = [_item(scenes[place % len(scenes)], place) for place in range(world.size)]
    for scene in scenes:
        write_video(folder / "videos" / f"{_name(scene)}.mp4", scene)
    text = json.dumps(items, indent=1) + "\n"
    (folder / "V_STaR_test.json").write_text(text, encoding="utf-8", newline="\n")


def _name(scene: Scene) -> str:
    return f"{FAMILY}_{scene.index:05d}"


def _item(scene: Scene, place: int) -> dict[str, object]:
    things = called(scene)
    index, words = things[place % len(things)]
    thing, visible = scene.things[index], interval(scene, index)
    return {
        "vid": _name(scene),
        "domain": "Shapes",
        "fps": float(RATE),
        "width": scene.width,
        "height": scene.height,
        "frame_count": scene.frames,
        "question": f"Is the {words} small, medium or large?",
        "chain": "",
        "object": words,
        "answer": f"It is {thing.size}.",
        "temporal_question": f"When is the {words} in the picture?",
        "timestamps": [visible.start, visible.end],
        "spatial_question": f"Where is the {words} while it is in the picture?",
        "spatial_question_2": f"Where is the {words}?",
        "bboxes": [_box(scene, index, frame) for frame in visible_frames(scene, index)],
    }


def _box(scene: Scene, index: int, frame: int) -> dict[str, int]:
    sides = edges(visible_masks(scene, frame)[index])
    box = dict(zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=True))
    return {"timestamp": frame // RATE, "frame_index": frame, **box}
