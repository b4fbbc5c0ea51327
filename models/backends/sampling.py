"""Token choice that depends on nothing but the seed, the request and the position.

A token is drawn by inverting the distribution function of softmax(logits / T): one uniform number
finds the token in whose share of [0, 1) it lies. The numbers come from a counter-based generator
(Philox, Salmon et al. 2011) whose key is a hash of seed and request, and whose counter is the
position in the response: the same request gets the same numbers alone or in a batch, in any order,
on any worker. Rows are chosen together on the logits' device, which is waited for once a token.
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

BLOCK = 256
"""Positions whose numbers are made at once. Another size gives other numbers."""


def rollout_key(name: str, rollout: int) -> str:
    """The request key of one of several responses to the same question."""
    return f"{name}#{rollout}"


def uniforms(*, seed: int, key: str, block: int) -> NDArray[np.float64]:
    """Independent numbers in [0, 1), multiples of 2⁻⁵³, one for each of `BLOCK` positions.

    The first is for position block · BLOCK.
    """
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=16).digest()
    philox = np.random.Philox(
        key=np.frombuffer(digest, dtype="<u8").astype(np.uint64),
        counter=np.array([0, block, 0, 0], dtype=np.uint64),
    )
    return np.random.Generator(philox).random(BLOCK)


class Draws:
    """The uniform numbers of several responses that are written side by side.

    A block of positions at a time is kept on the device, so that a position costs no copy to it.
    """

    def __init__(self, keys: Sequence[str], *, seed: int) -> None:
        self._keys, self._seed = keys, seed
        self._block: int | None = None

    def numbers_at(self, position: int, *, device: "device") -> "Tensor":
        """Return one uniform number a response (rows × 1, float64)."""
        block, place = divmod(position, BLOCK)
        if block != self._block:
            self._numbers, self._block = self._make_block(block, device), block
        return self._numbers[place]

    def _make_block(self, block: int, device: "device") -> "Tensor":
        import torch

        rows = [uniforms(seed=self._seed, key=key, block=block) for key in self._keys]
        return torch.from_numpy(np.stack(rows, axis=1)[:, :, None]).to(device)


def drawn_numbers(keys: Sequence[str], positions: Sequence[int], *, seed: int) -> list[list[float]]:
    """Return the uniform numbers of responses that stand at different positions (rows × 1)."""
    blocks = [divmod(position, BLOCK) for position in positions]
    return [
        [_kept_uniforms(seed, key, block)[place]]
        for key, (block, place) in zip(keys, blocks, strict=True)
    ]


@lru_cache(maxsize=1024)  # responses under way at once, and 8 kB each
def _kept_uniforms(seed: int, key: str, block: int) -> tuple[float, ...]:
    return tuple(uniforms(seed=seed, key=key, block=block).tolist())


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Rule for the choice of the next token: greedy at temperature 0, a draw otherwise."""

    seed: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    keyed: bool = True
    """Draw by counters; otherwise by PyTorch's generator, which goes on from what was drawn."""
    suppress_tokens: tuple[int, ...] = ()
    """Tokens that are never chosen."""

    def numbers(
        self, keys: Sequence[str], positions: Sequence[int], *, device: "device"
    ) -> "Tensor":
        """Uniform numbers of responses that stand at these positions (rows × 1, float64)."""
        import torch

        if not self.keyed:
            return torch.rand(len(keys), 1, dtype=torch.float64, device=device)
        drawn = drawn_numbers(keys, positions, seed=self.seed)
        return torch.tensor(drawn, dtype=torch.float64, device=device)

    def choose(self, scores: "Tensor", own: "Tensor", numbers: "Tensor | None") -> "Tensor":
        """Logits (rows × vocabulary) to logits whose largest is the choice.

        Args:
            scores: The network's.
            own: The tokens of each row's prompt and response (rows × any length); used where
                repetition is penalised.
            numbers: Uniform numbers of the rows (rows × 1); needed where tokens are drawn.
        """
        import torch

        scores = scores.float()
        if self.suppress_tokens:
            barred = torch.tensor(self.suppress_tokens, device=scores.device)
            scores = scores.index_fill(1, barred, -math.inf)
        if self.repetition_penalty != 1.0:
            scores = penalize_repetition(scores, own, penalty=self.repetition_penalty)
        if self.temperature != 0.0:
            assert numbers is not None, "a draw needs a number"
            scores = self._draw_tokens(scores, numbers)
        return scores

    def _draw_tokens(self, scores: "Tensor", numbers: "Tensor") -> "Tensor":
        """Logits of which only the drawn token's is finite."""
        import torch

        shares = nucleus(masses(scores, temperature=self.temperature), self.top_p)
        below = shares.cumsum(dim=1)
        token = torch.searchsorted(below, numbers * below[:, -1:], right=True)
        token = token.clamp(max=scores.shape[1] - 1)  # NaN is nowhere; `check_finite` says so
        return torch.full_like(scores, -math.inf).scatter(1, token, 0.0)


