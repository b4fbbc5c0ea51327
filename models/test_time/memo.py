"""MEMO: update the weights until the answer is equally likely in all views of the image.

A view in other colours has the same answer, so the distributions of its tokens are compared one by
one. A cropped or mirrored view has other coordinates, so their tokens cannot be compared. Each
coordinate is compared as a yes-or-no event instead: the network writes the number that is correct
in the view, or it writes another one.
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
"""Upper bound of a number's probability, so that the logarithm of the complement is finite."""


@dataclass(frozen=True, slots=True)
class View:
    """One view of the image: the request that shows it and the response that is correct in it."""

    request: ChatRequest
    response: ChatResponse
    numbers: tuple[tuple[int, int], ...] = ()
    """Token span (first, end) of each coordinate; empty if all views share the response."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-probabilities of an answer in one view."""

    tokens: "Tensor"
    """Log-probabilities at the tokens that all views share (tokens × vocabulary)."""
    numbers: "Tensor"
    """Log-probability of each coordinate, summed over its tokens (numbers)."""


@dataclass(frozen=True, kw_only=True)
class Memo(Method):
    """Minimise the divergence of each view's answer distribution from the mean over views."""

    views: int = 4
    """Number of views, the unchanged image among them."""
    strength: float = 0.3
    """Largest relative change of a view's brightness, contrast and saturation."""
    geometric: bool = False
    """Crop the views too, and mirror some of them."""
    seed: int = 0

    @property
    def grammar(self) -> bool:  # type: ignore[override]  # coordinates are found by the grammar
        """True if responses must be in VisionReasoner's grammar: crops move their coordinates."""
        return self.geometric

    def __call__(self, trial: Trial) -> None:
        """Update the weights by the mean divergence of the views from their mean.

        The mean is computed without a gradient. This changes nothing: the gradient through the
        mean is the same constant for all tokens of the vocabulary, and a softmax ignores it.
        """
        import torch

        for step in range(self.steps):
            (response,) = trial.draw(1, temperature=0.0, name=f"step{step}")
            step_views = self.step_views(trial, response, step)
            requests = [view.request for view in step_views]
            responses = [view.response for view in step_views]
            with torch.no_grad():
                per_view: list[Likelihood] = []
                for scored in trial.context.scored(responses, requests=requests):
                    per_view += likelihoods(scored, step_views)
                mean = mean_of(per_view)

            def loss(
                rows: "ScoredRows", mean: Likelihood = mean, step_views: Sequence[View] = step_views
            ) -> "Tensor":
                divergences = [
                    divergence(likelihood, mean) for likelihood in likelihoods(rows, step_views)
                ]
                return torch.stack(divergences).sum() / self.views

            update = trial.context.step(loss, responses, requests=requests)
            trial.note(update, [response])

    def step_views(self, trial: Trial, response: ChatResponse, step: int) -> list[View]:
        """Return the views of a step; crops contain all objects that `response` names."""
        crops = self._parts(trial, response, step) if self.geometric else []
        requests = views(
            trial.request, self.views, seed=self.seed, strength=self.strength, parts=crops
        )
        if not crops:
            return [View(request, response) for request in requests]
        return [
            view_of_part(trial.context, request, response, part, trial.canvas)
            for request, part in zip(requests, [Part(), *crops], strict=True)
        ]

    def _parts(self, trial: Trial, response: ChatResponse, step: int) -> list[Part]:
        """Return random crops that contain all objects of a response; none if it is unreadable."""
        (candidate,) = Group((response.text,), trial.canvas, trial.must_name_frame).candidates
        if candidate is None:
            return []
        boxes, points = (numbers.reshape(-1, 2) / np.array(CANVAS) for numbers in candidate.objects)
        corners = np.concatenate([boxes, points])  # (x, y) in shares of the image
        (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
        if not np.isfinite(corners).all():
            return []
        names_sides = SIDES.search(trial.request.text) or SIDES.search(response.text)
        rng = generator(f"parts{step}", seed=self.seed, key=trial.request.key)
        bounds = (float(left), float(top), float(right), float(bottom))
        return parts(self.views - 1, rng, around=bounds, mirror=not names_sides)


def view_of_part(
    context: AdaptationContext,
    request: ChatRequest,
    response: ChatResponse,
    part: Part,
    canvas: tuple[int, int],
) -> View:
    """Return the view of a part; its response has the coordinates of the part.

    Text and coordinates are encoded separately, so that each coordinate has tokens of its own.

    Args:
        context: Encodes text as tokens.
        request: Shows the part.
        response: Correct for the whole image.
        part: The part of the image.
        canvas: (width, height) of the frame that coordinates are in.
    """
    part_texts = pieces(response.text, part, canvas)
    tokens = [context.encode(text) for text in part_texts]
    ends = np.cumsum([0, *map(len, tokens)]).tolist()
    response_in_view = ChatResponse(
        text="".join(part_texts), tokens=tuple(chain.from_iterable(tokens))
    )
    spans = tuple(pairwise(ends))  # of text, number, text, …, text
    return View(request, response_in_view, spans[1::2])


def likelihoods(rows: "ScoredRows", step_views: Sequence[View]) -> list[Likelihood]:
    """Return the answer's log-probabilities in the view of each row of `rows`.

    `step_views` are all views of the step; `rows.indices` are indices into them.
    """
    import torch

    token_counts = [int(n_tokens) for n_tokens in rows.answer.sum(dim=1).tolist()]
    per_view = []
    for row, log_probs in enumerate(torch.split(rows.log_probs(), token_counts)):
        is_answer = rows.answer[row].bool()
        is_shared = is_answer.clone()  # tokens that are not of a coordinate
        numbers = [log_probs.new_zeros(0)]
        for first, end in step_views[rows.indices[row]].numbers:
            if bool(is_answer[first:end].all()):
                is_shared[first:end] = False
                numbers.append(rows.logp[row, first:end].sum(dim=0, keepdim=True))
        per_view.append(Likelihood(log_probs[is_shared[is_answer]], torch.cat(numbers)))
    return per_view


def mean_of(per_view: Sequence[Likelihood]) -> Likelihood:
    """Return the logarithms of the probabilities' means over views."""
    import torch

    def mean(logs: "list[Tensor]") -> "Tensor":
        return torch.stack(logs).exp().mean(dim=0).clamp(min=MIN_PROBABILITY).log()

    return Likelihood(
        mean([view.tokens for view in per_view]), mean([view.numbers for view in per_view])
    )


def divergence(view: Likelihood, mean: Likelihood) -> "Tensor":
    """Return the Kullback-Leibler divergence of a view from the mean, summed over the answer.

    Shared tokens have a distribution over the vocabulary, coordinates one over two events.
    """
    import torch

    tokens = (view.tokens.exp() * (view.tokens - mean.tokens)).sum()
    probability, mean_probability = (
        likelihood.numbers.exp().clamp(max=MAX_PROBABILITY) for likelihood in (view, mean)
    )
    number_terms = probability * (view.numbers - mean.numbers)
    complement_terms = (1 - probability) * (
        torch.log1p(-probability) - torch.log1p(-mean_probability)
    )
    return tokens + (number_terms + complement_terms).sum()
