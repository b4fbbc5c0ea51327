"""Assign each response of another evaluation's file to its sample.

`match` takes the entries that a reader of `harness.formats` yields, and returns rows by sample id.
An entry is assigned by the sample's id; else by video and question; else by the question alone, if
it names no video and one sample has the question; else by its row, if the questions and ground
truths of all rows of the file are those of the samples with these numbers. An entry that fits two
samples is assigned to none, and no field of it may contradict its sample.

A benchmark may ask one question twice about one video, with one ground truth. Such samples are
twins: the responses to them are assigned in order, which changes no score.
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
"""Characters at the end of a word after which another sentence may begin."""
SEPARATORS = re.compile(r"[\s_-]+")
DIGITS = re.compile(r"\d+")
VIDEOS = (".mp4", ".webm", ".mkv", ".avi", ".mov")
MAX_SHARING = 64
"""Most questions that share a sentence which tells them from others; one that more questions share
belongs to a prompt's template."""
Twin: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows of a file by the id of their sample, and the entries without one."""

    rows: Mapping[str, Row]
    unmatched: tuple[str, ...] = ()
    """Entries that match no sample: where they are in the file, and their id or question."""
    repeated: tuple[str, ...] = ()
    """Ids that occur several times with the same response, as sharded runs pad; counted once."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores that the file's own evaluation gave the responses, by id; empty if it has none."""
    notes: tuple[str, ...] = ()
    """Tolerated deviations with their number, one sentence each."""
    unknown: tuple[str, ...] = ()
    """Ids of the unmatched entries, if the format has exactly one per entry; `match` has none."""


def match(
    entries: Iterable[Entry], samples: Sequence[Sample], requested: Collection[str] | None = None
) -> Matched:
    """Return the entries' rows by the id of their sample, and the entries without a sample.

    Args:
        entries: The file's responses.
        samples: All samples of the benchmark.
        requested: Ids of the samples to score; None: all.

    Raises:
        DataError: two responses to one question differ, or options are in another order.
    """
    finder = _Finder(samples)
    entries = list(entries)
    by_row = finder.rows_are_right(entries)
    rows: dict[str, Row] = {}
    unmatched: list[str] = []
    repeated: list[str] = []
    scores: dict[str, float] = {}
    n_by_note: Counter[str] = Counter()
    for entry in entries:
        candidates = finder.find(entry)
        if len(candidates) != 1 and by_row:
            candidates = [finder.at_row(entry)]
        value = _storable(entry)
        if len(candidates) > 1 and len(set(map(_twin, candidates))) == 1:
            n_by_note[TWICE] += 1
            candidates = [_of_twins(candidates, rows, value)]
        if len(candidates) != 1 or (requested is not None and candidates[0].id not in requested):
            unmatched.append(_describe_unmatched(entry, len(candidates)))
            continue
        (sample,) = candidates
        _refuse_other_order(entry, sample)
        if entry.note:
            n_by_note[entry.note] += 1
        if entry.score is not None:
            scores[sample.id] = entry.score
        form = "response" if entry.answer is None else "answer"
        row = Row(sample.id, form, value, None, entry.where)
        if (earlier := rows.setdefault(sample.id, row)) is not row:
            _refuse_different(row, earlier)
            repeated.append(sample.id)
    n_by_note[SILENT] = sum(row.value is None for row in rows.values())
    n_by_note[REPEATED] = len(repeated)
    notes = tuple(f"{count} {what}" for what, count in n_by_note.items() if count)
    return Matched(rows, tuple(unmatched), tuple(repeated), scores, notes)


def _describe_unmatched(entry: Entry, n_candidates: int) -> str:
    """Return where an entry is in its file, its name, and whether it fits several samples."""
    name = next(iter(entry.ids), "") or entry.question[:40] or f"row {entry.row}"
    reason = f" (fits {n_candidates} samples)" if n_candidates > 1 else ""
    return f"{entry.where}, {name!r}{reason}"


def _refuse_different(row: Row, earlier: Row) -> None:
    """Raise DataError if two rows of one sample have different responses."""
    if earlier.value != row.value:
        raise DataError(
            f"{row.where}: sample {row.id!r}",
            expected=f"one response a question, that of {earlier.where}",
            found="another one",
            fix="Are these two runs in one file? Score the lines of each alone.",
        )


LETTERED = re.compile(r"\(?[A-Z][.):]\s*")
"""A letter before an option's text, as `A. ` or `(A) `."""
SILENT = "entries without a response, counted as failed"
REPEATED = "entries that appear twice with the same response, counted once"
TWICE = "responses to questions that the benchmark asks twice, assigned in their order"


