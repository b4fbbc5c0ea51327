"""The segmenter and propagator of a method when the user chose none: those of its paper.

`Composition.build` asks for them. If the paper states none, or its weights are not on this machine,
a `MissingPart` stands in: its `missing` text says what to choose, and a run that needs the part is
refused before it begins. No other part is ever substituted.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from harness import plugins
from harness.errors import HarnessError, UsageError
from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.answers import MASKED
from harness.papers import declared_settings
from harness.segmentation import ObjectPrompt, Propagator, Segmenter
from harness.spec import Value, parse
from harness.types import AnswerForm

PLUGIN_KINDS: Mapping[str, plugins.Kind] = {"segmenter": "segmenters", "propagator": "propagators"}
SUGGESTED_SPECS: Mapping[str, str] = {
    "segmenter": "sam2(checkpoint=facebook/sam2-hiera-large)",
    "propagator": "sam2_video(checkpoint=facebook/sam2-hiera-large)",
}
"""SPEC that an error suggests where a paper states no part."""
WEIGHTLESS_HINTS: Mapping[str, str] = {
    "segmenter": "segmenter=grabcut, which cuts out what is in a box without weights",
    "propagator": "propagator=flow, which carries masks by optical flow without weights",
}
"""Text of an error about the alternative that needs no weights."""


class MissingPart:
    """A part that was not chosen, and that the paper does not name or whose weights are missing."""

    name = "none"
    reads_pixels = False

    def __init__(self, missing: str) -> None:
        self.missing = missing

    def refuse(self) -> NoReturn:
        """Raise UsageError with the two ways to get the part: fetch the paper's, or choose one."""
        raise UsageError(self.missing)


class MissingSegmenter(MissingPart, Segmenter):
    """Makes no masks."""

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Raise UsageError."""
        self.refuse()


class MissingPropagator(MissingPart, Propagator):
    """Carries no masks."""

    def propagate(
        self, video: Media, start: int, masks: Sequence[BoolArray]
    ) -> Sequence[Sequence[BoolArray]]:
        """Raise UsageError."""
        self.refuse()


def missing_parts(segmenter: Segmenter, propagator: Propagator) -> dict[AnswerForm, str]:
    """Return the forms of answer that lack a part, each with the text that says what to do.

    A mask of an image needs the segmenter; forms about a video need the propagator too.
    """
    image = segmenter.missing
    video = " ".join(filter(None, (segmenter.missing, propagator.missing)))
    reasons = {form: image if form is AnswerForm.MASK else video for form in MASKED}
    return {form: reason for form, reason in reasons.items() if reason}


def default_segmenter(method: str, **where: Value) -> Segmenter:
    """Return the paper's segmenter for a method with these settings, or a `MissingSegmenter`."""
    segmenter, missing = _paper_part(method, "segmenter", where)
    return segmenter if isinstance(segmenter, Segmenter) else MissingSegmenter(missing)


def default_propagator(method: str) -> Propagator:
    """Return the propagator of a method's paper, or a `MissingPropagator`."""
    propagator, missing = _paper_part(method, "propagator", {})
    return propagator if isinstance(propagator, Propagator) else MissingPropagator(missing)


def _paper_part(method: str, part: str, where: Mapping[str, Value]) -> tuple[object, str]:
    """Return (the paper's part, ""), or (None, the reason why it is not available).

    Args:
        method: Name of the plugin whose `paper.toml` is read.
        part: `segmenter` or `propagator`.
        where: The method's settings; a row of `paper.toml` counts if its `where` agrees with them.
    """
    paper, settings = declared_settings(method)
    declared = [
        setting
        for setting in settings
        if setting.setting == part
        and all(where.get(name) == value for name, value in (setting.where or {}).items())
    ]
    values = [str(value) for setting in declared for value in setting.paper]
    no_choice = f"no {part} is chosen for {method}, and"
    alternative = WEIGHTLESS_HINTS[part] + (" and is not the paper's" if paper else "")
    if not values:
        published = next((setting.published for setting in declared if setting.published), "")
        why = f"its paper has none ({published})" if published else "no paper of it says which"
        reason = f"{no_choice} {why}" if method else f"no {part} is chosen"
        return None, f"{reason}. Choose one: {part}={SUGGESTED_SPECS[part]}, or {alternative}."
    try:
        return plugins.build(PLUGIN_KINDS[part], parse(values[0])), ""
    except HarnessError as error:
        paper_part, checkpoint = parse(values[0]), parse(values[0]).arguments.get("checkpoint")
        fix = f"Fetch it (hf download {checkpoint})" if checkpoint else f"Make it ready ({error})"
        missing = f"{no_choice} the paper's, {part}={paper_part}, is not here"
        return None, f"{missing}. {fix}, or choose {alternative}."
