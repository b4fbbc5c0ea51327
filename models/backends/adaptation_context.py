"""Rollouts and optimizer steps while a network adapts to one request (test-time methods).

    rollouts ─▶ (the caller rewards them) ─▶ step ─▶ rollouts by the new weights ─▶ step ─▶ …

With `share_prefix`, the prompt is computed once for each step: its keys and values serve the
rollouts and then their log-probabilities. The gradients of all micro-batches are summed at these
keys and values, and go back through the prompt once. Without it, results differ by rounding only.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from harness.adaptation import Update
from harness.chat import ChatRequest, ChatResponse
from harness.errors import OutOfMemory
from harness.models.backends import continuous_batching
from harness.models.backends.continuous_batching import PrefixCache, PromptBatch, Rows
from harness.models.backends.inputs import POSITIONS
from harness.models.backends.kv_cache import preallocated_cache
from harness.models.backends.loading import memory
from harness.models.backends.prompt_prefix import Prefix, PromptReader, states_after
from harness.models.backends.restored_weights import RestoredWeights
from harness.models.backends.row_scores import score_rows, softcap_of
from harness.models.backends.sampling import rollout_key
from harness.models.learning.rows import ScoredRows

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin

    from harness.models.backends.adapters import Adapter
    from harness.models.backends.sampling import Sampling

Loss = Callable[[ScoredRows], Tensor]
T = TypeVar("T")


class Backend(Protocol):
    """The parts of a backend that adaptation needs; `transformers.TransformersChat` has them."""

    @property
    def checkpoint(self) -> str: ...  # noqa: D102
    @property
    def folder(self) -> "Path": ...  # noqa: D102
    @property
    def model_type(self) -> str: ...  # noqa: D102
    @property
    def adapter(self) -> "Adapter | None": ...  # noqa: D102
    @property
    def network(self) -> "PreTrainedModel": ...  # noqa: D102
    @property
    def processor(self) -> "ProcessorMixin": ...  # noqa: D102
    @property
    def end_tokens(self) -> tuple[int, ...]: ...  # noqa: D102
    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]: ...  # noqa: D102
    def samplings(self, requests: Sequence[ChatRequest]) -> "list[Sampling]": ...  # noqa: D102
    def encode(self, text: str) -> tuple[int, ...]: ...  # noqa: D102
    def decode(self, tokens: Sequence[int]) -> str: ...  # noqa: D102
    def prompt_tokens(  # noqa: D102
        self, requests: Sequence[ChatRequest], inputs: "BatchFeature"
    ) -> list[tuple[int, tuple[tuple[int, int], ...]]]: ...
    def to_response(  # noqa: D102
        self,
        request: ChatRequest,
        tokens: Sequence[int],
        length: int,
        canvases: tuple[tuple[int, int], ...],
    ) -> ChatResponse: ...


@contextmanager
def measure(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds of a `with` block to `seconds[name]`."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + perf_counter() - start


class Context:
    """The adaptation of a network to one request; a `harness.adaptation.AdaptationContext`."""

    def __init__(
        self,
        chat: Backend,
        weights: RestoredWeights,
        request: ChatRequest,
        seconds: dict[str, float],
    ) -> None:
        self._chat, self._weights, self._request = chat, weights, request
        self._network, self._settings = weights.network, weights.settings
        self._seconds = seconds
        self._optimizer = weights.optimizer()
        self.prompts = PromptReader(self._network, chat.processor, self._settings.share_prefix)
        self._prefix: Prefix | None = None
        """Keys and values of the request's prompt by the current weights, with their graph."""
        self._first_prefix: Prefix | None = None
        """The same by the original weights, without a graph."""
        self._rows = self._settings.micro_batch_size
        """Number of responses in a micro-batch; halved when memory runs out."""

    def reset(self) -> None:
        """Restore and verify the original weights, and begin with a new optimizer."""
        self._prefix = None
        with measure(self._seconds, "reset"):
            self._weights.reset()
        self._optimizer = self._weights.optimizer()

    # -- rollouts ---------------------------------------------------------------------------------

    def rollouts(self, number: int, *, temperature: float, name: str) -> list[ChatResponse]:
        """Sample responses by the current weights.

        The random numbers depend on seed, request, name and the index of the rollout.
        """
        key = f"{self._request.key}@{self._settings.seed}:{name}"
        requests = [
            replace(self._request, key=rollout_key(key, index), temperature=temperature)
            for index in range(number)
        ]
        with measure(self._seconds, "rollouts"):
            self.prompts.inputs(self._request)  # raises for a prompt that is too long
            if not self.prompts.shares:
                return self._chat.generate(requests)
            with memory():
                return self._continued(requests)

    def _continued(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Generate responses; of the prompt, only the last token is computed again."""
        inputs = self.prompts.inputs(self._request)
        tokens, mask = inputs["input_ids"], inputs["attention_mask"]
        prefix = self._own_prefix().detached(learns=False)
        beginning = Rows(  # the prompt without its last token
            [0],
            [[]],
            tokens[:, :-1],
            mask[:, :-1],
            inputs[POSITIONS][-1:, :, -1:],
            preallocated_cache(
                [(keys[:, :, :-1], values[:, :, :-1]) for keys, values in prefix.layers]
            ),
        )
        prompts = PromptBatch(
            list(range(len(requests))),
            {"input_ids": tokens, "attention_mask": mask, POSITIONS: inputs[POSITIONS]},
            [0] * len(requests),
            PrefixCache(beginning, [1]),
        )
        with torch.no_grad():
            response_tokens = dict(
                continuous_batching.responses(
                    self._network,
                    requests,
                    _OneBatch(prompts),
                    size=len(requests),
                    ends=self._chat.end_tokens,
                    samplings=self._chat.samplings(requests),
                    decode=self._chat.decode,
                )
            )
        ((length, canvases),) = self._chat.prompt_tokens([self._request], inputs)
        return [
            self._chat.to_response(request, response_tokens[index], length, canvases)
            for index, request in enumerate(requests)
        ]

    # -- log-probabilities of responses -----------------------------------------------------------

    def log_probs(self, responses: Sequence[ChatResponse], *, temperature: float) -> Tensor:
        """Return the log-probabilities of responses by the original weights (rows × tokens)."""
        with measure(self._seconds, "reference"), self._weights.with_first_weights():
            prefix = None
            if self.prompts.shares:
                if self._first_prefix is None:
                    self._first_prefix = self.prompts.read(self._request)
                prefix = self._first_prefix
            return self._halving_on_out_of_memory(
                lambda: self._joined(self._score(self._request, prefix, responses, temperature))
            )

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text; special tokens in it are broken up into plain text."""
        return self._chat.encode(text)

    def scored(
        self, responses: Sequence[ChatResponse], *, requests: Sequence[ChatRequest]
    ) -> list[ScoredRows]:
        """Return rows as the loss in `step` gets them, by the current weights, without a graph."""
        rows: list[ScoredRows] = []
        with measure(self._seconds, "updates"), torch.no_grad(), memory():
            for index, (request, response) in enumerate(zip(requests, responses, strict=True)):
                prefix = self.prompts.read(request) if self.prompts.shares else None
                rows += self._score(request, prefix, [response], 1.0, indices=[index])
        return rows

    # -- learning ---------------------------------------------------------------------------------

    def step(
        self,
        loss: Loss,
        responses: Sequence[ChatResponse],
        *,
        temperature: float = 1.0,
        requests: Sequence[ChatRequest] | None = None,
    ) -> Update:
        """Make one optimizer step; see `harness.adaptation.AdaptationContext`.

        Raises:
            OutOfMemory: a single row does not fit.
        """
        rows = requests or [self._request] * len(responses)
        with measure(self._seconds, "updates"):
            return self._halving_on_out_of_memory(
                lambda: self._update(loss, responses, rows, temperature)
            )

    def _halving_on_out_of_memory(self, call: Callable[[], T]) -> T:
        """Return `call()`; when memory runs out, halve the micro-batch and call again."""
        while True:
            try:
                with memory():
                    return call()
            except OutOfMemory:
                if self._rows == 1:
                    raise
                self._rows //= 2
                self._prefix = None
                self._optimizer.zero_grad(set_to_none=True)

    def _update(
        self,
        loss: Loss,
        responses: Sequence[ChatResponse],
        requests: Sequence[ChatRequest],
        temperature: float,
    ) -> Update:
        """Compute the gradient over all responses, and make a step unless it is not finite.

        `requests` holds the request of each response; equal ones share their prompt.
        """
        # sums of loss, entropy and number of tokens
        sums, updated = torch.zeros(3, dtype=torch.float64), list[ScoredRows]()
        for request in dict.fromkeys(requests):
            indices = [index for index in range(len(requests)) if requests[index] == request]
            prefix = self._prefix_of(request)
            leaves = None if prefix is None else prefix.detached(learns=True)
            answers = [responses[index] for index in indices]
            for rows in self._score(request, leaves, answers, temperature, indices=indices):
                value = loss(rows)
                value.backward()
                terms = (value, (rows.entropy * rows.mask).sum(), rows.mask.sum())
                sums += torch.stack([term.detach().double().cpu() for term in terms])
                updated.append(rows)
            if prefix is not None and leaves is not None:
                prefix.backward(leaves)
        trained = [weight for group in self._optimizer.param_groups for weight in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(trained, self._settings.max_grad_norm)
        total, entropy, tokens = sums.tolist()
        broken = not bool(torch.isfinite(sums[0]) and torch.isfinite(norm))
        if not broken:
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._prefix = None
        return Update(
            loss=total,
            grad_norm=float(norm),
            entropy=entropy / max(tokens, 1.0),
            logp=self._joined(updated),
            rolled_back=broken,
        )

    def _score(
        self,
        request: ChatRequest,
        prefix: Prefix | None,
        responses: Sequence[ChatResponse],
        temperature: float,
        *,
        indices: Sequence[int] | None = None,
    ) -> Iterator[ScoredRows]:
        """Yield micro-batches of a request's responses with their log-probabilities.

        Args:
            request: The request.
            prefix: The request's computed prompt; None: compute it with each micro-batch.
            responses: Responses to it.
            temperature: Temperature of the log-probabilities.
            indices: Indices of the responses in the whole step; None: 0, 1, ….
        """
        width = max(len(response.tokens) for response in responses)
        indices = range(len(responses)) if indices is None else indices
        for start in range(0, len(responses), self._rows):
            part = slice(start, start + self._rows)
            batch = responses[part]
            tokens = torch.stack([_padded(response.tokens, width) for response in batch])
            mask = torch.stack([_padded([1] * len(response.tokens), width) for response in batch])
            device = self._network.device
            tokens, mask = tokens.to(device), mask.to(device)
            if prefix is None:
                hidden = self.prompts.states_alone(request, tokens, mask)
            else:
                hidden = states_after(self._network, prefix, tokens, mask)
            yield score_rows(
                list(indices[part]),
                hidden,
                tokens,
                mask,
                head=self._network.get_output_embeddings(),
                decode=self._chat.decode,
                temperature=temperature,
                softcap=softcap_of(self._network),
            )

    def _joined(self, scored: Iterable[ScoredRows]) -> Tensor:
        """Return the log-probabilities of all rows, ordered by `indices` (rows × tokens).

        Shorter rows are padded with zeros on the right.
        """
        parts = [(rows.indices, rows.logp.detach()) for rows in scored]
        width = max(logp.shape[1] for _, logp in parts)
        joined = torch.cat([pad(logp, (0, width - logp.shape[1])) for _, logp in parts])
        row_indices = [index for indices, _ in parts for index in indices]
        return joined[torch.tensor(row_indices, device=joined.device).argsort()]

    # -- prompts ----------------------------------------------------------------------------------

    def _prefix_of(self, request: ChatRequest) -> Prefix | None:
        """Return the computed prompt of a request; None if prompts are not shared."""
        if not self.prompts.shares:
            return None
        return self._own_prefix() if request == self._request else self.prompts.read(request)

    def _own_prefix(self) -> Prefix:
        """Return the computed prompt of the context's request; computed once for each step."""
        if self._prefix is None:
            self._prefix = self.prompts.read(self._request)
        return self._prefix


@dataclass(eq=False)
class _OneBatch:
    """A `RequestSource` that gives one batch."""

    part: PromptBatch | None

    def take(self, free: int) -> PromptBatch | None:
        """Return the batch at the first call, None afterwards."""
        del free
        part, self.part = self.part, None
        return part


def _padded(row: Sequence[int], width: int) -> Tensor:
    """Return a row of integers as a tensor of `width`, with zeros on the right."""
    return pad(torch.tensor(row), (0, width - len(row)))
