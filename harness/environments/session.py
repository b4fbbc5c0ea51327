"""A task as an environment of reinforcement learning: requests to a policy, rewards of responses.

    unit ─model's prompt─▶ requests ─policy─▶ responses ─model's grammar, perception─▶ reward

A model (`qwen_vl`, `dt_r1`, `sam3_agent`) is built with its parser, nodes and segmenter; the
policy, which a training framework runs, takes the place of its network. An episode has all samples
of a unit, as the protocol scores them together. The adapters (`openenv`, `trl`, `verifiers`) call
`open_environment`.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness import plugins
from harness.chat import ChatRequest, ChatResponse
from harness.chosen.names import named_models
from harness.chosen.trained_settings import as_trained
from harness.environments.rewards import (
    MethodReward,
    ProtocolReward,
    headline_over_units,
    named_reward,
)
from harness.errors import Unavailable, UsageError
from harness.model import ResponseReader
from harness.models.backends.openai import OpenAIChat
from harness.models.backends.openai_response import read_answer
from harness.models.multi_turn import ConversationScheduler, ConversingModel
from harness.models.pipeline import PromptedModel
from harness.run.batching import select, units
from harness.run.judging import with_judge
from harness.spec import Spec, parse
from harness.task import Task
from harness.types import FailureKind, Prediction, Sample, failed_prediction

POLICY_URL = "http://policy.invalid/v1"
"""URL that stands for the policy; nothing is sent there, as the framework calls the policy."""
FRAMEWORK_FIELDS = ("temperature", "top_p", "top_k", "seed")
"""Fields of a request that the framework decides."""
OPENING_LOCK = threading.Lock()
"""Lock of the cache of environments: many threads begin episodes at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """The parts of an environment, as text."""

    task: str
    """SPEC of the task."""
    data: str
    """The folder that holds one folder for each benchmark."""
    model: str
    """SPEC of the model whose prompts, grammar, tools and perception are used. Its backend is
    `openai(…)`, whose options describe the policy; none is needed with a checkpoint.
    """
    reward: str = ""
    """A metric of the task's protocol (empty: its headline), or the SPEC of a trainer with GRPO,
    whose reward and prompt are used."""
    judge: str = ""
    """SPEC of the judge, where the protocol needs one."""
    subset: str = ""
    """Part of the samples: `first200`, `seed0-200`, or a file of ids."""


@dataclass(eq=False)
class Episode:
    """One episode, of one unit: yields requests to the policy until the model has its answers."""

    environment: "RewardEnvironment"
    unit: Sequence[Sample]

    def __post_init__(self) -> None:
        model = self.environment.model
        self._turns = ConversationScheduler(
            [model.conversation(sample.query) for sample in self.unit]
        )
        self._pending: list[int] = []

    def requests(self) -> list[ChatRequest]:
        """Run waiting tools; return the requests that wait for a response, [] at the end."""
        self._pending = self._turns.pending_indices()
        return [self._turns.requests[index] for index in self._pending]

    def respond(self, responses: Sequence[ChatResponse]) -> None:
        """Take a response to each request of the last `requests`, in their order."""
        for index, response in zip(self._pending, responses, strict=True):
            self._turns.receive(index, response)

    def predictions(self) -> list[Prediction]:
        """Return the model's prediction for each sample, once the episode has ended."""
        pairs = zip(self.unit, self._turns.ends(), strict=True)
        model = self.environment.model
        with self.environment.lock:
            return [model.begin(sample.query, result)() for sample, result in pairs]


