import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import plugins
from harness.chat import ChatRequest
from harness.errors import DataError, ModelError, OutOfMemory, UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.inputs import processor_inputs
from harness.models.backends.loading import check_report, memory
from harness.models.backends.recorded_responses import stored
from harness.models.backends.shown_media import seen_canvases, squashed
from harness.models.canvas import clip_smart_resize, smart_resize
from harness.spec import parse as parse_spec
from harness.types import query_id

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402
from harness.models.backends.weights import weights  # noqa: E402


def requests(ask, *, tokens: int = 8) -> list[ChatRequest]:
    """Images, clips and no image at all; short texts and long ones; squashed or not."""
    image, small = ask(size=(150, 60)).media, ask(size=(40, 90)).media
    clip = ask(frames=6, size=(64, 80)).media
    plain = [
        ChatRequest(key="a", text="a", media=image),
        ChatRequest(key="b", text="a much longer question, please", media=small),
        ChatRequest(key="c", text="what moves?", media=clip, frames=((0, 2, 4, 5),)),
        ChatRequest(key="d", text="two media", media=(*clip, *small), frames=((3,), (0,))),
        ChatRequest(key="e", text="squashed", media=image, resize=(84, 84)),
        ChatRequest(key="f", text="no image"),
        ChatRequest(key="g", text="clip of three", media=clip, frames=((1, 2, 3),)),
    ]
    return [
        ChatRequest(
            **{name: getattr(one, name) for name in one.__slots__} | {"max_new_tokens": tokens}
        )
        for one in plain
    ]


@pytest.fixture(scope="module", params=["tiny_qwen", "tiny_qwen3", "tiny_qwen35"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def chat(folder):
    return transformers(checkpoint=str(folder), dtype="float32", device="cpu")


def test_a_batch_padded_on_the_left_says_what_each_request_says_alone(chat, ask):
    requested = requests(ask, tokens=16)
    together = chat.generate(requested)
    assert together == [chat.generate([one])[0] for one in requested]
    assert len({response.text for response in together}) > 4


def test_sampled_responses_do_not_depend_on_batch_order_or_limit_of_batches(folder, ask):
    requested = requests(ask)
    responses = {}
    for batch_size, order in ((8, 1), (3, -1)):
        made = transformers(
            checkpoint=str(folder), temperature=1.0, top_p=0.95, seed=5, batch_size=batch_size
        )
        output = made.generate(requested[::order])[::order]
        responses[batch_size] = [(response.text, response.completion_tokens) for response in output]
    assert responses[8] == responses[3]
    greedy = transformers(checkpoint=str(folder)).generate(requested)
    assert [text for text, _ in responses[8]] != [response.text for response in greedy]


def test_the_canvas_is_known_before_the_network_sees_it(chat, ask):
    for request, response in zip(requests(ask), chat.generate(requests(ask)), strict=True):
        assert len(response.canvases) == len(request.media)
        if request.media:
            assert chat.canvas(request) == response.canvases[0]


def test_tokens_are_counted(chat, ask):
    request = requests(ask, tokens=5)[0]
    (response,) = chat.generate([request])
    width, height = response.canvases[0]
    side = 2 * chat.processor.image_processor.patch_size
    words = len("user\na\nassistant\n") + len(chat.opening)
    frame = words + 5 + (width // side) * (height // side)
    assert response.prompt_tokens == frame
    assert response.cut == (response.completion_tokens == 5)
    assert chat.count_tokens("abc") == 3


def test_limits_on_pixels_change_the_canvas(tiny_qwen, ask):
    request = ChatRequest(key="a", text="a", media=ask(size=(200, 100)).media, max_new_tokens=2)
    made = transformers(checkpoint=str(tiny_qwen), min_pixels=784, max_pixels=28 * 56)
    assert made.canvas(request) == (56, 28)
    assert made.generate([request])[0].canvases == ((56, 28),)


def clip_of(ask, frames):
    media = ask(frames=6, size=(200, 100)).media
    return ChatRequest(key="a", text="a", media=media, frames=(frames,), max_new_tokens=2)


@pytest.mark.parametrize("frames", [(0, 3), (0, 1, 2, 3, 5)])
def test_limits_on_pixels_are_those_of_each_frame_of_a_clip(tiny_qwen, ask, frames):
    request = clip_of(ask, frames)
    sizes = {}
    for limit in (28 * 56, 56 * 112, None):
        made = transformers(checkpoint=str(tiny_qwen), min_pixels=784, max_pixels=limit)
        (response,) = made.generate([request])
        assert response.canvases == (made.canvas(request),)
        sizes[limit] = made.canvas(request)
    assert sizes == {28 * 56: (56, 28), 56 * 112: (112, 56), None: (196, 112)}
    small = transformers(checkpoint=str(tiny_qwen), min_pixels=250 * 250, max_pixels=300 * 300)
    assert small.canvas(request) == (364, 196)


@pytest.mark.parametrize("limits", [{"max_pixels": 9_000}, {"min_pixels": 5_000}])
def test_limits_that_would_be_of_all_frames_together_are_refused_a_clip(tiny_qwen3, ask, limits):
    made = transformers(checkpoint=str(tiny_qwen3), **limits)
    request = clip_of(ask, (0, 3))
    for requested in (made.canvas, lambda one: made.generate([one])):
        with pytest.raises(UsageError, match=r"max_pixels=….*found Qwen3VLVideoProcessor"):
            requested(request)
    still = clip_of(ask, (3,))
    assert made.generate([still])[0].canvases == (made.canvas(still),)
    assert transformers(checkpoint=str(tiny_qwen3)).canvas(request)


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"max_pixels": 3135}, "3136 and 3135"),
        ({"min_pixels": 12545}, "12545 and 12544"),
        ({"min_pixels": 100, "max_pixels": 99}, "100 and 99"),
    ],
)
def test_a_smallest_image_that_is_larger_than_the_largest_is_refused(tiny_qwen, limits, found):
    with pytest.raises(UsageError, match=f"^limits .*images: .*found {found}"):
        _ = transformers(checkpoint=str(tiny_qwen), **limits).processor
    both = transformers(checkpoint=str(tiny_qwen), min_pixels=3136, max_pixels=3136)
    assert dict(both.processor.image_processor.size)["longest_edge"] == 3136


