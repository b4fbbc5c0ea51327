"""A reward for points alone: each on an object of its own, and as many as there are objects."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.models.canvas import Canvas
from harness.models.grammar import ParseResult
from harness.trainers.grpo.method import Group, RewardComponents


@dataclass(frozen=True)
class OnObjects:
    parse: Callable[[str], ParseResult]

    def __call__(self, group: Group) -> list[RewardComponents]:
        answer = group.sample.target.answer
        masks = [track[0].to_array() for track in answer.instances or (answer.masks,)]
        return [self.components(group, one.text, masks) for one in group.rollouts]

    def components(self, group: Group, response: str, masks: list[np.ndarray]) -> RewardComponents:
        """`on_objects`, from 0 to 1: the matched points over the larger of both numbers."""
        canvas = Canvas(group.canvas, group.sample.query.size)
        places = [canvas.to_image(item).place for item in self.parse(response).items]
        rows = [[mask[int(y), int(x)] for mask in masks] for x, y in places]
        on = np.array(rows, float).reshape(len(places), len(masks))
        hits = on[linear_sum_assignment(-on)].sum()
        share = float(hits / max(on.shape)) if places else 0.0
        return {"on_objects": share, "total": share}
