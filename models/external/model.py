"""The plugin `external`: a program in its own environment answers, over files.

It is for LISA, VISA, GSVA and other models whose code cannot be installed here. The program gets
questions and copies of their images, and returns masks or texts (`exchange`). A question without an
answer is a failure, which quotes the program's last output.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import DataError, ParseError, UsageError
from harness.files import temporary_prefix
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import Row
from harness.model import Model
from harness.models.answers import MASKED
from harness.models.external.exchange import Images, ProgramOutput, lay_out, read_back
from harness.models.external.program import Program, ProgramExit
from harness.models.external.row_store import RowStore
from harness.models.factory import at_least
from harness.models.questions import Questions
from harness.models.tracks import extent
from harness.responses import storable
from harness.spec import Spec
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Prediction,
    Query,
    Usage,
    failed_prediction,
)
from harness.uv_environment import uv_environment

IN_WORDS = frozenset({AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.INTERVAL, AnswerForm.TEXT})
MAX_FAULTS_LISTED = 5  # most faults of an output that one message lists
MAX_SILENT_RUNS = 3
"""Successive runs of the program without an answer after which the evaluation ends."""


@dataclass(frozen=True, kw_only=True)
class External(Model):
    """A model that runs an external program on each batch of queries."""

    name: str
    program: Program
    images: Images
    """Format of the images that the program gets."""
    revision: str
    """The user's name for the program's code and weights, for the record."""
    batch_size: int
    row_store: RowStore | None = None
    """Cache of the program's rows; None: there is none."""
    _row_counts: Counter[str] = field(default_factory=Counter, repr=False)
    """`answered`: rows so far; `silent`: successive runs without a row."""

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that a program can give."""
        return MASKED | IN_WORDS

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record, which cannot tell the program's weights."""
        environment = self.program.environment
        return {
            "name": self.name,
            "command": self.program.command,
            "program": self.program.fingerprint(),
            "revision": self.revision,
            **({} if environment is None else {"environment": environment.describe()}),
            "images": self.images,
            "batch_size": self.batch_size,
        }

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Return the predictions; the program is run on the queries that the cache lacks.

        Raises:
            UsageError: a question is not for masks or words, or the program answers nothing.
            MissingDependency: there is no such program.
        """
        for query in queries:
            self._check(query)
        predictions: dict[str, Prediction] = {}
        missing: list[Query] = []
        for query in queries:
            row = None if self.row_store is None else self.row_store.get(query)
            if row is None:
                missing.append(query)
            else:
                predictions[query.id] = self._read_row(query, row)
        if missing:
            predictions |= self._run(missing)
        return [predictions[query.id] for query in queries]

    def _run(self, queries: Sequence[Query]) -> dict[str, Prediction]:
        """Run the program on queries; return a prediction or a failure for each, by its id."""
        with tempfile.TemporaryDirectory(prefix=temporary_prefix("external")) as folder:
            files = lay_out(queries, Path(folder), images=self.images)
            expected_ids = frozenset(query.id for query in queries) - set(files.media_errors)
            ended, output = ProgramExit(0, ""), ProgramOutput({}, ())
            if expected_ids:
                ended = self.program.run(input=files.input, output=files.output)
                output = read_back(files.output, expected_ids)
                self._refuse_silence(ended, answered=len(output.rows), faults=output.faults)
        predictions: dict[str, Prediction] = {}
        for query in queries:
            if query.id in files.media_errors:
                reason = str(files.media_errors[query.id])
                prediction = failed_prediction(query, FailureKind.INFRASTRUCTURE, reason)
            elif query.id in output.rows:
                prediction = self._read_row(query, output.rows[query.id])
                if self.row_store is not None and prediction.failure is None:
                    self.row_store.store(query, output.rows[query.id])
            else:
                prediction = _unanswered_failure(query, ended, output.faults)
            predictions[query.id] = prediction
        return predictions

    def _refuse_silence(self, ended: ProgramExit, *, answered: int, faults: Sequence[str]) -> None:
        """Raise UsageError if the program does not work at all, since each start may take minutes.

        That is, if its first run gives no row, or `MAX_SILENT_RUNS` successive runs do.
        """
        if answered:
            self._row_counts.update(answered=answered)
            self._row_counts["silent"] = 0
            return
        self._row_counts.update(silent=1)
        if not self._row_counts["answered"] or self._row_counts["silent"] >= MAX_SILENT_RUNS:
            raise UsageError(
                f"external(command={self.program.command[:120]!r})",
                expected="a program that answers",
                found=ended.fault or "; ".join(faults[:MAX_FAULTS_LISTED]) or "an empty output",
                fix="Run it by hand over a file in this form; see models/external/README.md.",
            )

    def _check(self, query: Query) -> None:
        """Raise UsageError unless a query is about one medium, for masks or an answer in words."""
        if len(query.forms) > 1 or query.form not in MASKED | IN_WORDS or len(query.media) != 1:
            raise UsageError(
                f"external: a question for {' and '.join(query.forms)}",
                expected="one about one image or video, for masks or an answer in words",
                found=f"one about {len(query.media)} media" if len(query.media) != 1 else "another",
            )

    def _read_row(self, query: Query, row: Mapping[str, object]) -> Prediction:
        """Return the prediction that a row gives; a faulty row is a failure."""
        text = row.get("text")
        responses = (storable(text),) if isinstance(text, str) else ()
        usage = Usage(frames=len(query.media[0]))
        try:
            if row.get("error") is not None:
                raise DataError(f"the program: {storable(str(row['error']), 500)}")
            answer = self._answer(query, row, responses)
        except (DataError, ParseError) as error:
            kind = FailureKind.PARSE if isinstance(error, ParseError) else FailureKind.MODEL
            return failed_prediction(query, kind, str(error), responses=responses, usage=usage)
        return Prediction(query_id=query.id, answer=answer, responses=responses, usage=usage)

    def _answer(
        self, query: Query, row: Mapping[str, object], responses: tuple[str, ...]
    ) -> Answer:
        """Return the answer in a row: read from its text, or its masks.

        Raises:
            DataError, ParseError: the row has no answer of the query's form.
        """
        if query.form in IN_WORDS:
            if not responses:
                raise ParseError('"text"', expected="an answer in words", found="none")
            return Questions().read(query, query.form, responses[0])
        if row.get("no_target") is True:
            return row_to_answer(Row(query.id, "no_target", True, None, "its row"), query)
        mask_query = query
        if query.form is AnswerForm.BOX_TRACK:  # the boxes are those around the masks
            mask_query = Query(
                id=query.id, text=query.text, media=query.media, forms=(AnswerForm.MASK_TRACK,)
            )
        masks = Row(query.id, "masks", row.get("masks"), None, "its row")
        answer = row_to_answer(masks, mask_query)
        if query.form is not AnswerForm.BOX_TRACK or answer.masks is None:
            return answer
        return Answer(box_track=tuple(extent(mask.to_array()) for mask in answer.masks))


def _unanswered_failure(query: Query, ended: ProgramExit, faults: Sequence[str]) -> Prediction:
    """Return the failure of a query without a row; a timeout is the infrastructure's."""
    kind = FailureKind.INFRASTRUCTURE if ended.code is None else FailureKind.MODEL
    reasons = [ended.fault, *faults[:MAX_FAULTS_LISTED]]
    reason = "; ".join(filter(None, reasons)) or "it ended well"
    return Prediction(
        query_id=query.id, failure=Failure(kind, f"the program gave no row for this: {reason}")
    )