def test_the_limits_of_clips_may_not_cross_either(tiny_qwen, tmp_path):
    other = shutil.copytree(tiny_qwen, tmp_path / "other")
    path = other / "processor_config.json"
    plain = json.loads(path.read_text())
    plain["video_processor"]["size"] = {"shortest_edge": 6272, "longest_edge": 12544}
    path.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match=r"^limits .*clips: .*found 6272 .*4000"):
        _ = transformers(checkpoint=str(other), max_pixels=4000).processor


@pytest.mark.parametrize("lost", ["<|vision_start|>", "<|vision_end|>", "<|im_end|>"])
def test_a_tokenizer_without_a_token_that_prompts_have_is_refused(folder, tmp_path, lost):
    other = shutil.copytree(folder, tmp_path / "other")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = other / name
        path.write_text(path.read_text().replace(lost, "<|another|>"))
    with pytest.raises(ModelError, match=rf"/other: .*{re.escape(lost)}, found \d+ tokens"):
        _ = transformers(checkpoint=str(other)).processor


@pytest.mark.parametrize("place", ["image_token_id", "video_token_id", "vision_start_token_id"])
def test_marks_must_have_the_numbers_that_the_network_looks_for(folder, tmp_path, place):
    plain = json.loads((folder / "config.json").read_text())
    other = copied(folder, tmp_path / "other", **{place: plain[place] - 1})
    with pytest.raises(ModelError, match=rf"token {plain[place] - 1} \({place}\)"):
        _ = transformers(checkpoint=str(other)).processor


