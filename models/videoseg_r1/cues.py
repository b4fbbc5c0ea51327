"""Parts of a prompt that a segmenter gets: the paper's Table 6."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.masks import BoolArray
from harness.media import Frame
from harness.segmentation import ObjectPrompt, Segmenter


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues(Segmenter):
    """A segmenter that gets only some parts of each object's prompt."""

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
        """The segmenter's."""
        return self.segmenter.name

    @property
    def missing(self) -> str:  # type: ignore[override]
        """The segmenter's."""
        return self.segmenter.missing

    @property
    def devices(self) -> tuple[str, ...]:
        """The segmenter's."""
        return self.segmenter.devices

    def prepare(self) -> None:
        """Load the segmenter's weights."""
        self.segmenter.prepare()

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """One mask (height × width of `image`) a prompt."""
        return self.segmenter.segment(image, [self._selected_cues(prompt) for prompt in prompts])

    def _selected_cues(self, prompt: ObjectPrompt) -> ObjectPrompt:
        return replace(
            prompt,
            box=prompt.box if self.box else None,
            positive=prompt.positive if self.central else (),
            negative=prompt.negative if self.negative else (),
        )
