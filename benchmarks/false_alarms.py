"""How often a poor model's file is taken for one in another unit or order, and how often such is.

    python benchmarks/false_alarms.py [--draws 10] [--kinds masks,boxes] [--seed 0] [--save]

Ground truths and answers are drawn: of nine forms, in files of 3 to 200 samples, sorted or not,
with one sample an image or several, with categories that mean nothing. A poor model's answers are
random, moved, noisy, biased, too large or small, the same for all, of another object of the image,
or right in two samples of five. A note or a refusal is a false alarm. Then good answers are planted
in another order, or in another unit for one type of question: how many files of each size are
noticed is printed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from poor_answers import LETTERS, MISMADE, POOR, File, Row, Rows, drawn
from steps import RESULTS, save_part

from harness.errors import DataError
from harness.formats.agreement import Agreement
from harness.masks import Rle
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Interval,
    Point,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

COUNTS = (3, 6, 10, 20, 50, 200)
PLANTED = (6, 12, 24)
FORMS = {
    "masks": AnswerForm.MASK,
    "boxes": AnswerForm.BOXES,
    "points": AnswerForm.POINTS,
    "intervals": AnswerForm.INTERVAL,
    "letters": AnswerForm.CHOICE,
    "numbers": AnswerForm.NUMBER,
    "counts": AnswerForm.COUNT,
    "yes_no": AnswerForm.TEXT,
    "tracks": AnswerForm.MASK_TRACK,
}


def answer(file: File, number: int, row: Row, *, is_truth: bool) -> Answer:
    """Return a row as the answer, or the ground truth, of a sample."""
    if file.kind == "letters":
        return Answer(choice=LETTERS[int(row[0])])
    if file.kind == "numbers":
        return Answer(number=float(row[0]))
    if file.kind == "counts":
        return Answer(count=max(int(row[0]), 0))
    if file.kind == "yes_no":
        return Answer(text="yes" if row[0] > 0 else "no")
    media = file.media(number)[0]
    if file.kind == "tracks":
        order = file.frames if not is_truth else range(len(media))
        places = [row[:4] + row[4:] * frame / len(media) for frame in order]
        return Answer(masks=tuple(rectangle(place, media.size) for place in places))
    if file.kind == "intervals":
        return Answer(interval=Interval(*(row * max(media.times())).tolist()))
    places = row * np.tile(media.size, 2)
    if file.kind == "masks":
        left, top, right, bottom = places.round().astype(int)
        mask = np.zeros(media.size[::-1], bool)
        mask[top : max(bottom, top + 1), left : max(right, left + 1)] = True
        mask[top : (top + bottom) // 2, left : (left + right) // 2] = number % 3 == 0
        return Answer(masks=(Rle.from_array(mask),))
    if file.kind == "points" and not is_truth:
        return Answer(points=(Point(*places.reshape(2, 2).mean(0).tolist()),))
    return Answer(boxes=(Box(*places.tolist()),))


def rectangle(place: Row, size: tuple[int, int]) -> Rle:
    """Return the mask of a box in shares of an image."""
    mask = np.zeros(size[::-1], bool)
    left, top, right, bottom = (np.clip(place, 0, 1) * np.tile(size, 2)).round().astype(int)
    mask[top : max(bottom, top + 1), left : max(right, left + 1)] = True
    return Rle.from_array(mask)


def notes(file: File, answers: Rows) -> list[str]:
    """Return the notes on a file, or the text of its refusal."""
    samples, predictions = [], []
    for number, (truth, row) in enumerate(zip(file.truths, answers, strict=True)):
        query = Query(
            id=query_id(str(number)),
            text="?",
            media=file.media(number),
            forms=(FORMS[file.kind],),
            options=tuple(LETTERS) if file.kind == "letters" else (),
        )
        target = Target(answer=answer(file, number, truth, is_truth=True))
        samples.append(
            Sample(
                id=file.ids[number],
                query=query,
                target=target,
                group=str(file.groups[number]),
                categories=file.types[number],
            )
        )
        given = answer(file, number, row, is_truth=False)
        predictions.append(Prediction(query_id=query.id, answer=given))
    agreement = Agreement()
    agreement.add(samples, predictions)
    try:
        return list(agreement.notes("file", "x.jsonl"))
    except DataError as error:
        return [str(error)]


def main() -> None:
    """Print false alarms by form and size, and what is noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--kinds", default=",".join(POOR))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    kinds = asked.kinds.split(",")
    lines = [
        *false_alarms(kinds, asked.draws, asked.seed),
        *noticed(kinds, asked.draws, asked.seed),
    ]
    print("\n".join(lines))
    if asked.save:
        save_part(RESULTS / "false_alarms.md", f"{asked.draws} draws", "\n".join(lines))


def false_alarms(kinds: Sequence[str], draws: int, seed: int) -> Iterator[str]:
    """Yield a table of the files of poor answers, and of those with a note, by form and size."""
    yield "| form | files | " + " | ".join(f"of {count}" for count in COUNTS) + " |"
    yield "|---|" + "--:|" * (1 + len(COUNTS))
    total, files = Counter[int](), 0
    for kind in kinds:
        alarms = Counter[int]()
        for name, draw in POOR[kind].items():
            for count, number in product(COUNTS, range(draws)):
                file = drawn(kind, count, np.random.default_rng([seed, number, count]))
                said = notes(file, draw(file))
                alarms[count] += bool(said)
                if said:
                    print(f"{kind}, {name}, {count} samples: {said[0]}", file=sys.stderr)
        files += (drawings := len(POOR[kind]) * len(COUNTS) * draws)
        total.update(alarms)
        yield f"| {kind} | {drawings} | " + " | ".join(str(alarms[c]) for c in COUNTS) + " |"
    yield f"| all | {files} | " + " | ".join(str(total[count]) for count in COUNTS) + " |"
    yield f"\n{total.total()} of {files} files of poor answers have a note or are refused.\n"


def noticed(kinds: Sequence[str], draws: int, seed: int) -> Iterator[str]:
    """Yield a table of the share of files that are noticed, by what is planted and size."""
    yield f"| planted, {draws} files of each size | " + " | ".join(map(str, PLANTED)) + " |"
    yield "|---|" + "--:|" * len(PLANTED)
    for kind in (kind for kind in kinds if kind in MISMADE):
        for name, draw in MISMADE[kind].items():
            counts = Counter[int]()
            for count, number in product(PLANTED, range(draws)):
                file = drawn(kind, count, np.random.default_rng([seed, number]), plain=True)
                counts[count] += bool(notes(file, draw(file)))
            yield f"| {kind} {name} | " + " | ".join(str(counts[c]) for c in PLANTED) + " |"


if __name__ == "__main__":
    main()
