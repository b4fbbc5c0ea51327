"""MEMO: the answer's tokens become equally likely in all views of the image.

In other colours the answer is the same, and distributions are compared token by token. In a part of
the image its coordinates are other numbers, and token by token nothing compares: of each number
what counts is how likely the one that is right in the view is, against every other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from harness.adaptation import AdaptationContext
from harness.chat import ChatRequest, ChatResponse
from harness.models.test_time.consensus import Group
from harness.models.test_time.methods import Method, Trial
from harness.models.test_time.places import SIDES, Part, parts, pieces
from harness.models.test_time.views import generator, views
from harness.models.visionreasoner.grammar import CANVAS

if TYPE_CHECKING:
    from torch import Tensor

    from harness.models.learning.rows import ScoredRows

MIN_PROBABILITY = 1e-30
"""Lower bound of a token's probability, before its logarithm is taken."""
MAX_PROBABILITY = 1 - 1e-6
"""Upper bound of a number's probability: all other numbers keep some."""


@dataclass(frozen=True, slots=True)
class View:
    """The image in a view, and the answer in it."""

    request: ChatRequest
    response: ChatResponse
    numbers: tuple[tuple[int, int], ...] = ()
    """(first, end) of the tokens of each number that differs between views."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-probabilities of an answer in one view."""

    tokens: "Tensor"
    """Log-probabilities of the vocabulary at the tokens that are in every view (tokens × all)."""
    numbers: "Tensor"
    """Log-probability of each number."""


@dataclass(frozen=True, kw_only=True)
class Memo(Method):
    """Make the answer as likely in every view of the image as it is on average."""

    views: int = 4
    """Views of the image, itself among them."""
    strength: float = 0.3
    """Most that brightness, contrast and saturation of a view change, as a share."""
    geometric: bool = False
    """Views are parts of the image too, some of them mirrored."""
    seed: int = 0

    @property
    def grammar(self) -> bool:  # type: ignore[override]  # coordinates are found by the grammar
        """True if it moves places that responses name in VisionReasoner's grammar."""
        return self.geometric

    def __call__(self, trial: Trial) -> None:
        """Learn from the divergence of each view from their mean.

        The mean is held fixed: of the gradient of the mean divergence, what goes through the mean
        is a constant, which no softmax sees.
        """
        import torch

        for step in range(self.steps):
            (response,) = trial.draw(1, temperature=0.0, name=f"step{step}")
            seen = self.seen(trial, response, step)
            requests, responses = [view.request for view in seen], [view.response for view in seen]
            with torch.no_grad():
                scored = trial.context.scored(responses, requests=requests)
                mean = mean_of(
                    [likelihood for rows in scored for likelihood in likelihoods(rows, seen)]
                )

            def loss(
                rows: "ScoredRows", mean: Likelihood = mean, seen: Sequence[View] = seen
            ) -> "Tensor":
                apart = [divergence(likelihood, mean) for likelihood in likelihoods(rows, seen)]
                return torch.stack(apart).sum() / self.views

            update = trial.context.step(loss, responses, requests=requests)
            trial.note(update, [response])

    def seen(self, trial: Trial, response: ChatResponse, step: int) -> list[View]:
        """Return the views of a step; parts are drawn around the objects that `response` names."""
        chosen = self._parts(trial, response, step) if self.geometric else []
        requests = views(
            trial.request, self.views, seed=self.seed, strength=self.strength, parts=chosen
        )
        if not chosen:
            return [View(request, response) for request in requests]
        return [
            moved(trial.context, request, response, part, trial.canvas)
            for request, part in zip(requests, [Part(), *chosen], strict=True)
        ]

    def _parts(self, trial: Trial, response: ChatResponse, step: int) -> list[Part]:
        """Return parts that hold every object of a response; none if it cannot be read."""
        (candidate,) = Group((response.text,), trial.canvas, trial.named).candidates
        if candidate is None:
            return []
        boxes, points = (numbers.reshape(-1, 2) / np.array(CANVAS) for numbers in candidate.objects)
        places = np.concatenate([boxes, points])
        (left, top), (right, bottom) = places.min(axis=0), places.max(axis=0)
        if not np.isfinite(places).all():
            return []
        sided = SIDES.search(trial.request.text) or SIDES.search(response.text)
        rng = generator(f"parts{step}", seed=self.seed, key=trial.request.key)
        around = (float(left), float(top), float(right), float(bottom))
        return parts(self.views - 1, rng, around=around, mirror=not sided)


def moved(
    context: AdaptationContext,
    request: ChatRequest,
    response: ChatResponse,
    part: Part,
    canvas: tuple[int, int],
) -> View:
    """Return a view with the response as it is correct for a part, number by number as tokens."""
    texts = pieces(response.text, part, canvas)
    tokens = [context.encode(text) for text in texts]
    ends = np.cumsum([0, *map(len, tokens)]).tolist()
    written = ChatResponse(text="".join(texts), tokens=tuple(chain.from_iterable(tokens)))
    return View(request, written, tuple(pairwise(ends))[1::2])


def likelihoods(rows: "ScoredRows", seen: Sequence[View]) -> list[Likelihood]:
    """Return what the network says of the answer in each view of some rows."""
    import torch

    counts = [int(count) for count in rows.answer.sum(dim=1).tolist()]
    per_view = []
    for row, own in enumerate(torch.split(rows.log_probs(), counts)):
        inside = rows.answer[row].bool()
        alike, numbers = inside.clone(), [own.new_zeros(0)]
        for first, end in seen[rows.places[row]].numbers:
            if bool(inside[first:end].all()):
                alike[first:end] = False
                numbers.append(rows.logp[row, first:end].sum(dim=0, keepdim=True))
        per_view.append(Likelihood(own[alike[inside]], torch.cat(numbers)))
    return per_view


def mean_of(per_view: Sequence[Likelihood]) -> Likelihood:
    """Return the mean of probabilities over views."""
    import torch

    def mean(logs: "list[Tensor]") -> "Tensor":
        return torch.stack(logs).exp().mean(dim=0).clamp(min=MIN_PROBABILITY).log()

    return Likelihood(
        mean([view.tokens for view in per_view]), mean([view.numbers for view in per_view])
    )


def divergence(view: Likelihood, mean: Likelihood) -> "Tensor":
    """Return the Kullback-Leibler divergence of a view from the mean, summed over the answer."""
    import torch

    tokens = (view.tokens.exp() * (view.tokens - mean.tokens)).sum()
    chance, expected = (
        likelihood.numbers.exp().clamp(max=MAX_PROBABILITY) for likelihood in (view, mean)
    )
    right = chance * (view.numbers - mean.numbers)
    rest = (1 - chance) * (torch.log1p(-chance) - torch.log1p(-expected))
    return tokens + (right + rest).sum()
