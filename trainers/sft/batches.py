"""Examples as tensors: the prompt exactly as evaluation encodes it, then the response and its end.

Of every row the loss sees the response and the token that ends it, and nothing before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.models.backends.inputs import processor_inputs, without_special_tokens
from harness.trainers.sft.examples import Example

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import ProcessorMixin

IGNORED = -100
"""The label of a token that is not learned, as PyTorch's cross-entropy has it."""
MARKED = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
"""Tensors with one number a token."""


@dataclass(frozen=True)
class Collator:
    """Rows of `rows()` (see `engine`) to a batch: tensors of the examples they number."""

    processor: "ProcessorMixin"
    examples: Sequence[Example]

    def __call__(self, rows: Sequence[Mapping[str, int]]) -> dict[str, "Tensor"]:
        """Encode a batch; rows are padded on the right to the longest."""
        return encode_examples(self.processor, [self.examples[row["row"]] for row in rows])


def encode_examples(
    processor: "ProcessorMixin", examples: Sequence[Example]
) -> dict[str, "Tensor"]:
    """Tokens, masks, labels and pixels of a batch."""
    import torch

    inputs = processor_inputs(processor, [example.request for example in examples])
    prompts = inputs["attention_mask"].bool()
    responses = [torch.tensor(response_tokens(processor, example.response)) for example in examples]
    lengths = [
        int(mask.sum()) + len(response) for mask, response in zip(prompts, responses, strict=True)
    ]
    shape = (len(examples), max(lengths))
    fill = {"input_ids": processor.tokenizer.pad_token_id}
    batch = dict(inputs)
    for name in MARKED:
        if name in inputs:
            batch[name] = torch.full(shape, fill.get(name, 0), dtype=inputs[name].dtype)
    labels = torch.full(shape, IGNORED, dtype=torch.int64)
    for row, (mask, response, length) in enumerate(zip(prompts, responses, lengths, strict=True)):
        start = length - len(response)
        for name in MARKED:
            if name in inputs:
                batch[name][row, :start] = inputs[name][row][mask]
        batch["input_ids"][row, start:length] = response
        batch["attention_mask"][row, start:length] = 1
        labels[row, start:length] = response
    return {**batch, "labels": labels}


def response_tokens(processor: "ProcessorMixin", response: str) -> list[int]:
    """The tokens of a response and the one that ends it; no text in it is a special token."""
    words = processor.tokenizer
    tokens = words(without_special_tokens(processor, response), add_special_tokens=False)[
        "input_ids"
    ]
    return [*tokens, words.eos_token_id]
