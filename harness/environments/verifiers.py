"""Adapter to verifiers: a taskset, the program that plays its episodes, and their environment.

    harness env export "reason_seg(split=train)" … --out envs
    pip install -e envs/harness_reason_seg
    vf-eval harness-reason-seg -m POLICY --client.base-url http://localhost:8000/v1

An exported package (`harness.environments.export`) only names a task. verifiers calls the policy,
records every request and response, and keeps the traces; harness's model makes the requests, runs
the tools between them and reads the responses.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import httpx
import verifiers.v1 as vf
from pydantic import Field

from harness.chat import ChatRequest, ChatResponse
from harness.environments.session import EnvironmentSettings, RewardEnvironment, open_environment

RESPONSES_KEY = "responses"
"""Key in a trace's `info` that holds the responses of each sample, to score the trace again."""
UNREACHED_EXIT_CODE = 1
"""Exit code if the framework refused a request, or the policy failed."""


class HarnessTasksetConfig(vf.TasksetConfig):
    """Options of a taskset, `--env.taskset.*`; see `EnvironmentSettings`."""

    spec: str = ""
    data: str = ""
    model: str = ""
    reward: str = ""
    judge: str = ""
    subset: str = ""
    images: bool = True
    """True: put images into the prompts, which traces hold. `ModelLoop` shows them in any case."""

    def settings(self) -> EnvironmentSettings:
        """Return the settings of the environment."""
        names = ("data", "model", "reward", "judge", "subset")
        values = {name: getattr(self, name) for name in names}
        return EnvironmentSettings(task=self.spec, **values)


class UnitData(vf.TaskData):
    """One unit of a task, and the environment that it belongs to."""

    environment: dict[str, str]

    def open(self) -> RewardEnvironment:
        """Return the environment, which is built once a process."""
        return open_environment(EnvironmentSettings(**self.environment))

    @property
    def unit(self) -> str:
        """Name of the unit."""
        return str(self.id)


class EpisodeState(vf.State):
    """State of an episode, with its predictions for the scorer in the same process."""

    predictions: list[Any] = Field(default_factory=list)


class UnitTask(vf.Task[UnitData, EpisodeState]):
    """Scores an episode by the protocol, or by the method that the settings name."""

    @property
    def key(self) -> str:
        """Identity of the unit: the task and the unit's name."""
        return f"{self.data.environment['task']} {self.data.unit}"

    @vf.reward
    async def reward(self, task: UnitData, trace: vf.Trace) -> dict[str, float]:
        """Return the reward, under the name of its metric or method."""
        return await asyncio.to_thread(_score, task, trace)


def _score(data: UnitData, trace: vf.Trace) -> dict[str, float]:
    """Return the reward of a trace by its name; record the protocol's numbers in the trace."""
    environment = data.open()
    # A program other than `ModelLoop` stores no responses: the assistant's messages hold them.
    texts = [message.content or "" for message in trace.assistant_messages]
    responses = trace.info.get(RESPONSES_KEY, [texts])
    predictions = trace.state.predictions or environment.read(data.unit, responses)
    reward, numbers = environment.score(data.unit, predictions)
    trace.record_metrics(numbers)
    return {environment.reward_name: reward}


class HarnessTaskset(vf.Taskset[UnitTask, HarnessTasksetConfig]):
    """The units of a task, in its order."""

    def load(self) -> Iterator[UnitTask]:
        """Yield a task for each unit, with the first messages to the policy as its prompt."""
        settings = self.config.settings()
        environment = open_environment(settings)
        for name in environment.units:
            messages, is_one_request = environment.prompt(name)
            show_images = is_one_request and self.config.images and not _has_video(messages)
            prompt: Any = messages if show_images else _text_of(messages)
            data = UnitData(id=name, prompt=prompt, environment=asdict(settings))
            yield UnitTask(data, self.config.task)


def _has_video(messages: Sequence[dict[str, Any]]) -> bool:
    """Return True if messages hold a video, which verifiers' message types cannot hold."""
    return any(part["type"] == "video_url" for part in _parts(messages))


def _text_of(messages: Sequence[dict[str, Any]]) -> str:
    """Return the texts of messages, without their images and videos."""
    contents = [message["content"] for message in messages]
    texts = [content for content in contents if isinstance(content, str)]
    texts += [part["text"] for part in _parts(messages) if part["type"] == "text"]
    return "\n\n".join(texts)


def _parts(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts (text, image, video) of all messages whose content is a list of parts."""
    contents = [message["content"] for message in messages]
    return [part for content in contents if isinstance(content, list) for part in content]


class ModelLoop(vf.Harness[vf.HarnessConfig]):
    """The program that plays an episode with harness's model, in the environment's process.

    Episodes of one request can be played by other programs as well, such as verifiers' `null`;
    units of several questions and conversations with tools need this one.
    """

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False  # a policy's code runs in harness's own sandbox
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Play an episode; every request goes through verifiers."""
        assert isinstance(data, UnitData), "`HarnessTaskset` yields no others"
        trace.info[RESPONSES_KEY] = []  # until the episode ends: `_score` reads it as a failure
        environment = await asyncio.to_thread(data.open)
        episode = await asyncio.to_thread(environment.begin, data.unit)
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        async with httpx.AsyncClient(timeout=None, headers=headers, trust_env=False) as client:

            async def ask(request: ChatRequest) -> ChatResponse:
                fields = await asyncio.to_thread(environment.fields, request, ctx.model)
                body = json.dumps(fields)
                http_response = await client.post(f"{endpoint}/chat/completions", content=body)
                http_response.raise_for_status()
                return environment.response(request, http_response.json())

            try:
                while requests := await asyncio.to_thread(episode.requests):
                    responses = await asyncio.gather(*map(ask, requests))
                    await asyncio.to_thread(episode.respond, responses)
            except httpx.HTTPError as error:  # a limit was reached, or the policy failed
                return vf.ProgramResult(exit_code=UNREACHED_EXIT_CODE, stdout="", stderr=str(error))
        predictions = await asyncio.to_thread(episode.predictions)
        trace.info[RESPONSES_KEY] = [list(prediction.responses) for prediction in predictions]
        trace.state.predictions = predictions
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class HarnessEnvConfig(vf.SingleAgentEnvConfig):
    """Options of the environment: the program needs no container."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class HarnessEnv(vf.SingleAgentEnv, vf.Env[HarnessEnvConfig]):
    """One policy that plays a task."""
