"""Zero-shot Qwen2.5-VL (or Qwen3-VL): prompted for boxes, or boxes and points, then segmented."""

from typing import Literal

from harness.models.composition import Composition
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.qwen_vl.locate import Locate
from harness.models.vendors.settings import vendor_settings, with_vendor_settings
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.options import Carried, with_options

PROMPTS: dict[str, type[Locate] | type[VisionReasoner]] = {
    "visionreasoner": VisionReasoner,
    "locate": Locate,
}


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
        grammar: Of a text of your own: the format that places are read in, and the canvas.
        vendor: A vendor's own evaluation, such as qwen3_vl_report, whose values count where the
            others are not given; see models/vendors.
    """
    template = own_template("qwen_vl", prompt, PROMPTS)
    model = PromptedModel(
        name=f"qwen_vl/{prompt}",
        prompt=PROMPTS[grammar if template is not None else prompt](),
        words=Questions(),
        # VisionReasoner's evaluation, whose prompt this is, counts boxes alone.
        counts_in_words=template is not None or prompt != "visionreasoner",
        vendor=None if vendor is None else vendor_settings(vendor),
        **parts.build(method="qwen_vl"),
    )
    return asked_with(model, template)
