"""Write sample data: generated videos in the layout of SR-91k, with their grid maps."""

from pathlib import Path

from harness.tasks.rvos.writing import write_lines
from harness.tasks.spatial import shapes
from harness.tasks.spatial.shapes import write_video
from harness.tasks.training.question_writing import record
from harness.tasks.training.sr_91k.task import FILES, GRID_SIDE, MAPS_FILE, SPACER_SOURCE
from harness.world.scene import Scene
from harness.world.shapes import World

QUESTIONS = (shapes.distance, shapes.third_question, shapes.count, shapes.appearance)


def write(world: World, root: Path) -> None:
    """Write `root/sr_91k/SR-91k.jsonl`, at most `size` questions, the maps and the videos."""
    folder = root / "sr_91k"
    scenes = world.scenes("qa_video", "train")[: max(1, world.size // 3)]
    rows = []
    for scene in scenes:
        path = f"SR/videos/{name(scene)}.mp4"
        write_video(folder / path, scene)
        rows += [
            record(question(scene), 0, path=f"/{path}", video=True, source=SPACER_SOURCE)
            for question in QUESTIONS
        ]
    numbered_rows = [{**row, "problem_id": k} for k, row in enumerate(rows[: world.size], start=1)]
    write_lines(folder / FILES[0], numbered_rows)
    write_lines(folder / MAPS_FILE, [_map(scene) for scene in scenes])


def name(scene: Scene) -> str:
    """Return the name of a scene, in the form of ScanNet's scans."""
    return f"scene{scene.index:04d}_00"


def _map(scene: Scene) -> dict[str, object]:
    """Return the map of a video: the grid cells of the image in which its things start."""
    cells: dict[str, list[list[int]]] = {}
    for thing in scene.things:
        column, row = thing.x * GRID_SIDE // scene.width, thing.y * GRID_SIDE // scene.height
        cell = [min(max(number, 0), GRID_SIDE - 1) for number in (column, row)]
        cells.setdefault(thing.shape, []).append(cell)
    return {"video_id": name(scene), "cognitive_map": cells, "object_list": sorted(cells)}
