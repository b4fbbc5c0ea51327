"""Rubrics for free answers that a language model judges: prompt, scale, and reading of the grade.

A protocol names a rubric (`rubrics/*.toml`), the command names a judge. `judgement` gives the judge
one answer with its question and ground truth, and returns the score. No code here calls a network:
judges do, and `harness.run.judging` keeps their verdicts.
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
"""Characters that are stripped from both ends of a response before its grade is read."""


class Case(NamedTuple):
    """One verdict's input: a question, an answer to judge, and the ground truth."""

    question: str
    answer: str
    ground_truth: str


@dataclass(frozen=True)
class GradeScale:
    """Whole grades, and the lowest grade of a right answer."""

    lowest: int
    highest: int
    correct_from: int
    """The lowest grade of a right answer."""
    unreadable: int
    """The grade of a response that holds none."""
    words: Mapping[str, int] = field(default_factory=dict)
    """Grades that are written as words."""

    def __post_init__(self) -> None:
        """Raise ValueError if every answer or none would be right, or `unreadable` is off scale."""
        least, most = self.lowest, self.highest
        if not (least < self.correct_from <= most and least <= self.unreadable <= most):
            raise ValueError(f"expected lowest < correct_from ≤ highest, found {self}")
        words = {word.lower(): grade for word, grade in self.words.items()}
        object.__setattr__(self, "words", words)

    def share(self, grade: int) -> float:
        """Return a grade as a score from 0 to 1."""
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
        """Check the fields of the prompt.

        A judge that grades needs the ground truth. One without a scale answers the question from
        the answer alone: the ground truth would give it away.

        Raises:
            ValueError: the prompt is not a template, or has other fields; or `max_new_tokens` < 1.
        """
        parts = string.Formatter().parse(self.prompt)
        placeholders = {name for _, name, _, _ in parts if name is not None}
        needed = {"answer", "question" if self.scale is None else "ground_truth"}
        if not needed <= placeholders <= {*needed, "question"}:
            form = "without a scale" if self.scale is None else "with a scale"
            raise ValueError(
                f"prompt {form} with the fields {sorted(placeholders)}: needs {sorted(needed)}, "
                f"may have {sorted({*needed, 'question'})}"
            )
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected at least 1, found {self.max_new_tokens}")

    def prompt_for(self, case: Case) -> str:
        """Return the prompt for the judge."""
        return self.prompt.format(**case._asdict()).strip()

    def grade_scale(self) -> GradeScale:
        """Return the scale.

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
        """Return the grade that a response gives; None if it says anything but a grade or its word.

        The thought before the response's answer does not count.

        >>> graded = rubric("graded")
        >>> [graded.read_grade(response) for response in (" 2.", "2 of 3", "4", "")]
        [2, None, None, None]
        >>> rubric("same_meaning").read_grade("Yes.")
        1
        """
        scale, text = self.grade_scale(), after_thought(response).strip(MARKS).lower()
        if text in scale.words:
            return scale.words[text]
        # Few digits: int() of a very long number raises.
        if not re.fullmatch(r"[+-]?[0-9]{1,6}", text):
            return None
        grade = int(text)
        return grade if scale.lowest <= grade <= scale.highest else None

    def verdict(self, response: str) -> Verdict:
        """Return a judge's response as a verdict, with its grade as a score from 0 to 1."""
        if self.scale is None:
            return Verdict(None, response)
        grade = self.read_grade(response)
        return Verdict(
            self.scale.share(self.scale.unreadable if grade is None else grade), response
        )

    @cached_property
    def digest(self) -> str:
        """Hash of all that can change a verdict, without the path of the rubric's file."""
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
        """Return the key by which a verdict is kept: a hash of rubric, case and judge."""
        return _hash([self.name, self.version, self.digest, *map(storable, case), judge])


class Judgement(NamedTuple):
    """Verdict on one answer."""

    score: float
    """Score from 0 to 1."""
    correct: bool
    by: Literal["judge", "exact match", "no answer"]
    readable: bool
    """True if the judge's response was a grade; False: the rubric's `unreadable` counts."""
    text: str = ""
    """The judge's text after its thought, for a scorer that parses it itself."""


def judgement(judge: Judge, by: Rubric, case: Case) -> Judgement:
    """Judge one answer.

    A blank answer scores 0 and, if the rubric has `exact_match`, one in the words of the ground
    truth scores 1: neither is sent to the judge.

    Raises:
        ModelError: the judge's score differs from the grade in its own response.
        UsageError: the rubric has no scale.
    """
    if not case.answer.strip():
        return Judgement(score=0.0, correct=False, by="no answer", readable=True)
    if by.exact_match and same_words(case.answer, case.ground_truth):
        return Judgement(score=1.0, correct=True, by="exact match", readable=True)
    scale, verdict = by.grade_scale(), judge.judge(by.reference, *case)
    written = by.read_grade(verdict.text)
    grade = scale.unreadable if written is None else written
    score = scale.share(grade)
    if verdict.score is None or not math.isclose(verdict.score, score, abs_tol=1e-9):
        raise ModelError(
            f"judge {judge.name}",
            expected=f"the score in its response, {score}",
            found=repr(verdict.score),
            fix="A judge returns `rubric.verdict(response)`.",
        )
    return Judgement(
        score=score,
        correct=grade >= scale.correct_from,
        by="judge",
        readable=written is not None,
        text=after_thought(verdict.text),
    )


def cases_to_judge(by: Rubric, cases: Iterable[Case]) -> list[Case]:
    """Return the cases that `judgement` sends to the judge."""
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
    """Return a rubric by its name, or from a TOML file (a path that ends in .toml).

    Raises:
        UsageError: there is none of this name.
        DataError: the file is not a rubric.
    """
    if not reference.endswith(".toml"):
        names = sorted(path.stem for path in FOLDER.glob("*.toml"))
        if reference not in names:
            raise UsageError(
                f"rubric {reference!r}",
                expected=f"{' or '.join(names)}, or the path of a .toml file",
                found="neither",
            )
        return _load_rubric(FOLDER / f"{reference}.toml", reference)
    return _load_rubric(Path(reference), reference)


def _load_rubric(path: Path, reference: str) -> Rubric:
    expected = "a TOML file with name, version and prompt, and a scale if it grades"
    with raised_as(DataError, f"rubric {path}", expected, OSError, ValueError, RecursionError):
        return _parse_rubric(path.read_text("utf-8"), reference)


@lru_cache(maxsize=64)
def _parse_rubric(text: str, reference: str) -> Rubric:
    plain = tomllib.loads(text)
    if "reference" in plain:
        raise ValueError("reference: its name, or the file's, is that")
    return from_plain(Rubric, {**plain, "reference": reference})


def _hash(plain: object) -> str:
    text = json.dumps(plain, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
