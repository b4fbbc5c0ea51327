"""Checkpoints of networks: nothing is unpickled, nothing in them runs, nothing is left out."""

import json
import os
import pickle
import shutil

import pytest

from harness.testing import tiny_checkpoint

case = pytest.mark.case


class Trap:
    """What runs a command when it is unpickled."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small Qwen2.5-VL with random weights, as its own room's tests make it."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return tiny_checkpoint("qwen2_5_vl", tmp_path_factory.mktemp("whole") / "checkpoint")


@pytest.fixture
def checkpoint(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "checkpoint")


@pytest.fixture
def ask(harness, counting, checkpoint):
    """Evaluates the checkpoint on two samples; the record must not change it."""

    def asked(*, is_scored=False, **options):
        model = f"qwen_vl(checkpoint={checkpoint},segmenter=box,max_new_tokens=2)"
        done = harness.eval("--subset", "first2", model=model, tasks="counting", **options)
        if done.code and not is_scored:
            assert not list((harness.folder / "runs").rglob("results.json"))
        return done

    return asked


def tensors(path, change):
    from safetensors.torch import load_file, save_file

    held = load_file(path)
    change(held)
    save_file(held, path, metadata={"format": "pt"})


def named(held, part):
    return next(name for name in held if part in name)


@case(
    "logits that are NaN",
    "a failed sample (model); after 20 in a row, or if all fail, the code is 4",
    code=4,
)
def test_logits_that_are_no_numbers_fail_the_sample(harness, checkpoint, ask):
    def spoil(held):
        held[named(held, "lm_head")][:] = float("nan")

    tensors(checkpoint / "model.safetensors", spoil)
    found = ask(is_scored=True).says("token 0", "NaN", "dtype").task("counting")
    assert found["failures"]["model"] == found["n_total"] == 2


@case(
    "pickled weights (`.bin`, `.pt`) whose loading would run code",
    "refused; never unpickled",
    code=4,
)
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth", "x.ckpt"])
def test_pickled_weights_are_never_loaded(harness, checkpoint, ask, name):
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / name).write_bytes(pickle.dumps(Trap(harness.folder / "canary")))
    ask().says(str(checkpoint), name, "model.safetensors")


@case("pickles and scripts beside whole weights", "not opened", code=1)  # random weights
def test_pickles_and_scripts_beside_the_weights_are_not_opened(harness, checkpoint, ask):
    before = ask(is_scored=True, out="before").task("counting")
    trap = pickle.dumps(Trap(harness.folder / "canary"))
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "tokenizer.pkl"):
        (checkpoint / name).write_bytes(trap)
    script = f"open({str(harness.folder / 'canary')!r}, 'w')"
    (checkpoint / "custom_generate").mkdir()
    for name in ("modeling.py", "__init__.py", "processing.py", "custom_generate/generate.py"):
        (checkpoint / name).write_text(script)
    assert ask(is_scored=True).task("counting") == before


@case(
    "safetensors that are cut or whose header lies",
    "refused before anything is loaded; names the file",
    code=4,
)
@pytest.mark.parametrize("damage", ["cut", "empty", "header", "length", "nested", "offsets"])
def test_damaged_safetensors_are_refused(checkpoint, ask, damage):
    path = checkpoint / "model.safetensors"
    raw = path.read_bytes()
    nested = b'{"a": ' + b"[" * 100_000
    offsets = b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}'
    path.write_bytes(
        {
            "cut": raw[:-100],
            "empty": b"",
            "header": raw[:10] + b"\xff" * 10 + raw[20:],
            "length": b"\xff" * 8 + raw[8:],
            "nested": len(nested).to_bytes(8, "little") + nested,
            "offsets": len(offsets).to_bytes(8, "little") + offsets + b"0000",
        }[damage]
    )
    ask().says(str(path), "complete")


@case(
    "weights that are missing, too many, or of another shape",
    "refused; they are listed, and none is filled in",
    code=4,
)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda held: held.pop(named(held, "layers.0.input")),
            "missing keys: model.language_model",
        ),
        (
            lambda held: held.update(extra=held[named(held, "norm")].clone()),
            "unexpected keys: extra",
        ),
        (
            lambda held: held.update({named(held, "lm_head"): held[named(held, "norm")].clone()}),
            "mismatched keys: lm_head.weight [64] in place of [320, 64]",
        ),
    ],
)
def test_weights_must_be_exactly_those_of_the_architecture(checkpoint, ask, change, words):
    tensors(checkpoint / "model.safetensors", change)
    ask().says(str(checkpoint), words)


@case(
    "a configuration that asks for code of the checkpoint (`auto_map`)",
    "refused; the code does not run",
    code=4,
)
@pytest.mark.parametrize("name", ["config.json", "processor_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("nested", [False, True])
def test_code_of_a_checkpoint_never_runs(harness, checkpoint, ask, edit, name, nested):
    mapped = {"auto_map": {"AutoModelForImageTextToText": "modeling.Model"}}
    edit(checkpoint / name, lambda plain: plain.update({"inner": mapped} if nested else mapped))
    (checkpoint / "modeling.py").write_text(f"open({str(harness.folder / 'canary')!r}, 'w')")
    ask().says(name, "auto_map")


@case(
    "a chat template that reaches for Python",
    "stopped by the template's sandbox: failed samples; if all fail, the code is 4",
    code=4,
)
def test_a_chat_template_cannot_reach_python(harness, checkpoint, ask):
    path = checkpoint / "chat_template.jinja"
    command = f"touch {harness.folder / 'canary'}"
    attack = "{{ cycler.__init__.__globals__.os.popen('" + command + "').read() }}"
    path.write_text(attack + path.read_text())
    found = ask(is_scored=True).says("SecurityError", "unsafe").task("counting")
    assert found["failures"]["model"] == 2


@case(
    "a sharded checkpoint of which a part is missing or lies elsewhere",
    "refused; names the part",
    code=4,
)
@pytest.mark.parametrize("part", ["model-00002-of-00002.safetensors", "../../x.safetensors"])
def test_a_missing_shard_is_named(checkpoint, ask, part):
    index = {"weight_map": {"a": "model.safetensors", "b": part}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    ask().says(str(checkpoint), part)


@case(
    "a folder that is no checkpoint, a name that is not in the cache",
    "refused; says that nothing is downloaded",
    code=4,
)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/nowhere", "'/nowhere'"),
        ("nobody/nothing", "hf download nobody/nothing"),
        ("a/b/c", "'a/b/c'"),
        ("{file}", "found a file"),
        ("{empty}", "model.safetensors"),
    ],
)
def test_what_is_no_checkpoint_is_refused(harness, counting, monkeypatch, name, words):
    monkeypatch.setenv("HF_HOME", str(harness.folder / "cache"))
    (harness.folder / "file").write_text("")
    (harness.folder / "empty").mkdir()
    place = name.format(file=harness.folder / "file", empty=harness.folder / "empty")
    harness.eval(model=f"qwen_vl(checkpoint={place})", tasks="counting").says("checkpoint", words)


@case(
    "configurations that are damaged, or of an unknown architecture",
    "refused; names the file, or says what must be declared",
    code=4,
)
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", "[]", "config.json"),
        ("config.json", None, "config.json"),
        ("config.json", '{"model_type": "new"}', "coordinates="),
        ("generation_config.json", "{", "generation_config.json"),
        ("generation_config.json", '{"repetition_penalty": "x"}', "'repetition_penalty'"),
        ("tokenizer.json", "{", "processor "),
        ("tokenizer.json", None, "tokenizer: no tokenizer.json"),
        ("processor_config.json", None, "processor: no preprocessor_config.json"),
        ("adapter_config.json", "{}", "adapter_config.json"),
    ],
)
def test_a_damaged_configuration_is_refused(checkpoint, ask, name, text, words):
    path = checkpoint / name
    path.unlink() if text is None else path.write_text(text)
    ask().says(words, str(checkpoint) if "coordinates" not in words else "new")


@case("an adapter without its base", "refused", code=4)
def test_an_adapter_alone_is_refused(checkpoint, ask):
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "adapter_config.json").write_text("{}")
    ask().says(str(checkpoint), "adapter", "Merge")


@pytest.fixture(scope="module")
def adapter(whole, tmp_path_factory):
    """A LoRA adapter for the checkpoint, as PEFT saves it."""
    pytest.importorskip("peft")
    import torch
    import transformers
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    network = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(whole)
    plain = LoraConfig(r=2, target_modules=r".*language_model.*\.q_proj", task_type="CAUSAL_LM")
    folder = tmp_path_factory.mktemp("lora") / "adapter"
    get_peft_model(network, plain).save_pretrained(folder)
    return folder


@pytest.fixture
def adapted(harness, counting, checkpoint, adapter, tmp_path):
    """Evaluates the checkpoint with an adapter, and gives the adapter's folder to be changed."""
    folder = shutil.copytree(adapter, tmp_path / "adapter")

    def asked(**options):
        any_base = options.pop("allow_any_base", "false")
        backend = f"transformers(adapter={folder},allow_any_base={any_base})"
        model = f"qwen_vl(checkpoint={checkpoint},segmenter=box,max_new_tokens=2,backend={backend})"
        return harness.eval("--subset", "first2", model=model, tasks="counting", **options)

    return asked, folder


