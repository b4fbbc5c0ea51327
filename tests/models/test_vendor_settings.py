"""A vendor's own settings as data: applied, recorded, beaten by what is typed, and said to be."""

import pytest

from harness import checkpoint_config, plugins
from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.models.vendors.settings import names, vendor_settings
from harness.papers import deviations
from harness.spec import parse
from harness.types import AnswerForm

SERVER = "openai(model=m,base_url=http://127.0.0.1:9/v1,coordinates=normalized_1000{})"


def built(settings, given="", server="", model="qwen_vl(prompt=locate"):
    spec = f"{model},vendor={settings},backend={SERVER.format(server)}{given})"
    made = plugins.build("models", parse(spec))
    differs = deviations(spec, made.describe(), [AnswerForm.CHOICE])
    return made, {one.setting: one for one in differs}


@pytest.mark.parametrize("name", names())
def test_every_value_of_a_vendor_reaches_the_run_through_a_server(name):
    given = vendor_settings(name)
    assert given.source and given.family
    assert given.settings or given.backend or (given.unverified and not given.tasks)
    model, differs = built(name)
    described = model.describe()
    if "image_processor" in given.backend:  # the server's own decides
        assert set(differs) == {"image_processor"}
        return
    assert not differs
    assert given.settings.items() <= described.items()
    assert given.backend.items() <= described["chat"].items()


def test_what_is_typed_beats_the_settings_and_is_a_deviation():
    model, differs = built("qwen3_vl_report", given=",frames=8", server=",temperature=0.0")
    assert model.frames == 8 and model.chat.greedy and model.max_new_tokens == 32768
    assert set(differs) == {"frames", "temperature"}
    assert str(differs["temperature"]) == "temperature 0.0 (vendor's qwen3_vl_report: 0.7)"


def test_every_value_reaches_a_network_in_this_process(tiny_qwen3):
    spec = f"qwen_vl(vendor=qwen3_vl_report,checkpoint={tiny_qwen3})"
    model = plugins.build("models", parse(spec))
    assert not deviations(spec, model.describe(), [AnswerForm.CHOICE])
    (sampling,) = model.chat.samplings([ChatRequest(key="a", text="?")])
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.7, 0.8, 20)
    assert (sampling.presence_penalty, sampling.repetition_penalty) == (1.5, 1.0)


def test_settings_are_in_the_record_and_without_one_the_record_is_as_before():
    model, _ = built("qwen2_5_vl_report")
    assert model.describe()["vendor"]["name"] == "qwen2_5_vl_report"
    assert "vendor" not in plugins.build("models", parse("qwen_vl(backend=stored)")).describe()


def test_the_reports_hold_their_budgets_for_two_hours_of_video(ask):
    for name, frames, factor, tokens in (
        ("qwen3_vl_report", 2048, 32, 224_000),
        ("qwen2_5_vl_report", 768, 28, 24_576),
    ):
        policy = built(name)[0].frames
        times = [index / 2 for index in range(2 * 7200)]
        assert len(policy.choose(times)) == frames
        width, height = policy.size((1920, 1080), frames=frames)
        assert 0.6 * tokens < frames // 2 * width * height // factor**2 <= tokens


def test_a_clip_is_shown_to_a_server_at_the_size_that_the_settings_gives(ask):
    (request,) = built("qwen2_5_vl_report")[0].requests(
        ask(AnswerForm.CHOICE, frames=4, size=(1280, 720), options=("a", "b"))
    )
    assert request.resize == (1008, 560)


def test_the_system_message_of_a_thinking_mode_is_sent():
    model, differs = built("internvl3_5_thinking", model="vlm(dialect=internvl3_5")
    assert model.system.startswith("You are an AI assistant") and not differs
    (typed, differs) = built("internvl3_5_thinking", given=",system=hello")
    assert typed.system == "hello" and set(differs) == {"system"}
    assert len(str(differs["system"])) < 300


def test_a_checkpoint_keeps_its_settings_and_no_default_that_would_beat_it(tmp_path):
    checkpoint_config.write(tmp_path, parse("qwen_vl(vendor=qwen2_5_vl_report,prompt=locate)"))
    assert str(checkpoint_config.read(tmp_path)) == (
        "qwen_vl(vendor=qwen2_5_vl_report,prompt=locate)"
    )


def test_unknown_settings_are_refused():
    with pytest.raises(UsageError, match=r"vendor=qwen9.*qwen3_vl_report"):
        built("qwen9")
