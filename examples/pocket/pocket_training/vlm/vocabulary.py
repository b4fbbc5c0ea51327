"""pocket's tokenizer, that of the shipped checkpoint: bytes, byte pairs, phrases, and numbers.

A number up to 168 is one token, and so one decision for the network; the fixed parts of prompts and
of the answer's JSON are one token each, so that a response about one object is some twenty tokens.
All of them are ordinary tokens over ordinary text: any text can be written, and is read back as it
was. The chat template puts the text before the images: image tokens then know the question already
(attention looks back only), and responses attend to tokens that already encode if they show a
referent.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.pocket import FOLDER
from harness.models.questions import Questions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CANVAS = 168
"""Side in pixels of the square that every image is squashed to; number tokens go this far."""

WORDS = Questions(package="harness.models.pocket")

END, START = "<|im_end|>", "<|im_start|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"


@lru_cache(maxsize=1)
def load_tokenizer() -> "PreTrainedTokenizerFast":
    """The tokenizer."""
    ensure_torchvision()
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(FOLDER)
    return tokenizer


def number_ids() -> list[int]:
    """The tokens of 0 to 168, in this order."""
    ids: list[int] = load_tokenizer().convert_tokens_to_ids([str(n) for n in range(CANVAS + 1)])
    return ids
