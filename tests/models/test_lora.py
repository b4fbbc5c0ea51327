"""LoRA adapters on a checkpoint, batches of like length, and tensors that are made ahead."""

import json
import math
import shutil
import threading
import time
from dataclasses import replace

import pytest

from harness.chat import ChatRequest
from harness.errors import ModelError, UsageError
from harness.models.backends import adapters, batching
from harness.models.backends.batching import PreparedInputs, WaitTimer, batches, with_inputs

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.inputs import processor_inputs  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402

ensure_torchvision()  # peft cannot be imported where torchvision cannot
pytest.importorskip("peft")

LAYERS = r".*language_model.*\.(q|v|down)_proj"


@pytest.fixture(scope="module")
def adapter(tiny_qwen, tmp_path_factory):
    """A LoRA adapter with random weights, saved as PEFT saves them."""
    from peft import LoraConfig, get_peft_model

    network = transformers(checkpoint=str(tiny_qwen), dtype="float32", device="cpu").network
    torch.manual_seed(3)
    plain = LoraConfig(
        r=4, lora_alpha=16, target_modules=LAYERS, task_type="CAUSAL_LM", init_lora_weights=False
    )
    folder = tmp_path_factory.mktemp("lora") / "adapter"
    get_peft_model(network, plain).save_pretrained(folder)
    return folder


def chat(folder, **settings):
    return transformers(checkpoint=str(folder), dtype="float32", device="cpu", **settings)


def requests(ask, count=5):
    media = ask(size=(150, 60)).media
    return [
        ChatRequest(key=str(number), text="where? " * (number + 1), media=media, max_new_tokens=8)
        for number in range(count)
    ]


def texts(made, asked):
    return [response.text for response in made.generate(asked)]


def test_an_adapter_changes_responses_and_merging_it_does_not(tiny_qwen, adapter, ask):
    requested = requests(ask)
    plain = texts(chat(tiny_qwen), requested)
    loaded, merged = (
        chat(tiny_qwen, adapter=str(adapter), merged=merged) for merged in (False, True)
    )
    assert texts(loaded, requested) == texts(merged, requested) != plain
    assert any("lora" in name for name, _ in loaded.network.named_parameters())
    assert not any("lora" in name for name, _ in merged.network.named_parameters())
    assert [texts(loaded, [one])[0] for one in requested] == texts(loaded, requested)


def test_the_adapter_is_the_one_that_was_trained(tiny_qwen, adapter, ask):
    from peft import PeftModel

    request = requests(ask)[2]
    loaded = chat(tiny_qwen, adapter=str(adapter))
    theirs = chat(tiny_qwen)
    theirs.__dict__["network"] = PeftModel.from_pretrained(theirs.network, adapter).eval()
    assert texts(loaded, [request]) == texts(theirs, [request])


def test_the_record_names_the_adapter(tiny_qwen, adapter):
    output = chat(tiny_qwen, adapter=str(adapter), merged=True).describe()
    assert output["merged"] is True
    assert (
        output["adapter_weights"]
        == adapters.Adapter(name="", folder=adapter, merged=False).fingerprint()
    )
    assert "adapter" not in chat(tiny_qwen).describe()
    json.dumps(dict(output))


def changed(adapter, target, **changes):
    shutil.copytree(adapter, target)
    path = target / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return target


def test_an_adapter_of_another_base_is_refused(tiny_qwen, adapter, tmp_path):
    other = changed(adapter, tmp_path / "other", base_model_name_or_path="Qwen/Qwen2.5-VL-3B")
    with pytest.raises(ModelError, match=r"/other: .*Qwen/Qwen2\.5-VL-3B"):
        chat(tiny_qwen, adapter=str(other))
    assert chat(tiny_qwen, adapter=str(other), allow_any_base=True).adapter is not None
    for name in (f"somewhere/else/{tiny_qwen.name}", f"x/{tiny_qwen.name}/checkpoint", None, ""):
        fine = changed(
            adapter, tmp_path / f"fine{name}".replace("/", "-"), base_model_name_or_path=name
        )
        assert chat(tiny_qwen, adapter=str(fine)).adapter is not None


def test_an_adapter_whose_shapes_do_not_fit_is_refused(tiny_qwen, tiny_qwen3, adapter, tmp_path):
    other = changed(adapter, tmp_path / "other", r=8)
    with pytest.raises(ModelError, match=r"/other .*q_proj\.lora_A"):
        _ = chat(tiny_qwen, adapter=str(other)).network
    with pytest.raises(ModelError, match=r"tiny-qwen3_vl, .*tiny-qwen2_5_vl"):
        chat(tiny_qwen3, adapter=str(adapter))  # whose layers have the same names and shapes


