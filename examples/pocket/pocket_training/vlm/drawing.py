"""Batches of each step: a pure function of seed and step."""

from collections.abc import Iterator

from pocket_training.vlm import vocabulary
from pocket_training.vlm.batches import Batch, Collator
from pocket_training.vlm.data_mixture import draw_counts, draw_images, draw_stills, draw_videos
from pocket_training.vlm.settings import PocketSettings

PARTS = 2  # of a step, whichever processes they are shared among
INTERVALS = (1, 2, 3, 4)  # steps in time from one grid of a clip to the next
MIN_THINGS, MAX_THINGS = 2, 8


class Drawing:
    """Draws the batches of a step."""

    def __init__(self, settings: PocketSettings, *, seed: int) -> None:
        self._settings = settings
        self._seed = seed
        tokenizer = vocabulary.make_tokenizer()
        self._collator = Collator(
            tokenizer,
            outlines=settings.stage.outlines_weight > 0,
            patches=settings.stage.patches_weight > 0,
            places_of_targets=settings.stage.places_of_targets,
            recoloured=settings.stage.shares.recoloured > 0,
        )

    def part(self, step: int, part: int) -> dict[str, Batch]:
        """Return the batches of one of a step's `PARTS`, by their kind of view."""
        stage, limit = self._settings.stage, self._max_things(step)
        shares = stage.shares
        if step < stage.see_until * self._settings.max_steps:
            shares = shares.at_first(stage.seen_first)
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
        settings = self._settings
        grown = min(1.0, step / settings.max_steps / max(settings.stage.easy_until, 1e-9))
        return MIN_THINGS + round(grown * (MAX_THINGS - MIN_THINGS))


def batches(
    settings: PocketSettings, *, seed: int, first: int, parts: range
) -> Iterator[list[dict[str, Batch]]]:
    """Yield these parts of every step from `first` on, in order."""
    drawing = Drawing(settings, seed=seed)
    for step in range(first, settings.max_steps):
        yield [drawing.part(step, part) for part in parts]
