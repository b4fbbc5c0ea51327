"""Samples of vendors' evaluations, made from a seed, and what our model makes its network see.

`make_vendors.py` runs the vendors' own code on the same samples and the same tokenizer, and keeps
hashes. Videos have few and small frames of noise, on which any other filter or size shows.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness import media, plugins
from harness.models.backends.inputs import processor_inputs
from harness.spec import parse
from harness.types import AnswerForm, Query

GOLDEN = Path(__file__).parent / "vendors"
SAMPLES = 200
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
MARK = -200
"""Number of a placeholder in a vendor's prompt."""
RATES = (5.0, 10.0, 24.0, 25.0, 30.0, 30000 / 1001)
WORDS = "what does the left person pick up after they put down a red cup? où 杯子 <3 {x} 50%"


class Sample(NamedTuple):
    """A question about generated frames."""

    key: str
    question: str
    options: tuple[str, ...]
    frames: NDArray[np.uint8]
    """frames × height × width × 3"""
    rate: float

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds of the frames."""
        return tuple(index / self.rate for index in range(len(self.frames)))


class Seen(NamedTuple):
    """What a network sees of a sample."""

    tokens: Sequence[int]
    pixels: NDArray[np.floating[Any]]
    """Normalized values, in the order of the network's tensor."""
    frames: Sequence[int]
    seconds: Sequence[float] = ()
    """Seconds that the network is told beside the tokens."""

    def row(self, case: "Case") -> list[Any]:
        """Return the sample's row of a golden file: hashes of tokens and pixels, and the frames."""
        tokens = hashlib.sha256(np.asarray(self.tokens, np.int64).tobytes()).hexdigest()[:16]
        seconds = [round(float(value), 4) for value in self.seconds]
        return [tokens, case.pixel_hash(self.pixels), list(self.frames), *seconds]


