"""A network in process that learns from one request, answers it, and is put back as it was.

    adapting(request):  restore ─▶ rollouts ─▶ step ─▶ … ─▶ (the caller answers) ─▶ restore ─▶ proof

The prompt is read once a step, with gradients: its keys and values serve the rollouts, detached,
and then their log-probabilities. Gradients of several micro-batches are gathered at those keys and
values, and go through the prompt once. The vision tower is frozen, so that what it gives to the
layers that merge patches is computed once a sample. All of this can be left out (`share_prefix`),
with the same results but for rounding.

Weights that learn are float32: a rate of 5e-7 is rounded away in bfloat16.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from harness.errors import ModelError, NotRestored, OutOfMemory, UsageError
from harness.model import ChatRequest, ChatResponse, LearningSettings, Update
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends import continuous_batching
from harness.models.backends.adapters import Adapter
from harness.models.backends.continuous_batching import PrefixCache, PromptBatch, Rows
from harness.models.backends.inputs import POSITIONS, joined_inputs, processor_inputs
from harness.models.backends.kv_cache import preallocated_cache
from harness.models.backends.loading import memory
from harness.models.backends.sampling import Sampling, rollout_key
from harness.models.learning import weights
from harness.models.learning.rows import ScoredRows, answer_span

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import nn
    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin

LOGITS_AT_ONCE = 1 << 27
"""Numbers of logits (tokens × vocabulary) beyond which they are computed twice instead of kept."""
BLOCKS, BLOCK = 16, 1024
"""Blocks of a tensor that the fingerprint reads, and numbers of a block; of small ones all."""


def fingerprint(network: "PreTrainedModel", *, whole: bool = False) -> str:
    """Return a BLAKE2b hash over blocks of every weight and buffer of a network, or over all.

    Blocks lie at the same places each time, spread over the tensor.
    """
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        flat = tensor.detach().reshape(-1)
        found.update(f"{name}\0{tuple(tensor.shape)}\0{tensor.dtype}\0".encode())
        if not whole and flat.numel() > BLOCKS * BLOCK:
            starts = torch.linspace(0, flat.numel() - BLOCK, BLOCKS, dtype=torch.float64).long()
            places = starts[:, None] + torch.arange(BLOCK)
            flat = flat[places.reshape(-1).to(flat.device)]
        found.update(flat.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return found.hexdigest()


class Backend(Protocol):
    """Parts of a backend that adaptation needs, as `transformers.TransformersChat` does."""

    @property
    def checkpoint(self) -> str: ...  # noqa: D102
    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def model_type(self) -> str: ...  # noqa: D102
    @property
    def adapter(self) -> Adapter | None: ...  # noqa: D102
    @property
    def network(self) -> "PreTrainedModel": ...  # noqa: D102
    @property
    def processor(self) -> "ProcessorMixin": ...  # noqa: D102
    @property
    def end_tokens(self) -> tuple[int, ...]: ...  # noqa: D102
    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]: ...  # noqa: D102
    def samplings(self, requests: Sequence[ChatRequest]) -> list[Sampling]: ...  # noqa: D102
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


Chat = TypeVar("Chat", bound=Backend)
T = TypeVar("T")


def check_adaptable(chat: Backend) -> None:
    """Raise UsageError if a checkpoint is quantised, or has an adapter beside its weights."""
    configuration = checkpoints.read_json(chat.folder / "config.json")
    if (found := configuration.get("quantization_config")) is not None:
        raise UsageError(
            f"adaptation of checkpoint {chat.checkpoint}",
            expected="weights that are floating-point numbers",
            found=f"quantised ones ({dict(found).get('quant_method', 'by an unnamed method')})",
            fix="Give the checkpoint that it was made from.",
        )
    if chat.adapter is not None and not chat.adapter.merged:
        raise UsageError(
            f"adaptation of adapter {chat.adapter.name}",
            expected="a network without an adapter beside its weights",
            found="an adapter that is not merged",
            fix="Give merged=true to the backend.",
        )


@dataclass(frozen=True, eq=False)
class Prefix:
    """A prompt that was read: keys and values of every layer, and the last token's state."""

    layers: list[tuple[Tensor, Tensor]]
    """Keys and values (1 × heads × prompt × width)."""
    last: Tensor
    """Hidden state of the prompt's last token (1 × 1 × width)."""
    position: int
    """Position of the first token that follows."""

    @property
    def tensors(self) -> list[Tensor]:
        """All of its tensors, in one order."""
        return [one for both in self.layers for one in both] + [self.last]

    @property
    def length(self) -> int:
        """Number of tokens of the prompt."""
        return self.layers[0][0].shape[2]

    def detached(self, *, learns: bool) -> "Prefix":
        """Return the same numbers without their history; `learns`: gradients are kept at them."""
        layers = [
            (keys.detach().requires_grad_(learns), values.detach().requires_grad_(learns))
            for keys, values in self.layers
        ]
        return Prefix(layers, self.last.detach().requires_grad_(learns), self.position)


