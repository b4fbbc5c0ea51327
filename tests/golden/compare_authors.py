"""Golden files of benchmarks' own readers against our numbers."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from compare_benchmarks import sample_of
from comparison import Comparison, gap
from scored import line, read

from harness.metrics import author_readers as authors
from harness.metrics import letter_readers as readers
from harness.metrics import point_readers as points_in
from harness.scores import Totals
from harness.task import Protocol
from harness.tasks.blink.task import PROTOCOLS as BLINK
from harness.tasks.video_mmmu.scoring import PROTOCOLS as VIDEO_MMMU
from harness.types import Answer, Prediction


class Reader(NamedTuple):
    """Our reader of one golden file."""

    protocol: str
    source: str
    letter: Callable[[str, Sequence[str]], str | None]
    """Function of a response and the options."""


READERS = {
    "blink": Reader(
        "blink/rules", "test_benchmark.py", lambda said, _: authors.blink_choice(said, "ABCD")
    ),
    "mmsi": Reader(
        "mmsi/official", "mmsi_bench.py", lambda said, _: authors.mmsi_author_choice(said)
    ),
    "mvbench": Reader(
        "mvbench/official",
        "mvbench.ipynb",
        lambda said, _: (
            "".join(one for one in "ABCDEFGH" if authors.is_mvbench_option(said, one)) or None
        ),
    ),
    "video_mmmu": Reader(
        "videommmu/official",
        "videommmu/utils.py",
        lambda said, options: authors.videommmu_author_choice(said, "ABCDE", options),
    ),
    "mindcube": Reader(
        "mindcube/official", "extractors.py", lambda said, _: readers.mindcube_choice(said)
    ),
    "view_spatial": Reader(
        "viewspatial/official", "evaluate.py", lambda said, _: readers.view_spatial_choice(said)
    ),
    "site": Reader(
        "site/official", "sitebench/utils.py", lambda said, _: readers.site_choice(said, "ABCD")
    ),
}


def letters() -> Iterator[Comparison]:
    for name, reader in READERS.items():
        file = read(f"letters/{name}.json")
        wrong = [
            float(reader.letter(said, file["options"]) != letter) for said, letter in file["cases"]
        ]
        yield line(f"{reader.protocol}: letters", reader.source, file, wrong)


def said(response: str) -> Prediction:
    """A response that the model's own grammar has not read."""
    return Prediction(query_id="q", answer=Answer(text="?"), responses=(response,))


def totals_of(protocol: Protocol, scored: Sequence[Any]) -> dict[str, float | None]:
    """Every number over samples and responses."""
    totals = Totals(protocol.metrics)
    for sample, response in scored:
        totals.add(protocol.score([sample], [said(response)]))
    return totals.values()


def blink() -> Iterator[Comparison]:
    file, protocol = read("blink/scores.json"), BLINK["blink/official"]
    scored = [
        (
            sample_of(
                Answer(),
                extra={"letter": truth[1], "letters": "ABCD"},
                categories={"sub_task": task},
            ),
            answer,
        )
        for _, task, truth, answer in file["cases"]
    ]
    numbers = totals_of(protocol, scored)
    official = dict(file["totals"])
    deviations = [gap(numbers[protocol.headline], official.pop("Total"))]
    deviations += [gap(numbers[task], value) for task, value in official.items()]
    yield line("blink/official: accuracies of tasks, their mean", "evaluate.py", file, deviations)


def video_mmmu() -> Iterator[Comparison]:
    file, deviations, scored = read("video_mmmu/official.json"), [], []
    protocol = VIDEO_MMMU["videommmu/official"]
    for truth, response, options, right in file["cases"]:
        answer = Answer(text=truth) if options is None else Answer(choice=truth)
        letters = "" if options is None else "ABCDE"
        extra = {"letter": answer.choice, "letters": letters, "options": options or []}
        sample = sample_of(answer, extra=extra, categories={"track": "adaptation"})
        found: Any = protocol.score([sample], [said(response)])["accuracy"]
        deviations.append(gap(found.numerator if found.denominator else None, right))
        scored.append((sample, response))
    yield line("videommmu/official: answers", "videommmu/utils.py", file, deviations)
    whole = [gap(round(totals_of(protocol, scored)["accuracy"] or 0, 5), file["total"])]
    yield line("videommmu/official: mean, to 5 places", "videommmu/utils.py", file, whole)


def texts(name: str, read_points: points_in.PointReader, protocol: str, source: str) -> Comparison:
    """One golden file of texts with points."""
    file, deviations = read(f"pointing/{name}.json"), []
    for text, (width, height), count, first in file["cases"]:
        ours = read_points(text, width, height)
        deviations.append(float(len(ours) != count))
        for point, official in zip(ours, first, strict=False):
            deviations += [abs(a - b) for a, b in zip(point, official, strict=True)]
    return line(protocol, source, file, deviations)


def cut(reader: points_in.PointReader) -> points_in.PointReader:
    """A reader whose points are whole, as the official script has them before it scores."""
    return lambda *given: [type(one)(*map(float, map(int, one))) for one in reader(*given)]


def points() -> Iterator[Comparison]:
    tuples = points_in.tuple_points
    yield texts("refspatial_texts", tuples, "refspatial/official: points in texts", "text2pts")
    by_point = partial(tuples, rectangles="cut")
    yield texts("where2place_texts", by_point, "where2place/official: points in texts", "text2pts")
    by_lmms = partial(tuples, whole="shares", rectangles="none")
    both = "refspatial/white, where2place/white: points in texts"
    yield texts("white_texts", by_lmms, both, "where2place/utils.py")
    yield texts("xml", cut(points_in.attribute_points), "refspatial/official: Molmo", "xml2pts")
    yield texts("gemini", cut(points_in.gemini_points), "refspatial/official: Gemini", "json2pts")

    def first_share(text: str, width: int, height: int) -> points_in.Points:
        return points_in.share_tuple(text, 1, 1) or points_in.share_pair(text, 1, 1)

    yield texts("robospatial_texts", first_share, "robospatial/official: points", "evaluation.py")


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    for family in (letters, blink, video_mmmu, points):
        yield from family()
