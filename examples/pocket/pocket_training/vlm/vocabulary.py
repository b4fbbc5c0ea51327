"""pocket's tokenizer: bytes, a small byte-pair vocabulary, phrases, and one token a number.

A number that is one token is one decision for the network; the fixed parts of prompts and of the
answer's JSON are one token each, so that a response about one object is some twenty tokens. All of
them are ordinary tokens over ordinary text: any text can be written, and is read back as it was.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.grammar import ask_for_frame
from harness.models.questions import Questions, templates
from harness.models.visionreasoner import grammar
from harness.world.families import FAMILIES, draw_scene
from harness.world.qa import every_qa
from harness.world.questions import KINDS, every_question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CANVAS = 168
"""Side in pixels of the square that every image is squashed to; number tokens go this far."""

WORDS = Questions(package="harness.models.pocket")
PIECES = 640  # entries of the byte-pair vocabulary, the 256 bytes among them
SCENES = 24  # scenes a family whose texts it is learned from

END, PAD, START = "<|im_end|>", "<|endoftext|>", "<|im_start|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"

JSON_PARTS = ('[{"bbox_2d": [', '], "point_2d": [', ']}, {"bbox_2d": [', "]}]", ", ")
OTHERS = (
    "<description>",
    "</description>",
    '], "points_1": [',
    '], "points_2": [',
    '], "point_pos": [',
    '], "point_neg": [',
    '<graph>{"',
    '": [',
    '], "',
    "]}</graph>",
)
"""Parts of the grammars of DR2Seg, Seg-Zero, VideoSeg-R1 and Video-STR, which pocket is not taught:
each is one token, so that learning a grammar is learning the right place of its tokens."""
OUTCOMES = (" best", " out", " yes")
"""Words of reasoning that the byte-pair vocabulary would spell."""
TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<frame>", "</frame>", "</think><answer>")


def numbers() -> list[str]:
    """The numbers that are one token each."""
    return [str(number) for number in range(CANVAS + 1)]


@lru_cache
def phrases() -> tuple[str, ...]:
    """The parts of pocket's prompts that never change."""
    gap = "…"
    fixed = [grammar.build_prompt(gap), ask_for_frame((0,)).replace("0", gap, 1)]
    fixed += [
        text.replace("{Question}", gap).replace("{Options}", gap)
        for text in templates(WORDS.package).values()
    ]
    return tuple(dict.fromkeys(part for text in fixed for part in text.split(gap) if len(part) > 4))


def chat_template() -> str:
    """The template of a conversation.

    With the text before the images, image tokens know the question already (attention looks back
    only), and responses attend to tokens that already encode if they show a referent.
    """
    text = "{%- for part in message.content if part.type == 'text' %}{{ part.text }}{%- endfor %}"
    images = (
        "{%- for part in message.content if part.type != 'text' %}"
        f"{{{{ '{VISION_START}' + ('{IMAGE}' if part.type == 'image' else '{VIDEO}')"
        f" + '{VISION_END}' }}}}{{%- endfor %}}"
    )
    return (
        f"{{%- for message in messages %}}{{{{ '{START}' + message.role + '\\n' }}}}"
        "{%- if message.content is string %}{{ message.content }}"
        f"{{%- else %}}{text}{images}{{%- endif %}}{{{{ '{END}\\n' }}}}{{%- endfor %}}"
        f"{{%- if add_generation_prompt %}}{{{{ '{START}assistant\\n' }}}}{{%- endif %}}"
    )


def make_tokenizer() -> "PreTrainedTokenizerFast":
    """The tokenizer, the same one every time."""
    ensure_torchvision()
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_pieces()),
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=[START, VISION_START, VISION_END, IMAGE, VIDEO],
        padding_side="left",
    )
    whole = (*JSON_PARTS, *TAGS, *phrases(), *numbers(), *OTHERS, *OUTCOMES)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in whole])
    return tokenizer


@lru_cache(maxsize=1)
def _pieces() -> str:
    """The byte-pair vocabulary, learned from the world's texts, as the library writes it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=3,
        show_progress=False,
    )
    pieces.train_from_iterator(_texts(), trainer)
    return str(pieces.to_str())


def _texts() -> Iterator[str]:
    """Yield the texts of the world's questions and answers, without numbers, which are tokens."""
    for family in FAMILIES:
        for index in range(SCENES):
            scene = draw_scene(0, family=family, split="train", index=index)
            texts = [one.text for one in every_question(scene)] if family in KINDS else []
            for qa in every_qa(scene):
                texts += [qa.text, *qa.options, *(words for _, words in qa.named)]
            for text in texts:
                yield "".join(letter for letter in text if not letter.isdigit())
                yield "".join(letter for letter in text.lower() if not letter.isdigit())
    yield from ["user", "assistant", "system", "You are a helpful assistant."] * SCENES
