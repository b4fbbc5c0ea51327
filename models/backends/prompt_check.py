"""Check with short prompts that a checkpoint's chat template, end and padding tokens are usable.

Backends check their processor when they load it, and `harness doctor` checks checkpoints.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from harness.errors import ModelError
from harness.models.backends.inputs import (
    EndlessTemplate,
    apply_template,
    check_template,
    template_of,
)

if TYPE_CHECKING:
    from transformers import ProcessorMixin

QUESTION, RESPONSE = "harness asks", "harness answers"  # texts to look for in a prompt
TEMPLATE_PART = "the checkpoint's chat template"
COPY_FIX = "Copy {} from the checkpoint that this one was trained from."


def check_prompts(processor: "ProcessorMixin", ends: Collection[int]) -> None:
    """Raise ModelError unless prompts are bounded, and hold their question and their image.

    Templates that refuse such a short conversation, or end no turn by a token, are not judged.

    Args:
        processor: The checkpoint's processor.
        ends: Tokens that end a response. The token by which the template ends a turn must be among
            them: otherwise every response would go on up to its limit.
    """
    check_template(processor)
    if not template_of(processor):
        return
    text = {"type": "text", "text": QUESTION}
    without_image = _render(processor, [{"role": "user", "content": [text]}])
    if without_image is not None and QUESTION not in without_image:
        raise ModelError(
            TEMPLATE_PART,
            expected="prompts that hold the question",
            found="one without it",
            fix=COPY_FIX.format("chat_template.jinja"),
        )
    if hasattr(processor, "image_processor"):
        with_image = _render(processor, [{"role": "user", "content": [{"type": "image"}, text]}])
        if with_image is not None and with_image == without_image:
            raise ModelError(
                TEMPLATE_PART,
                expected="prompts that show images",
                found="the same prompt with an image and without one, as of a network of text",
                fix=COPY_FIX.format("chat_template.jinja"),
            )
    _check_end_of_turn(processor, ends, text)


def check_padding(processor: "ProcessorMixin") -> None:
    """Raise ModelError if the tokenizer has no token that fills shorter prompts of a batch."""
    if processor.tokenizer.pad_token_id is None:
        raise ModelError(
            "the checkpoint's tokenizer",
            expected="a token for padding",
            found="none",
            fix="tokenizer_config.json names it as pad_token. "
            + COPY_FIX.format("tokenizer_config.json"),
        )


def _check_end_of_turn(
    processor: "ProcessorMixin", ends: Collection[int], text: dict[str, str]
) -> None:
    """Raise ModelError if the template ends a turn by a token that is not among the `ends`."""
    turns: list[dict[str, object]] = [
        {"role": "user", "content": [text]},
        {"role": "assistant", "content": [{"type": "text", "text": RESPONSE}]},
    ]
    conversation = _render(processor, turns, response=True) or ""
    after = conversation.rpartition(RESPONSE)[2].lstrip()
    for number, token in processor.tokenizer.added_tokens_decoder.items():
        if token.content and after.startswith(token.content) and number not in ends:
            raise ModelError(
                "the checkpoint's generation_config.json",
                expected=f"{token.content} (token {number}), by which the chat template ends a "
                "turn, among the eos_token_id",
                found=", ".join(map(str, ends)),
                fix=COPY_FIX.format("generation_config.json"),
            )


def _render(
    processor: "ProcessorMixin", messages: list[dict[str, object]], *, response: bool = False
) -> str | None:
    """Return the text of messages; None if the template does not take them.

    Raises:
        EndlessTemplate: rendering takes too much time or memory.
    """
    try:
        return apply_template(processor, messages, add_generation_prompt=not response)
    except EndlessTemplate:
        raise
    except Exception:  # noqa: BLE001 - a template may raise anything; real prompts show it again
        return None
