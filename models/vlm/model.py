"""The plugin `vlm`: a chat VLM asked for boxes or points in its family's dialect (`dialects/`).

A checkpoint records the `Carried` options that it was trained with.
"""

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
        dialect: The family: agentcpm_gui, cogvlm, florence2, gemma, glm_v, internvl3_5,
            llava_onevision, minigpt_v2, molmo, molmo2, paligemma2, qwen3_vl, rex_omni, seed1_5_vl,
            ui_tars or ui_tars1_5.
        prompt: `dialect`: the family's own request for places; or a text of your own with
            {question}, or file:PATH, whose response is read in the family's format.
        vendor: A vendor's own evaluation, such as internvl3_5_thinking, whose settings are the
            defaults of all options that are not given; see models/vendors.
    """
    model_dialect = dialect_of(dialect)
    settings = None if vendor is None else vendor_settings(vendor)
    model = PromptedModel(
        name=f"vlm/{model_dialect.name}",
        prompt=model_dialect,
        words=Questions(words={} if settings is None else settings.words),
        counts_in_words=True,
        coordinates=model_dialect.coordinates,
        marks=model_dialect.marks,
        vendor=settings,
        **parts.build(model_dialect.coordinates, method="vlm"),
    )
    return asked_with(model, own_template("vlm", prompt, ["dialect"]))
