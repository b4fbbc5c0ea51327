"""Lessons of each step, drawn in the training process or by workers ahead of it."""

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context

import torch

from harness.trainers.pocket import vocabulary
from harness.trainers.pocket.batches import Batch, Collator
from harness.trainers.pocket.data_mixture import draw_counts, draw_images, draw_stills, draw_videos
from harness.trainers.pocket.settings import PocketSettings

PARTS = 2  # of a step, whichever processes they are shared among
AHEAD = 10  # steps that workers may be ahead
INTERVALS = (1, 2, 3, 4)  # steps in time from one grid of a clip to the next
MIN_THINGS, MAX_THINGS = 2, 8


class Drawing:
    """Draws the batches of a step."""

    def __init__(self, settings: PocketSettings, *, seed: int) -> None:
        self._set = settings
        self._seed = seed
        tokenizer = vocabulary.make_tokenizer()
        self._collator = Collator(
            tokenizer,
            text_first=settings.text_first,
            outlines=settings.outlines_weight > 0,
            patches=settings.patches_weight > 0,
            places_of_targets=settings.places_of_targets,
            recoloured=settings.shares.recoloured > 0,
        )

    def part(self, step: int, part: int) -> dict[str, Batch]:
        """Return the batches of one of a step's `PARTS`, by their kind of view."""
        settings, limit = self._set, self._max_things(step)
        shares = settings.shares
        if step < settings.see_until * settings.max_steps:
            shares = shares.at_first(settings.seen_first)
        given = {"seed": self._seed, "step": step * PARTS + part}
        drawn = {
            "stills": [
                *draw_stills(shares, max_things=limit, **given),
                *draw_images(shares, **given),
            ],
            "counts": draw_counts(shares, max_things=limit, **given),
            "clips": draw_videos(shares, **given),
        }
        batches = {}
        for name, kept in drawn.items():
            if any(one.examples for one in kept):
                turns = [INTERVALS[(step + place) % len(INTERVALS)] for place in range(len(kept))]
                batches[name] = self._collator.batch(kept, intervals=turns)
        return batches

    def _max_things(self, step: int) -> int:
        grown = min(1.0, step / self._set.max_steps / max(self._set.easy_until, 1e-9))
        return MIN_THINGS + round(grown * (MAX_THINGS - MIN_THINGS))


_drawing: list[Drawing] = []  # of this worker process


def _begin(settings: PocketSettings, seed: int) -> None:
    torch.set_num_threads(1)
    _drawing.append(Drawing(settings, seed=seed))


def _draw(step: int, part: int) -> dict[str, Batch]:
    return _drawing[0].part(step, part)


def batches(
    settings: PocketSettings, *, seed: int, first: int, parts: range
) -> Iterator[list[dict[str, Batch]]]:
    """These parts of every step from `first` on, in order."""
    steps = range(first, settings.max_steps)
    if settings.dataloader_num_workers < 1:
        drawing = Drawing(settings, seed=seed)
        for step in steps:
            yield [drawing.part(step, part) for part in parts]
        return
    with ProcessPoolExecutor(
        settings.dataloader_num_workers,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(settings, seed),
    ) as pool:
        waiting: list[list[Future[dict[str, Batch]]]] = []
        left = iter(steps)
        try:
            for _ in steps:
                ahead = islice(left, AHEAD - len(waiting))
                waiting += [[pool.submit(_draw, step, part) for part in parts] for step in ahead]
                yield [one.result() for one in waiting.pop(0)]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
