"""LISA, VISA, GSVA and other models that answer with masks: an external program, run over files.

The program runs in its own environment. It gets questions and copies of their images, and returns
masks (`exchange`); a question without an answer is a failure, with the program's last output.
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

IN_WORDS = frozenset({AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.INTERVAL, AnswerForm.TEXT})
SHOWN = 5  # faults of an output in one message
GIVE_UP = 3  # runs of the program in a row that answer nothing


@dataclass(frozen=True, kw_only=True)
class External(Model):
    """Answers through a program."""

    name: str
    program: Program
    images: Images
    revision: str
    batch_size: int
    row_store: RowStore | None = None
    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that a program can give."""
        return MASKED | IN_WORDS

    def describe(self) -> Mapping[str, object]:
        """Plain data for the record. The weights of an external program are not known here."""
        return {
            "name": self.name,
            "command": self.program.command,
            "program": self.program.fingerprint(),
            "revision": self.revision,
            "images": self.images,
            "batch_size": self.batch_size,
        }

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Run the program over the queries that are not kept already.

        Raises:
            UsageError: a question is not for masks or words, or the program answers nothing.
            MissingDependency: there is no such program.
        """
        for query in queries:
            self._check(query)
        rows = {query.id: self.row_store.get(query) for query in queries} if self.row_store else {}
        missing = [query for query in queries if rows.get(query.id) is None]
        output = {
            query.id: self._read_row(query, row)
            for query in queries
            if (row := rows.get(query.id)) is not None
        }
        output |= self._run(missing) if missing else {}
        return [output[query.id] for query in queries]

    def _run(self, queries: Sequence[Query]) -> dict[str, Prediction]:
        with tempfile.TemporaryDirectory(prefix=temporary_prefix("external")) as folder:
            given = lay_out(queries, Path(folder), images=self.images)
            wanted = frozenset(query.id for query in queries) - set(given.media_errors)
            ended, handed = ProgramExit(0, ""), ProgramOutput({}, ())
            if wanted:
                ended = self.program.run(input=given.input, output=given.output)
                handed = read_back(given.output, wanted)
                self._watch(ended, answered=len(handed.rows), faults=handed.faults)
        output: dict[str, Prediction] = {}
        for query in queries:
            if query.id in given.media_errors:
                lost = str(given.media_errors[query.id])
                output[query.id] = failed_prediction(query, FailureKind.INFRASTRUCTURE, lost)
            elif query.id in handed.rows:
                output[query.id] = self._read_row(query, handed.rows[query.id])
                if self.row_store is not None and output[query.id].failure is None:
                    self.row_store.store(query, handed.rows[query.id])
            else:
                output[query.id] = _unanswered_failure(query, ended, handed.faults)
        return output

    def _watch(self, ended: ProgramExit, *, answered: int, faults: Sequence[str]) -> None:
        """End the run if the program does not work at all: each of its starts may take minutes."""
        if answered:
            self._counts.update(answered=answered)
            self._counts["silent"] = 0
            return
        self._counts.update(silent=1)
        if not self._counts["answered"] or self._counts["silent"] >= GIVE_UP:
            raise UsageError(
                f"external(command={self.program.command[:120]!r})",
                expected="a program that answers",
                found=ended.fault or "; ".join(faults[:SHOWN]) or "an empty output",
                fix="Run it by hand over a file in this form; see models/external/README.md.",
            )

    def _check(self, query: Query) -> None:
        if len(query.forms) > 1 or query.form not in MASKED | IN_WORDS or len(query.media) != 1:
            raise UsageError(
                f"external: a question for {' and '.join(query.forms)}",
                expected="one about one image or video, for masks or an answer in words",
                found=f"one about {len(query.media)} media" if len(query.media) != 1 else "another",
            )

    def _read_row(self, query: Query, row: Mapping[str, object]) -> Prediction:
        """Return the prediction in a row; a fault in the row is the program's failure."""
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
        if query.form in IN_WORDS:
            if not responses:
                raise ParseError('"text"', expected="an answer in words", found="none")
            return Questions().read(query, query.form, responses[0])
        if row.get("no_target") is True:
            return row_to_answer(Row(query.id, "no_target", True, None, "its row"), query)
        masked = query
        if query.form is AnswerForm.BOX_TRACK:
            masked = Query(
                id=query.id, text=query.text, media=query.media, forms=(AnswerForm.MASK_TRACK,)
            )
        answer = row_to_answer(Row(query.id, "masks", row.get("masks"), None, "its row"), masked)
        if query.form is not AnswerForm.BOX_TRACK or answer.masks is None:
            return answer
        return Answer(box_track=tuple(extent(mask.to_array()) for mask in answer.masks))


def _unanswered_failure(query: Query, ended: ProgramExit, faults: Sequence[str]) -> Prediction:
    kind = FailureKind.INFRASTRUCTURE if ended.code is None else FailureKind.MODEL
    words = [ended.fault, *faults[:SHOWN]]
    reason = "; ".join(word for word in words if word) or "it ended well"
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
) -> External:
    """An external program that reads questions from a file and writes masks to another.

    Args:
        command: Its command line, with `{input}` and `{output}` where it takes the two files. No
            shell reads it.
        directory: Where it runs, such as its checkout; None: in a temporary folder.
        name: What boards call it.
        revision: Whatever tells its weights and its code from others, for the record.
        images: `png`, which loses nothing, or `jpg` for programs that read nothing else.
        timeout: Seconds for one batch, its start included.
        batch_size: Questions that it is started for.
        cache: A folder that stores its answers by the content of the questions.

    Raises:
        UsageError: the command has no place for its files, or a setting is not right.
    """
    at_least("external", 1, batch_size=batch_size)
    program = Program(
        command=command, directory=directory and directory.expanduser(), timeout=timeout
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
