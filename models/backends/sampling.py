"""Token choice that depends on nothing but the seed, the request and the position.

With Gumbel noise g, argmax(logits / T + g) is a draw from softmax(logits / T) (Gumbel 1954; the
"Gumbel-max trick"). The noise comes from a counter-based generator (Philox, Salmon et al. 2011)
whose key is a hash of seed and request, and whose counter is the position in the reply: the same
request gets the same noise alone or in a batch, in any order, on any worker.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError, UsageError

if TYPE_CHECKING:
    from torch import Tensor


def rollout_key(name: str, rollout: int) -> str:
    """The request key of one of several replies to the same question."""
    return f"{name}#{rollout}"


def gumbel(size: int, *, seed: int, key: str, position: int) -> NDArray[np.float32]:
    """`size` independent standard Gumbel numbers for one position of one reply."""
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=16).digest()
    philox = np.random.Philox(
        key=np.frombuffer(digest, dtype="<u8").astype(np.uint64),
        counter=np.array([0, position, 0, 0], dtype=np.uint64),
    )
    uniform = np.random.Generator(philox).random(size) + 2.0**-54  # never 0
    return (-np.log(-np.log(uniform))).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChoice:
    """A logits processor after which the greedy choice is the token to take.

    Greedy at temperature 0, a draw otherwise. It holds for one call of `generate`, whose rows
    answer the requests `keys`, and whose prompts are padded on the left to `prompt_length`.
    """

    keys: Sequence[str]
    prompt_length: int
    starts: Sequence[int]
    """Where each row's own tokens begin, after the padding."""
    seed: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    def __call__(self, input_ids: "Tensor", scores: "Tensor") -> "Tensor":
        """Logits (rows × vocabulary) to logits whose largest is the choice.

        Raises:
            ModelError: a row has a logit that is no number.
        """
        position = input_ids.shape[1] - self.prompt_length
        scores = scores.float()
        self._check(scores, position)
        if self.repetition_penalty != 1.0:
            scores = self._penalised(input_ids, scores)
        if self.temperature == 0.0:
            return scores
        scores = nucleus(scores / self.temperature, self.top_p)
        noise = np.stack([
            gumbel(scores.shape[1], seed=self.seed, key=key, position=position)
            for key in self.keys
        ])  # fmt: skip
        return scores + scores.new_tensor(noise)

    def _check(self, scores: "Tensor", position: int) -> None:
        worst = scores.amax(dim=1)  # NaN wins a maximum
        bad = [key for key, top in zip(self.keys, worst.tolist(), strict=True)
               if math.isnan(top) or top == math.inf]  # fmt: skip
        if bad:
            raise ModelError(
                f"logits of token {position}",
                expected="numbers",
                found=f"NaN or infinity for request {', '.join(bad)}",
                fix="Try dtype=bfloat16 or float32; float16 overflows in some networks.",
            )

    def _penalised(self, input_ids: "Tensor", scores: "Tensor") -> "Tensor":
        """Divide (or multiply, if negative) the logits of tokens that the row holds already.

        As transformers does it, but for padding, which is no token of the row: else a reply
        would depend on the batch it is in.
        """
        import torch

        scores, penalty = scores.clone(), self.repetition_penalty
        for row, start in enumerate(self.starts):
            seen = input_ids[row, start:].unique()
            before = scores[row, seen]
            scores[row, seen] = torch.where(before < 0, before * penalty, before / penalty)
        return scores


def nucleus(scores: "Tensor", top_p: float) -> "Tensor":
    """Keep the likeliest tokens whose probabilities add up to `top_p` (at least one) a row."""
    if top_p >= 1.0:
        return scores
    ordered, order = scores.sort(dim=1, descending=True, stable=True)
    probability = ordered.softmax(dim=1)
    before = probability.cumsum(dim=1) - probability
    dropped = before.ge(top_p).scatter(1, order, before.ge(top_p))
    return scores.masked_fill(dropped, -math.inf)


def check_settings(*, temperature: float, top_p: float) -> None:
    """Raise UsageError unless these are a temperature and a nucleus to sample with."""
    if not (0.0 <= temperature <= 100.0 and 0.0 < top_p <= 1.0):
        raise UsageError(
            "sampling",
            expected="0 ≤ temperature ≤ 100 and 0 < top_p ≤ 1",
            found=f"temperature {temperature}, top_p {top_p}",
        )
