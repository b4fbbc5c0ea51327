"""Ablate the segmenter's prompt: box, central point and negative point (the paper's Table 6).

The options `box`, `central` and `negative` of `videoseg_r1` wrap its segmenter in `Cues`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.masks import BoolArray
from harness.media import Frame
from harness.segmentation import ObjectPrompt, Segmenter


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues(Segmenter):
    """A segmenter that passes only the chosen parts of each prompt to another segmenter."""

    segmenter: Segmenter
    box: bool = True
    central: bool = True
    negative: bool = True

    def __post_init__(self) -> None:
        if not (self.box or self.central):
            raise UsageError(
                "box=false and central=false",
                expected="one of them to prompt with",
                found="neither",
            )

    @property
    def name(self) -> str:
        """Name of the wrapped segmenter."""
        return self.segmenter.name

    @property
    def missing(self) -> str:  # type: ignore[override]
        """The wrapped segmenter's text on what is missing."""
        return self.segmenter.missing

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the wrapped segmenter."""
        return self.segmenter.devices

    def prepare(self) -> None:
        """Load the wrapped segmenter's weights."""
        self.segmenter.prepare()

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return one mask (height × width of `image`) for each prompt."""
        return self.segmenter.segment(image, [self._selected_cues(prompt) for prompt in prompts])

    def _selected_cues(self, prompt: ObjectPrompt) -> ObjectPrompt:
        """Return a prompt with the chosen parts only."""
        return replace(
            prompt,
            box=prompt.box if self.box else None,
            positive=prompt.positive if self.central else (),
            negative=prompt.negative if self.negative else (),
        )