@dataclass(frozen=True, kw_only=True)
class TokenChoice(Sampling):
    """A logits processor after which the greedy choice is the token to take.

    It holds for one call of `generate`, whose rows answer the requests `keys`, and whose prompts
    are padded on the left to `prompt_length`.
    """

    keys: Sequence[str]
    prompt_length: int
    starts: Sequence[int]
    """Index of each row's first own token, after the padding."""
    _there: "dict[device, Tensor]" = field(default_factory=dict, init=False, compare=False)
    """`starts` by the device that they were copied to, once each."""

    def __call__(self, input_ids: "Tensor", scores: "Tensor") -> "Tensor":
        """Logits (rows × vocabulary) to logits whose largest is the choice.

        Raises:
            ModelError: the largest logit of a row is NaN or infinite.
        """
        position = input_ids.shape[1] - self.prompt_length
        largest = scores.amax(dim=1)  # NaN wins a maximum
        own = self._with_last_token(input_ids) if self.repetition_penalty != 1.0 else input_ids
        draws = self.temperature != 0.0
        numbers = self._drawn_at(position, scores.device) if draws else None
        scores = self.choose(scores, own, numbers)
        # Last, because it waits for the device.
        check_finite(largest, self.keys, [position] * len(self.keys))
        return scores

    def _drawn_at(self, position: int, where: "device") -> "Tensor":
        if not self.keyed:
            return self.numbers(self.keys, [], device=where)
        return self._draws.numbers_at(position, device=where)

    def _with_last_token(self, input_ids: "Tensor") -> "Tensor":
        """The rows' tokens, with each row's last one in place of its padding.

        With padding as the last token, a response would depend on the batch that it is in.
        """
        if not any(self.starts):
            return input_ids
        import torch

        starts = self._start_positions(input_ids.device)
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        return input_ids.where(places >= starts, input_ids[:, -1:])

    def _start_positions(self, where: "device") -> "Tensor":
        import torch

        if where not in self._there:
            self._there[where] = torch.tensor(self.starts, device=where)[:, None]
        return self._there[where]

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

    The penalty of CTRL (Keskar et al. 2019) as transformers has it. Only the logits of tokens that
    stand in the row are touched, some thousands of a vocabulary that is a hundred times larger; a
    token that stands there twice is written twice, with one value.

    Args:
        scores: rows × vocabulary.
        tokens: rows × any length.
        penalty: More than 1 makes repetition less likely.
    """
    before = scores.gather(1, tokens)
    return scores.scatter(1, tokens, (before * penalty).where(before < 0, before / penalty))


def masses(scores: "Tensor", *, temperature: float) -> "Tensor":
    """Each row's softmax at a temperature but for its factor (float64): the likeliest has 1.

    What is divided is at most 0, so that no temperature makes it overflow.
    """
    below = scores - scores.amax(dim=1, keepdim=True)
    return below.double().div_(temperature).exp_()


def nucleus(mass: "Tensor", top_p: float) -> "Tensor":
    """Keep the likeliest tokens that hold a share `top_p` of a row's mass, at least one.

    The others get 0 (nucleus sampling, Holtzman et al. 2020). Of equally likely tokens the first
    are kept.
    """
    if top_p >= 1.0:
        return mass
    ordered, order = mass.sort(dim=1, descending=True, stable=True)
    total = ordered.cumsum(dim=1)
    dropped = (total - ordered).ge(top_p * total[:, -1:])
    return mass.scatter(1, order, ordered.masked_fill(dropped, 0.0))


def check_settings(
    *,
    temperature: float,
    top_p: float,
    top_k: int | None = None,
    presence_penalty: float | None = None,
) -> None:
    """Raise UsageError unless these are settings to sample with."""
    fine = 0.0 <= temperature <= 100.0 and 0.0 < top_p <= 1.0 and (top_k is None or top_k >= 1)
    if not (fine and -2.0 <= (presence_penalty or 0.0) <= 2.0):
        raise UsageError(
            "sampling",
            expected="0 ≤ temperature ≤ 100, 0 < top_p ≤ 1, top_k ≥ 1, -2 ≤ presence_penalty ≤ 2",
            found=f"temperature {temperature}, top_p {top_p}, top_k {top_k}, "
            f"presence_penalty {presence_penalty}",
        )


def given_settings(**settings: float | None) -> dict[str, float]:
    """Return the settings that are given, for records and calls that know no None."""
    return {name: value for name, value in settings.items() if value is not None}
