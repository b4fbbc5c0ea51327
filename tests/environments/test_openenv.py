"""Inside OpenEnv: reset, step and the end of an episode, in process and over its server."""

from dataclasses import replace

import pytest

from harness.environments.session import EnvironmentSettings, open_environment
from harness.errors import UsageError
from harness.run.verify import perfect

pytest.importorskip("openenv.core")
adapter = pytest.importorskip("harness.environments.openenv")

LIMITS = "coordinates=pixels,factor=28,min_pixels=3136,max_pixels=12845056"
MODEL = f"qwen_vl(backend=openai({LIMITS}),segmenter=box,propagator=still)"


def opened(task, data):
    return open_environment(EnvironmentSettings(task=task, data=str(data), model=MODEL))


def test_units_come_in_order_by_index_by_name_and_by_seed(shapes):
    environment = opened("reason_seg", shapes)
    session, names = adapter.HarnessEnvironment(environment), list(environment.units)
    assert [session.reset().unit for _ in names] == names
    assert session.reset(index=2).unit == session.reset(unit=names[2]).unit == names[2]
    assert session.reset(seed=len(names) + 1).unit == names[1]
    assert session.num_tasks("val") == len(names)
    with pytest.raises(UsageError, match="a unit of reason_seg"):
        session.reset(unit="none")


@pytest.mark.parametrize("task", ["reason_seg", "ref_davis17"])
def test_the_last_response_brings_the_reward(task, shapes):
    environment = opened(task, shapes)
    session = adapter.HarnessEnvironment(environment)
    for name, unit in list(environment.units.items())[:3]:
        observation, texts = session.reset(unit=name), []
        for sample in unit:
            assert not observation.done and observation.messages[0]["role"] == "user"
            texts += environment.model.write(sample.query, perfect(sample).answer)
            observation = session.step(adapter.ResponseAction(response=texts[-1]))
        read = environment.read(name, [[text] for text in texts])
        assert observation.done and observation.reward == environment.score(name, read)[0] > 0
        with pytest.raises(UsageError, match="reset"):
            session.step(adapter.ResponseAction(response=""))


def test_a_reward_sees_how_long_a_response_is_and_that_it_was_cut(shapes):
    def reward(unit, predictions):
        (read,) = predictions
        return read.usage.completion_tokens + read.parsed[0].cut / 2, {}

    environment = replace(opened("reason_seg", shapes), named=reward)
    session = adapter.HarnessEnvironment(environment)
    for ended, expected in (("length", 7.5), ("stop", 7.0)):
        session.reset()
        action = adapter.ResponseAction(response="It is", finish_reason=ended, completion_tokens=7)
        assert session.step(action).reward == expected


def test_its_server_answers_its_client(shapes):
    from fastapi.testclient import TestClient

    app = adapter.app_of(task="reason_seg", data=str(shapes), model=MODEL)
    with TestClient(app) as client, client.websocket_connect("/ws") as socket:
        socket.send_json({"type": "reset", "data": {"index": 0}})
        first = socket.receive_json()["data"]
        assert first["observation"]["messages"] and not first["done"]
        socket.send_json({"type": "step", "data": {"response": "I see nothing."}})
        last = socket.receive_json()["data"]
        assert last["done"] and last["reward"] == 0.0