@dataclass(eq=False)
class NetworkAdaptation(Generic[Chat]):
    """The network of a backend, with weights that can learn."""

    chat: Chat
    settings: LearningSettings
    seconds: dict[str, float] = field(default_factory=dict)
    _adapter: "PeftModel | None" = None
    """The network in PEFT's wrapper, if an adapter learns."""
    _changed: bool = False

    def describe(self) -> Mapping[str, object]:
        """Return the settings, with the learning rate that is used; not how they are computed."""
        plain = {**asdict(self.settings), "learning_rate": self.settings.rate}
        for name in ("micro_batch_size", "share_prefix"):
            del plain[name]
        if self.settings.finetune == "full":
            del plain["lora_r"], plain["lora_alpha"]
        return plain

    def prepare(self) -> None:
        """Load the network and keep its first weights.

        Raises:
            ModelError: it has no layers of a language model that can learn.
        """
        assert self._first is not None, "it raises otherwise"

    @property
    def network(self) -> "PreTrainedModel":
        """The network, an adapter's layers within it."""
        return self.chat.network

    @cached_property
    def _first(self) -> dict[str, Tensor]:
        """Copies of the weights that learn, in the memory of the CPU."""
        network = self.network
        if self.settings.finetune == "lora":
            self._put_adapter(network)
        elif any(weights.VISION in name for name, _ in network.named_parameters()):
            weights.freeze_vision(network)
        learning = self._learning
        if not any(weights.is_language(name) for name in learning):
            raise ModelError(
                f"adaptation of checkpoint {self.chat.checkpoint}",
                expected="layers of a language model that can learn",
                found=f"{len(learning)} other tensors" if learning else "none",
                fix=f"Their names are those of {weights.LAYERS['language']}.",
            )
        self._known = fingerprint(network)
        return {name: one.detach().to("cpu", copy=True) for name, one in learning.items()}

    def _put_adapter(self, network: "PreTrainedModel") -> None:
        state = torch.get_rng_state()
        torch.manual_seed(self.settings.seed)
        try:
            self._adapter = weights.with_adapter(
                network,
                r=self.settings.lora_r,
                lora_alpha=self.settings.lora_alpha,
                layers="language",
            )
        except ValueError as error:  # of PEFT, where no layer has such a name
            raise ModelError(
                f"adaptation of checkpoint {self.chat.checkpoint}",
                expected="layers of a language model that an adapter can be put on",
                found=" ".join(str(error).split())[:200],
            ) from error
        finally:
            torch.set_rng_state(state)

    @property
    def _learning(self) -> dict[str, Any]:
        return {
            name: one
            for name, one in self.network.named_parameters()
            if one.requires_grad and one.is_floating_point()
        }

    @contextmanager
    def adapting(self, request: ChatRequest) -> Iterator["Context"]:
        """Enter a context in which the network learns from a request; afterwards it is reset."""
        self.prepare()
        if self._changed:  # an exception came between, such as a full memory
            self.reset()
        try:
            yield Context(self, request)
        finally:
            self.reset()

    def reset(self) -> None:
        """Put the first weights back, and prove it.

        Raises:
            NotRestored: the weights are not what they were.
        """
        with self.measure("reset"), torch.no_grad():
            for name, one in self._learning.items():
                one.grad = None
                one.copy_(self._first[name])
            found = fingerprint(self.network)
        if found != self._known:
            raise NotRestored(
                f"weights of checkpoint {self.chat.checkpoint} after adaptation",
                expected=f"the fingerprint {self._known}, as before",
                found=found,
                fix="Another part of the program has changed them.",
            )
        self._changed = False

    def optimizer(self) -> torch.optim.Optimizer:
        """Return a new AdamW over the weights that learn, which are changed from now on."""
        self._changed = True
        groups = weights.decayed(self.network, self.settings.weight_decay)
        return torch.optim.AdamW(groups, lr=self.settings.rate)

    @contextmanager
    def with_first_weights(self) -> Iterator[None]:
        """Compute with the first weights inside of the block, and without gradients."""
        first, learning = self._first, self._learning
        if self._adapter is not None:
            with self._adapter.disable_adapter(), torch.no_grad():
                yield
            return
        now = {name: one.data for name, one in learning.items()}
        try:
            for name, one in learning.items():
                one.data = first[name].to(one.device)
            with torch.no_grad():
                yield
        finally:
            for name, one in learning.items():
                one.data = now[name]

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the seconds of a block to those of its kind."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


