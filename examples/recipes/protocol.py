"""The two files of `external`, for a program in an environment of its own.

A script is started with `--in FILE --out FILE`; what else it is given is the official program's. It
runs in the official checkout, from which it imports: importing this module, which every script does
first, puts that on the path. Needs numpy and pycocotools, and Python 3.10.
"""

import argparse
import builtins
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))  # the checkout: `directory=` of external


@dataclass(frozen=True)
class Question:
    id: str
    text: str
    path: str
    """An image, or a folder of frames."""
    frames: tuple[str, ...]
    """The image, or the frames in their order."""
    is_video: bool


Tracks = Sequence[Sequence[Any]]
"""One track an object: a mask (height × width) a frame, true or above 0 where the object is."""


class Files:
    """Questions of `--in`, and rows of `--out`, each written at once."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--in", dest="given", type=Path, required=True)
        parser.add_argument("--out", type=Path, required=True)
        parsed, self.rest = parser.parse_known_args()
        self.out = parsed.out
        self.questions = [_question(json.loads(line)) for line in parsed.given.open()]

    def write(self, question: Question, tracks: Tracks = (), **more: str) -> None:
        row = {"id": question.id, "masks": joined(tracks, len(question.frames)), **more}
        if "error" in more:
            del row["masks"]
        with self.out.open("a") as out:
            out.write(json.dumps(row) + "\n")


def _question(row: dict[str, Any]) -> Question:
    path = row["frames_dir"] if "frames_dir" in row else row["image"]
    frames = sorted(map(str, Path(path).iterdir())) if "frames_dir" in row else [path]
    return Question(row["id"], row["query"], path, tuple(frames), "frames_dir" in row)


def joined(tracks: Tracks, frames: int) -> list[dict[str, Any] | None]:
    """Run-lengths of the union of all objects, one a frame; None where nothing is."""
    import numpy as np
    from pycocotools import mask as coco

    found: list[dict[str, Any] | None] = []
    for place in range(frames):
        masks = [_array(track[place]) > 0 for track in tracks]
        union = np.logical_or.reduce(masks) if masks else np.zeros((1, 1), dtype=bool)
        code = coco.encode(np.asfortranarray(union, dtype=np.uint8))
        plain = {"size": code["size"], "counts": code["counts"].decode()}
        found.append(plain if union.any() else None)
    return found


def _array(mask: Any) -> Any:
    import numpy as np

    return np.asarray(mask.detach().float().cpu() if hasattr(mask, "detach") else mask)


def answer(files: Files, ask: Callable[[Question], tuple[Tracks, str]]) -> None:
    """Answer every question; what raises is the error of that question alone."""
    for question in files.questions:
        try:
            tracks, text = ask(question)
            files.write(question, tracks, text=text)
        except Exception as error:  # noqa: BLE001
            files.write(question, error=f"{type(error).__name__}: {error}")


def apart(masks: Any) -> Tracks:
    """Return one track an object of masks of images, all objects of an image in one array."""
    return [[mask] for objects in masks for mask in objects]


def noted(network: type, tracks: Callable[[Any], Tracks] = lambda masks: masks) -> list[Tracks]:
    """Return the list that the masks of each call of `network.evaluate` are added to, as tracks."""
    emitted: list[Tracks] = []
    evaluate = network.evaluate

    def noting(self: Any, *given: Any, **named: Any) -> Any:
        found = evaluate(self, *given, **named)
        emitted.append(tracks(found[1]))
        return found

    network.evaluate = noting
    return emitted


def converse(
    files: Files, main: Callable[[list[str]], object], emitted: list[Tracks], *, prompt: str
) -> None:
    """Answer by a program that reads a prompt, then a path, again and again, with `input`.

    Args:
        files: What is asked.
        main: The program, which is given the rest of the command line.
        emitted: Masks of its network (`noted`): those of the last call are the answer.
        prompt: Its prompt, with the question in place of `{}`.
    """
    left: Iterator[Question] = iter(files.questions)
    asked: list[Question] = []

    def read(words: str = "") -> str:
        if "prompt" not in words:
            return asked[-1].path
        finish()
        asked.append(next(left))
        return prompt.format(asked[-1].text)

    def finish(**more: str) -> None:
        if asked:
            files.write(asked.pop(), emitted[-1] if emitted else (), **more)
            emitted.clear()

    builtins.input = read
    while True:
        try:
            main(files.rest)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001 - the next question begins anew
            with contextlib.suppress(StopIteration):
                finish(error=f"{type(error).__name__}: {error}")
