"""A model whose answers are already in a file: other programs' predictions, scored by harness.

The file is the one of `harness.interchange.rows`. Responses need a model that reads them:
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
    """Gives each query the prediction that a file has for it."""

    file: Path
    rows: Mapping[str, Row] = field(repr=False)
    """Rows by the id under which a model sees a sample."""
    reader: RecordedReader | None
    """Reads the rows that are responses; a `ResponseReader`."""
    fingerprint: str
    batch_size: int
    written: Written | None = None
    """Meaning of the file's numbers, where it is given; None: as documented, and checked."""
    checked: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """The file, once its numbers were held against the first batch's images."""

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return f"replay/{self.file.stem}"

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Missing parts of the model that reads responses; predictions need none."""
        missing: Mapping[AnswerForm, str] = getattr(self.reader, "missing_parts", {})
        read = missing and any(row.kind == "response" for row in self.rows.values())
        return missing if read else {}

    def reads_pixels(self, query: Query) -> bool:
        """Return True if a part of the model that reads responses does."""
        read: Callable[[Query], bool] | None = getattr(self.reader, "reads_pixels", None)
        return read is not None and read(query)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the model that reads responses."""
        return () if self.reader is None else self.reader.devices

    def describe(self) -> Mapping[str, object]:
        """Plain data for the record."""
        return {
            "name": self.name,
            "file": self.file.name,
            "content": self.fingerprint,
            "predictions": len(self.rows),
            "reader": None if self.reader is None else dict(self.reader.describe()),
            **({} if self.written is None else {"written": asdict(self.written)}),
        }

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """The file's predictions; a query that it lacks is an infrastructure failure.

        Raises:
            DataError: a row does not fit its query, such as masks of another size; or those of the
                first batch show another unit or order.
        """
        if not self.checked and self.written is None:
            samples = [Sample(id=query.id, query=query, target=None) for query in queries]
            check_units(self.rows, samples, f"predictions {self.file}")
            check_order(self.rows, samples, f"predictions {self.file}")
        self.checked.append(self.file.name)
        return [self._prediction(query) for query in queries]

    def _prediction(self, query: Query) -> Prediction:
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
        coordinates: Meaning of the numbers of boxes and points; pixels, and checked, without.
        mask_order: What run-lengths go along; columns, and checked, without.
        batch_size: Queries at once.

    Raises:
        DataError: a line is not in the form.
        UsageError: `model` cannot read responses, or is missing where there are some.
    """
    written = None
    if coordinates is not None or mask_order is not None:
        written = Written(coordinates or "pixels", by_rows=mask_order == "rows")
    rows = {
        query_id(row.id): replace(row, written=written or AS_DOCUMENTED) for row in read_rows(file)
    }
    reader: Model | None = None if model is None else plugins.build("models", model)
    if reader is not None and not isinstance(reader, ResponseReader):
        raise UsageError(
            f"replay(model={model})",
            expected="a model that reads responses, such as qwen_vl(backend=stored)",
            found=str(reader.name),
        )
    spoken = next((row for row in rows.values() if row.kind == "response"), None)
    if spoken is not None and reader is None:
        raise UsageError(
            f'{spoken.where}: a "response"',
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
        written=written,
    )
