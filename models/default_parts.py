"""The segmenter and propagator of a composition for which none was chosen: its paper's.

Where the paper has none, or its weights are not here, the part says so (`missing`), and a run that
needs it is refused before it begins. Nothing takes its place by itself.
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

KINDS: Mapping[str, plugins.Kind] = {"segmenter": "segmenters", "propagator": "propagators"}
SAM2: Mapping[str, str] = {
    "segmenter": "sam2(checkpoint=facebook/sam2-hiera-large)",
    "propagator": "sam2_video(checkpoint=facebook/sam2-hiera-large)",
}
CLASSICAL: Mapping[str, str] = {
    "segmenter": "segmenter=grabcut, which cuts out what is in a box without weights",
    "propagator": "propagator=flow, which carries masks by optical flow without weights",
}


class MissingPart:
    """A part that was not chosen, and that the paper cannot give."""

    name = "none"
    reads_pixels = False

    def __init__(self, missing: str) -> None:
        self.missing = missing

    def refuse(self) -> NoReturn:
        """Raise UsageError: what was expected, and both ways to have it."""
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
    """Return the forms of answer that lack a part, each with what to do about it."""
    image, video = segmenter.missing, propagator.missing
    both = " ".join(filter(None, (image, video)))
    needed = {form: image if form is AnswerForm.MASK else both for form in MASKED}
    return {form: why for form, why in needed.items() if why}


def default_segmenter(method: str, **where: Value) -> Segmenter:
    """Return the segmenter of a method's paper, with these other settings; or what says why not."""
    segmenter, missing = _default(method, "segmenter", where)
    return segmenter if isinstance(segmenter, Segmenter) else MissingSegmenter(missing)


def default_propagator(method: str) -> Propagator:
    """Return the propagator of a method's paper, or what says why not."""
    propagator, missing = _default(method, "propagator", {})
    return propagator if isinstance(propagator, Propagator) else MissingPropagator(missing)


def _default(method: str, part: str, where: Mapping[str, Value]) -> tuple[object, str]:
    """Return the paper's part, or None and why there is none."""
    paper, settings = declared_settings(method)
    declared = [
        setting
        for setting in settings
        if setting.setting == part
        and all(where.get(k) == v for k, v in (setting.where or {}).items())
    ]
    values = [str(value) for setting in declared for value in setting.paper]
    none = f"no {part} is chosen for {method}, and"
    alternative = CLASSICAL[part] + (" and is not the paper's" if paper else "")
    if not values:
        said = next((setting.published for setting in declared if setting.published), "")
        why = f"its paper has none ({said})" if said else "no paper of it says which"
        return None, f"{none} {why}. Choose one: {part}={SAM2[part]}, or {alternative}."
    try:
        return plugins.build(KINDS[part], parse(values[0])), ""
    except HarnessError as error:
        paper_part, checkpoint = parse(values[0]), parse(values[0]).arguments.get("checkpoint")
        how = f"Fetch it (hf download {checkpoint})" if checkpoint else f"Make it ready ({error})"
        missing = f"{none} the paper's, {part}={paper_part}, is not here"
        return None, f"{missing}. {how}, or choose {alternative}."
