"""`AdaptedModel` adapts its network to each sample, answers it, and restores the weights.

    query ─▶ base's request ─▶ [ rollouts ─▶ pseudo-label ─▶ rewards ─▶ update ] × steps
          ─▶ base answers by the adapted weights ─▶ weights restored, and proved ─▶ base reads

The base model defines the prompt, the grammar, coordinates and masks. A prediction depends only on
the sample's query, the settings and the seed. It does not depend on the target, which nothing here
sees, on other samples, on their order, or on the worker.
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
    """The response to a query, and the record of the adaptation before it."""

    result: ChatResult
    adaptation: Adaptation
    prompt_tokens: int
    """Number of prompt tokens of all rollouts."""
    completion_tokens: int
    """Number of completion tokens of all rollouts."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of all rollouts, followed by the calls of the answer."""
        return self.result.calls

    def complete(self, prediction: Prediction) -> Prediction:
        """Return a prediction with the adaptation's record and the cost of its rollouts added."""
        usage_of_answer = prediction.usage
        usage = replace(
            usage_of_answer,
            prompt_tokens=usage_of_answer.prompt_tokens + self.prompt_tokens,
            completion_tokens=usage_of_answer.completion_tokens + self.completion_tokens,
        )
        return replace(prediction, adaptation=self.adaptation, usage=usage)


@dataclass(frozen=True, kw_only=True)
class AdaptedModel(StagedModel[AdaptedResult]):
    """A model that adapts the base model's network to each sample by a method."""

    base: PromptedModel
    """The model that answers; its backend calls the network that `network` adapts."""
    network: Adaptable
    method: Method
    seed: int = 0
    trace: bool = False
    """Record the network's response after each step too."""
    step_seconds: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    """Seconds by name of the step (`step 1`, `step 2`, …), summed over all samples so far."""

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
        """1, because the weights are adapted to one sample at a time."""
        return 1

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """The base's answer forms that name places; answers in words have no pair scores."""
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
        """Return the base's description and all settings of the adaptation."""
        learning = self.network.describe() if self.method.updates else {"seed": self.seed}
        settings = {**self.method.describe(), **learning, "transductive": self.method.updates}
        return {**self.base.describe(), "name": self.name, "adaptation": settings}

    def prepare(self) -> None:
        """Load all parts; the network's weights are loaded as trainable."""
        self.network.prepare()
        self.base.prepare()

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of each medium that the network sees."""
        return self.base.looks_at(query)

    @property
    def part_seconds(self) -> Mapping[str, float]:
        """Seconds of rollouts, updates, references and restoring weights, and of each step."""
        return {**self.network.seconds, **self.step_seconds}

    def halt(self) -> None:
        """Abandon the requests to the network."""
        self.base.halt()

    def generate(self, queries: Sequence[Query]) -> list[AdaptedResult]:
        """Adapt to each query and answer it."""
        return [self._adapt_and_answer(query) for query in queries]

    def _adapt_and_answer(self, query: Query) -> AdaptedResult:
        """Adapt the network to one query, answer it, and restore the weights.

        Raises:
            ModelError: the query has several forms of answer.
        """
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
            response = self.method(trial)
            if response is None:
                (result,) = self.base.generate([query])
            else:
                result = ChatResult.from_calls(query, requests, [response])
        rollouts = [
            (replace(request, key=f"{request.key}{key}"), response)
            for key, response in trial.responses
        ]
        calls = calls_of(
            query, [request for request, _ in rollouts], [response for _, response in rollouts]
        )
        return AdaptedResult(
            replace(result, calls=(*calls, *result.calls)),
            Adaptation(method=self.method.name, steps=tuple(trial.steps)),
            prompt_tokens=sum(response.prompt_tokens for _, response in rollouts),
            completion_tokens=sum(response.completion_tokens for _, response in rollouts),
        )

    def _trial(self, query: Query, request: ChatRequest, context: AdaptationContext) -> Trial:
        """Return what the method gets of one query."""
        return Trial(
            request=request,
            context=context,
            canvas=self.base.canvas(request).extent,
            must_name_frame=self.base.must_name(query, query.form),
            uniform=lambda name: _uniform(f"{self.seed}\0{query.id}\0{name}"),
            trace=self.trace,
            seconds=self.step_seconds,
        )

    def objects(self, query: Query, result: AdaptedResult) -> int:
        """Return the largest number of objects whose masks are held at once."""
        return self.base.objects(query, result.result)

    def begin(self, query: Query, result: AdaptedResult) -> Pending[Prediction]:
        """Parse the response and start to segment; return a function that finishes."""
        pending = self.base.begin(query, result.result)
        return lambda: result.complete(pending())

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Return the base's prediction for given responses."""
        return self.base.read(query, responses, calls)

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that express `answer` in the base's grammar."""
        return self.base.write(query, answer)

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model with another segmenter and propagator."""
        return replace(self, base=self.base.with_perception(segmenter, propagator))


def _uniform(text: str) -> float:
    """Return a number in [0, 1) from the hash of a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64
