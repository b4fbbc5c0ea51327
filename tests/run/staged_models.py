"""Models in stages, for tests of the pipeline."""

from dataclasses import dataclass, field

import numpy as np

from harness.media import pixels
from harness.model import StagedModel as Contract
from harness.run.batching import Batch
from harness.types import Answer, AnswerForm, Call, Prediction, Query, Request

PATIENCE = 10.0  # seconds after which a test gives up waiting for what must happen


def query(name):
    image = pixels([np.zeros((4, 4, 3), np.uint8)], times=(0.0,), is_video=False, id=name)
    return Query(id=name, text=name, media=(image,), forms=(AnswerForm.NUMBER,))


def batch(index, *names):
    return Batch(index=index, queries=tuple(map(query, names)), run="run")


@dataclass
class Kept:
    lines: list = field(default_factory=list)

    def append(self, records):
        self.lines.extend(records)


class Said(float):
    """What the network says of one query."""

    calls = (Call(request=Request(text="How long?"), response="long"),)


@dataclass
class Staged(Contract[float]):
    """Answers with the length of a name; its stages do what a test wants."""

    turns: int = 1
    asked: list = field(default_factory=list)
    on_generate: object = lambda queries: None
    on_begin: object = lambda query: None
    on_finish: object = lambda query: None
    halted: int = 0
    name: str = "staged"
    batch_size: int = 2

    def describe(self):
        return {}

    def generate(self, queries):
        self.asked.append([one.id for one in queries])
        self.on_generate(queries)
        return [Said(len(one.id)) for one in queries]

    def begin(self, query, asked):
        self.on_begin(query)

        def finish():
            self.on_finish(query)
            return Prediction(query_id=query.id, answer=Answer(number=float(asked)))

        return finish

    def halt(self):
        self.halted += 1


def wholes(outcomes):
    """Those of whole batches."""
    return [one for one in outcomes if one.is_whole_batch]


def predictions(journal):
    return {one["sample"]: one["prediction"] for one in journal.lines if "sample" in one}
