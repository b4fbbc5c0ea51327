"""Choose tokens so that the choice depends only on seed, request, position and logits.

A token is drawn by inverting the distribution function of softmax(logits / T): one uniform number
finds the token in whose share of [0, 1) it lies. The numbers come from a counter-based generator
(Philox, Salmon et al. 2011) whose key is a hash of seed and request, and whose counter is the
position in the response: the same request gets the same numbers alone or in a batch, in any order,
on any worker. Rows are chosen together on the logits' device, which is waited for once a token.
`transformers` passes a `TokenChoice` to `generate`; continuous batching calls `Sampling.choose`.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError, UsageError

if TYPE_CHECKING:
    from torch import Tensor, device

BLOCK_POSITIONS = 256
"""Positions whose uniform numbers are made at once. Another size would give other numbers."""


def rollout_key(name: str, rollout: int) -> str:
    """Return the request key of one of several responses to the same question: `name#rollout`."""
    return f"{name}#{rollout}"


def uniforms(*, seed: int, key: str, block: int) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1), multiples of 2⁻⁵³, for one block (BLOCK_POSITIONS).

    The first is for position block · BLOCK_POSITIONS of the response.
    """
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=16).digest()
    philox = np.random.Philox(
        key=np.frombuffer(digest, dtype="<u8").astype(np.uint64),
        counter=np.array([0, block, 0, 0], dtype=np.uint64),
    )
    return np.random.Generator(philox).random(BLOCK_POSITIONS)


class Draws:
    """Uniform numbers of responses that stand at the same position, one row a response.

    A block of positions is copied to the device at once, so that most positions need no copy.
    """

    def __init__(self, keys: Sequence[str], *, seed: int) -> None:
        self._keys, self._seed = keys, seed
        self._block: int | None = None

    def numbers_at(self, position: int, *, device: "device") -> "Tensor":
        """Return one uniform number a response (rows × 1, float64)."""
        block, index = divmod(position, BLOCK_POSITIONS)
        if block != self._block:
            self._numbers, self._block = self._make_block(block, device), block
        return self._numbers[index]

    def _make_block(self, block: int, device: "device") -> "Tensor":
        """Return the numbers of one block on the device (BLOCK_POSITIONS × rows × 1)."""
        import torch

        rows = [uniforms(seed=self._seed, key=key, block=block) for key in self._keys]
        return torch.from_numpy(np.stack(rows, axis=1)[:, :, None]).to(device)


def drawn_numbers(keys: Sequence[str], positions: Sequence[int], *, seed: int) -> list[list[float]]:
    """Return the uniform numbers of responses that stand at different positions (rows × 1)."""
    blocks = [divmod(position, BLOCK_POSITIONS) for position in positions]
    return [
        [_cached_uniforms(seed, key, block)[index]]
        for key, (block, index) in zip(keys, blocks, strict=True)
    ]


