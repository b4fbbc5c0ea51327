"""Count faults in a benchmark's ground truth and options, by the same rules as in predictions.

Faults are boxes beyond their image, run-lengths along the rows, masks that are all empty, intervals
after the video's end, and options that are equal or empty. A user's own table can have them, and so
can a converted file of a published benchmark. Evaluation passes each sample and prints the notes.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.errors import DataError, counted
from harness.formats.mask_order import OF_ONE, in_pieces
from harness.formats.units import MaskCount
from harness.image_file import is_turned
from harness.layout.places import FAR_FRACTION, is_far, rounding_of, video_length
from harness.masks import Rle
from harness.media import files_of
from harness.types import Prediction, Sample

LOOKED_AT = 200
"""Most samples whose masks are tested, and most whose image is opened."""
FEW = 5
"""Least number of masks that cannot all have the same fault by chance."""
NOTHING = frozenset({"", "-", "--", "n/a", "na", "nan", "none", "null", "<na>"})
"""Texts, in lower case, that programs write for a missing value."""
NO_TEXTS = NOTHING - {"none"}
"""Such texts that cannot answer a question; "none" can."""
TURNED = "an image that its orientation tag turns: are boxes and masks those of the turned image?"
FITS_ROWS = "`Rle.from_json(mask, by_rows=True).to_json()` of harness.masks writes them so."


@dataclass
class GroundTruthCount:
    """Numbers of samples with each fault."""

    thing: str
    """Name of the benchmark, for messages."""
    samples: Counter[str] = field(default_factory=Counter)
    """Number of samples by the fault, in words."""
    covered: MaskCount = field(default_factory=MaskCount)
    _masks: list[Rle] = field(default_factory=list)
    _opened: int = 0
    """Number of images that were opened for their orientation tag."""

    def add(self, sample: Sample) -> None:
        """Count the faults of a sample."""
        self.samples.update(set(_odd_options(sample.query.options)))
        if sample.target is None:
            return
        answer, query = sample.target.answer, sample.query
        if answer.text is not None and answer.text.strip().lower() in NO_TEXTS:
            self.samples[f"the right text {answer.text!r}, which may stand for no value"] += 1
        intact = bool(query.media) and query.media[0].fault is None
        if answer.masks and self.covered.answers < LOOKED_AT:
            self.covered.add([Prediction(query_id=query.id, answer=answer)])
            self._masks += answer.masks[:OF_ONE]
        if intact and any(is_far(box, query.size) for box in answer.boxes or ()):
            self.samples["a box that reaches far beyond its image"] += 1
        has_places = answer.masks or answer.boxes
        if intact and has_places and not query.media[0].is_video and self._opened < LOOKED_AT:
            self._opened += 1
            self.samples[TURNED] += any(map(is_turned, files_of(query.media[0])))
        if intact and answer.interval is not None:
            length = video_length(query.media[0].times())
            late = answer.interval.end > (1 + FAR_FRACTION) * length + rounding_of(length)
            self.samples["an interval that ends after its video"] += late

    def notes(self) -> tuple[str, ...]:
        """Return a note with the faults and their numbers; no note if there are none.

        Raises:
            DataError: the masks' run-lengths go along the rows, but are read down the columns.
        """
        if pieces := in_pieces(self._masks):
            raise DataError(
                f"{self.thing}: masks of the ground truth",
                expected="runs that go down the columns, as COCO's do",
                found=f"{pieces} that are in pieces so, and whole along the rows",
                fix=FITS_ROWS,
            )
        odd = [
            f"{counted(count, 'sample')} with {what}"
            for what, count in self.samples.items()
            if count
        ]
        return (*odd, *(self.covered.notes() if self.covered.answers >= FEW else ()))


def _odd_options(options: tuple[str, ...]) -> Iterator[str]:
    """Yield each fault in the options of a question, in words."""
    words = [" ".join(option.casefold().split()) for option in options]
    if len(set(words)) < len(words):
        yield "options that are equal"
    for word in NOTHING.intersection(words):
        yield f"the option {options[words.index(word)]!r}, which may stand for nothing"
