"""A task as episodes: requests to a policy that any framework runs, and rewards of its responses.

    unit ─model's prompt─▶ requests ─policy─▶ responses ─model's grammar, perception─▶ reward

A model (`qwen_vl`, `dt_r1`, `sam3_agent`) is built with its parser, nodes and segmenter; the policy
stands where its network would. An episode has all samples of a unit, since the protocol scores them
together.
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

ADDRESS = "http://policy.invalid/v1"
"""Address in the policy's place, to which nothing is sent: the framework calls the policy."""
SAMPLED = ("temperature", "top_p", "top_k", "seed")
"""Fields of a request that the framework decides."""
OPENING = threading.Lock()
"""Lock of the environments that are there: episodes of one begin in many threads at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """Everything that an environment is made of, as text."""

    task: str
    """SPEC of the task."""
    data: str
    """The folder with one folder a benchmark."""
    model: str
    """SPEC of the model whose prompts, grammar, tools and perception are used. Its backend is
    `openai(…)`, whose options describe the policy; none is needed with a checkpoint.
    """
    reward: str = ""
    """Empty: the headline of the task's protocol; another metric of it; or the SPEC of a trainer
    with GRPO, whose reward and prompt are used."""
    judge: str = ""
    """SPEC of the judge, where the protocol needs one."""
    subset: str = ""
    """Part of the samples: `first200`, `seed0-200`, or a file of ids."""


@dataclass(eq=False)
class Episode:
    """The model's side of one unit: what the policy is asked next, until nothing is left."""

    environment: "RewardEnvironment"
    unit: Sequence[Sample]

    def __post_init__(self) -> None:
        model = self.environment.model
        self._turns = ConversationScheduler(
            [model.conversation(sample.query) for sample in self.unit]
        )
        self._places: list[int] = []

    def requests(self) -> list[ChatRequest]:
        """Return the requests that wait for a response, once tools have run; none: the end."""
        self._places = self._turns.pending_places()
        return [self._turns.requests[place] for place in self._places]

    def respond(self, responses: Sequence[ChatResponse]) -> None:
        """Take a response to each request of the last `requests`, in their order."""
        for place, response in zip(self._places, responses, strict=True):
            self._turns.receive(place, response)

    def predictions(self) -> list[Prediction]:
        """Return what the model reads of the responses to each sample, once the episode ended."""
        pairs = zip(self.unit, self._turns.ends(), strict=True)
        with self.environment.lock:
            return [self.environment.model.begin(sample.query, said)() for sample, said in pairs]


@dataclass(frozen=True, eq=False)
class RewardEnvironment:
    """A task's units, what a policy is asked about them, and what its responses are worth."""

    settings: EnvironmentSettings
    task: Task
    model: ConversingModel[Any]
    chat: OpenAIChat
    named: ProtocolReward | MethodReward | None
    """The reward that the settings name; None: the protocol's headline."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Lock of the perception and the scorer, which one thread uses at a time."""

    @cached_property
    def reward(self) -> ProtocolReward | MethodReward:
        """The reward; the headline is tried on the first units."""
        return self.named or headline_over_units(self.task, self.units.values())

    @property
    def reward_name(self) -> str:
        """Name of the reward, for records."""
        return self.settings.reward or self.task.protocol.headline

    @cached_property
    def units(self) -> Mapping[str, Sequence[Sample]]:
        """Samples of each unit, by its name, in the task's order; images are not decoded.

        A method rewards each sample by itself.
        """
        samples = select(self.task, self.settings.subset or None).samples(self.task)
        if isinstance(self.named, MethodReward):
            return {sample.id: [sample] for sample in samples}
        return {unit[0].unit: unit for unit in units(samples)}

    def begin(self, name: str) -> Episode:
        """Begin an episode of a unit."""
        return Episode(self, self.units[name])

    def fields(self, request: ChatRequest, policy: str) -> dict[str, object]:
        """Return a request as a chat completion of `policy`, sampled as the framework says.

        A temperature that the model itself gives to a request stays.
        """
        own = {"temperature": request.temperature, "top_p": request.top_p}
        fields = replace(self.chat.form, model=policy).fields(request)
        return {
            name: value
            for name, value in fields.items()
            if name not in SAMPLED or own.get(name) is not None
        }

    def response(self, request: ChatRequest, answer: Mapping[str, Any]) -> ChatResponse:
        """Return the response in a chat completion.

        Raises:
            ModelError: it is a call of a tool, or was filtered.
        """
        return read_answer(answer, request, self.chat.remote_processor)

    def said(self, request: ChatRequest, text: str) -> ChatResponse:
        """Return the response of which a framework gives the text alone."""
        message = {"role": "assistant", "content": text}
        return self.response(request, {"choices": [{"message": message, "finish_reason": "stop"}]})

    def prompt(self, name: str) -> tuple[list[dict[str, object]], bool]:
        """Return the first messages of a unit, and whether they alone begin its episode.

        Several requests (a unit of several questions) are shown one after another, though each
        begins a conversation of its own.
        """
        requests = self.begin(name).requests()
        messages = [message for asked in requests for message in self.chat.form.messages(asked)]
        return messages, len(requests) == 1

    def read(self, name: str, texts: Sequence[Sequence[str]]) -> list[Prediction]:
        """Return what the model reads of stored responses, those to each sample of a unit.

        Samples without any, since the episode was broken off, have failed.
        """
        assert isinstance(self.model, ResponseReader), "`open_environment` refuses others"
        predictions = []
        with self.lock:
            for sample, said in zip_longest(self.units[name], texts, fillvalue=()):
                assert isinstance(sample, Sample), "there are more responses than samples"
                predictions.append(
                    self.model.read(sample.query, said)
                    if said
                    else failed_prediction(sample.query, FailureKind.MODEL, "no response")
                )
        return predictions

    def score(self, name: str, predictions: Sequence[Prediction]) -> tuple[float, dict[str, float]]:
        """Return the reward of a unit, and further numbers by name.

        Its bits are those of `harness score` on the same responses.

        Raises:
            DataError: the scorer cannot score it.
            Unavailable: a node or the sandbox failed: the policy is not to blame.
        """
        for failure in (prediction.failure for prediction in predictions):
            if failure is not None and failure.kind is FailureKind.INFRASTRUCTURE:
                raise Unavailable(
                    f"unit {name!r}", expected="tools that answer", found=failure.message
                )
        with self.lock:
            return self.reward(self.units[name], predictions)


def open_environment(settings: EnvironmentSettings) -> RewardEnvironment:
    """Return an environment, built once a process; no network is loaded for the policy.

    Raises:
        HarnessError: the task, the model or the reward cannot be built.
        UsageError: the model's responses are not a policy's, or the protocol needs a judge.
    """
    with OPENING:
        return _built(settings)


@lru_cache(maxsize=64)
def _built(settings: EnvironmentSettings) -> RewardEnvironment:
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
        model = replace(model, retry=False)  # a response that cannot be read is worth what it is
    named = None
    if settings.reward:
        named, model = named_reward(settings.reward, task, model)
    return RewardEnvironment(settings, task, model, chat, named)


def policy_spec(text: str) -> Spec:
    """Return the SPEC of a model with the policy in the place of its network.

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
    policy = Spec("openai", {"model": "policy", "base_url": ADDRESS, **backend.arguments})
    return Spec(spec.name, {**spec.arguments, "backend": policy})
