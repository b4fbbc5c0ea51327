"""Counts of what is odd in a benchmark's ground truth and options, by the rules for predictions.

Places beyond their image, run-lengths along the rows, masks that are all empty, intervals after the
end, options that are equal or that stand for nothing: a table of one's own can have them, and so
can a published file that was converted.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.errors import DataError, counted
from harness.formats.mask_order import OF_ONE, in_pieces
from harness.formats.units import MaskCount
from harness.layout.places import FAR, SLACK, is_far
from harness.masks import Rle
from harness.types import Prediction, Sample

LOOKED_AT = 200
"""Samples whose masks are looked at."""
FEW = 5
"""Masks of which it is not chance that all are alike."""
NOTHING = frozenset({"", "-", "--", "n/a", "na", "nan", "none", "null", "<na>"})
"""Texts, in small letters, that programs write where there is nothing."""
FITS_ROWS = "`Rle.from_json(mask, by_rows=True).to_json()` of harness.masks writes them so."


@dataclass
class GroundTruthCount:
    """Numbers of samples with something odd."""

    thing: str
    """Name of the benchmark, for messages."""
    samples: Counter[str] = field(default_factory=Counter)
    """Number of samples by what is odd."""
    covered: MaskCount = field(default_factory=MaskCount)
    _masks: list[Rle] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Look at a sample."""
        self.samples.update(set(_odd_options(sample.query.options)))
        if sample.target is None:
            return
        answer, query = sample.target.answer, sample.query
        intact = bool(query.media) and query.media[0].fault is None
        if answer.masks and self.covered.answers < LOOKED_AT:
            self.covered.add([Prediction(query_id=query.id, answer=answer)])
            self._masks += answer.masks[:OF_ONE]
        if intact and any(is_far(box, query.size) for box in answer.boxes or ()):
            self.samples["a box that reaches far beyond its image"] += 1
        if intact and answer.interval is not None:
            end = max(query.media[0].times(), default=0.0)
            late = answer.interval.end > (1 + FAR) * end + SLACK
            self.samples["an interval that ends after its video"] += late

    def notes(self) -> tuple[str, ...]:
        """Return a note on what is odd.

        Raises:
            DataError: the masks' run-lengths go along the rows, and are read down the columns.
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
    """Yield what is odd in the options of a question."""
    words = [" ".join(option.casefold().split()) for option in options]
    if len(set(words)) < len(words):
        yield "options that are equal"
    for word in NOTHING.intersection(words):
        yield f"the option {options[words.index(word)]!r}, which may stand for nothing"
