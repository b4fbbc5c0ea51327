"""A model that adapts its network to each sample before it answers, and then puts it back.

    query ─▶ base's request ─▶ [ rollouts ─▶ pseudo-label ─▶ rewards ─▶ update ] × steps
          ─▶ base answers by the adapted weights ─▶ weights restored, and proved ─▶ base reads

The answer, its grammar, coordinates and masks are those of the model that it wraps. A sample's
prediction depends on the sample, the settings and the seed alone: neither on its target, which
nothing here can see, nor on other samples, their order, or the worker.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from harness.adaptation import AdaptationContext
from harness.backend import Adaptable
from harness.chat import ChatRequest
from harness.errors import ModelError, UsageError
from harness.model import StagedModel
from harness.models.answers import Pending
from harness.models.chat_result import ChatResult, calls_of
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import LOCATED
from harness.models.test_time.methods import Method, Trial
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.segmentation import Propagator, Segmenter
from harness.types import Adaptation, Answer, AnswerForm, Call, Prediction, Query


@dataclass(frozen=True, slots=True)
class AdaptedResult:
    """The response to a query, and what the network learned before it."""

    result: ChatResult
    adaptation: Adaptation
    prompt_tokens: int
    """Tokens of prompts that were read for rollouts."""
    completion_tokens: int
    """Tokens of rollouts."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every rollout, and then the calls that the answer is from."""
        return self.result.calls

    def complete(self, prediction: Prediction) -> Prediction:
        """Add what was learned, and the cost of rollouts, to a prediction."""
        used = prediction.usage
        usage = replace(
            used,
            prompt_tokens=used.prompt_tokens + self.prompt_tokens,
            completion_tokens=used.completion_tokens + self.completion_tokens,
        )
        return replace(prediction, adaptation=self.adaptation, usage=usage)


@dataclass(frozen=True, kw_only=True)
class AdaptedModel(StagedModel[AdaptedResult]):
    """Another model, whose network learns from each sample by a method before it answers."""

    base: PromptedModel
    """The model that answers; its backend's network is that of `network`."""
    network: Adaptable
    method: Method
    seed: int = 0
    trace: bool = False
    """Keep what the network would answer after each step too."""
    step_seconds: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Seconds of the first step of all samples so far, of the second one, and so on."""

    def __post_init__(self) -> None:
        if self.method.grammar and not isinstance(self.base.prompt, VisionReasoner):
            raise UsageError(
                f"{self.method.name}(base={self.base.name})",
                expected="a model that answers in VisionReasoner's grammar, by which responses are "
                "compared, such as qwen_vl(prompt=visionreasoner,…)",
                found=f"the prompt {self.base.prompt.name}",
            )

    @property
    def name(self) -> str:
        """Names of the method and of the model."""
        return f"{self.method.name}-{self.base.name}"

    @property
    def batch_size(self) -> int:
        """One: each sample has the network for itself."""
        return 1

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that name places; answers in words have no pair scores."""
        return self.base.forms & LOCATED

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Parts that the base model lacks."""
        return self.base.missing_parts

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the base's parts."""
        return self.base.devices

    def describe(self) -> Mapping[str, Any]:
        """Return the base's plain data, and every setting of the adaptation."""
        learning = self.network.describe() if self.method.updates else {"seed": self.seed}
        own = {**self.method.describe(), **learning, "transductive": self.method.updates}
        return {**self.base.describe(), "name": self.name, "adaptation": own}

    def prepare(self) -> None:
        """Load all parts, the network with weights that can learn."""
        self.network.prepare()
        self.base.prepare()

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of each medium that the network sees."""
        return self.base.looks_at(query)

    @property
    def part_seconds(self) -> Mapping[str, float]:
        """Seconds of rollouts, updates, references and of putting weights back, and by step."""
        return {**self.network.seconds, **self.step_seconds}

    def halt(self) -> None:
        """Abandon the requests to the network."""
        self.base.halt()

    def generate(self, queries: Sequence[Query]) -> list[AdaptedResult]:
        """Adapt to each query and answer it."""
        return [self._adapt_and_answer(query) for query in queries]

    def _adapt_and_answer(self, query: Query) -> AdaptedResult:
        requests = self.base.requests(query)
        if len(requests) != 1:
            raise ModelError(
                f"adaptation to query {query.id}",
                expected="one form of answer",
                found=f"{len(requests)}: {', '.join(query.forms)}",
            )
        (request,) = requests
        with self.network.adapting(request) as context:
            trial = self._trial(query, request, context)
            chosen = self.method(trial)
            if chosen is None:
                (result,) = self.base.generate([query])
            else:
                result = ChatResult.from_calls(query, requests, [chosen])
        drawn = [
            (replace(request, key=f"{request.key}{key}"), response)
            for key, response in trial.responses
        ]
        calls = calls_of(
            query, [request for request, _ in drawn], [response for _, response in drawn]
        )
        return AdaptedResult(
            replace(result, calls=(*calls, *result.calls)),
            Adaptation(method=self.method.name, steps=tuple(trial.steps)),
            prompt_tokens=sum(response.prompt_tokens for _, response in drawn),
            completion_tokens=sum(response.completion_tokens for _, response in drawn),
        )

    def _trial(self, query: Query, request: ChatRequest, context: AdaptationContext) -> Trial:
        return Trial(
            request=request,
            context=context,
            canvas=self.base.canvas(request).extent,
            named=self.base.must_name(query, query.form),
            uniform=lambda name: _uniform(f"{self.seed}\0{query.id}\0{name}"),
            trace=self.trace,
            seconds=self.step_seconds,
        )

    def objects(self, query: Query, result: AdaptedResult) -> int:
        """Return the most objects that have masks at once."""
        return self.base.objects(query, result.result)

    def begin(self, query: Query, result: AdaptedResult) -> Pending[Prediction]:
        """Read the response and segment; return a function that does the rest."""
        pending = self.base.begin(query, result.result)
        return lambda: result.complete(pending())

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Read responses as the base does."""
        return self.base.read(query, responses, calls)

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that express `answer` in the base's grammar."""
        return self.base.write(query, answer)

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model with another segmenter and propagator."""
        return replace(self, base=self.base.with_perception(segmenter, propagator))


def _uniform(text: str) -> float:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64
