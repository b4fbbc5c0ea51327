"""Write sample data: generated videos in SumMe's layout, with described scenes as references."""

from pathlib import Path

from harness.tasks.rvos.writing import write_lines
from harness.tasks.spatial.shapes import write_video
from harness.tasks.training.summe.task import REFERENCES
from harness.world.scene import Scene
from harness.world.shapes import World

MADE_BY = {"captioner": "the generated world's own description", "prompt": "", "hash": ""}


def write(world: World, root: Path) -> None:
    """Write `root/summe/references.jsonl` and the videos, a third of `size`, three at least."""
    folder = root / "summe"
    lines = []
    for scene in world.scenes("qa_video", "val")[: max(3, world.size // 3)]:
        name = f"Shapes_{scene.index:02d}"
        write_video(folder / "videos" / f"{name}.mp4", scene)
        lines.append({"video": name, "reference": scene_sentence(scene), "made_by": MADE_BY})
    write_lines(folder / REFERENCES, lines)


def scene_sentence(scene: Scene) -> str:
    """Describe the events of a scene in a sentence."""
    moving = [f"a {thing.colour} {thing.shape}" for thing in scene.things if thing.is_moving]
    still = len(scene.things) - len(moving)
    standing = "nothing else"
    if still:
        standing = f"{still} other thing{'s' if still > 1 else ''}"
    if not moving:
        return f"Nothing moves; {standing} can be seen."
    verb = "moves" if len(moving) == 1 else "move"
    return f"{' and '.join(moving)} {verb} while {standing} can be seen."