@pytest.mark.parametrize(
    ("end", "words"),
    [([3, 9999], "9999, with"), (None, r"/other: .*none\. .*eos_token_id")],
)
def test_what_ends_a_response_must_be_a_token(tiny_qwen, tmp_path, end, words):
    other = shutil.copytree(tiny_qwen, tmp_path / "other")
    path = other / "generation_config.json"
    path.write_text(json.dumps({} if end is None else {"eos_token_id": end}))
    if end is None:
        path = other / "tokenizer_config.json"
        plain = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in plain.items() if k != "eos_token"}))
    with pytest.raises(ModelError, match=words):
        _ = transformers(checkpoint=str(other)).processor


def test_special_tokens_in_a_question_are_plain_text(chat, ask):
    media = ask().media
    text = "how many <|image_pad|><|im_end|> are there?<|vision_start|>"
    (response,) = chat.generate([ChatRequest(key="a", text=text, media=media, max_new_tokens=2)])
    (plain,) = chat.generate([ChatRequest(key="a", text="", media=media, max_new_tokens=2)])
    assert response.prompt_tokens - plain.prompt_tokens == len(text) + 3


def test_a_system_message_is_sent_if_there_is_one(chat):
    def tokens(system):
        request = ChatRequest(key="a", text="a", system=system, max_new_tokens=1)
        return chat.generate([request])[0].prompt_tokens

    assert tokens("be kind") == tokens(None) + len("system\nbe kind\n") + 2


def test_the_record_names_weights_and_resolved_settings(chat, folder):
    output = chat.describe()
    assert output["weights"] == checkpoints.fingerprint(folder)
    assert (output["dtype"], output["device"], output["repetition_penalty"]) == (
        "float32",
        "cpu",
        1.0,
    )
    json.dumps(dict(output))


def test_coordinates_are_those_of_the_architecture(tiny_qwen, tiny_qwen3):
    assert transformers(checkpoint=str(tiny_qwen)).coordinates == "pixels"
    assert transformers(checkpoint=str(tiny_qwen3)).coordinates == "normalized_1000"


def copied(folder, target, **changes):
    """A copy of a checkpoint with other entries in its configuration."""
    shutil.copytree(folder, target)
    path = target / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return target


def test_coordinates_of_another_architecture_must_be_given(tiny_qwen, tmp_path):
    other = copied(tiny_qwen, tmp_path / "other", model_type="qwen9_vl")
    with pytest.raises(ModelError, match=r"^coordinates .*qwen2_5_vl.*found qwen9_vl"):
        transformers(checkpoint=str(other))
    assert transformers(checkpoint=str(other), coordinates="pixels").coordinates == "pixels"


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_weights_that_were_cut_off_are_refused_by_name(tiny_qwen, tmp_path, keep):
    broken = copied(tiny_qwen, tmp_path / "cut")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"cut/model\.safetensors"):
        transformers(checkpoint=str(broken))


def test_pickled_weights_are_refused(tiny_qwen, tmp_path):
    pickled = copied(tiny_qwen, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"/pickled: .*model\.safetensors.*\(pytorch_model\.bin\)"):
        transformers(checkpoint=str(pickled))


def test_code_in_a_checkpoint_is_refused(tiny_qwen, tmp_path):
    coded = copied(tiny_qwen, tmp_path / "coded", auto_map={"AutoConfig": "evil.Config"})
    with pytest.raises(ModelError, match="auto_map"):
        transformers(checkpoint=str(coded))
    nested = copied(tiny_qwen, tmp_path / "nested")
    path = nested / "processor_config.json"
    plain = json.loads(path.read_text())
    plain["image_processor"]["auto_map"] = {"AutoImageProcessor": "evil.Processor"}
    path.write_text(json.dumps(plain))
    with pytest.raises(ModelError, match="auto_map"):
        transformers(checkpoint=str(nested))


