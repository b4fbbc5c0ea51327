"""Write sample data: moving scenes as GroundMoRe (frames, object masks, questions with times)."""

from pathlib import Path

from harness.tasks.rvos.writing import write_json, write_labels
from harness.tasks.training.groundmore.task import FILES, RATE, TYPES
from harness.world.encode import write_jpeg
from harness.world.language import Question
from harness.world.raster import render
from harness.world.scene import Scene, Split
from harness.world.shapes import World

FIRST_START = 60  # second of the whole video at which the first clip begins
SPLITS: dict[str, Split] = {"train": "train", "test": "test"}


def write(world: World, root: Path) -> None:
    """Write `root/groundmore`: for each split, a file of questions about at most `size` clips.

    Clips have eight frames, six per second. The action begins with the clip and lasts a second, so
    the last two frames have no target.
    """
    folder = root / "groundmore"
    for name, split in SPLITS.items():
        videos: dict[str, object] = {}
        for example in world.examples_of("video", split)[: world.size]:
            clip = clip_name(example.scene)
            _write_frames(example.scene, folder / "annotations" / clip)
            videos[clip] = {
                "questions": {
                    str(number): _question(example.scene, question, number)
                    for number, question in enumerate(example.questions)
                }
            }
        write_json(folder / FILES[name][0], {"videos": videos})


def clip_name(scene: Scene) -> str:
    """Return a clip's name: that of the whole video, and the clip's bounds in it as MMSS_MMSS."""
    start = FIRST_START + 2 * scene.index
    return f"shapes_{scene.split}_{_clock(start, '')}_{_clock(start + 2, '')}"


def _clock(second: int, colon: str) -> str:
    """Return a time as MM:SS; `colon` is the text between minutes and seconds."""
    return f"{second // 60:02d}{colon}{second % 60:02d}"


def _question(scene: Scene, question: Question, number: int) -> dict[str, object]:
    """Return the entry of a question; its action is the first second of the clip."""
    start = FIRST_START + 2 * scene.index
    objects = ", ".join(str(referent + 1) for referent in question.referents)
    return {
        "question": question.text,
        "answer": f"{question.count} of them",
        "obj_id": objects,
        "q_type": TYPES[number % len(TYPES)],
        "action_start": _clock(start, ":"),
        "action_end": _clock(start + 1, ":"),
    }


def _write_frames(scene: Scene, folder: Path) -> None:
    """Write all frames of a scene, and the masks of its first second."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    numbers = range(1, len(scene.things) + 1)
    for frame in range(scene.frames):
        write_jpeg(folder / "images" / f"frame_{frame:06d}.jpg", render(scene, frame))
    write_labels(scene, folder / "masks", range(min(scene.frames, RATE)), values=list(numbers))
    for path in sorted((folder / "masks").glob("*.png")):
        path.rename(path.with_name(f"frame_{int(path.stem):06d}.png"))
