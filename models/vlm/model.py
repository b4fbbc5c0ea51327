"""A chat VLM of a family that has its own request and grammar for places (`dialects/`)."""

from harness.models.composition import Composition
from harness.models.own_prompt import asked_with, own_template
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.vendors.settings import vendor_settings, with_vendor_settings
from harness.models.vlm.dialect import dialect as dialect_of
from harness.options import Carried, with_options


@with_vendor_settings
@with_options(Composition)
def vlm(
    parts: Composition,
    *,
    dialect: Carried[str],
    prompt: Carried[str] = "dialect",
    vendor: Carried[str | None] = None,
) -> PromptedModel:
    """A chat VLM, asked for boxes or points as its family is, which are then segmented.

    Args:
        dialect: The family: internvl3_5, glm_v, gemma, molmo2, paligemma2 or rex_omni.
        prompt: `dialect`: the family's own request for places; or a text of your own with
            {question}, or file:PATH, whose response is read in the family's format.
        vendor: A vendor's own evaluation, such as internvl3_5_thinking, whose values count where
            the others are not given; see models/vendors.
    """
    chosen = dialect_of(dialect)
    model = PromptedModel(
        name=f"vlm/{chosen.name}",
        prompt=chosen,
        words=Questions(),
        counts_in_words=True,
        coordinates=chosen.coordinates,
        marks=chosen.marks,
        vendor=None if vendor is None else vendor_settings(vendor),
        **parts.build(chosen.coordinates, method="vlm"),
    )
    return asked_with(model, own_template("vlm", prompt, ["dialect"]))