def external(
    *,
    command: str,
    directory: Path | None = None,
    name: str = "external",
    revision: str = "",
    images: Images = "png",
    timeout: float = 3600.0,
    batch_size: int = 32,
    cache: Path | None = None,
    environment: Spec | None = None,
) -> External:
    """An external program that reads questions from a file and writes masks to another.

    Args:
        command: The program's command line; `{input}` and `{output}` are replaced by the paths of
            the two files. It is not run in a shell.
        directory: Working directory of the program, such as its checkout; None: a temporary folder.
        name: Name of the model on boards.
        revision: Any text that identifies the program's weights and code, for the record.
        images: Format of the images: `png`, without loss, or `jpg` for programs that need it.
        timeout: Longest time in seconds for one batch, including the program's start.
        batch_size: Number of questions for each start of the program.
        cache: Folder that stores the program's answers by the content of the questions.
        environment: Python environment of the program, such as
            `uv(requirements=FILE,python="3.10")`; `python` in the command is then that of the
            environment. `harness env prepare` makes it.

    Raises:
        UsageError: the command has no place for its files, or a setting is not right.
        MissingDependency: its environment is not prepared.
    """
    at_least("external", 1, batch_size=batch_size)
    uv = None if environment is None else uv_environment(environment, holds_harness=False)
    program = Program(
        command=command,
        directory=directory and directory.expanduser(),
        timeout=timeout,
        environment=uv,
    )
    made_by = f"{program.fingerprint()} {revision} {images}"
    return External(
        name=name,
        program=program,
        images=images,
        revision=revision,
        batch_size=batch_size,
        row_store=None if cache is None else RowStore(cache.expanduser(), made_by),
    )