@case(
    "an adapter that was trained on another base",
    "refused; names both; `allow_any_base=true` takes it",
    code=4,
)
def test_an_adapter_of_another_base_is_refused(adapted, edit):
    requested, folder = adapted
    edit(
        folder / "adapter_config.json",
        lambda plain: plain.update(base_model_name_or_path="somebody/other"),
    )
    requested().says("somebody/other", "allow_any_base=true")


@case(
    "an adapter whose weights are of another shape, missing, or pickled",
    "refused; nothing is filled in and nothing unpickled",
    code=4,
)
@pytest.mark.parametrize("damage", ["shape", "missing", "pickled"])
def test_a_damaged_adapter_is_refused(harness, adapted, damage):
    requested, folder = adapted
    path = folder / "adapter_model.safetensors"
    if damage == "pickled":
        path.unlink()
        trap = pickle.dumps(Trap(harness.folder / "canary"))
        (folder / "adapter_model.bin").write_bytes(trap)
    elif damage == "missing":
        tensors(path, lambda held: held.pop(named(held, "lora_A")))
    else:
        tensors(
            path,
            lambda held: held.update({named(held, "lora_A"): held[named(held, "lora_B")].clone()}),
        )
    requested(allow_any_base="true").says("adapter")


@case(
    "a tokenizer without the tokens that stand for images",
    "refused; names the token",
    code=4,
)
def test_a_tokenizer_without_a_needed_token_is_refused(checkpoint, ask, edit):
    def without(plain):
        plain["added_tokens"] = [
            one for one in plain["added_tokens"] if one["content"] != "<|image_pad|>"
        ]

    edit(checkpoint / "tokenizer.json", without)
    path = checkpoint / "tokenizer_config.json"
    path.write_text(path.read_text().replace("<|image_pad|>", "<|vision_start|>"))
    ask().says("<|image_pad|>")