def test_an_adapters_weights_must_be_all_used_and_all_there(tiny_qwen, adapter, tmp_path):
    from safetensors.torch import load_file, save_file

    other = changed(adapter, tmp_path / "other")
    path = other / adapters.WEIGHTS
    tensors = load_file(path)
    lost = min(tensors)
    save_file({name: one for name, one in tensors.items() if name != lost}, path)
    with pytest.raises(ModelError, match="missing"):
        _ = chat(tiny_qwen, adapter=str(other)).network
    save_file(tensors | {"base_model.model.stray.lora_A.weight": torch.zeros(2)}, path)
    with pytest.raises(ModelError, match=r"unexpected keys: .*stray"):
        _ = chat(tiny_qwen, adapter=str(other)).network


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda at: (at / adapters.WEIGHTS).rename(at / adapters.PICKLED), r"adapter_model\.bin"),
        (lambda at: (at / adapters.WEIGHTS).unlink(), r"adapter_model\.safetensors, .*none"),
        (lambda at: (at / adapters.WEIGHTS).write_bytes(b"\x08" + b"\x00" * 99), "safetensors"),
        (lambda at: (at / "adapter_config.json").unlink(), "adapter_config.json"),
        (lambda at: (at / "adapter_config.json").write_text("{"), "JSON object"),
        (lambda at: (at / "adapter_config.json").write_text('{"peft_type": "IA3"}'), "LORA"),
    ],
)
def test_a_folder_that_is_no_safe_adapter_is_refused(tiny_qwen, adapter, tmp_path, damage, words):
    other = changed(adapter, tmp_path / "other")
    damage(other)
    with pytest.raises(ModelError, match=words):
        chat(tiny_qwen, adapter=str(other))


def test_the_adapter_of_a_training_is_found_in_its_folder(tiny_qwen, adapter):
    assert chat(tiny_qwen, adapter=str(adapter.parent)).adapter.folder == adapter


def test_a_tokenizer_without_the_tokens_of_images_is_refused(tiny_qwen, tmp_path):
    other = shutil.copytree(tiny_qwen, tmp_path / "other")
    path = other / "tokenizer.json"
    plain = json.loads(path.read_text())
    plain["added_tokens"] = [
        one for one in plain["added_tokens"] if one["content"] != "<|image_pad|>"
    ]
    path.write_text(json.dumps(plain))
    path = other / "tokenizer_config.json"
    path.write_text(path.read_text().replace("<|image_pad|>", "<|vision_start|>"))
    with pytest.raises(ModelError, match=r"/other: .*<\|image_pad\|>, found \d+ tokens"):
        chat(other).prepare()


def test_batches_hold_requests_of_one_limit_the_longest_first(ask):
    media = ask(size=(280, 280)).media
    requested = [
        ChatRequest(key="a", text="short", max_new_tokens=4),
        ChatRequest(key="b", text="x" * 400, max_new_tokens=4),
        ChatRequest(key="c", text="short", media=media, max_new_tokens=4),
        ChatRequest(key="d", text="other limit", max_new_tokens=2),
    ]
    assert batches(requested, size=2) == [[3], [1, 2], [0]] or batches(requested, size=2) == [
        [3],
        [2, 1],
        [0],
    ]
    assert batches([], size=2) == []


def test_responses_of_a_batch_are_drawn_at_one_temperature():
    """A greedy one apart from those at the backend's own, which come first."""
    heats = (0.0, None, 0.7, None, 0.0)
    requested = [ChatRequest(key="a", text="a", temperature=heat) for heat in heats]
    assert batches(requested, size=8) == [[1, 3], [0, 4], [2]]


@pytest.mark.parametrize("heat", [math.nan, math.inf, -math.inf, -1.0, -1e-9, 100.1])
def test_a_request_at_no_temperature_is_refused(heat):
    with pytest.raises(UsageError, match=f"request a: expected 0 ≤ temperature ≤ 100.*{heat}"):
        ChatRequest(key="a", text="a", temperature=heat)
    assert ChatRequest(key="a", text="a", temperature=100).temperature_or(1.0) == 100


