"""Free answers judged by a language model: rubrics as data, prompts, and the reading of responses.

A task names a rubric and never a judge; a judge gets the rubric's name and one answer at a time. No
code here talks to a network. Verdicts are kept and read back by `harness.run.judging`.
"""

import hashlib
import json
import math
import re
import string
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from harness.errors import DataError, ModelError, UsageError, raised_as
from harness.judge import Judge, Verdict
from harness.plain import from_plain
from harness.responses import storable
from harness.thoughts import after_thought

FOLDER = Path(__file__).parent / "rubrics"
MARKS = " \t\r\n.*'\"`"
"""Characters that a response may have around its grade."""


class Case(NamedTuple):
    """One verdict's input: a question, an answer to judge, and the ground truth."""

    question: str
    answer: str
    ground_truth: str


@dataclass(frozen=True)
class GradeScale:
    """Whole grades, and which of them a right answer has."""

    lowest: int
    highest: int
    correct_from: int
    """The lowest grade of a right answer."""
    unreadable: int
    """The grade of a response that holds none."""
    words: Mapping[str, int] = field(default_factory=dict)
    """Grades that are written as words."""

    def __post_init__(self) -> None:
        """Refuse a scale on which no answer, or every one, is right, or a grade that is not on it.

        Raises:
            ValueError: it is such a scale.
        """
        least, most = self.lowest, self.highest
        if not (least < self.correct_from <= most and least <= self.unreadable <= most):
            raise ValueError(f"expected lowest < correct_from ≤ highest, found {self}")
        words = {word.lower(): grade for word, grade in self.words.items()}
        object.__setattr__(self, "words", words)

    def share(self, grade: int) -> float:
        """A grade on the scale from 0 to 1."""
        return (grade - self.lowest) / (self.highest - self.lowest)


@dataclass(frozen=True)
class Rubric:
    """Rule for judging an answer, from a TOML file: a prompt, and a scale of whole grades.

    Without a scale the judge does not see the ground truth. Its response is then not a grade but an
    answer, which the task's scorer compares with the ground truth.
    """

    reference: str
    """Name of a rubric of harness, or a file's path, as the judge and the records get it."""
    name: str
    version: int
    """Raised when the prompt or the scale changes."""
    prompt: str
    """Template of the prompt, with the fields {answer}, {ground_truth} and perhaps {question};
    without a scale with {answer} and {question}.
    """
    scale: GradeScale | None = None
    exact_match: bool = False
    """True if an answer in the words of the ground truth is right without asking the judge."""
    max_new_tokens: int | None = None
    """Number of tokens that a response needs, where that is more than a judge's default."""
    about: str = ""

    def __post_init__(self) -> None:
        """Refuse a prompt with other fields.

        To grade an answer is to compare it with the ground truth; without a scale the judge is to
        answer the question from the answer alone, and the ground truth would give it away.

        Raises:
            ValueError: the prompt is not a template, or has other fields; or a limit below 1.
        """
        parts = string.Formatter().parse(self.prompt)
        placeholders = {name for _, name, _, _ in parts if name is not None}
        needed = {"answer", "question" if self.scale is None else "ground_truth"}
        if not needed <= placeholders <= {*needed, "question"}:
            kind = "without a scale" if self.scale is None else "with a scale"
            raise ValueError(
                f"prompt {kind} with the fields {sorted(placeholders)}: needs {sorted(needed)}, "
                f"may have {sorted({*needed, 'question'})}"
            )
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected at least 1, found {self.max_new_tokens}")

    def prompt_for(self, case: Case) -> str:
        """Return the prompt for the judge."""
        return self.prompt.format(**case._asdict()).strip()

    def grade_scale(self) -> GradeScale:
        """The scale.

        Raises:
            UsageError: the rubric has none.
        """
        if self.scale is None:
            raise UsageError(
                f"rubric {self.reference}",
                expected="a rubric with a scale of grades",
                found="none: the response is read by the task that names the rubric",
            )
        return self.scale

    def read_grade(self, response: str) -> int | None:
        """Return the grade that a response gives, or None: all that it says after its thought must
        be a grade or its word.

        >>> graded = rubric("graded")
        >>> [graded.read_grade(response) for response in (" 2.", "2 of 3", "4", "")]
        [2, None, None, None]
        >>> rubric("same_meaning").read_grade("Yes.")
        1
        """
        scale, text = self.grade_scale(), after_thought(response).strip(MARKS).lower()
        if text in scale.words:
            return scale.words[text]
        # The limits keep int() from reading what no judge was asked to write.
        if not re.fullmatch(r"[+-]?[0-9]{1,6}", text):
            return None
        grade = int(text)
        return grade if scale.lowest <= grade <= scale.highest else None

    def verdict(self, response: str) -> Verdict:
        """A judge's verdict: the response, and its grade on the scale from 0 to 1 if there
        is one.
        """
        if self.scale is None:
            return Verdict(None, response)
        grade = self.read_grade(response)
        return Verdict(
            self.scale.share(self.scale.unreadable if grade is None else grade), response
        )

    @cached_property
    def digest(self) -> str:
        """Return a hash of all that can change a verdict; the file's place cannot."""
        plain: list[object] = [self.name, self.version, self.prompt]
        if self.scale is not None:
            plain += [
                self.scale.lowest,
                self.scale.highest,
                self.scale.unreadable,
                sorted(self.scale.words.items()),
            ]
        return _hash([*plain, self.max_new_tokens] if self.max_new_tokens else plain)

    def key(self, case: Case, judge: str) -> str:
        """Names one verdict of one judge, by content."""
        return _hash([self.name, self.version, self.digest, *map(storable, case), judge])