def of_patches(pixels: NDArray[Any]) -> NDArray[Any]:
    """Bring the channels of rows of patches, in which they are slowest, to the end."""
    return np.moveaxis(pixels.reshape(len(pixels), 3, -1), 1, -1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A vendor's evaluation, and the tiny network that stands for the vendor's."""

    name: str
    """Name of the vendor's settings."""
    model: str
    """SPEC of the model, without its checkpoint."""
    network: str
    """Function that saves the network (`vendor_networks.py`)."""
    form: AnswerForm = AnswerForm.CHOICE
    options: tuple[int, int] = (2, 6)
    """Least and largest number of options."""
    sizes: tuple[int, int] = (30, 150)
    """Least and largest side of a frame, in pixels."""
    frames: tuple[int, int] = (2, 60)
    tensor: str = "pixel_values"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    channels: Callable[[NDArray[Any]], NDArray[Any]] = lambda pixels: np.moveaxis(pixels, -3, -1)
    """Brings the channels of the tensor to its end."""
    placeholder: str = ""
    """Token of a clip that the vendor's prompt has once, for it is its network that puts the
    features of the clip there. Empty: the vendor's prompt has one token a feature, too."""
    features: Callable[[int], int] = int
    """Number of features of a clip of so many frames, where there is a placeholder."""

    def samples(self, count: int = SAMPLES) -> Iterator[Sample]:
        """Yield samples, which depend on their number alone."""
        for number in range(count):
            yield self.sample(number)

    def sample(self, number: int) -> Sample:
        """Return one sample."""
        seed = [number, *self.name.encode()]
        rng = np.random.default_rng(seed)
        width, height = (int(side) for side in rng.integers(*self.sizes, 2, endpoint=True))
        count = int(rng.integers(*self.frames, endpoint=True))

        def text(least: int) -> str:
            return " ".join(rng.choice(WORDS.split(), rng.integers(least, 9)))

        question = text(3)
        options = tuple(text(1) for _ in range(rng.integers(*self.options, endpoint=True)))
        frames = rng.integers(0, 256, (count, height, width, 3), np.uint8)
        return Sample(f"{self.name}-{number}", question, options, frames, float(rng.choice(RATES)))

    def pixel_hash(self, pixels: NDArray[Any]) -> str:
        """Return the hash of the levels (0 to 255) that normalized pixels stand for.

        Raises:
            AssertionError: a value is not a level but for rounding in float32.
        """
        scale, shift = (np.asarray(part, np.float32) * 255 for part in (self.std, self.mean))
        values = self.channels(pixels) * scale + shift
        levels = np.rint(values)
        assert np.abs(values - levels).max() < 0.01, "not a level"
        shape = np.asarray(pixels.shape, np.int64).tobytes()
        return hashlib.sha256(shape + levels.astype(np.uint8).tobytes()).hexdigest()[:16]

    def built(self, checkpoint: Path) -> Any:
        """Return the model with the vendor's settings and a checkpoint."""
        name, _, rest = self.model.partition("(")
        given = f"{rest[:-1]}," if rest else ""
        spec = f"{name}({given}vendor={self.name},checkpoint={checkpoint})"
        return plugins.build("models", parse(spec))

    def seen(self, model: Any, sample: Sample) -> Seen:
        """Return what the network of our model sees of a sample."""
        shown = media.pixels(
            list(sample.frames),
            times=sample.times,
            is_video=len(sample.frames) > 1,
            id=sample.key,
        )
        query = Query(
            id=sample.key,
            text=sample.question,
            media=(shown,),
            forms=(self.form,),
            options=sample.options if self.form is AnswerForm.CHOICE else (),
        )
        (request,) = model.requests(query)
        inputs = processor_inputs(model.chat.processor, [request])
        tokens, frames = inputs["input_ids"][0].tolist(), request.frames[0]
        if self.placeholder:
            mark = model.chat.processor.tokenizer.convert_tokens_to_ids(self.placeholder)
            start, count = tokens.index(mark), self.features(len(frames))
            assert tokens[start : start + count] == [mark] * count, "one token a feature"
            tokens = [*tokens[:start], MARK, *tokens[start + count :]]
        seconds = inputs.get("second_per_grid_ts", ())
        return Seen(tokens, inputs[self.tensor].numpy(), frames, seconds)

    def golden(self) -> list[list[Any]]:
        """Return the rows that the vendor's code gave."""
        rows: list[list[Any]] = json.loads((GOLDEN / f"{self.name}.json").read_text())["rows"]
        return rows


CASES = (
    Case(
        name="internvl3_5_mvbench",
        model="vlm(dialect=internvl3_5,segmenter=box,propagator=still)",
        network="internvl",
    ),
    Case(
        name="internvl3_5_refcoco",
        model="vlm(dialect=internvl3_5,segmenter=box,propagator=still)",
        network="internvl",
        form=AnswerForm.BOXES,
        sizes=(30, 900),
        frames=(1, 1),
    ),
    Case(
        name="llava_onevision_videomme",
        model="vlm(dialect=llava_onevision,segmenter=box,propagator=still)",
        network="llava_onevision",
        options=(4, 4),
        frames=(2, 9),
        tensor="pixel_values_videos",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        placeholder="<video>",
        features=lambda frames: frames * 196 + 1,
    ),
    Case(
        name="qwen3_vl_videomme",
        model="qwen_vl(prompt=locate,segmenter=box,propagator=still)",
        network="qwen3_vl",
        options=(4, 4),
        frames=(4, 90),
        tensor="pixel_values_videos",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        channels=of_patches,
    ),
    Case(
        name="qwen2_5_vl_report",
        model="qwen_vl(prompt=locate,segmenter=box,propagator=still)",
        network="qwen2_5_vl",
        frames=(4, 90),
        tensor="pixel_values_videos",
        mean=CLIP_MEAN,
        std=CLIP_STD,
        channels=of_patches,
    ),
    Case(
        name="molmo2_videomme",
        model="vlm(dialect=molmo2,segmenter=box,propagator=still)",
        network="molmo2",
        options=(4, 4),
        frames=(2, 30),
        tensor="pixel_values_videos",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        channels=lambda pixels: pixels.reshape(-1, 3),
    ),
    Case(
        name="glm_v_bench",
        model="vlm(dialect=glm_v,segmenter=box,propagator=still)",
        network="glm_v",
        frames=(4, 90),
        tensor="pixel_values_videos",
        mean=CLIP_MEAN,
        std=CLIP_STD,
        channels=of_patches,
    ),
)
