"""The plugin `qwen_vl`: zero-shot Qwen2.5-VL or Qwen3-VL, asked for boxes, and a segmenter."""

from typing import Literal

from harness.models.composition import Composition
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.qwen_vl.locate import Locate
from harness.models.vendors.settings import vendor_settings, with_vendor_settings
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.options import Carried, with_options

GRAMMARS: dict[str, type[Locate] | type[VisionReasoner]] = {
    "visionreasoner": VisionReasoner,
    "locate": Locate,
}
"""Request and grammar, by the value of `prompt=` or `grammar=`."""


@with_vendor_settings
@with_options(Composition)
def qwen_vl(
    parts: Composition,
    *,
    prompt: Carried[str] = "visionreasoner",
    grammar: Carried[Literal["visionreasoner", "locate"]] = "locate",
    vendor: Carried[str | None] = None,
) -> PromptedModel:
    """Qwen2.5-VL or Qwen3-VL through a backend: prompted for boxes, which are then segmented.

    Args:
        prompt: `visionreasoner`: its prompt and 840 × 840 canvas; `locate`: Qwen's own grounding
            request at native resolution; or a text of your own with {question}, or file:PATH.
        grammar: Used only if `prompt` is a text of your own: the format in which boxes are parsed
            from the response, and the canvas.
        vendor: Name of a vendor's evaluation, such as qwen3_vl_report. It supplies the default of
            every argument that is not given; see models/vendors.
    """
    template = own_template("qwen_vl", prompt, GRAMMARS)
    settings = None if vendor is None else vendor_settings(vendor)
    model = PromptedModel(
        name=f"qwen_vl/{prompt}",
        prompt=GRAMMARS[grammar if template is not None else prompt](),
        words=Questions(words={} if settings is None else settings.words),
        # VisionReasoner's own evaluation, which this prompt comes from, counts boxes only.
        counts_in_words=template is not None or prompt != "visionreasoner",
        vendor=settings,
        **parts.build(method="qwen_vl"),
    )
    return asked_with(model, template)
