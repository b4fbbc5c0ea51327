"""Write moving scenes as GroundMoRe: frames, masks by object, questions with times."""

from pathlib import Path

from harness.tasks.rvos.writing import write_json, write_labels
from harness.tasks.training.groundmore.task import FILES, RATE, TYPES
from harness.world.encode import write_jpeg
from harness.world.language import Question
from harness.world.raster import render
from harness.world.scene import Scene, Split
from harness.world.shapes import World

STARTS = 60  # seconds of the whole video before the first clip
SPLITS: dict[str, Split] = {"train": "train", "test": "test"}


def write(world: World, root: Path) -> None:
    """Write `root/groundmore`: two files of questions, and a folder a clip; `size` of them each.

    Clips are eight frames, six a second: the action begins with the clip and lasts a second, so
    that the last two frames have no target.
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
    """Return a clip's name: its whole video's, and its bounds in that as MMSS_MMSS."""
    start = STARTS + 2 * scene.index
    return f"shapes_{scene.split}_{_clock(start, '')}_{_clock(start + 2, '')}"


def _clock(second: int, colon: str) -> str:
    """Return `MM:SS`, with `colon` in the colon's place."""
    return f"{second // 60:02d}{colon}{second % 60:02d}"


def _question(scene: Scene, question: Question, number: int) -> dict[str, object]:
    """Return the entry of a question; its action is the first second of the clip."""
    start = STARTS + 2 * scene.index
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