@lru_cache(maxsize=1024)  # for that many responses under way at once, 8 kB each
def _cached_uniforms(seed: int, key: str, block: int) -> tuple[float, ...]:
    return tuple(uniforms(seed=seed, key=key, block=block).tolist())


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Rule for the choice of the next token: greedy at temperature 0, a draw otherwise."""

    seed: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    keyed: bool = True
    """Take numbers by request and position; False: from PyTorch's generator, in order of calls."""
    suppress_tokens: tuple[int, ...] = ()
    """Tokens that are never chosen."""

    def numbers(
        self, keys: Sequence[str], positions: Sequence[int], *, device: "device"
    ) -> "Tensor":
        """Return uniform numbers of responses that stand at these positions (rows × 1, float64)."""
        import torch

        if not self.keyed:
            return torch.rand(len(keys), 1, dtype=torch.float64, device=device)
        drawn = drawn_numbers(keys, positions, seed=self.seed)
        return torch.tensor(drawn, dtype=torch.float64, device=device)

    def choose(
        self,
        scores: "Tensor",
        row_tokens: "Tensor",
        numbers: "Tensor | None",
        response_tokens: Sequence[Sequence[int]] = (),
    ) -> "Tensor":
        """Return changed logits (rows × vocabulary) whose largest is the chosen token's.

        Args:
            scores: The network's logits (rows × vocabulary).
            row_tokens: Tokens of each row's prompt and response (rows × any length), for the
                repetition penalty.
            numbers: Uniform numbers of the rows (rows × 1); needed if the temperature is not 0.
            response_tokens: Tokens of each row's response, for the presence penalty.
        """
        import torch

        scores = scores.float()
        if self.suppress_tokens:
            barred = torch.tensor(self.suppress_tokens, device=scores.device)
            scores = scores.index_fill(1, barred, -math.inf)
        if self.repetition_penalty != 1.0:
            scores = penalize_repetition(scores, row_tokens, penalty=self.repetition_penalty)
        if self.presence_penalty != 0.0:
            scores = scores.clone()
            for row, tokens in zip(scores, response_tokens, strict=True):
                row[list(set(tokens))] -= self.presence_penalty
        if self.temperature != 0.0:
            assert numbers is not None, "a draw needs a number"
            scores = self._draw_tokens(scores, numbers)
        return scores

    def _draw_tokens(self, scores: "Tensor", numbers: "Tensor") -> "Tensor":
        """Return logits (rows × vocabulary) of which only the drawn token's is finite.

        `numbers` are rows × 1, in [0, 1).
        """
        import torch

        mass = likeliest(masses(scores, temperature=self.temperature), self.top_k)
        shares = nucleus(mass, self.top_p)
        # The distribution function, unnormalised: the drawn token is the one in whose step
        # `number × total` lies.
        below = shares.cumsum(dim=1)
        token = torch.searchsorted(below, numbers * below[:, -1:], right=True)
        # NaN logits give an index behind the end; `check_finite` then raises.
        token = token.clamp(max=scores.shape[1] - 1)
        return torch.full_like(scores, -math.inf).scatter(1, token, 0.0)


@dataclass(frozen=True, kw_only=True)
class TokenChoice(Sampling):
    """A logits processor of transformers: after it, the greedy choice is the chosen token.

    It is for one call of `generate`, whose rows answer the requests with these `keys`, and whose
    prompts are padded on the left to `prompt_length`.
    """

    keys: Sequence[str]
    prompt_length: int
    starts: Sequence[int]
    """Index of each row's first token after the padding."""
    _starts_on: "dict[device, Tensor]" = field(default_factory=dict, init=False, compare=False)
    """`starts` (rows × 1) by device, so that they are copied once."""

    def __call__(self, input_ids: "Tensor", scores: "Tensor") -> "Tensor":
        """Return changed logits (rows × vocabulary) whose largest is the chosen token's.

        `input_ids` are the tokens so far (rows × length), `scores` the network's logits.

        Raises:
            ModelError: the largest logit of a row is NaN or infinite.
        """
        position = input_ids.shape[1] - self.prompt_length
        largest = scores.amax(dim=1)  # NaN if any logit is NaN
        penalizes_repetition = self.repetition_penalty != 1.0
        row_tokens = self._with_last_token(input_ids) if penalizes_repetition else input_ids
        draws = self.temperature != 0.0
        numbers = self._drawn_at(position, scores.device) if draws else None
        penalizes_presence = self.presence_penalty != 0.0
        response_tokens = input_ids[:, self.prompt_length :].tolist() if penalizes_presence else ()
        scores = self.choose(scores, row_tokens, numbers, response_tokens)
        # At the end, because it waits for the device.
        check_finite(largest, self.keys, [position] * len(self.keys))
        return scores

    def _drawn_at(self, position: int, where: "device") -> "Tensor":
        """Return the rows' uniform numbers for a position of the response (rows × 1, float64)."""
        if not self.keyed:
            return self.numbers(self.keys, [], device=where)
        return self._draws.numbers_at(position, device=where)

    def _with_last_token(self, input_ids: "Tensor") -> "Tensor":
        """Return the rows' tokens, each row's padding replaced by its last token.

        Otherwise the repetition penalty would apply to the padding token in rows that are padded,
        and a response would depend on its batch.
        """
        if not any(self.starts):
            return input_ids
        import torch

        starts = self._start_positions(input_ids.device)
        index = torch.arange(input_ids.shape[1], device=input_ids.device)
        return input_ids.where(index >= starts, input_ids[:, -1:])

    def _start_positions(self, where: "device") -> "Tensor":
        """Return `starts` (rows × 1) on a device."""
        import torch

        if where not in self._starts_on:
            self._starts_on[where] = torch.tensor(self.starts, device=where)[:, None]
        return self._starts_on[where]

    @cached_property
    def _draws(self) -> Draws:
        return Draws(self.keys, seed=self.seed)


