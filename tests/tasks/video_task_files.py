"""Films in the layouts of video tasks, and what damages them."""

import json
from pathlib import Path

from harness.types import Answer, Failure, FailureKind, Prediction


def change(path: Path, edit) -> None:
    plain = json.loads(path.read_text(encoding="utf-8"))
    edit(plain)
    path.write_text(json.dumps(plain), encoding="utf-8")


def first_video(plain):
    return next(iter(plain["videos"].values()))


def answer(sample, masks=None, **said) -> Prediction:
    return Prediction(query_id=sample.query.id, answer=Answer(masks=masks, **said))


def lost(sample) -> Prediction:
    return Prediction(query_id=sample.query.id, failure=Failure(FailureKind.PARSE, "unreadable"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])