class Context:
    """A network while it learns from one request: `harness.model.AdaptationContext`."""

    def __init__(self, adaptation: NetworkAdaptation[Any], request: ChatRequest) -> None:
        self._all, self._request = adaptation, request
        self._chat: Backend = adaptation.chat
        self._network = adaptation.network
        self._optimizer = adaptation.optimizer()
        self._inputs: dict[ChatRequest, BatchFeature] = {}
        self._features: dict[ChatRequest, dict[int, Tensor]] = {}
        self._prefix: Prefix | None = None
        """The request's prompt by the weights as they are, with its history."""
        self._first_prefix: Prefix | None = None
        self._rows = adaptation.settings.micro_batch_size
        self.shares = adaptation.settings.share_prefix and (
            continuous_batching.supports_continuous_batching(self._network, self._chat.model_type)
        )

    def reset(self) -> None:
        """Put the weights back, prove it, and begin with a new optimizer."""
        self._prefix = None
        self._all.reset()
        self._optimizer = self._all.optimizer()

    # -- rollouts ---------------------------------------------------------------------------------

    def rollouts(self, number: int, *, temperature: float, name: str) -> list[ChatResponse]:
        """Return responses by the weights as they are, drawn by seed, request, name and place."""
        key = f"{self._request.key}@{self._all.settings.seed}:{name}"
        requests = [
            replace(self._request, key=rollout_key(key, place), temperature=temperature)
            for place in range(number)
        ]
        with self._all.measure("rollouts"):
            if not self.shares:
                return self._chat.generate(requests)
            with memory():
                return self._continued(requests)

    def _continued(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Responses that go on from the prompt as it was read; its last token is read again."""
        inputs = self._inputs_of(self._request)
        tokens, mask = inputs["input_ids"], inputs["attention_mask"]
        prefix = self._own_prefix().detached(learns=False)
        beginning = Rows(
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
            written = dict(
                continuous_batching.responses(
                    self._network,
                    requests,
                    _Single(prompts),
                    size=len(requests),
                    ends=self._chat.end_tokens,
                    samplings=self._chat.samplings(requests),
                    decode=self._chat.decode,
                )
            )
        (seen,) = self._chat.prompt_tokens([self._request], inputs)
        return [
            self._chat.to_response(request, written[place], *seen)
            for place, request in enumerate(requests)
        ]

    # -- what the network says of responses -------------------------------------------------------

    def log_probs(self, responses: Sequence[ChatResponse], *, temperature: float) -> Tensor:
        """Return log-probabilities of responses by the first weights (rows × tokens)."""
        with self._all.measure("reference"), self._all.with_first_weights():
            prefix = None
            if self.shares:
                if self._first_prefix is None:
                    self._first_prefix = self._read(self._request)
                prefix = self._first_prefix
            return self._halving(
                lambda: self._joined(self._score(self._request, prefix, responses, temperature))
            )

    def mean_distribution(self, response: ChatResponse, requests: Sequence[ChatRequest]) -> Tensor:
        """Return the mean distribution of the answer's tokens (tokens × vocabulary)."""
        found = []
        with self._all.measure("updates"), torch.no_grad(), memory():
            for request in requests:
                prefix = self._read(request) if self.shares else None
                (one,) = self._score(request, prefix, [response], 1.0)
                found.append(one.log_probs().exp())
        return torch.stack(found).mean(dim=0)

    # -- learning ---------------------------------------------------------------------------------

    def step(
        self,
        loss: Callable[[ScoredRows], Tensor],
        responses: Sequence[ChatResponse],
        *,
        temperature: float = 1.0,
        requests: Sequence[ChatRequest] | None = None,
    ) -> Update:
        """Make one step of the optimiser; see `harness.model.AdaptationContext`.

        Raises:
            OutOfMemory: a single row does not fit.
        """
        rows = requests or [self._request] * len(responses)
        with self._all.measure("updates"):
            return self._halving(lambda: self._update(loss, responses, rows, temperature))

    def _halving(self, call: Callable[[], T]) -> T:
        """Call, with half as many rows at once after each time that memory runs out."""
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
        loss: Callable[[ScoredRows], Tensor],
        responses: Sequence[ChatResponse],
        requests: Sequence[ChatRequest],
        temperature: float,
    ) -> Update:
        sums, found = torch.zeros(3, dtype=torch.float64), list[ScoredRows]()
        for request in dict.fromkeys(requests):
            places = [place for place, one in enumerate(requests) if one == request]
            prefix = self._prefix_of(request)
            leaves = None if prefix is None else prefix.detached(learns=True)
            chosen = [responses[place] for place in places]
            for rows in self._score(request, leaves, chosen, temperature, places=places):
                value = loss(rows)
                value.backward()
                counted = (value.detach(), (rows.entropy * rows.mask).sum(), rows.mask.sum())
                sums += torch.stack([one.detach().double().cpu() for one in counted])
                found.append(rows)
            if prefix is not None and leaves is not None:
                _go_on_backward(prefix, leaves)
        learning = [one for group in self._optimizer.param_groups for one in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(learning, self._all.settings.max_grad_norm)
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
            logp=self._joined(found),
            rolled_back=broken,
        )

    def _score(
        self,
        request: ChatRequest,
        prefix: Prefix | None,
        responses: Sequence[ChatResponse],
        temperature: float,
        *,
        places: Sequence[int] | None = None,
    ) -> Iterator[ScoredRows]:
        """Yield a request's responses as a loss sees them, some at a time."""
        width = max(len(one.tokens) for one in responses)
        places = range(len(responses)) if places is None else places
        for start in range(0, len(responses), self._rows):
            part = slice(start, start + self._rows)
            chosen = responses[part]
            tokens = torch.stack([_padded(one.tokens, width) for one in chosen])
            mask = torch.stack([_padded([1] * len(one.tokens), width) for one in chosen])
            device = self._network.device
            tokens, mask = tokens.to(device), mask.to(device)
            if prefix is None:
                hidden = self._hidden_alone(request, tokens, mask)
            else:
                hidden = self._hidden_after(prefix, tokens, mask)
            yield self._scored(list(places[part]), hidden, tokens, mask, temperature)

    def _scored(
        self,
        places: Sequence[int],
        hidden: Tensor,
        tokens: Tensor,
        mask: Tensor,
        temperature: float,
    ) -> ScoredRows:
        counts, head = mask.bool(), self._network.get_output_embeddings()
        spans = [
            answer_span(self._chat.decode, row[keep].tolist())
            for row, keep in zip(tokens, counts, strict=True)
        ]
        inside = torch.arange(mask.shape[1], device=mask.device)
        answer = torch.stack([(inside >= first) & (inside < end) for first, end in spans]) & counts

        def scores(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            logps = (_precise(head(states)) / temperature).log_softmax(dim=-1)
            return logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(dim=-1)

        states, targets = hidden[counts], tokens[counts]
        if torch.is_grad_enabled() and len(states) * head.weight.shape[0] > LOGITS_AT_ONCE:
            from torch.utils.checkpoint import checkpoint

            logps, entropies = checkpoint(scores, states, targets, use_reentrant=False)
        else:
            logps, entropies = scores(states, targets)
        empty = logps.new_zeros(mask.shape)
        return ScoredRows(
            places=places,
            logp=empty.masked_scatter(counts, logps),
            entropy=empty.masked_scatter(counts, entropies),
            mask=mask.to(logps.dtype),
            answer=answer.to(logps.dtype),
            log_probs=lambda: _precise(head(hidden[answer])).log_softmax(dim=-1),
        )

    def _hidden_after(self, prefix: Prefix, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the states that predict each token (rows × tokens × width), after a prompt."""
        rows, width = tokens.shape
        first = prefix.last.expand(rows, -1, -1)
        if width == 1:
            return first
        cache = DynamicCache()
        for number, (keys, values) in enumerate(prefix.layers):
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = (one.expand(rows, -1, -1, -1) for one in (keys, values))
            cache.layers.insert(number, layer)
        places = prefix.position + torch.arange(width - 1, device=tokens.device)
        seen = mask.new_ones(rows, prefix.length)
        output = self._network.base_model(
            input_ids=tokens[:, :-1],
            attention_mask=torch.cat([seen, mask[:, :-1]], dim=1),
            position_ids=places.expand(1, rows, -1),
            past_key_values=cache,
            use_cache=True,
        )
        return torch.cat([first, output.last_hidden_state], dim=1)

    def _hidden_alone(self, request: ChatRequest, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the same states from prompts and responses as one row each."""
        prompt = {name: one for name, one in self._inputs_of(request).items() if name != POSITIONS}
        inputs = dict(joined_inputs(self._chat.processor, [prompt] * len(tokens)))
        inputs["input_ids"] = torch.cat([inputs["input_ids"], tokens], dim=1)
        inputs["attention_mask"] = torch.cat([inputs["attention_mask"], mask], dim=1)
        if "mm_token_type_ids" in inputs:  # all that is written is text, 0
            inputs["mm_token_type_ids"] = pad(inputs["mm_token_type_ids"], (0, tokens.shape[1]))
        hidden: Tensor = self._network.base_model(**inputs, use_cache=False).last_hidden_state
        return hidden[:, -tokens.shape[1] - 1 : -1]

    def _joined(self, found: Any) -> Tensor:
        """Return the log-probabilities of all rows, in their places (rows × tokens)."""
        parts = [(one.places, one.logp.detach()) for one in found]
        whole = torch.cat([logp for _, logp in parts])
        order = [place for places, _ in parts for place in places]
        return whole[torch.tensor(order, device=whole.device).argsort()]

    # -- prompts ----------------------------------------------------------------------------------

    def _prefix_of(self, request: ChatRequest) -> Prefix | None:
        if not self.shares:
            return None
        return self._own_prefix() if request == self._request else self._read(request)

    def _own_prefix(self) -> Prefix:
        """Return the context's prompt by the weights as they are, read once a step."""
        if self._prefix is None:
            self._prefix = self._read(self._request)
        return self._prefix

    def _read(self, request: ChatRequest) -> Prefix:
        """Read a prompt, with gradients unless they are off."""
        inputs, cache = self._inputs_of(request), DynamicCache()
        with self._known_features(request):
            output = self._network.base_model(**inputs, past_key_values=cache, use_cache=True)
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        after = int(inputs[POSITIONS][-1, 0, -1]) + 1
        return Prefix(layers, output.last_hidden_state[:, -1:], after)

    def _inputs_of(self, request: ChatRequest) -> "BatchFeature":
        if request not in self._inputs:
            made = processor_inputs(self._chat.processor, [request]).to(self._network.device)
            if self.shares:
                made[POSITIONS] = continuous_batching.token_positions(self._network, made)
            self._inputs[request] = made
        return self._inputs[request]

    def _known_features(self, request: ChatRequest) -> Any:
        """Let the vision tower's blocks give what they gave to the same request before."""
        tower = getattr(self._network.base_model, "visual", None)
        if tower is None or not self._inputs_of(request).keys() & {
            "pixel_values",
            "pixel_values_videos",
        }:
            return nullcontext()
        return _replayed(tower, self._features.setdefault(request, {}))


@contextmanager
def _replayed(tower: "PreTrainedModel", known: dict[int, Tensor]) -> Iterator[None]:
    """Note what the blocks give that is used behind them; once it is known, give that instead.

    Behind the blocks are the merging layers: after the last one, and in Qwen3-VL after some others.
    """
    used = {len(tower.blocks) - 1, *getattr(tower, "deepstack_visual_indexes", ())}
    ready = used <= set(known)

    def forward(place: int, block: "nn.Module") -> Callable[..., Tensor]:
        def noted(states: Tensor, *given: object, **named: object) -> Tensor:
            if ready:
                return known.get(place, states)
            with torch.no_grad():
                given_on: Tensor = type(block).forward(block, states, *given, **named)
            if place in used:
                known[place] = given_on
            return given_on

        return noted

    try:
        for place, block in enumerate(tower.blocks):
            block.forward = forward(place, block)
        yield
    finally:
        for block in tower.blocks:
            del block.forward


@dataclass(eq=False)
class _Single:
    """A source of one part of requests."""

    part: PromptBatch | None

    def take(self, free: int) -> PromptBatch | None:
        """Return the part the first time."""
        del free
        part, self.part = self.part, None
        return part


def _go_on_backward(prefix: Prefix, leaves: Prefix) -> None:
    """Let the gradients that were gathered at a prompt's states go through the prompt."""
    pairs = [
        (state, leaf.grad)
        for state, leaf in zip(prefix.tensors, leaves.tensors, strict=True)
        if leaf.grad is not None and state.requires_grad
    ]
    if pairs:
        states, gradients = zip(*pairs, strict=True)
        torch.autograd.backward(states, gradients)


def _precise(logits: Tensor) -> Tensor:
    """Return logits in float32 at least."""
    return logits.float() if logits.dtype.itemsize < 4 else logits


def _padded(row: Sequence[int], width: int) -> Tensor:
    return pad(torch.tensor(row), (0, width - len(row)))