def _refuse_other_order(entry: Entry, sample: Sample) -> None:
    """Raise DataError if an entry has the sample's options under other letters."""
    in_file = [_plain_option(option) for option in entry.options]
    in_benchmark = [_plain_option(option) for option in sample.query.options]
    if in_file != in_benchmark and sorted(in_file) == sorted(in_benchmark):
        raise DataError(
            f"{entry.where}: options of sample {sample.id!r}",
            expected=f"the benchmark's order: {', '.join(in_benchmark)[:80]}",
            found=", ".join(in_file)[:80],
            fix="Its letters mean other options there: write the text of the chosen option.",
        )


def _plain_option(option: str) -> str:
    """Return an option's text without its letter, normalized."""
    return _normalize(LETTERED.sub("", option.strip())).rstrip(" .")


def _storable(entry: Entry) -> object:
    """Return the value of an entry's row: a text, a list of texts, an interval, or None."""
    if entry.answer is not None:
        return entry.answer
    if entry.response is None:
        return None
    texts = [entry.response] if isinstance(entry.response, str) else entry.response
    storable_texts = list(map(storable, texts))
    return storable_texts if len(storable_texts) > 1 else storable_texts[0]


def _of_twins(twins: Sequence[Sample], rows: Mapping[str, Row], value: object) -> Sample:
    """Return the first twin without a response; if all have one, a twin with this response."""
    free = (twin for twin in twins if twin.id not in rows)
    same = (twin for twin in twins if twin.id in rows and rows[twin.id].value == value)
    return next(free, None) or next(same, twins[0])


