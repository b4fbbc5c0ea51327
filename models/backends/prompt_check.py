"""Check by short prompts that a checkpoint's chat template and end tokens fit the network."""

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

QUESTION, RESPONSE = "harness asks", "harness answers"
WHAT = "the checkpoint's chat template"
COPY = "Copy {} from the checkpoint that this one was made from."


def check_prompts(processor: "ProcessorMixin", ends: Collection[int]) -> None:
    """Raise ModelError unless prompts come to an end, and hold what they ask about.

    Templates that refuse such a short conversation, or end no turn by a token, are not judged.

    Args:
        processor: The checkpoint's processor.
        ends: Tokens that end a response. That which ends a turn in the template is one of them:
            else every response would go on up to the limit.
    """
    check_template(processor)
    if not template_of(processor):
        return
    text = {"type": "text", "text": QUESTION}
    plain = _prompt(processor, [{"role": "user", "content": [text]}])
    if plain is not None and QUESTION not in plain:
        raise ModelError(
            WHAT,
            expected="prompts that hold the question",
            found="one without it",
            fix=COPY.format("chat_template.jinja"),
        )
    if hasattr(processor, "image_processor"):
        shown = _prompt(processor, [{"role": "user", "content": [{"type": "image"}, text]}])
        if shown is not None and shown == plain:
            raise ModelError(
                WHAT,
                expected="prompts that show images",
                found="the same prompt with an image and without one, as of a network of text",
                fix=COPY.format("chat_template.jinja"),
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
            + COPY.format("tokenizer_config.json"),
        )


def _check_end_of_turn(
    processor: "ProcessorMixin", ends: Collection[int], text: dict[str, str]
) -> None:
    turns: list[dict[str, object]] = [
        {"role": "user", "content": [text]},
        {"role": "assistant", "content": [{"type": "text", "text": RESPONSE}]},
    ]
    whole = _prompt(processor, turns, response=True) or ""
    after = whole.rpartition(RESPONSE)[2].lstrip()
    tokenizer = processor.tokenizer
    for number, token in tokenizer.added_tokens_decoder.items():
        if token.content and after.startswith(token.content) and number not in ends:
            raise ModelError(
                "the checkpoint's generation_config.json",
                expected=f"{token.content} (token {number}), by which the chat template ends a "
                "turn, among the eos_token_id",
                found=", ".join(map(str, ends)),
                fix=COPY.format("generation_config.json"),
            )


def _prompt(
    processor: "ProcessorMixin", messages: list[dict[str, object]], *, response: bool = False
) -> str | None:
    """The text of messages; None where the template does not take them."""
    try:
        return apply_template(processor, messages, add_generation_prompt=not response)
    except EndlessTemplate:
        raise
    except Exception:  # noqa: BLE001 - it shows when a network is asked
        return None