@case("`trust_remote_code=true` in a SPEC", "refused: there is no such argument", code=2)
def test_trust_in_remote_code_cannot_be_asked_for(harness, counting, checkpoint):
    requested = "trust_remote_code=true"
    for given in (requested, f"backend=transformers({requested})", f"backend=vllm({requested})"):
        model = f"qwen_vl(checkpoint={checkpoint},{given})"
        harness.eval(model=model, tasks="counting").says("trust_remote_code")


@case(
    "torch or transformers that are not installed",
    "refused before the first sample; says what to install",
    code=6,
)
@pytest.mark.parametrize("module", ["torch", "transformers"])
def test_a_missing_package_is_named(ask, monkeypatch, module):
    import sys

    monkeypatch.setitem(sys.modules, module, None)
    ask().says(f"'{module}'", 'pip install "visual-reasoning-harness[')


@case(
    "a chat template that loops for ever, or writes gigabytes in one operation",
    "stopped after ten seconds or at 1 GiB; names the template",
    code=4,
)
@pytest.mark.parametrize(
    "template",
    [
        "".join(f"{{% for {name} in range(99999) %}}" for name in "abcd") + "{% endfor %}" * 4,
        "{% generation %}{{ 'x' * 9999999999 }}{% endgeneration %}",
        "{% if messages[0].content is not string %}{{ 'x'.ljust(9999999999) }}{% endif %}",
    ],
    ids=["loops", "multiplies", "fills beside an image"],
)
def test_a_chat_template_without_end_is_stopped(checkpoint, ask, monkeypatch, template):
    monkeypatch.setattr("harness.models.backends.inputs.RENDER_SECONDS", 0.5)
    (checkpoint / "chat_template.jinja").write_text(template)
    ask().says("chat_template.jinja")