class Judgement(NamedTuple):
    """Verdict on one answer."""

    score: float
    """Score from 0 to 1."""
    correct: bool
    by: Literal["judge", "exact match", "no answer"]
    readable: bool
    """True if the judge's response was a grade. If not, the rubric's `unreadable` counts."""
    text: str = ""
    """The judge's text after its thought, for a scorer that reads it by a rule of its own."""


def judgement(judge: Judge, by: Rubric, case: Case) -> Judgement:
    """Judge one answer; a blank one, and an exact one if the rubric allows it, without a request.

    Raises:
        ModelError: the judge's score is not the one that its own response says by the rubric.
        UsageError: the rubric has no scale.
    """
    if not case.answer.strip():
        return Judgement(0.0, False, "no answer", True)
    if by.exact_match and same_words(case.answer, case.ground_truth):
        return Judgement(1.0, True, "exact match", True)
    scale, given = by.grade_scale(), judge.judge(by.reference, *case)
    text = by.read_grade(given.text)
    grade = scale.unreadable if text is None else text
    score = scale.share(grade)
    if given.score is None or not math.isclose(given.score, score, abs_tol=1e-9):
        raise ModelError(
            f"judge {judge.name}",
            expected=f"the score in its response, {score}",
            found=repr(given.score),
            fix="A judge returns `rubric.verdict(response)`.",
        )
    said = after_thought(given.text)
    return Judgement(score, grade >= scale.correct_from, "judge", text is not None, said)


def cases_to_judge(by: Rubric, cases: Iterable[Case]) -> list[Case]:
    """The cases for which a judge is needed."""
    return [
        case
        for case in cases
        if case.answer.strip()
        and not (by.exact_match and same_words(case.answer, case.ground_truth))
    ]


def same_words(answer: str, ground_truth: str) -> bool:
    """Return True if two texts are equal but for case, spaces and a full stop at the end.

    >>> same_words("A red  car.", "a red car"), same_words("red car", "a red car")
    (True, False)
    """
    first, second = (
        " ".join(text.lower().split()).removesuffix(".") for text in (answer, ground_truth)
    )
    return first == second


def rubric(reference: str) -> Rubric:
    """A rubric by its name, or from a TOML file (a path that ends in .toml).

    Raises:
        UsageError: there is none of this name.
        DataError: the file is not a rubric.
    """
    if not reference.endswith(".toml"):
        known = sorted(path.stem for path in FOLDER.glob("*.toml"))
        if reference not in known:
            raise UsageError(
                f"rubric {reference!r}",
                expected=f"{' or '.join(known)}, or the path of a .toml file",
                found="neither",
            )
        return _load_rubric(FOLDER / f"{reference}.toml", reference)
    return _load_rubric(Path(reference), reference)


@lru_cache(maxsize=64)
def _load_rubric(path: Path, reference: str) -> Rubric:
    expected = "a TOML file with name, version and prompt, and a scale if it grades"
    with raised_as(DataError, f"rubric {path}", expected, OSError, ValueError, RecursionError):
        plain = tomllib.loads(path.read_text("utf-8"))
        if "reference" in plain:
            raise ValueError("reference: its name, or the file's, is that")
        return from_plain(Rubric, {**plain, "reference": reference})


def _hash(plain: object) -> str:
    text = json.dumps(plain, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
