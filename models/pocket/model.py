"""pocket: a Qwen2.5-VL of 2.6 million parameters, trained by this project on `shapes`.

It answers in VisionReasoner's grammar, in pixels of its 168 × 168 canvas. It runs the same code as
a large model, on a laptop, for tests and tutorials; it knows coloured shapes only.
"""

from harness.models.composition import Composition
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.options import Carried, with_options
from harness.spec import Spec

CANVAS = (168, 168)
"""(width, height) that every image is squashed to: 6 × 6 image tokens of 28 pixels."""

MAX_FRAMES = 8
"""Number of frames of the video clips that it was trained on."""


@with_options(
    Composition,
    checkpoint="pocket",
    segmenter=Spec("pocket_sam"),
    propagator=Spec("pocket_sam_video"),
    keyframe="named",
    frames=MAX_FRAMES,
    max_new_tokens=256,
    batch_size=32,
)
def pocket(
    parts: Composition, *, prompt: Carried[str] = "usual", retry: Carried[bool] = True
) -> PromptedModel:
    """A checkpoint of `harness train --method pocket`, with its prompt, canvas and perception.

    Args:
        checkpoint: `pocket`: the weights that come with the package; `pocket-base`: an earlier
            checkpoint of their training; else the folder of a training that made or started from
            such weights.
        prompt: `usual`, that of its training; or a text of your own with {question}, or file:PATH.
        retry: Ask again for a response that cannot be read, with its reasoning begun and
            ended; of `transformers`, `vllm`, and `openai` with a server that goes on from a
            beginning.
    """
    model = PromptedModel(
        name="pocket",
        prompt=VisionReasoner(resize=CANVAS),
        words=Questions(package="harness.models.pocket"),
        retry=retry,
        words_resize=CANVAS,
        **parts.build(method="pocket"),
    )
    return asked_with(model, own_template("pocket", prompt, ["usual"]))
