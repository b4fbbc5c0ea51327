"""Assignment of each response in a file to its sample.

An entry belongs to a sample by its fields: by the sample's id; by video and question; by the
question alone, if no video is named and one sample has it. An entry that fits two samples is
assigned to none, and no field of it may contradict its sample. Its row counts last, and only if the
questions and ground truths of all rows of the file are those of the samples with these numbers.

A benchmark may ask a question twice of one video, with one ground truth. Such samples are twins:
the responses to them are assigned in their order, which changes no score.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TypeAlias

from harness.errors import DataError
from harness.formats.entries import Entry
from harness.interchange.rows import Row
from harness.responses import storable
from harness.types import AnswerForm, Sample

BLANKS = re.compile(r"\s+")
PIECES = re.compile(r"(?<=[.?!:])\s+|\n")
ENDS = tuple(".?!:;>)]|*#•–—-\"'”’»`")
"""Last characters of a word after which another sentence may begin."""
SEPARATORS = re.compile(r"[\s_-]+")
DIGITS = re.compile(r"\d+")
VIDEOS = (".mp4", ".webm", ".mkv", ".avi", ".mov")
COMMON = 64  # questions that share a sentence: it is a wrapping then, and tells nothing
Twin: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows of a file by the id of their sample, and the entries without one."""

    rows: Mapping[str, Row]
    unmatched: tuple[str, ...] = ()
    """Entries that match no sample: their place and their name."""
    repeated: tuple[str, ...] = ()
    """Ids that occur again with the same response, as sharded runs pad them; counted once."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of the responses by the file's own evaluation, by id, where it has some."""
    notes: tuple[str, ...] = ()
    """Deviations that were accepted, with their number, a sentence each."""
    unknown: tuple[str, ...] = ()
    """Ids of the unmatched entries, where the format has one each."""


def match(
    entries: Iterable[Entry], samples: Sequence[Sample], requested: Collection[str] | None = None
) -> Matched:
    """Return the rows of entries by sample, and the entries of samples that are not evaluated.

    Raises:
        DataError: two responses to one question differ.
    """
    finder = _Finder(samples)
    entries = list(entries)
    by_row = finder.rows_are_right(entries)
    rows: dict[str, Row] = {}
    unmatched: list[str] = []
    repeated: list[str] = []
    scores: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for entry in entries:
        fitting = finder.find(entry)
        if len(fitting) != 1 and by_row:
            fitting = [finder.by_row[entry.row or 0]]
        value = _storable(entry)
        if len(fitting) > 1 and len(set(map(_twin, fitting))) == 1:
            counts[TWICE] += 1
            fitting = [_of_twins(fitting, rows, value)]
        if len(fitting) != 1 or (requested is not None and fitting[0].id not in requested):
            named = next(iter(entry.ids), "") or entry.question[:40] or f"row {entry.row}"
            why = f" (fits {len(fitting)} samples)" if len(fitting) > 1 else ""
            unmatched.append(f"{entry.where}, {named!r}{why}")
            continue
        (sample,) = fitting
        _refuse_other_order(entry, sample)
        kind = "response" if entry.answer is None else "answer"
        row = Row(sample.id, kind, value, None, entry.where)
        counts[entry.note] += bool(entry.note)
        earlier = rows.setdefault(sample.id, row)
        if entry.score is not None:
            scores[sample.id] = entry.score
        if earlier is not row:
            if earlier.value != row.value:
                raise DataError(
                    f"{entry.where}: sample {sample.id!r}",
                    expected=f"one response a question, that of {earlier.where}",
                    found="another one",
                    fix="Are these two runs in one file? Score the lines of each alone.",
                )
            repeated.append(sample.id)
    counts[SILENT] = sum(row.value is None for row in rows.values())
    counts[REPEATED] = len(repeated)
    notes = tuple(f"{count} {what}" for what, count in counts.items() if count)
    return Matched(rows, tuple(unmatched), tuple(repeated), scores, notes)


LETTERED = re.compile(r"\(?[A-Z][.):]\s*")
"""The letter before an option's text."""
SILENT = "entries without a response, counted as failed"
REPEATED = "entries that come again with the same response, counted once"
TWICE = "responses to questions that the benchmark asks twice, assigned in their order"


def _refuse_other_order(entry: Entry, sample: Sample) -> None:
    """Refuse an entry whose options are the sample's under other letters."""
    written = [_plain_option(option) for option in entry.options]
    known = [_plain_option(option) for option in sample.query.options]
    if written != known and sorted(written) == sorted(known):
        raise DataError(
            f"{entry.where}: options of sample {sample.id!r}",
            expected=f"the benchmark's order: {', '.join(known)[:80]}",
            found=", ".join(written)[:80],
            fix="Its letters mean other options there: write the text of the chosen option.",
        )


def _plain_option(option: str) -> str:
    """An option's text without its letter."""
    return _normalize(LETTERED.sub("", option.strip())).rstrip(" .")