@dataclass(frozen=True, eq=False)
class RewardEnvironment:
    """A task's units, with the requests about them and the rewards of responses."""

    settings: EnvironmentSettings
    task: Task
    model: ConversingModel[Any]
    chat: OpenAIChat
    named: ProtocolReward | MethodReward | None
    """The reward that the settings name; None: the protocol's headline."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Lock of perception and scorer, which one thread uses at a time."""

    @cached_property
    def reward(self) -> ProtocolReward | MethodReward:
        """The reward that the settings name, else the headline, which is tried on some units."""
        return self.named or headline_over_units(self.task, self.units.values())

    @property
    def reward_name(self) -> str:
        """Name of the reward, for records."""
        return self.settings.reward or self.task.protocol.headline

    @cached_property
    def units(self) -> Mapping[str, Sequence[Sample]]:
        """Samples of each unit, by its name, in the task's order; images are not decoded.

        For a method's reward each sample is a unit.
        """
        samples = select(self.task, self.settings.subset or None).samples(self.task)
        if isinstance(self.named, MethodReward):
            return {sample.id: [sample] for sample in samples}
        return {unit[0].unit: unit for unit in units(samples)}

    def begin(self, name: str) -> Episode:
        """Begin an episode of a unit."""
        return Episode(self, self.units[name])

    def fields(self, request: ChatRequest, policy: str) -> dict[str, object]:
        """Return a request as the body of a chat completion, without the framework's fields.

        A temperature or `top_p` that the model sets for this request is kept. `policy` is the name
        of the policy's model.
        """
        sampling = {"temperature": request.temperature, "top_p": request.top_p}
        fields = replace(self.chat.form, model=policy).fields(request)
        return {
            name: value
            for name, value in fields.items()
            if name not in FRAMEWORK_FIELDS or sampling.get(name) is not None
        }

    def response(self, request: ChatRequest, answer: Mapping[str, Any]) -> ChatResponse:
        """Return the response to a request; `answer` is the JSON of a chat completion.

        Raises:
            ModelError: the response is a call of a tool, or was removed by a content filter.
        """
        return read_answer(answer, request, self.chat.remote_processor)

    def response_of(
        self,
        request: ChatRequest,
        text: str,
        finish_reason: str = "stop",
        tokens: int | None = None,
    ) -> ChatResponse:
        """Return a response from its text, its `finish_reason` and its number of tokens.

        If the number is None, the text's tokens are counted.
        """
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
        return self.response(request, {"choices": [choice], "usage": {"completion_tokens": tokens}})

    def prompt(self, name: str) -> tuple[list[dict[str, object]], bool]:
        """Return (the first messages of a unit, True if they are one request).

        Of several requests (a unit of several questions) the messages are joined, although each
        request begins a conversation of its own.
        """
        requests = self.begin(name).requests()
        messages = [message for request in requests for message in self.chat.form.messages(request)]
        return messages, len(requests) == 1

    def read(self, name: str, texts: Sequence[Sequence[str]]) -> list[Prediction]:
        """Return the model's predictions from stored responses, given for each sample of a unit.

        A sample without responses, because the episode was aborted, has failed.
        """
        assert isinstance(self.model, ResponseReader), "`open_environment` refuses others"
        predictions = []
        with self.lock:
            for sample, responses in zip_longest(self.units[name], texts, fillvalue=()):
                assert isinstance(sample, Sample), "there are more responses than samples"
                predictions.append(
                    self.model.read(sample.query, responses)
                    if responses
                    else failed_prediction(sample.query, FailureKind.MODEL, "no response")
                )
        return predictions

    def score(self, name: str, predictions: Sequence[Prediction]) -> tuple[float, dict[str, float]]:
        """Return (reward of a unit, further numbers by name).

        Metrics equal those of `harness score` on the same responses, to the bit.

        Raises:
            DataError: the scorer cannot score it.
            Unavailable: a node or the sandbox failed, which is not the policy's fault.
        """
        for failure in (prediction.failure for prediction in predictions):
            if failure is not None and failure.kind is FailureKind.INFRASTRUCTURE:
                raise Unavailable(
                    f"unit {name!r}", expected="tools that answer", found=failure.message
                )
        with self.lock:
            return self.reward(self.units[name], predictions)


def open_environment(settings: EnvironmentSettings) -> RewardEnvironment:
    """Return an environment, built once in a process; no network is loaded for the policy.

    Raises:
        HarnessError: the task, the model or the reward cannot be built.
        UsageError: the model does not have conversations with one network, or the protocol needs a
            judge.
    """
    with OPENING_LOCK:
        return _build_environment(settings)


@lru_cache(maxsize=64)
def _build_environment(settings: EnvironmentSettings) -> RewardEnvironment:
    """Build task, model and reward; raise UsageError for a model without conversations."""
    task: Task = plugins.build("tasks", parse(settings.task), Path(settings.data))
    if settings.judge:
        task = with_judge(task, plugins.build("judges", parse(settings.judge)))
    model = plugins.build("models", policy_spec(settings.model))
    chat = getattr(model, "chat", None)
    is_reader = isinstance(model, ConversingModel) and isinstance(model, ResponseReader)
    if not is_reader or not isinstance(chat, OpenAIChat):
        raise UsageError(
            f"model={settings.model}",
            expected="a model that has conversations with one network, such as qwen_vl or dt_r1",
            found="another kind of model, or another backend than openai",
        )
    if isinstance(model, PromptedModel):
        model = replace(model, retry=False)  # an unreadable response is scored, not repeated
    reward = None
    if settings.reward:
        reward, model = named_reward(settings.reward, task, model)
    return RewardEnvironment(settings, task, model, chat, reward)


def policy_spec(text: str) -> Spec:
    """Return the SPEC of a model with the policy in place of its network.

    A model without a backend, or with a backend other than `openai`, is returned unchanged.

    Raises:
        UsageError: the text does not name one model.
    """
    if len(named := named_models(text)) != 1:
        raise UsageError(f"model={text}", expected="one model", found=str(len(named)))
    spec = as_trained(named[0][1])
    backend = spec.arguments.get("backend", Spec("openai"))
    takes_policy = plugins.accepts("models", spec.name, "backend")
    if not takes_policy or not isinstance(backend, Spec) or backend.name != "openai":
        return spec
    policy = Spec("openai", {"model": "policy", "base_url": POLICY_URL, **backend.arguments})
    return Spec(spec.name, {**spec.arguments, "backend": policy})
