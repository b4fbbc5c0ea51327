"""Ground truth and protocol of RVTBench's and JiTBench's questions for masks in every frame."""

from functools import partial

from harness.tasks.rvos.scoring import by_expressions
from harness.tasks.rvtbench.records import Record, masks_of
from harness.tasks.rvtbench.task import Film, build
from harness.types import Answer, AnswerForm, Target

PROTOCOLS = {
    "rvos/mevis": by_expressions(
        "J and F as tools/eval_mevis.py computes them: all frames, all questions alike; how the "
        "papers average is not published"
    )
}


def masks_target(record: Record, film: Film) -> Target:
    """Return the target of a record: its masks, one per frame."""
    return Target(answer=Answer(masks=masks_of(record, film.names, film.media.size)))


segmentation_task = partial(
    build, task_key="segmentation", form=AnswerForm.MASK_TRACK, ground_truth=masks_target
)
"""`harness.tasks.rvtbench.task.build` with the arguments for questions that ask for masks."""
