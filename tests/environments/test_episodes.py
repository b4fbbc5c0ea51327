"""Episodes: what a policy is asked, turn by turn, without any framework; exported packages."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.environments.session import EnvironmentSettings, open_environment
from harness.errors import Unavailable
from harness.rehearsal.responses import draw
from harness.rehearsal.server import asked_of
from harness.run.verify import perfect
from harness.types import FailureKind, failed_prediction

LIMITS = "coordinates=pixels,factor=28,min_pixels=3136,max_pixels=12845056"
MODEL = f"qwen_vl(backend=openai({LIMITS}),segmenter=box,propagator=still)"
TWIN = f"dt_r1(backend=openai({LIMITS}))"
REPOSITORY = Path(__file__).resolve().parents[2]


def opened(task, data, model=MODEL, **given):
    return open_environment(EnvironmentSettings(task=task, data=str(data), model=model, **given))


def played(environment, unit, say):
    """The predictions of an episode in which `say` answers, and the requests that it was asked."""
    episode, asked = environment.begin(unit), []
    while requests := episode.requests():
        asked.append(requests)
        said = [environment.response_of(request, say(environment, request)) for request in requests]
        episode.respond(said)
    return episode.predictions(), asked


def drawn(environment, request):
    return draw(asked_of(environment.fields(request, "policy")), seed=3).text


def test_an_image_is_asked_about_in_one_message_and_read_as_by_harness_score(shapes):
    environment = opened("reason_seg", shapes)
    for unit, (sample,) in environment.units.items():
        (message,), alone = environment.prompt(unit)
        assert alone and [part["type"] for part in message["content"]] == ["image_url", "text"]
        assert sample.query.text.strip("?.")[1:] in message["content"][-1]["text"]
        right = environment.model.write(sample.query, perfect(sample).answer)[0]
        (prediction,), asked = played(environment, unit, lambda *_: right)  # noqa: B023
        (stored,) = environment.read(unit, [[right]])
        assert len(asked) == 1 and prediction.answer == stored.answer


def test_the_framework_samples_and_a_temperature_of_the_model_stays(shapes):
    environment = opened("reason_seg", shapes)
    (request,) = environment.begin(next(iter(environment.units))).requests()
    fields = environment.fields(request, "policy")
    assert fields["model"] == "policy" and fields["max_tokens"] == request.max_new_tokens
    assert not {"temperature", "top_p", "seed"} & fields.keys()
    warm = replace(request, temperature=0.7)
    assert environment.fields(warm, "policy")["temperature"] == 0.7


def test_a_unit_of_several_samples_is_one_episode(shapes):
    environment = opened("ref_davis17", shapes)
    unit, samples = next(iter(environment.units.items()))
    messages, alone = environment.prompt(unit)
    assert len(samples) == len(messages) == 3 and not alone
    predictions, asked = played(environment, unit, drawn)
    assert [len(requests) for requests in asked] == [3]
    assert [said.query_id for said in predictions] == [sample.query.id for sample in samples]


def test_an_episode_that_is_broken_off_has_failed(shapes):
    environment = opened("ref_davis17", shapes)
    unit = next(iter(environment.units))
    read = environment.read(unit, [["<answer>[]</answer>"]])
    assert [said.failure and said.failure.kind for said in read[1:]] == [FailureKind.MODEL] * 2


def test_a_tool_that_fails_costs_the_policy_nothing(shapes):
    environment = opened("reason_seg", shapes)
    unit, (sample,) = next(iter(environment.units.items()))
    lost = failed_prediction(sample.query, FailureKind.INFRASTRUCTURE, "the sandbox is lost")
    with pytest.raises(Unavailable, match="sandbox"):
        environment.score(unit, [lost])


def test_the_twin_of_dt_r1_answers_between_the_turns(shapes):
    environment = opened("shapes_referring", shapes, TWIN)
    lengths = set()
    for unit in list(environment.units)[:4]:
        (prediction,), asked = played(environment, unit, drawn)
        lengths.add(len(asked))
        assert len(prediction.responses) == len(asked)
        for (request,) in asked[1:]:
            last = environment.chat.form.messages(request)[-1]
            assert last["role"] == "assistant" and "<dt_rep>" in last["content"]
        read = environment.read(unit, [prediction.responses])
        assert environment.score(unit, read) == environment.score(unit, [prediction])
    assert max(lengths) > 1


@pytest.fixture(scope="module")
def package(shapes, tmp_path_factory):
    """The folder of an exported package."""
    out = tmp_path_factory.mktemp("packages")
    given = ["--tasks", "reason_seg(split=val)", "--data", str(shapes), "--model", MODEL]
    assert main(["env", "export", *given, "--out", str(out)]) == 0
    return out / "harness_reason_seg_split_val"


def test_a_package_names_its_environment(package, shapes):
    module = ast.parse((package / f"{package.name}.py").read_text())
    (config,) = (node for node in module.body if getattr(node, "name", "") == "Config")
    fields = {line.target.id: ast.literal_eval(line.value) for line in config.body}
    assert fields.pop("spec") == "reason_seg(split=val)"
    assert opened("reason_seg(split=val)", shapes).settings == EnvironmentSettings(
        task="reason_seg(split=val)", **fields
    )


def test_names_of_verifiers_are_those_of_the_release_that_was_tested():
    """Without verifiers: what the adapter uses is in the list that the release was asked for."""
    known = json.loads(Path(__file__).with_name("verifiers_names.json").read_text())
    adapter = ast.parse((REPOSITORY / "harness/environments/verifiers.py").read_text())
    used = {
        node.attr
        for node in ast.walk(adapter)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "vf"
    }
    (launch,) = (node for node in ast.walk(adapter) if getattr(node, "name", "") == "launch")
    assert used == set(known["names"])
    assert [argument.arg for argument in launch.args.args] == known["launch"]