def test_missing_and_unexpected_weights_are_refused_and_listed(tiny_qwen, tmp_path):
    from safetensors.torch import load_file, save_file

    other = copied(tiny_qwen, tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    lost = next(name for name in tensors if "layers.1.mlp.up_proj" in name)
    kept = {name: tensor for name, tensor in tensors.items() if name != lost}
    save_file(kept, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"missing keys: .*layers\.1\.mlp\.up_proj"):
        _ = transformers(checkpoint=str(other)).network
    save_file(
        tensors | {"stray": torch.zeros(2)}, other / "model.safetensors", metadata={"format": "pt"}
    )
    with pytest.raises(ModelError, match="unexpected keys: stray"):
        _ = transformers(checkpoint=str(other)).network


def test_a_long_list_of_missing_weights_is_shortened():
    with pytest.raises(ModelError, match=r"a0, a1, a2, a3, a4 and 4 more"):
        check_report("x", {"missing_keys": {f"a{n}" for n in range(9)}})


def test_a_checkpoint_that_is_nowhere_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="hf download nobody/nothing"):
        transformers(checkpoint="nobody/nothing")
    for name in (str(tmp_path / "none"), "none", "./a/b/c"):
        with pytest.raises(ModelError, match=rf"^checkpoint {re.escape(repr(name))}: "):
            transformers(checkpoint=name)
    with pytest.raises(ModelError, match=r"config\.json"):
        (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        transformers(checkpoint=str(tmp_path))


def test_an_index_must_name_files_that_are_there(tiny_qwen, tmp_path):
    shards = copied(tiny_qwen, tmp_path / "shards")
    (shards / "model.safetensors").rename(shards / "model-1.safetensors")
    index = shards / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert weights(shards) == (shards / "model-1.safetensors",)
    for name in ("model-2.safetensors", "../shards/model-1.safetensors"):
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(ModelError, match=rf"/shards: .*{re.escape(repr(name))}.*index\.json"):
            weights(shards)


def test_the_fingerprint_is_of_every_byte(tiny_qwen, tmp_path):
    same, other = copied(tiny_qwen, tmp_path / "a"), copied(tiny_qwen, tmp_path / "b")
    assert checkpoints.fingerprint(same) == checkpoints.fingerprint(tiny_qwen)
    weights = other / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert checkpoints.fingerprint(other) != checkpoints.fingerprint(tiny_qwen)


def test_broken_logits_are_a_model_error_that_names_the_request(tiny_qwen, ask):
    made = transformers(checkpoint=str(tiny_qwen))
    with torch.no_grad():
        made.network.lm_head.weight[7] = float("nan")
    with pytest.raises(ModelError, match=r"token 0: .*NaN .*request a\."):
        made.generate(requests(ask)[:1])


def test_a_full_device_is_out_of_memory():
    with pytest.raises(OutOfMemory), memory():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
    with pytest.raises(OutOfMemory), memory():
        torch.empty(2**55, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="other"), memory():
        raise RuntimeError("other")


sides = st.integers(2, 3000)


@settings(deadline=None)
@given(sides, sides, st.sampled_from([28, 32]), st.integers(1, 40))
def test_the_resizing_rule_is_the_processors(width, height, factor, frames):
    ensure_torchvision()
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as theirs
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as clips

    if max(width, height) / min(width, height) > 200:
        return
    limits = {"factor": factor, "min_pixels": 3136, "max_pixels": 1_003_520}
    assert smart_resize((width, height), **limits) == theirs(height, width, **limits)[::-1]
    if frames > 1:
        ours = clip_smart_resize((width, height), frames=frames, patch_frames=2, **limits)
        assert ours == clips(frames, height, width, **limits)[::-1]


def test_torchvision_is_mended_only_where_it_is_broken():
    script = (
        "import sys\n"
        "from harness.models.backends.torchvision_cpu import ensure_torchvision\n"
        "assert 'torch' not in sys.modules\n"
        "try:\n"
        "    import torchvision\n"
        "except RuntimeError:\n"
        "    broken = True\n"
        "else:\n"
        "    broken = False\n"
        "assert ensure_torchvision() is broken\n"
        "assert ensure_torchvision() is broken\n"
        "from torchvision.transforms.v2 import functional\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_operator_that_is_declared_alone_is_never_computed_with():
    if not ensure_torchvision():
        pytest.skip("torchvision has its own operators here")
    with pytest.raises(NotImplementedError, match="nms"):
        torch.ops.torchvision.nms(torch.zeros(2, 4), torch.zeros(2), 0.5)


def test_naming_the_backend_imports_no_deep_learning_framework():
    script = (
        "import sys\n"
        "from harness import plugins\n"
        "plugins.load('backends', 'transformers')\n"
        "plugins.load('models', 'qwen_vl')\n"
        "plugins.load('models', 'replay')\n"
        "print(sorted({'torch', 'transformers', 'torchvision'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_stored_responses_are_said_again_by_key_or_official_id(tmp_path, ask):
    file = tmp_path / "said.jsonl"
    rows = [{"key": "k#1", "response": "one"}, {"id": "sample 2", "response": "two\u2028lines"}]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    made = plugins.build("backends", parse_spec(f'stored(file="{file}")'))
    media = ask().media
    keys = [query_id("sample 2"), "k#1"]
    output = made.generate([ChatRequest(key=key, text="", media=media) for key in keys])
    assert [response.text for response in output] == ["two\u2028lines", "one"]
    with pytest.raises(DataError, match="k#2"):
        made.generate([ChatRequest(key="k#2", text="", media=media)])


def test_a_stored_response_ends_before_a_stop_string(tmp_path, ask):
    file = tmp_path / "said.jsonl"
    file.write_text('{"key": "a", "response": "<think>;a; b"}\n')
    request = ChatRequest(key="a", text="", media=ask().media, prefix="<think>;", stop=("; b", ";"))
    (response,) = stored(file=file).generate([request])
    assert response.text == "<think>;a"


def test_without_a_file_only_the_canvas_is_known(ask):
    request = ChatRequest(key="a", text="", media=ask(size=(1000, 500)).media)
    assert stored().canvas(request) == (1008, 504)
    squashed = ChatRequest(key="a", text="", media=request.media, resize=(840, 840))
    assert stored().canvas(squashed) == (840, 840)
    with pytest.raises(UsageError, match="stored"):
        stored().generate([request])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"key": "a"}', 'text "response"'),
        ('{"response": "a"}', '"key" or "id"'),
        ("[]", 'text "response"'),
        ("{", "one JSON object"),
        ('{"key": "a", "response": "again"}', "key .*found a$"),
        ("[" * 100_000, "one JSON object"),
    ],
)
def test_a_line_of_stored_responses_that_is_wrong_is_named(tmp_path, line, complaint):
    file = tmp_path / "said.jsonl"
    file.write_text('{"key": "a", "response": "x"}\n' + line + "\n")
    with pytest.raises(DataError, match=complaint) as raised:
        stored(file=file)
    assert "line 2" in str(raised.value)