def check_finite(largest: "Tensor", keys: Sequence[str], positions: Sequence[int]) -> None:
    """Raise ModelError unless the largest logit of every row (rows) is a finite number."""
    bad = [
        (position, key)
        for key, position, logit in zip(keys, positions, largest.tolist(), strict=True)
        if not math.isfinite(logit)
    ]
    if bad:
        raise ModelError(
            f"logits of token {bad[0][0]}",
            expected="numbers",
            found=f"NaN or infinity for request {', '.join(key for _, key in bad)}",
            fix="Try dtype=bfloat16 or float32; float16 overflows in some networks.",
        )


def penalize_repetition(scores: "Tensor", tokens: "Tensor", *, penalty: float) -> "Tensor":
    """Divide (or multiply, if negative) the logits of a row's tokens by the penalty, each once.

    The penalty of CTRL (Keskar et al. 2019), as in transformers. Only the logits of tokens in the
    row are read and written, a small part of the vocabulary; a token that occurs twice is written
    twice with the same value.

    Args:
        scores: rows × vocabulary.
        tokens: rows × any length.
        penalty: More than 1 makes repetition less likely.
    """
    before = scores.gather(1, tokens)
    return scores.scatter(1, tokens, (before * penalty).where(before < 0, before / penalty))


def masses(scores: "Tensor", *, temperature: float) -> "Tensor":
    """Return each row's softmax at a temperature, scaled so that the likeliest token has 1.

    `scores` are logits, the result is float64 (both rows × vocabulary). Exponents are at most 0, so
    that no temperature makes them overflow.
    """
    below_largest = scores - scores.amax(dim=1, keepdim=True)
    return below_largest.double().div_(temperature).exp_()


def likeliest(mass: "Tensor", top_k: int | None) -> "Tensor":
    """Set the mass of all but the `top_k` likeliest tokens of a row to 0 (rows × vocabulary).

    Tokens as likely as the last of the `top_k` keep their mass too. None: nothing is set to 0.
    """
    if top_k is None or top_k >= mass.shape[1]:
        return mass
    least = mass.topk(top_k, dim=1).values[:, -1:]
    return mass.masked_fill(mass < least, 0.0)


def nucleus(mass: "Tensor", top_p: float) -> "Tensor":
    """Set the mass of all tokens outside the nucleus of a row to 0 (rows × vocabulary).

    The nucleus are the likeliest tokens that together hold a share `top_p` of the mass, at least
    one (Holtzman et al. 2020). Of equally likely tokens the first are taken.
    """
    if top_p >= 1.0:
        return mass
    ordered, order = mass.sort(dim=1, descending=True, stable=True)
    total = ordered.cumsum(dim=1)
    # A token is outside if the likelier ones alone hold the share.
    dropped = (total - ordered).ge(top_p * total[:, -1:])
    return mass.scatter(1, order, ordered.masked_fill(dropped, 0.0))


def check_settings(
    *,
    temperature: float,
    top_p: float,
    top_k: int | None = None,
    presence_penalty: float | None = None,
) -> None:
    """Raise UsageError unless all settings are in their ranges."""
    are_valid = (
        0.0 <= temperature <= 100.0
        and 0.0 < top_p <= 1.0
        and (top_k is None or top_k >= 1)
        and -2.0 <= (presence_penalty or 0.0) <= 2.0
    )
    if not are_valid:
        raise UsageError(
            "sampling",
            expected="0 ≤ temperature ≤ 100, 0 < top_p ≤ 1, top_k ≥ 1, -2 ≤ presence_penalty ≤ 2",
            found=f"temperature {temperature}, top_p {top_p}, top_k {top_k}, "
            f"presence_penalty {presence_penalty}",
        )


def given_settings(**settings: float | None) -> dict[str, float]:
    """Return the settings that are not None, for records and for calls that do not take None."""
    return {name: value for name, value in settings.items() if value is not None}
