"""The plugin `replay`: a model that gives the predictions of a file, made by other programs.

The file has the layout of `harness.interchange.rows`. Rows with predictions are scored as they are;
rows with responses need a model that parses them, as in
`replay(file=said.jsonl,model=qwen_vl(backend=stored))`.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness import plugins
from harness.coordinates import Coordinates
from harness.errors import UsageError
from harness.files import open_regular
from harness.formats.mask_order import check_order
from harness.formats.units import check_units
from harness.interchange.answers import row_to_prediction
from harness.interchange.rows import AS_DOCUMENTED, Row, Written, read_rows
from harness.model import Model, RecordedReader, ResponseReader
from harness.spec import Spec
from harness.types import (
    AnswerForm,
    FailureKind,
    Prediction,
    Query,
    Sample,
    failed_prediction,
    query_id,
)


@dataclass(frozen=True, kw_only=True)
class Replay(Model):
    """A model that looks up each query's row in a file."""

    file: Path
    rows: Mapping[str, Row] = field(repr=False)
    """Rows by `Query.id`."""
    reader: RecordedReader | None
    """Parses the rows that are responses (a `ResponseReader`); None: there are none."""
    fingerprint: str
    """blake2b digest of the file's content."""
    batch_size: int
    written: Written | None = None
    """Coordinates and mask order of the file as the user states them; None: those of the
    documentation, and the first batch is checked against its images."""
    checked: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Empty until the first batch was checked; a list, because the dataclass is frozen."""

    @property
    def name(self) -> str:
        """`replay/`, and the file's name without its ending."""
        return f"replay/{self.file.stem}"

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Missing parts of the model that parses responses; predictions need none."""
        missing: Mapping[AnswerForm, str] = getattr(self.reader, "missing_parts", {})
        has_responses = any(row.responses is not None for row in self.rows.values())
        return missing if has_responses else {}

    def reads_pixels(self, query: Query) -> bool:
        """Return True if the model that parses responses reads pixels for this query."""
        reads: Callable[[Query], bool] | None = getattr(self.reader, "reads_pixels", None)
        return reads is not None and reads(query)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the model that parses responses."""
        return () if self.reader is None else self.reader.devices

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""
        return {
            "name": self.name,
            "file": self.file.name,
            "content": self.fingerprint,
            "predictions": len(self.rows),
            "reader": None if self.reader is None else dict(self.reader.describe()),
            **({} if self.written is None else {"written": asdict(self.written)}),
        }

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Return the file's predictions; a query without a row is an infrastructure failure.

        Raises:
            DataError: a row does not fit its query, such as masks of another size; or rows of the
                first batch show that boxes are in another unit, or run-lengths in another order.
        """
        if not self.checked and self.written is None:
            samples = [Sample(id=query.id, query=query, target=None) for query in queries]
            check_units(self.rows, samples, f"predictions {self.file}")
            check_order(self.rows, samples, f"predictions {self.file}")
        self.checked.append(self.file.name)
        return [self._prediction(query) for query in queries]

    def _prediction(self, query: Query) -> Prediction:
        """Return the prediction in a query's row; a failure without one."""
        row = self.rows.get(query.id)
        if row is None:
            message = f"no prediction in {self.file.name}"
            return failed_prediction(query, FailureKind.INFRASTRUCTURE, message)
        return row_to_prediction(row, query, self.reader)


def replay(
    *,
    file: Path,
    model: Spec | None = None,
    coordinates: Coordinates | None = None,
    mask_order: Literal["columns", "rows"] | None = None,
    batch_size: int = 32,
) -> Replay:
    """Predictions or responses from a file.

    Args:
        file: JSON lines, as `harness.interchange.rows` describes them.
        model: Reads the rows that are responses, with its grammar, coordinates and segmenter.
        coordinates: Meaning of the numbers of boxes and points; None: pixels, which the first
            batch is checked for.
        mask_order: Direction in which run-lengths run through a mask; None: along columns, which
            the first batch is checked for.
        batch_size: Number of queries in a batch.

    Raises:
        DataError: a line is not in the form.
        UsageError: `model` cannot read responses, or is missing where there are some.
    """
    coordinate_form = None
    if coordinates is not None or mask_order is not None:
        coordinate_form = Written(coordinates or "pixels", by_rows=mask_order == "rows")
    rows = {
        query_id(row.id): replace(row, written=coordinate_form or AS_DOCUMENTED)
        for row in read_rows(file)
    }
    reader: Model | None = None if model is None else plugins.build("models", model)
    if reader is not None and not isinstance(reader, ResponseReader):
        raise UsageError(
            f"replay(model={model})",
            expected="a model that reads responses, such as qwen_vl(backend=stored)",
            found=str(reader.name),
        )
    response_row = next((row for row in rows.values() if row.responses is not None), None)
    if response_row is not None and reader is None:
        raise UsageError(
            f'{response_row.where}: a "response"',
            expected="a model that parses it",
            found="no model",
            fix="Give one, such as replay(file=…,model=qwen_vl(backend=stored)).",
        )
    with open_regular(file) as content:
        fingerprint = hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16))
    return Replay(
        file=file,
        rows=rows,
        reader=reader,
        fingerprint=fingerprint.hexdigest(),
        batch_size=batch_size,
        written=coordinate_form,
    )
