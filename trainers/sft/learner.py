"""`SftLearner`: batches of SFT examples, and the cross-entropy of their responses.

Only the tokens of a response and its end token count in the loss. The training loop is
`harness.trainers.learner.train`; `prepare_examples` checks all samples before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from harness.models.backends.inputs import without_special_tokens
from harness.models.backends.positions import saved_positions
from harness.models.backends.transformers import TransformersChat
from harness.models.pipeline import PromptedModel
from harness.trainer import TrainingRun
from harness.trainers.learner import Counted, Learner, Round
from harness.trainers.rows import Prompt, completed, encode_prompt, encoded_each, padded
from harness.trainers.sample_checks import SkippedSample, keep_usable
from harness.trainers.session import gather
from harness.trainers.sft.descriptions import Complete, as_written
from harness.trainers.sft.examples import Example, Reasoning, examples_of

if TYPE_CHECKING:
    from transformers import ProcessorMixin


@dataclass(frozen=True, eq=False)
class Row:
    """An example as tensors."""

    prompt: Prompt
    response: list[int]
    """Tokens of the response, with its end token."""
    sample: str = ""
    """Task and id of the sample, for errors."""


@dataclass(frozen=True, eq=False)
class Batch:
    """B rows of one forward and backward pass, with responses of at most T tokens."""

    inputs: dict[str, Tensor]
    """Inputs of the network: prompts padded on the left, responses on the right."""
    mask: Tensor
    """1 for tokens that are learned (B × T)."""


class SftLearner(Learner[Example, list[Row], Batch]):
    """A network that learns responses word for word."""

    def prepare(self, examples: Sequence[Example]) -> list[Row]:
        """Return this process's examples of a step as tensors."""
        processor = self.chat.processor
        prompts = encoded_each(processor, [example.request for example in examples])
        return [
            Row(
                prompt,
                response_tokens(processor, example.response),
                f"{example.task} {example.sample}",
            )
            for prompt, example in zip(prompts, examples, strict=True)
        ]

    def round(self, ready: Sequence[Row], number: int) -> Round[Batch]:
        """Return the batches of a step; a round of SFT is one step."""
        self.seed_round(number)
        size = self.settings.per_device_train_batch_size
        parts = [ready[start : start + size] for start in range(0, len(ready), size)]
        tokens = gather([len(row.response) for row in ready])
        return Round(
            batches=list(map(self._batch, parts)),
            tokens=sum(tokens),
            numbers={"step_tokens": float(sum(tokens))},
            samples=[[row.sample for row in rows] for rows in parts],
        )

    def loss(self, batch: Batch, tokens: float) -> tuple[Tensor, Counted]:
        """Return the summed cross-entropy of a batch divided by `tokens`, and the entropies."""
        inputs, mask = self.placed(batch)
        logp, entropy = self.policy(inputs, mask)
        return -(logp * mask).sum() / tokens, {"entropy": (entropy, mask)}

    def placed(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Return inputs and mask on the device, which holds one batch of a step at a time."""
        device = self.accelerator.device
        inputs = {name: tensor.to(device) for name, tensor in batch.inputs.items()}
        return inputs, batch.mask.to(device)

    def _batch(self, rows: Sequence[Row]) -> Batch:
        responses = [row.response for row in rows]
        inputs = completed(self.chat.processor, [row.prompt for row in rows], responses)
        return Batch(inputs, padded([1.0] * len(tokens) for tokens in responses))


def response_tokens(processor: "ProcessorMixin", response: str) -> list[int]:
    """Return the tokens of a response with its end token; its text never gives special tokens."""
    tokenizer = processor.tokenizer
    tokens = tokenizer(without_special_tokens(processor, response), add_special_tokens=False)
    return [*tokens["input_ids"], tokenizer.eos_token_id]


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

    Every example is encoded once as a check, and again in its batch; see `keep_usable`.

    Raises:
        DataError: no example is left.
    """

    def length(example: Example) -> tuple[int, int, int]:
        """Return the number of tokens of prompt, of response, and of both."""
        prompt = encode_prompt(processor, example.request)["input_ids"].shape[1]
        response = len(response_tokens(processor, example.response))
        return prompt, response, prompt + response

    def name(example: Example) -> tuple[str, str]:
        return example.task, example.sample

    examples = examples_of(model, run.tasks, reasoning=reasoning, seed=run.seed, complete=complete)
    assert isinstance(model.chat, TransformersChat)  # `trainable` refuses others
    positions = saved_positions(model.chat.folder)
    return keep_usable(examples, length, max_length, positions, name, run)
