"""A small task and a model that misbehaves on demand, as an installed package would bring them."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.random  # now: once privileges are given up, nothing more may be importable
from PIL import Image

from harness.errors import OutOfMemory
from harness.layout import folder
from harness.masks import Rle
from harness.media import open_image
from harness.model import Model, StagedModel
from harness.scores import Mean, Metric, Ratio, Scores
from harness.spec import Spec
from harness.task import Ceiling, Problem, Protocol, Task
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id


def write_dots(root: Path, count: int) -> Path:
    """Images of one bright rectangle whose corner tells which it is."""
    place = root / "dots"
    place.mkdir(parents=True)
    for index in range(count):
        image = np.zeros((24, 32, 3), np.uint8)
        image[index % 7 : 12, index % 11 : 20] = 255
        Image.fromarray(image).save(place / f"{index:04d}.png")
    return root


def dots(data: Path, *, pair: bool = False) -> Task:
    """One sample an image; with `pair`, two neighbours are one unit."""
    place = folder(data / "dots", fix="")
    paths = sorted(place.glob("*.png"))

    def samples() -> Iterator[Sample]:
        for index, path in enumerate(paths):
            corner = Rle.from_array(bright(index))
            yield Sample(
                id=f"dot/{index}",
                query=Query(
                    id=query_id(f"dot/{index}"),
                    text="the dot",
                    media=(open_image(path),),
                    forms=(AnswerForm.MASK,),
                ),
                target=Target(answer=Answer(masks=(corner,))),
                unit=f"unit {index // 2}" if pair else "",
                group=f"group {index // 4}",
                categories={"odd": str(bool(index // 2 % 2))},
            )

    def check() -> Iterator[Problem]:
        for path in paths:
            if path.stat().st_size == 0:
                yield Problem(str(path), "is empty")

    return Task(
        name="dots",
        version=1,
        split="test",
        forms=(AnswerForm.MASK,),
        protocol=PROTOCOL,
        samples=samples,
        annotations=(),
        check=check,
        arguments={"pair": pair},
    )


def bright(index: int) -> np.ndarray:
    mask = np.zeros((24, 32), bool)
    mask[index % 7 : 12, index % 11 : 20] = True
    return mask


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    shared = union = 0
    for sample, prediction in zip(unit, predictions, strict=True):
        ground_truth = sample.target.answer.masks[0]
        masks = prediction.answer.masks if prediction.answer else None
        mask = masks[0] if masks else Rle.empty(ground_truth.height, ground_truth.width)
        shared += ground_truth.intersection(mask).area
        union += ground_truth.union(mask).area
    return {"IoU": Mean(shared / union), "cIoU": Ratio(shared, union)}


PROTOCOL = Protocol(
    name="dots/iou",
    score=score,
    metrics=(Metric("IoU"), Metric("cIoU")),
    headline="IoU",
    ceiling=Ceiling(value=1.0),
    about="",
)


def dot_finder(
    *,
    delay: float = 0.0,
    seed: int = 0,
    fault: Literal[
        "", "raise", "wrong size", "memory", "number", "privileges", "die", "hang", "told"
    ] = "",
    every: int = 5,
    secret: Path | None = None,
    batch: int = 4,
    exit: int | None = None,
    meet: Path | None = None,
    parties: int = 2,
) -> "DotFinder":
    """Find the dot, add noise that depends on the seed and the query alone.

    With `meet`, a folder, each process begins its first batch once `parties` processes are there.
    """
    if exit is not None:
        os._exit(exit)
    if fault == "privileges":
        os.setuid(65534)
        assert secret is not None
        try:
            next(secret.iterdir())
        except PermissionError:
            pass
        else:
            raise AssertionError("the data root can be read")
    return DotFinder(delay, seed, fault, every, batch, meet=meet, parties=parties)


def dot_segmenter() -> "DotSegmenter":
    """Answers one batch; its masks are done some time after the file `signalled` is there."""
    return DotSegmenter(0.0, 0, "", 5, 4)


def dot_talker(*, delay: float = 0.0, seed: int = 0, batch: int = 4) -> "DotTalker":
    """Answers one query after the other, of eight times `batch` that it is given at once."""
    return DotTalker(delay, seed, "", 5, batch)


def dots_by_colour(*, backend: Spec | None = None) -> "DotsByColour":
    """Finds dots, and tells which release of the package `colour` it runs with."""
    assert backend is None, "its environment is not its own business"
    return DotsByColour(0.0, 0, "", 5, 4)


@dataclass(frozen=True)
class DotFinder(Model):
    delay: float
    seed: int
    fault: str
    every: int
    batch_size: int
    name: str = "dot_finder"
    sorts_by_length: bool = True
    meet: Path | None = None
    parties: int = 2

    def describe(self) -> dict[str, object]:
        return {"seed": self.seed, "fault": self.fault}

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        if self.meet is not None:
            self.meet.mkdir(parents=True, exist_ok=True)
            (self.meet / str(os.getpid())).touch()
            deadline = time.monotonic() + 240
            while len(list(self.meet.iterdir())) < self.parties and time.monotonic() < deadline:
                time.sleep(0.02)
        if self.fault == "memory" and len(queries) > 1:
            raise OutOfMemory("too many")
        time.sleep(float(os.environ.get("DELAY", self.delay)))  # equal runs, some of them slow
        return [self.answer(query) for query in queries]

    def answer(self, query: Query) -> Prediction:
        mask = query.media[0].frame(0)[:, :, 0] > 127
        key = int(query.id, 16)
        noise = np.random.Generator(np.random.Philox(key=[self.seed, key % 2**64]))
        mask = mask & (noise.random(mask.shape) < 0.9)
        if self.fault == "told":
            told = [*sys.argv, *map(str, Path().iterdir())]
            assert not any("data" in word for word in told), told
        if key % self.every == 0:
            if self.fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "hang":
                time.sleep(1000)
            if self.fault == "raise":
                raise RuntimeError("no idea")
            if self.fault == "wrong size":
                mask = mask[:5]
            if self.fault == "number":
                return Prediction(query_id=query.id, answer=Answer(number=1.0))
        return Prediction(query_id=query.id, answer=Answer(masks=(Rle.from_array(mask),)))


class DotSegmenter(DotFinder, StagedModel[tuple[Prediction]]):
    def generate(self, queries: Sequence[Query]) -> list[tuple[Prediction]]:
        signs = Path(os.environ["SIGNS"])
        if (signs / "asked").exists():
            while not (signs / "signalled").exists():
                time.sleep(0.02)
            time.sleep(1)  # longer than what is finished after the signal
        (signs / "asked").touch()
        return [(self.answer(query),) for query in queries]

    def begin(self, query: Query, asked: tuple[Prediction]) -> Callable[[], Prediction]:
        signs = Path(os.environ["SIGNS"])

        def finish() -> Prediction:
            (signs / "segments").touch()
            while not (signs / "signalled").exists():
                time.sleep(0.02)
            time.sleep(0.2)
            return asked[0]

        return finish


class DotTalker(DotFinder, StagedModel[Prediction]):
    rounds = 8
    by_sample = True

    def generate_as_completed(self, queries: Sequence[Query]) -> Iterator[tuple[int, Prediction]]:
        for place, query in enumerate(queries):
            time.sleep(float(os.environ.get("DELAY", self.delay)))
            if "SIGNS" in os.environ:
                with (Path(os.environ["SIGNS"]) / "responses").open("a") as responses:
                    responses.write(f"{query.id}\n")
            yield place, self.answer(query)

    def generate(self, queries: Sequence[Query]) -> list[Prediction]:
        return [output for _, output in self.generate_as_completed(queries)]

    def begin(self, query: Query, asked: Prediction) -> Callable[[], Prediction]:
        return lambda: asked


class DotsByColour(DotFinder):
    def describe(self) -> dict[str, object]:
        import colour

        return {"colour": colour.VERSION, "python": sys.prefix}
