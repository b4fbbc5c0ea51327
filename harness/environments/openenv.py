"""Tasks in OpenEnv: an environment whose observation is a request, and whose action a response.

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
    """Text of one response of the policy."""

    response: str


class RequestObservation(Observation):
    """Next request to the policy; with `done` there is none, and `reward` is the episode's.

    Messages are those of a chat completion, images as data URLs. If the last one is the
    assistant's, the policy goes on from it. `metadata` has the protocol's numbers at the end.
    """

    unit: str
    messages: list[dict[str, Any]] = Field(default_factory=list)
    max_tokens: int | None = None
    stop: list[str] = Field(default_factory=list)


class HarnessEnvironment(Environment[ResponseAction, RequestObservation, State]):
    """One session: the units of a task, one after another or by name, index or seed."""

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
        """Begin an episode: of the unit that is named, else numbered, else drawn, else the next.

        Raises:
            UsageError: there is no such unit.
        """
        if unit is None:
            place = index if index is not None else next(self._next) if seed is None else seed
            count = len(self._names)
            is_there = index is None or 0 <= place < count
            unit = self._names[place % count] if is_there else f"number {place} of {count}"
        if unit not in self.environment.units:
            raise UsageError(
                "reset(unit=…)",
                expected=f"a unit of {self.environment.task.name}, such as {self._names[0]!r}",
                found=repr(unit),
            )
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        self._unit, self._episode = unit, self.environment.begin(unit)
        self._waiting, self._responses = self._episode.requests(), []
        return self._observation()

    def step(
        self, action: ResponseAction, timeout_s: float | None = None, **_: Any
    ) -> RequestObservation:
        """Take the response to the last observation.

        Raises:
            UsageError: no request waits for one.
        """
        del timeout_s
        if self._episode is None or len(self._responses) == len(self._waiting):
            raise UsageError("step", expected="an episode under way", found="none: call reset")
        self._state.step_count += 1
        asked = self._waiting[len(self._responses)]
        self._responses.append(self.environment.said(asked, action.response))
        if len(self._responses) == len(self._waiting):
            self._episode.respond(self._responses)
            self._waiting, self._responses = self._episode.requests(), []
        return self._observation()

    @property
    def state(self) -> State:
        """Episode and number of steps."""
        return self._state

    def list_splits(self) -> list[str]:
        """Return the split of the task."""
        return [self.environment.task.split]

    def num_tasks(self, split: str) -> int:
        """Return the number of units."""
        del split
        return len(self._names)

    def _observation(self) -> RequestObservation:
        if self._waiting:
            asked = self._waiting[len(self._responses)]
            return RequestObservation(
                unit=self._unit,
                messages=self.environment.chat.form.messages(asked),
                max_tokens=asked.max_new_tokens,
                stop=list(asked.stop),
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