def _storable(entry: Entry) -> object:
    """The value of an entry's row: a text, a list of several, an interval, or None."""
    if entry.answer is not None:
        return entry.answer
    if entry.response is None:
        return None
    texts = [entry.response] if isinstance(entry.response, str) else entry.response
    kept = list(map(storable, texts))
    return kept if len(kept) > 1 else kept[0]


def _of_twins(twins: Sequence[Sample], rows: Mapping[str, Row], value: object) -> Sample:
    """Return the first twin without a response; once all have one, that with this response."""
    free = (twin for twin in twins if twin.id not in rows)
    same = (twin for twin in twins if twin.id in rows and rows[twin.id].value == value)
    return next(free, None) or next(same, twins[0])


class _Finder:
    """Finds the samples that an entry may be about."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.by_id = {sample.id: sample for sample in samples}
        self.numbered = all(sample.id.isdecimal() for sample in samples)
        self.by_row = {
            int(sample.id) if self.numbered else place: sample
            for place, sample in enumerate(samples)
        }
        self.pairs = Counter({_twin(sample): _pair(sample) for sample in samples}.values())
        self.by_video: dict[str, list[Sample]] = defaultdict(list)
        self.by_text: dict[str, list[Sample]] = defaultdict(list)
        self.by_piece: dict[str, set[str]] = defaultdict(set)
        for sample in samples:
            self.by_video[_video(sample.group)].append(sample)
            self.by_text[_normalize(sample.query.text)].append(sample)
            for piece in _pieces(sample.query.text):
                self.by_piece[piece].add(_normalize(sample.query.text))

    def find(self, entry: Entry) -> list[Sample]:
        """Return the sample; several or none if the entry does not identify it."""
        named = (self.by_id[name] for name in entry.ids if name in self.by_id)
        if sample := next(
            (candidate for candidate in named if self._is_consistent(entry, candidate)), None
        ):
            return [sample]
        if entry.video:
            return self._fitting(entry, self.by_video.get(_video(entry.video), ()))
        if entry.ids or not entry.question:
            return []  # it is about something that is not asked here
        return self._fitting(entry, self._with_question(entry.question))

    def rows_are_right(self, entries: Sequence[Entry]) -> bool:
        """Return True if the rows of a list are the samples' numbers.

        Question and ground truth of each have to be those of its sample, and half of these of no
        other sample: of a list in another order they are not.
        """
        if not all(map(self._row_fits, entries)) or len({e.row for e in entries}) < len(entries):
            return False
        telling = sum(self._row_tells(entry) for entry in entries)
        return 2 * telling >= len(entries)

    def _row_fits(self, entry: Entry) -> bool:
        sample = None if entry.row is None else self.by_row.get(entry.row)
        return (
            sample is not None
            and bool(entry.question)
            and _normalize(entry.ground_truth) in _ground_truths(sample)
            and self._is_consistent(entry, sample)
            and not self._asks_another(entry.question, sample)
        )

    def _row_tells(self, entry: Entry) -> bool:
        """Return True if no other sample has the question and ground truth of an entry's row.

        Counts of images by number may be equal.
        """
        sample = self.by_row[entry.row or 0]
        return self.pairs[_pair(sample)] == 1 or (self.numbered and _count(sample) is not None)

    def _asks_another(self, question: str, sample: Sample) -> bool:
        """Return True if other texts than the sample's are nearer to a question."""
        closest = _closest(question, self._texts_sharing(question))
        return bool(closest) and _normalize(sample.query.text) not in closest

    def _is_consistent(self, entry: Entry, sample: Sample) -> bool:
        """Return True if nothing in the entry contradicts the sample."""
        video, count = _video(entry.video), _count(sample)
        if video in self.by_video and _video(sample.group) != video:
            return False
        if any(
            sample.categories.get(name, value) != value for name, value in entry.categories.items()
        ):
            return False
        if entry.ground_truth and count is not None:
            digits = DIGITS.search(entry.ground_truth)
            if digits is None or int(digits[0][:18]) != count:
                return False
        requested, known = _normalize(entry.question), _normalize(sample.query.text)
        return (
            not requested or _contains_words(known, requested) or _contains_words(requested, known)
        )

    def _fitting(self, entry: Entry, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples that agree with the entry and whose text is nearest to its question;
        of several of its video those with its ground truth, options and type, if it tells them.
        """
        fitting = [sample for sample in samples if self._is_consistent(entry, sample)]
        if entry.question:
            texts = {_normalize(sample.query.text): sample.query.text for sample in fitting}
            closest = _closest(entry.question, texts)
            fitting = [sample for sample in fitting if _normalize(sample.query.text) in closest]
        if len(fitting) > 1 and entry.video and (truth := _normalize(entry.ground_truth)):
            fitting = [sample for sample in fitting if truth in _ground_truths(sample)] or fitting
        if len(fitting) > 1 and entry.options:
            fitting = [
                sample for sample in fitting if sample.query.options == entry.options
            ] or fitting
        if len(fitting) > 1 and entry.task:
            fitting = [sample for sample in fitting if _is_of_type(sample, entry.task)] or fitting
        return fitting

    def _with_question(self, question: str) -> list[Sample]:
        """Samples that share a sentence with a question, or a text that holds it."""
        return [
            sample
            for text in sorted(self._texts_sharing(question))
            for sample in self.by_text[text]
        ]

    def _texts_sharing(self, question: str) -> dict[str, str]:
        """Texts, by themselves normalized, that share a telling sentence with a question."""
        shared = [texts for piece in _pieces(question) if (texts := self.by_piece.get(piece))]
        telling = [texts for texts in shared if len(texts) <= COMMON]
        texts = set().union(*(telling or sorted(shared, key=len)[:1]))
        return {text: self.by_text[text][0].query.text for text in texts}


def _closest(question: str, texts: Mapping[str, str]) -> set[str]:
    """Return which texts, by their normalized forms, a question is nearest to.

    That is the question itself; else the texts that hold it from the beginning of a sentence to
    the end of one, without those that hold another of them; else the texts that it holds so,
    without those that another of them holds. Several are equally near.
    """
    if (known := _normalize(question)) in texts:
        return {known}
    holding = {name for name, text in texts.items() if _holds(text, question)}
    if holding:
        return {
            name
            for name in holding
            if not any(_is_part(texts[part], texts[name]) for part in holding - {name})
        }
    held = {name for name, text in texts.items() if _holds(question, text)}
    return {
        name
        for name in held
        if not any(_is_part(texts[name], texts[whole]) for whole in held - {name})
    }


def _is_part(text: str, whole: str) -> bool:
    """Return True if a text stands in another one, or if the other has all its sentences."""
    return _holds(whole, text) or _pieces(text) < _pieces(whole)


def _holds(text: str, part: str) -> bool:
    """Return True if a text holds a part that is one sentence, one line or several."""
    words, ends = _words(text)
    wanted = f" {_normalize(part)} "
    padded = f" {words} "
    place = padded.find(wanted)
    while place >= 0:
        first = padded.count(" ", 0, place)
        if first in ends and first + wanted.count(" ") - 1 in ends:
            return True
        place = padded.find(wanted, place + 1)
    return False


@lru_cache(maxsize=2**14)
def _words(text: str) -> tuple[str, frozenset[int]]:
    """Return a text normalized, and the numbers of words after which a sentence or line ends."""
    words: list[str] = []
    ends = {0}
    for line in text.split("\n"):
        for word in line.split():
            words.append(word.casefold())
            if word.endswith(ENDS):
                ends.add(len(words))
        ends.add(len(words))
    return " ".join(words), frozenset(ends)


def _count(sample: Sample) -> int | None:
    """Return the right count; None where the question asks for none."""
    if sample.query.form is not AnswerForm.COUNT or sample.target is None:
        return None
    return sample.target.answer.count


def _ground_truths(sample: Sample) -> set[str]:
    """Return what a file may call the sample's ground truth; empty where it is not a text."""
    if sample.target is None:
        return set()
    answer, options = sample.target.answer, sample.query.options
    known = {answer.count, answer.number, answer.choice, answer.text, *sample.target.references}
    if answer.choice is not None:
        known |= {text for place, text in enumerate(options) if chr(65 + place) == answer.choice}
    texts = {str(value) for value in known - {None}}
    texts |= {f"{value:.0f}" for value in known if isinstance(value, float) and value.is_integer()}
    return set(map(_normalize, texts))


def _is_of_type(sample: Sample, task: str) -> bool:
    """True if a breakdown of a sample has this value but for case and separators."""
    words = SEPARATORS.sub(" ", task.casefold())
    return any(
        SEPARATORS.sub(" ", value.casefold()) == words for value in sample.categories.values()
    )


def _pair(sample: Sample) -> tuple[str, frozenset[str]]:
    """Return question and ground truth of a sample."""
    return _normalize(sample.query.text), frozenset(_ground_truths(sample))


def _twin(sample: Sample) -> Twin:
    """Return what twins share: all that a response is told apart and scored by."""
    categories = tuple(sorted(sample.categories.items()))
    return (sample.group, *_pair(sample), sample.query.options, sample.query.forms, categories)


def _video(name: str) -> str:
    """A video's name without its folders and the end of its file."""
    last = PurePosixPath(name).name
    stem, dot, end = last.rpartition(".")
    return stem if f"{dot}{end}".lower() in VIDEOS else last


def _normalize(text: str) -> str:
    return BLANKS.sub(" ", text).strip().casefold()


def _pieces(text: str) -> set[str]:
    """A text's sentences and lines."""
    return {piece for part in PIECES.split(text) if (piece := _normalize(part))}


def _contains_words(part: str, text: str) -> bool:
    """Return True if a text holds another one, from one blank to another."""
    return f" {part} " in f" {text} "
