"""Inside verifiers: exported packages load, episodes are played, traces are scored again."""

import asyncio
import importlib.machinery
import inspect
import json
import sys
import types
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.rehearsal.server import serve

pytest.importorskip("verifiers")
vf = pytest.importorskip("verifiers.v1")

LIMITS = "coordinates=pixels,factor=28,min_pixels=3136,max_pixels=12845056"
PARTS = f"backend=openai({LIMITS}),segmenter=box,propagator=still"
EXPORTED = {
    "reason_seg": f"qwen_vl({PARTS})",
    "ref_davis17": f"qwen_vl({PARTS})",
    "shapes_referring": f"dt_r1(backend=openai({LIMITS}))",
    "mevis": "pocket(backend=openai(coordinates=pixels,clips=video))",
}


@pytest.fixture(scope="module")
def exported(shapes, tmp_path_factory):
    """Give the environment of an exported task, as verifiers loads it by its package's name."""
    out = tmp_path_factory.mktemp("packages")

    def loaded(task, **agent):
        given = ["--tasks", task, "--data", str(shapes), "--model", EXPORTED[task]]
        assert main(["env", "export", *given, "--out", str(out)]) == 0
        folder = str(out / f"harness_{task}")
        if folder not in sys.path:
            sys.path.insert(0, folder)
        ident = f"harness-{task.replace('_', '-')}"
        data = {"taskset": {"id": ident}, "agent": agent} if agent else {"taskset": {"id": ident}}
        return vf.load_environment(vf.resolve_env_config(data))

    return loaded


def play(environment, tasks):
    """The traces of a policy of the rehearsal's server, one a task."""

    async def run(url):
        client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY")
        context = vf.ModelContext(client=client, model="served", sampling=vf.SamplingConfig())
        async with environment.serving():
            episodes = [await environment.run_episode(task, context) for task in tasks]
        return [trace for episode in episodes for trace in episode.traces]

    with serve() as served:
        return asyncio.run(run(served.url))


def test_names_are_those_that_were_recorded():
    known = json.loads(Path(__file__).with_name("verifiers_names.json").read_text())
    assert all(hasattr(vf, name) for name in known["names"])
    assert [*inspect.signature(vf.Harness.launch).parameters] == known["launch"]


def test_prompts_have_images_and_keys_differ(exported):
    tasks = list(exported("reason_seg").taskset)
    assert len({task.key for task in tasks}) == len(tasks) == 8
    for task in tasks:
        (message,) = task.data.prompt
        assert [part.type for part in message.content] == ["image_url", "text"]
        assert type(task.data).model_validate_json(task.data.model_dump_json()) == task.data


@pytest.mark.parametrize("task", EXPORTED)
def test_an_episode_is_rewarded_as_its_responses_are_scored(task, exported):
    environment = exported(task)
    tasks = list(environment.taskset.take(4))
    traces = play(environment, tasks)
    assert all(trace.ok for trace in traces), [trace.errors for trace in traces]
    for task_, trace in zip(tasks, traces, strict=True):
        session = task_.data.open()
        said = trace.info["responses"]
        assert sum(map(len, said)) == trace.num_turns
        reward, numbers = session.score(task_.data.unit, session.read(task_.data.unit, said))
        assert trace.reward == reward and trace.metrics == numbers
        again = trace.model_copy(
            update={"rewards": {}, "metrics": {}, "state": type(trace.state)()}
        )
        asyncio.run(task_.score(again))
        assert (again.rewards, again.metrics) == (trace.rewards, trace.metrics)


def test_an_episode_at_its_limit_of_turns_is_worth_what_a_failure_is(exported):
    environment = exported("shapes_referring", max_turns=1)
    traces = play(environment, list(environment.taskset.take(4)))
    cut = [trace for trace in traces if trace.stop_condition == "max_turns"]
    assert cut and all(trace.info["responses"] == [] and trace.reward == 0.0 for trace in cut)


class Plain(vf.Harness[vf.HarnessConfig]):
    """A program that sends a task's prompt, and knows nothing of ours."""

    NEEDS_CONTAINER = EXECUTES_CODE = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        import httpx

        messages = [message.model_dump(exclude_none=True) for message in data.prompt]
        body = {"model": ctx.model, "messages": messages, "max_tokens": 512}
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as client:
            await client.post(f"{endpoint}/chat/completions", json=body)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


def test_a_single_prompt_is_played_by_another_program(exported, monkeypatch):
    module = types.ModuleType("plain_program")
    module.__spec__ = importlib.machinery.ModuleSpec("plain_program", None)
    module.__dict__.update(Plain=Plain, __all__=["Plain"])
    monkeypatch.setitem(sys.modules, "plain_program", module)
    environment = exported("reason_seg", harness={"id": "plain_program"})
    tasks = list(environment.taskset.take(4))
    traces = play(environment, tasks)
    for task, trace in zip(tasks, traces, strict=True):
        assert trace.ok and "responses" not in trace.info
        session, unit = task.data.open(), task.data.unit
        (message,) = trace.assistant_messages
        assert trace.reward == session.score(unit, session.read(unit, [[message.content]]))[0]
