"""Zero-shot Qwen2.5-VL (or Qwen3-VL): prompted for boxes, or boxes and points, then segmented."""

from typing import Literal

from harness.models.composition import Composition
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
    prompt: Carried[Literal["visionreasoner", "locate"]] = "visionreasoner",
    vendor: Carried[str | None] = None,
) -> PromptedModel:
    """Qwen2.5-VL or Qwen3-VL through a backend: prompted for boxes, which are then segmented.

    Args:
        prompt: `visionreasoner`: its prompt and 840 × 840 canvas; `locate`: Qwen's own grounding
            request at native resolution.
        vendor: A vendor's own evaluation, such as qwen3_vl_report, whose values count where the
            others are not given; see models/vendors.
    """
    return PromptedModel(
        name=f"qwen_vl/{prompt}",
        prompt=PROMPTS[prompt](),
        words=Questions(),
        vendor=None if vendor is None else vendor_settings(vendor),
        **parts.build(method="qwen_vl"),
    )
