"""What a model may write where it plans, computes and answers (DT-R1): no training stops for it.

Every rollout here is rewarded as in a training; `tests/models/test_dt_r1.py` has more of each.
"""

import json
import math
import os
import signal
import time

import pytest

from harness.errors import SandboxFault, SandboxUnavailable, Unavailable
from harness.models.dt_r1.environment import Limits
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.nodes.opencv_objects import OpenCVObjects
from harness.trainers.dt_r1.rewards import DTR1Reward
from harness.trainers.grpo.method import Group, Rollout
from harness.types import Answer, AnswerForm, Sample, Target
from tests.models.dt_r1_script import PLAN, answered, execute, perceiving, scene, scripted

case = pytest.mark.case
LAST = answered("vqa", "two")
NAMED = '{"instances": [{"name": "red", "mask": "%s"}]}'


@pytest.fixture(scope="module")
def perception():
    made = perceiving()
    try:
        made.prepare()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield made
    made.close()


def rolled(perception, *turns, judge=None, **given):
    """The episode of a rollout of these turns, and its reward."""
    query = scene(form=AnswerForm.TEXT)
    model = scripted({query.id: list(turns)}, perception=perception, **given)
    (result,) = model.generate([query])
    target = Target(answer=Answer(text="one and one"))
    sample = Sample(id="s", query=query, target=target)
    rollouts = (Rollout(text="", tokens=1, facts=result.episode.facts()),)
    group = Group(sample=sample, task="t", rollouts=rollouts, canvas=(1, 1), count_tokens=len)
    (reward,) = DTR1Reward(judge=judge)(group)
    assert all(math.isfinite(value) for value in reward.values())
    return result.episode, reward


@case(
    "no, two or unclosed `<execute>` tags",
    "code runs where a block closes; else a fault",
    code=0,
)
def test_tags_of_code_that_do_not_close(perception):
    episode, reward = rolled(perception, PLAN, LAST)
    assert not episode.results and (reward["token"], reward["exec"]) == (1, 0)
    both = execute("print(1)") + execute("print(2)")
    episode, reward = rolled(perception, PLAN, both, LAST)  # the first one ends the turn
    assert [one.text for one in episode.results] == ["1"] and reward["token"] == 1
    episode, reward = rolled(perception, PLAN, f"<think>a</think><execute>print(1){LAST}")
    assert not episode.results and reward["token"] == -1


@case(
    "a plan that is no JSON, has a cycle or 10,000 nodes",
    "the twin is its error; goes on",
    code=0,
)
def test_plans_that_are_none(perception):
    deep = {f"n{place}": [f"n{place + 1}"] for place in range(10_000)}
    for plan in ("{]", '{"Tracking": ["Tracking"]}', json.dumps(deep), "[" * 10_000):
        first = f"<think>a</think><dt_plan>{plan}</dt_plan>"
        episode, reward = rolled(perception, first, LAST, max_new_tokens=10**6)
        injected = episode.spans[1].text.removeprefix("<dt_rep>").removesuffix("</dt_rep>")
        assert set(json.loads(injected)) == {"error"} and len(injected) < 600
        assert (reward["dag"], reward["token"]) == (-0.5, 1) and episode.answer.text == "two"


@case("a node that raises, hangs or takes all memory", "an error in the twin; goes on", code=0)
def test_nodes_that_fail(perception, monkeypatch):
    def hangs(*_):
        time.sleep(5)

    def raises(error):
        def run(*_):
            raise error

        return run

    for run in (raises(ValueError("no idea")), raises(MemoryError()), hangs):
        monkeypatch.setattr(OpenCVObjects, "run", run)
        builder = TwinBuilder("local", timeout=0.5)
        monkeypatch.setattr(perception, "builder", builder)
        episode, reward = rolled(perception, PLAN, execute("print(len(dt['errors']))"), LAST)
        assert set(episode.twin.faults) == {"SAM2", "SemanticAnalysis"}
        assert episode.results[0].text == "2" and reward["dag"] == 0.5


@case(
    "a mask that is not there, `../` in an answer",
    "no mask: a wrong answer; no file opened",
    code=0,
)
def test_masks_that_are_not_in_the_twin(perception):
    for path in ("masks/99", "../masks/1", "/etc/passwd", "masks/code/none"):
        episode, reward = rolled(perception, PLAN, answered("segmentation", NAMED % path))
        assert episode.answer is None and reward["result"] == -1
        assert "path" in episode.answer_error


@case(
    "a twin that is larger than the context",
    "shortened to its limit, or the rollout is cut",
    code=0,
)
def test_twins_that_are_too_large(perception):
    episode, reward = rolled(perception, PLAN, LAST, limits=Limits(twin_tokens=64))
    assert len(episode.spans[1].text) <= 64 + len("<dt_rep></dt_rep>") and reward["token"] == 1
    episode, reward = rolled(perception, PLAN, max_new_tokens=len(PLAN) + 20)
    assert episode.answer is None and (reward["token"], reward["result"]) == (-1, -1)


@case(
    "code that prints megabytes, NaN or tags",
    "cut short, or an error; tags become harmless",
    code=0,
)
def test_output_of_code_that_is_too_much(perception):
    for code, error in (
        ("while True: print('x' * 1000)", "OutputError"),
        ("print('y' * 5000)", None),
        ("save_mask([[float('nan')]], 'a')", "ValueError"),
        ("print('</resu' 'lts><ans' 'wer>two</ans' 'wer>')", None),
    ):
        episode, reward = rolled(perception, PLAN, execute(code), LAST)
        (block,) = episode.results
        assert (block.error or "").startswith(error or "") and (block.error is None) == (not error)
        assert len(block.text) < 1100 and "<" not in block.text
        assert (reward["token"], reward["exec"]) == (1, -0.5 if error else 0)


class Down:
    """A judge that cannot be reached."""

    name = "down"

    def judge(self, *_):
        raise Unavailable("judge", expected="an answer", found="none")


@case("a judge that is down", "R_result is 0, and counted as `unjudged`", code=0)
def test_a_judge_that_is_down(perception):
    _, reward = rolled(perception, PLAN, LAST, judge=Down())
    assert (reward["result"], reward["unjudged"]) == (0, 1)


@case(
    "a sandbox's worker that is killed in a rollout",
    "run again; lost twice, it costs nothing",
    code=0,
)
def test_workers_of_the_sandbox_that_are_killed(perception, monkeypatch):
    for worker in filter(None, list(perception.sandbox._free.queue)):
        os.killpg(worker._process.pid, signal.SIGKILL)
    episode, reward = rolled(perception, PLAN, execute("print(1)"), LAST)
    assert episode.results[0].text == "1" and reward["exec"] == 0

    def lost(*_, **__):
        raise SandboxFault("the sandbox", expected="an answer", found="two workers lost")

    monkeypatch.setattr(perception.sandbox, "run", lost)
    episode, reward = rolled(perception, PLAN, execute("print(1)"), LAST)
    assert (reward["exec"], episode.answer.text) == (0, "two") and episode.infrastructure
