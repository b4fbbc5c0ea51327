"""Examples of a fine-tuning: those of all samples, without those that cannot be learned from."""

from typing import TYPE_CHECKING

from harness.models.pipeline import PromptedModel
from harness.trainer import TrainingRun
from harness.trainers.sample_checks import SkippedSample, keep_usable
from harness.trainers.sft.batches import encode_examples
from harness.trainers.sft.descriptions import Complete, as_written
from harness.trainers.sft.examples import Example, Reasoning, examples_of

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def prepare_examples(
    model: PromptedModel,
    processor: "ProcessorMixin",
    run: TrainingRun,
    *,
    reasoning: Reasoning,
    max_length: int | None,
    complete: Complete = as_written,
) -> tuple[list[Example], list[SkippedSample]]:
    """Return the examples to learn, and the skipped samples, one entry per sample.

    Every example is encoded once as a check, and again in its batch. Several processes share the
    work, and come to the same result.

    Args:
        model: The adapter whose prompts are learned.
        processor: Its processor.
        run: The tasks, the seed, and where progress is told.
        reasoning: The text before the answers.
        max_length: Most tokens of an example; None: no bound.
        complete: Adds text to a response.

    Raises:
        DataError: nothing is left.
    """

    def length(example: Example) -> int:
        return int(encode_examples(processor, [example])["input_ids"].shape[1])

    found = examples_of(model, run.tasks, reasoning=reasoning, seed=run.seed, complete=complete)
    return keep_usable(found, length, max_length, lambda one: (one.task, one.sample), run)