class _Finder:
    """Index of the samples by id, video and question, to find the sample of an entry."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.by_id = {sample.id: sample for sample in samples}
        self.numbered = all(sample.id.isdecimal() for sample in samples)
        self.by_row = {
            int(sample.id) if self.numbered else index: sample
            for index, sample in enumerate(samples)
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
        """Return the entry's sample as the only element; several or none if it is ambiguous."""
        for name in entry.ids:
            sample = self.by_id.get(name)
            if sample is not None and self._is_consistent(entry, sample):
                return [sample]
        if entry.video:
            return self._fitting(entry, self.by_video.get(_video(entry.video), ()))
        if entry.ids or not entry.question:
            return []  # it is about something that is not asked here
        return self._fitting(entry, self._with_question(entry.question))

    def rows_are_right(self, entries: Sequence[Entry]) -> bool:
        """Return True if the rows of a file's list are the numbers of the benchmark's samples.

        Each entry's question and ground truth must be those of its row's sample, and in half of the
        entries no other sample may have them: a list in another order fails that.
        """
        if not all(map(self._row_fits, entries)) or len({e.row for e in entries}) < len(entries):
            return False
        distinctive = sum(self._row_is_distinctive(entry) for entry in entries)
        return 2 * distinctive >= len(entries)

    def at_row(self, entry: Entry) -> Sample:
        """Return the sample with the number of the entry's row, which must be in the benchmark."""
        assert entry.row is not None, "`rows_are_right` requires a row of every entry"
        return self.by_row[entry.row]

    def _row_fits(self, entry: Entry) -> bool:
        sample = None if entry.row is None else self.by_row.get(entry.row)
        return (
            sample is not None
            and bool(entry.question)
            and _normalize(entry.ground_truth) in _ground_truths(sample)
            and self._is_consistent(entry, sample)
            and not self._asks_another(entry.question, sample)
        )

    def _row_is_distinctive(self, entry: Entry) -> bool:
        """Return True if only the sample of the entry's row has its question and ground truth."""
        sample = self.at_row(entry)
        return self.pairs[_pair(sample)] == 1 or (self.numbered and _count(sample) is not None)

    def _asks_another(self, question: str, sample: Sample) -> bool:
        """Return True if the question is nearer to another sample's text than to this sample's."""
        closest = _closest(question, self._texts_sharing(question))
        return bool(closest) and _normalize(sample.query.text) not in closest

    def _is_consistent(self, entry: Entry, sample: Sample) -> bool:
        """Return True if no field of the entry contradicts the sample."""
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
        in_file, in_benchmark = _normalize(entry.question), _normalize(sample.query.text)
        return (
            not in_file
            or _contains_words(in_file, in_benchmark)
            or _contains_words(in_benchmark, in_file)
        )

    def _fitting(self, entry: Entry, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples that agree with the entry and whose text is nearest to its question.

        Of several samples of its video, only those with the entry's ground truth, options and type
        remain, as far as the entry has these fields.
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
        """Return samples that share a sentence with the question, or whose text contains it."""
        return [
            sample
            for text in sorted(self._texts_sharing(question))
            for sample in self.by_text[text]
        ]

    def _texts_sharing(self, question: str) -> dict[str, str]:
        """Return texts that share a rare sentence with a question, by their normalized form."""
        shared = [texts for piece in _pieces(question) if (texts := self.by_piece.get(piece))]
        distinctive = [texts for texts in shared if len(texts) <= MAX_SHARING]
        texts = set().union(*(distinctive or sorted(shared, key=len)[:1]))
        return {text: self.by_text[text][0].query.text for text in texts}


def _closest(question: str, texts: Mapping[str, str]) -> set[str]:
    """Return the normalized texts that are nearest to a question; several may be equally near.

    The first of these cases counts:

    1. The question itself is one of the texts.
    2. Texts contain the question as whole sentences; those that contain another such text drop out.
    3. The question contains texts as whole sentences; those within another such text drop out.
    """
    if (normalized := _normalize(question)) in texts:
        return {normalized}
    longer = {name for name, text in texts.items() if _contains_sentences(text, question)}
    if longer:
        return {
            name
            for name in longer
            if not any(_is_part(texts[name], texts[rival]) for rival in longer - {name})
        }
    shorter = {name for name, text in texts.items() if _contains_sentences(question, text)}
    return {
        name
        for name in shorter
        if not any(_is_part(texts[rival], texts[name]) for rival in shorter - {name})
    }


def _is_part(text: str, part: str) -> bool:
    """Return True if `text` contains `part` in one piece, or all of its sentences and more."""
    return _contains_sentences(text, part) or _pieces(part) < _pieces(text)


def _contains_sentences(text: str, part: str) -> bool:
    """Return True if a text contains `part`, and it begins and ends with a sentence or a line."""
    words, ends = _words_and_ends(text)
    padded_part, padded = f" {_normalize(part)} ", f" {words} "
    start = padded.find(padded_part)
    while start >= 0:
        n_before = padded.count(" ", 0, start)
        if n_before in ends and n_before + padded_part.count(" ") - 1 in ends:
            return True
        start = padded.find(padded_part, start + 1)
    return False


@lru_cache(maxsize=2**14)
def _words_and_ends(text: str) -> tuple[str, frozenset[int]]:
    """Return a normalized text, and the word counts after which a sentence or a line ends."""
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
    """Return the right count; None if the question does not ask for a count."""
    if sample.query.form is not AnswerForm.COUNT or sample.target is None:
        return None
    return sample.target.answer.count


def _ground_truths(sample: Sample) -> set[str]:
    """Return the texts that a file may have as the sample's ground truth; none if not a text."""
    if sample.target is None:
        return set()
    answer, options = sample.target.answer, sample.query.options
    values = {answer.count, answer.number, answer.choice, answer.text, *sample.target.references}
    if answer.choice is not None:
        values |= {text for index, text in enumerate(options) if chr(65 + index) == answer.choice}
    texts = {str(value) for value in values - {None}}
    texts |= {f"{value:.0f}" for value in values if isinstance(value, float) and value.is_integer()}
    return set(map(_normalize, texts))


def _is_of_type(sample: Sample, task: str) -> bool:
    """Return True if a category of a sample has this value, ignoring case and separators."""
    normalized_task = SEPARATORS.sub(" ", task.casefold())
    return any(
        SEPARATORS.sub(" ", value.casefold()) == normalized_task
        for value in sample.categories.values()
    )


def _pair(sample: Sample) -> tuple[str, frozenset[str]]:
    """Return the normalized question and the possible ground truths of a sample."""
    return _normalize(sample.query.text), frozenset(_ground_truths(sample))


def _twin(sample: Sample) -> Twin:
    """Return what twins have in common: all fields that match or score a response."""
    categories = tuple(sorted(sample.categories.items()))
    return (sample.group, *_pair(sample), sample.query.options, sample.query.forms, categories)


def _video(name: str) -> str:
    """Return a video's name without folders and suffix."""
    last = PurePosixPath(name).name
    stem, dot, end = last.rpartition(".")
    return stem if f"{dot}{end}".lower() in VIDEOS else last


def _normalize(text: str) -> str:
    return BLANKS.sub(" ", text).strip().casefold()


def _pieces(text: str) -> set[str]:
    """Return the sentences and lines of a text."""
    return {piece for part in PIECES.split(text) if (piece := _normalize(part))}


def _contains_words(text: str, part: str) -> bool:
    """Return True if `text` contains `part` as whole words."""
    return f" {part} " in f" {text} "