def test_tensors_are_made_one_batch_ahead_and_no_more():
    made, used = [], []

    def make(places):
        made.append(places)
        assert len(made) - len(used) <= 2
        return sum(places)

    plan = [[0, 1], [2], [3, 4], [5]]
    for places, total in with_inputs(plan, make, ahead=True, timer=WaitTimer()):
        used.append(places)
        assert total == sum(places)
    assert used == made == plan
    with pytest.raises(ZeroDivisionError):
        list(with_inputs(plan, lambda places: 1 // 0, ahead=True, timer=WaitTimer()))


def test_responses_made_ahead_are_those_made_in_turn(tiny_qwen, ask):
    requested = requests(ask, 7)
    several = {
        ahead: chat(tiny_qwen, batch_size=2, prefetch=ahead).generate(requested)
        for ahead in (False, True)
    }
    assert several[True] == several[False]
    assert [response.prompt_tokens for response in several[True]] == sorted(
        response.prompt_tokens for response in several[True]
    )


@pytest.mark.parametrize(("rows", "roll"), [(2, True), (2, False), (8, True)])
def test_what_a_call_begins_with_is_made_while_another_is_answered(
    tiny_qwen, ask, monkeypatch, rows, roll
):
    """And only once: whether rows roll, are answered batch by batch, or fit at once."""
    now, then, again = requests(ask, 5), requests(ask, 7)[2:], requests(ask, 1)
    settings = {"batch_size": rows, "continuous_batching": roll}
    alone = [chat(tiny_qwen, **settings).generate(requested) for requested in (now, again, then)]
    made = []

    def noted(processor, chosen):
        made.append([(one.key, threading.current_thread().name) for one in chosen])
        return processor_inputs(processor, chosen)

    monkeypatch.setattr("harness.models.backends.transformers.processor_inputs", noted)
    ahead = chat(tiny_qwen, **settings)
    ahead.prepare()
    ahead.prepare_next(then)
    assert [ahead.generate(requested) for requested in (now, again, then)] == alone
    expected = [[key for key, _ in one] for one in made if "expected" in one[0][1]]
    assert expected == [["6", "5"] if rows == 2 else ["6", "5", "4", "3", "2"]]
    keys = sorted(key for one in made for key, _ in one)
    assert keys == sorted(one.key for one in (*now, *again, *then)), "each is made once"
    before = len(made)
    assert ahead.generate(then) == alone[2] and len(made) > before, "it is handed out once"
    without = chat(tiny_qwen, prefetch=False, **settings)
    without.prepare_next(then)
    assert without.generate(then) == alone[2]


def test_what_was_expected_is_taken_by_the_same_requests_alone(ask):
    expected, (one, other) = PreparedInputs(), requests(ask, 2)
    assert expected.take_if_same([one]) is None
    expected.make([one, other], lambda: "made")
    twin = replace(one, media=ask(size=(150, 60)).media)  # as large, and another image
    for wrong in ([one], [other, one], [one, replace(other, text="else")], [twin, other]):
        assert expected.take_if_same(wrong) is None
    done = expected.take_if_same([replace(one), other])
    assert done is not None and done.result() == "made"
    assert expected.take_if_same([one, other]) is None
    expected.make([one], lambda: 1 // 0)
    assert expected.take_if_same([one]) is None, "the call meets the fault itself"


def test_what_is_expected_meanwhile_is_not_taken_for_something_else(ask, monkeypatch):
    """The next batch is expected while the one that is asked now takes what was made of it."""
    now, then = requests(ask, 2), requests(ask, 4)[2:]
    same, expected = batching._same_requests, PreparedInputs()
    expected.make(now, lambda: "now")

    def meanwhile(*given):
        beside = threading.Thread(target=expected.make, args=(then, lambda: "then"))
        beside.start()
        beside.join(0.05)  # it may wait for what is taken
        monkeypatch.setattr(batching, "_same_requests", same)
        return same(*given)

    monkeypatch.setattr(batching, "_same_requests", meanwhile)
    assert expected.take_if_same(now).result() == "now"
    deadline = time.monotonic() + 10
    while (done := expected.take_if_same(then)) is None:
        assert time.monotonic() < deadline, "it was dropped"
    assert done.result() == "then"


def test_of_several_calls_that_are_expected_the_last_two_are_kept(ask):
    expected, requested = PreparedInputs(), requests(ask, 4)
    for place, one in enumerate(requested):
        expected.make([one], lambda place=place: place)
    assert expected.take_if_same(requested[:1]) is expected.take_if_same(requested[1:2]) is None
    assert [expected.take_if_same([one]).result() for one in requested[2:]] == [2, 3]
