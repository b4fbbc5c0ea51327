"""Adapter to OpenEnv: an environment whose observations are requests, and actions responses.

    app = app_of(task="reason_seg", data="data", model="pocket")   # uvicorn MODULE:app

A package of `harness env export` has a module for uvicorn. The reward comes with the last step.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

from harness.chat import ChatRequest, ChatResponse
from harness.environments.session import (
    EnvironmentSettings,
    Episode,
    RewardEnvironment,
    open_environment,
)
from harness.errors import UsageError


class ResponseAction(Action):
    """One response of the policy, with facts for rewards that depend on its length."""

    response: str
    finish_reason: str = "stop"
    """`length` if a limit of tokens cut it off."""
    completion_tokens: int | None = None
    """None: the tokens of the text are counted."""


class RequestObservation(Observation):
    """Next request to the policy, or with `done` the episode's reward and no request.

    Messages are those of a chat completion, with images as data URLs. If the last message is the
    assistant's, the policy continues it. At the end `metadata` has the protocol's numbers.
    """

    unit: str
    messages: list[dict[str, Any]] = Field(default_factory=list)
    max_tokens: int | None = None
    stop: list[str] = Field(default_factory=list)


class HarnessEnvironment(Environment[ResponseAction, RequestObservation, State]):
    """One session: episodes of a task's units, in order or by name, index or seed."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, environment: RewardEnvironment) -> None:
        super().__init__()
        self.environment = environment
        self._names = list(environment.units)
        self._next: Iterator[int] = count()
        self._state = State()
        self._unit = ""
        self._episode: Episode | None = None
        self._waiting: list[ChatRequest] = []
        self._responses: list[ChatResponse] = []

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        unit: str | None = None,
        index: int | None = None,
        **_: Any,
    ) -> RequestObservation:
        """Begin an episode of the unit with this name, this index, or the index `seed` modulo n.

        Without any of the three it is the next of the n units.

        Raises:
            UsageError: there is no such unit.
        """
        unit = self._choose_unit(seed, unit, index)
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        self._unit, self._episode = unit, self.environment.begin(unit)
        self._waiting, self._responses = self._episode.requests(), []
        return self._observation()

    def _choose_unit(self, seed: int | None, unit: str | None, index: int | None) -> str:
        """Return the name of the unit that the arguments of `reset` choose, or raise UsageError."""
        n_units = len(self._names)
        if unit is None and index is None:
            return self._names[(next(self._next) if seed is None else seed) % n_units]
        if unit is None and index is not None and 0 <= index < n_units:
            return self._names[index]
        if unit in self.environment.units:
            return str(unit)
        raise UsageError(
            "reset(unit=…)" if unit is not None else "reset(index=…)",
            expected=f"a unit of {self.environment.task.name}, such as {self._names[0]!r}"
            if unit is not None
            else f"a number from 0 to {n_units - 1}",
            found=repr(index if unit is None else unit),
        )

    def step(
        self, action: ResponseAction, timeout_s: float | None = None, **_: Any
    ) -> RequestObservation:
        """Take the response to the last observation.

        Raises:
            UsageError: no request waits for a response.
        """
        del timeout_s
        if self._episode is None or len(self._responses) == len(self._waiting):
            raise UsageError("step", expected="an episode under way", found="none: call reset")
        self._state.step_count += 1
        request = self._waiting[len(self._responses)]
        self._responses.append(
            self.environment.response_of(
                request, action.response, action.finish_reason, action.completion_tokens
            )
        )
        if len(self._responses) == len(self._waiting):
            self._episode.respond(self._responses)
            self._waiting, self._responses = self._episode.requests(), []
        return self._observation()

    @property
    def state(self) -> State:
        """Episode and number of steps."""
        return self._state

    def list_splits(self) -> list[str]:
        """Return the name of the task's split, the only one."""
        return [self.environment.task.split]

    def num_tasks(self, split: str) -> int:
        """Return the number of units."""
        del split
        return len(self._names)

    def _observation(self) -> RequestObservation:
        """Return the next request of the episode, or at its end the reward."""
        if self._waiting:
            request = self._waiting[len(self._responses)]
            return RequestObservation(
                unit=self._unit,
                messages=self.environment.chat.form.messages(request),
                max_tokens=request.max_new_tokens,
                stop=list(request.stop),
            )
        assert self._episode is not None, "`reset` begins one"
        reward, numbers = self.environment.score(self._unit, self._episode.predictions())
        metadata = {"reward": self.environment.reward_name, "metrics": numbers}
        return RequestObservation(unit=self._unit, done=True, reward=reward, metadata=metadata)


def app_of(**settings: str) -> Any:
    """Return the server of a task, an ASGI application; see `EnvironmentSettings`.

    Raises:
        HarnessError: the environment cannot be built.
    """
    environment = open_environment(EnvironmentSettings(**settings))
    return create_app(
        lambda: HarnessEnvironment(environment),
        ResponseAction,
        RequestObservation,
        env_name=environment.task.name,
        max_concurrent_envs=64,
    )
