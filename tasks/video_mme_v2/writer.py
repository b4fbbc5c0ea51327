"""Write sample data: generated videos in the layout of Video-MME-v2, four questions each."""

from pathlib import Path

from harness.tasks.qa.options import lettered
from harness.tasks.rvos.writing import write_lines
from harness.tasks.video_mme_v2.scoring import CHAINS, GROUP
from harness.tasks.video_qa.writing import choose_questions, write_table, write_videos
from harness.world.qa import QA
from harness.world.scene import Scene
from harness.world.shapes import World

N_OPTIONS = 8  # of each question


def write(world: World, root: Path) -> None:
    """Write `root/video_mme_v2/test.parquet`, the videos, and the words of every second one."""
    folder = root / "video_mme_v2"
    videos = choose_questions(world, "test", limit=GROUP)
    groups = [(scene, questions) for scene, questions in videos if len(questions) == GROUP]
    if not groups:  # the world is too small
        return
    rows = []
    for number, (scene, questions) in enumerate(groups, start=1):
        write_videos(folder / "data", [scene], names=[f"{number:03d}"])
        rows += [
            _row(number, position, question) for position, question in enumerate(questions, start=1)
        ]
        if number % 2:
            write_lines(folder / "subtitle" / f"{number:03d}.jsonl", _words(scene))
    write_table(folder / "test.parquet", rows)


def _row(number: int, position: int, question: QA) -> dict[str, object]:
    """Return the row of a question; the group of every second video is a chain of reasoning.

    The chains have each structure in turn.
    """
    structures = list(CHAINS)
    logic = number % 2 == 0
    options = [*question.options]
    options += [f"none of these ({k})" for k in range(N_OPTIONS - len(options))]
    return {
        "video_id": f"{number:03d}",
        "question_id": f"{number:03d}-{position}",
        "question": question.text,
        "options": "\n".join(lettered(options)),
        "answer": question.letter,
        "group_type": "logic" if logic else "relevance",
        "group_structure": structures[number // 2 % len(structures)] if logic else None,
        "level": 1 + number % 3,
        "second_head": "motion",
        "third_head": question.kind,
    }


def _words(scene: Scene) -> list[dict[str, object]]:
    """Return words without hints at the answers: the number of every second."""
    return [
        {"text": f"second-{k}", "start_time": float(k), "end_time": k + 0.5}
        for k in range(scene.frames)
    ]