@pytest.mark.parametrize("size", [None, (30, 20), (12, 6)])
def test_frames_given_to_the_network_are_copies_that_may_be_written_to(size):
    frame = np.arange(30 * 20 * 3, dtype=np.uint8).reshape(20, 30, 3)
    frame.flags.writeable = False
    given = squashed(frame, size)
    assert given.shape[1::-1] == (size or (30, 20))
    assert given.flags.writeable
    assert not np.shares_memory(given, frame)


def test_a_clip_larger_than_all_frames_together_may_be_keeps_the_size_that_was_asked_for(
    tiny_qwen3, ask
):
    made = transformers(checkpoint=str(tiny_qwen3))
    clip, still = ask(frames=4).media[0], ask(frames=1).media[0]
    made.processor.video_processor.size = {"shortest_edge": 4096, "longest_edge": 16384}
    sized = ChatRequest(key="a", text="?", media=(clip,), resize=(128, 96))
    usual = ChatRequest(key="b", text="?", media=(clip,), resize=(125, 96))
    image = ChatRequest(key="c", text="?", media=(still,))
    seen = seen_canvases(
        made.processor,
        [sized, usual, image],
        processor_inputs(made.processor, [sized, usual, image]),
    )
    assert seen[0] == (made.canvas(sized),) == ((128, 96),)
    assert seen[1] == (made.canvas(usual),) and np.prod(seen[1]) * 4 <= 16384
    assert seen[2] == (made.canvas(image),)
