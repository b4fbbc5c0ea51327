"""Every weight of a checkpoint comes back out of a training: as it was, or trained.

Wider checkpoints than the network (predictors of several tokens, a thinker's talker, a language
model's vision tower), names that transformers changes when it loads, one file and shards.
"""

import json
import re
import shutil

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from harness import plugins  # noqa: E402
from harness.errors import ModelError  # noqa: E402
from harness.models.backends.networks import load_network  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.weights import weights  # noqa: E402
from harness.models.learning.weights import with_adapter  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.network import export  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

FILE = "model.safetensors"
HEADS = {
    "mtp.fc.weight": torch.arange(6.0).view(2, 3).to(torch.bfloat16),
    "mtp.layers.0.input_layernorm.weight": torch.ones(4, dtype=torch.bfloat16),
}
"""As Qwen3.5 has, beside the network that transformers makes."""


def tensors_of(folder):
    return {name: one for path in weights(folder) for name, one in load_file(path).items()}


def write(folder, tensors, *, shards):
    """Replace a checkpoint's weights, in one file or in several with an index."""
    (folder / FILE).unlink()
    if shards == 1:
        save_file(tensors, folder / FILE, metadata={"format": "pt"})
        return
    names = [f"model-{place + 1:05}-of-{shards:05}.safetensors" for place in range(shards)]
    places = {name: names[place % shards] for place, name in enumerate(sorted(tensors))}
    for shard in names:
        own = {name: one for name, one in tensors.items() if places[name] == shard}
        save_file(own, folder / shard, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": places}
    (folder / f"{FILE}.index.json").write_text(json.dumps(index))


def assert_kept(before, after, *, trained):
    """The same names; all but those of `trained`, a pattern, are equal byte by byte."""
    assert after.keys() == before.keys()
    for name, one in before.items():
        same = after[name].dtype == one.dtype and torch.equal(after[name], one)
        assert same != bool(re.search(trained, name)), name


def with_heads(folder):
    """Qwen3.5 with layers that predict several tokens, and a table that networks compute."""
    more = {"model.language_model.rotary_emb.inv_freq": torch.ones(4)}
    return {**tensors_of(folder), **HEADS, **more}


def of_language_alone(folder):
    """The language model of Qwen3.5, in the file of the whole."""
    config = json.loads((folder / "config.json").read_text())["text_config"]
    config["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    return {**tensors_of(folder), **HEADS}


def of_thinker(folder):
    """The thinker of Qwen2.5-Omni, in the file of the whole."""
    from transformers import Qwen2_5OmniThinkerConfig, Qwen2_5OmniThinkerForConditionalGeneration

    text = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 32}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 1}
    text["rope_parameters"] = {"rope_type": "default", "mrope_section": [2, 1, 1]}
    text["rope_parameters"]["rope_theta"] = 10_000.0
    audio = {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "output_dim": 16}
    vision = {"hidden_size": 16, "intermediate_size": 16, "depth": 1, "num_heads": 2}
    parts = {"audio_config": audio | {"encoder_ffn_dim": 16, "num_mel_bins": 8}}
    parts["vision_config"] = vision | {"out_hidden_size": 16}
    config = Qwen2_5OmniThinkerConfig(text_config=text, **parts, pad_token_id=0)
    Qwen2_5OmniThinkerForConditionalGeneration(config).save_pretrained(folder)
    own = {f"thinker.{name}": one for name, one in tensors_of(folder).items()}
    others = {"talker.model.norm.weight": torch.ones(3), "token2wav.dit.weight": torch.ones(2)}
    return own | others


def of_earlier_names(folder):
    """Qwen2.5-VL with the names of its first release, and a table that it computes."""

    def earlier(name):
        return name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")

    found = {earlier(name): one for name, one in tensors_of(folder).items()}
    return {**found, "model.rotary_emb.inv_freq": torch.ones(4)}


KINDS = [
    ("tiny_qwen35", with_heads, r"lm_head"),
    ("tiny_qwen35", of_language_alone, r"lm_head"),
    ("tiny_qwen35", of_thinker, r"lm_head"),
    ("tiny_qwen", of_earlier_names, r"lm_head"),
]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("finetune", ["full", "lora"])
@pytest.mark.parametrize(
    ("base", "kind", "trained"), KINDS, ids=[kind.__name__ for _, kind, _ in KINDS]
)
def test_what_is_not_trained_is_exported_as_it_was(
    base, kind, trained, finetune, shards, tmp_path, request
):
    folder, out = tmp_path / "base", tmp_path / "out"
    shutil.copytree(request.getfixturevalue(base), folder)
    before = kind(folder)
    write(folder, before, shards=shards)
    given = {"name": "it", "dtype": "auto", "attn_implementation": "auto", "adapter": None}
    network = load_network(folder, **given)
    if finetune == "lora":
        trained = r"^(?!.*_tower\.).*q_proj\.weight"
        network = with_adapter(network, r=2, lora_alpha=2, layers="language")
        for name, one in network.named_parameters():
            one.data += "q_proj.lora_B." in name
    else:
        network.lm_head.weight.data += 1
    export(network, folder, out, tensors=None)
    assert_kept(before, tensors_of(out), trained=trained)
    load_network(out, **given)  # which refuses what is missing, or too much


FEW = {
    "num_generations": 2,
    "generation_batch_size": 2,
    "per_device_train_batch_size": 2,
    "max_completion_length": 4,
    "reward": "random",
}


def trainer(name, **settings):
    given = {"max_steps": 1, "learning_rate": 0.01, "report_to": "none", **settings}
    if name == "sft":
        chosen = ",".join(f"{key}={value}" for key, value in given.items())
        return plugins.build("trainers", parse(f"sft({chosen})"))
    chosen = Settings(**FEW, **given, engine=name)
    return GrpoTrainer(name="m", settings=chosen, reward=lambda group: [{"total": 0.0}] * 2)


@pytest.mark.parametrize(
    ("name", "settings", "shards", "kept"),
    [
        ("sft", {}, 1, "mtp|inv_freq"),
        ("sft", {"freeze_vision": "true"}, 3, r"mtp|inv_freq|visual\.(?!merger)"),
        ("sft", {"finetune": "lora"}, 3, "mtp|inv_freq|visual|norm|embed|lm_head"),
        ("harness", {}, 3, "mtp|inv_freq"),
        ("harness", {"finetune": "lora"}, 1, "mtp|inv_freq|visual|norm|embed|lm_head"),
        ("trl", {}, 3, "mtp|inv_freq"),
        ("trl", {"finetune": "lora"}, 1, "mtp|inv_freq|visual|norm|embed|lm_head"),
    ],
    ids=str,
)
def test_every_training_brings_back_what_it_does_not_train(
    name, settings, shards, kept, tiny_qwen35, examples, tmp_path
):
    if name == "trl":
        pytest.importorskip("trl")
    folder = tmp_path / "base"
    shutil.copytree(tiny_qwen35, folder)
    before = with_heads(folder)
    write(folder, before, shards=shards)
    trained = train(
        trainer(name, **settings),
        [plugins.build("tasks", "reason_seg", examples)],
        parse(f"qwen_vl(checkpoint={folder},prompt=locate)"),
        tmp_path / "out",
        TrainingOptions(),
    )
    after = tensors_of(trained.checkpoint)
    same = {name for name in before if torch.equal(before[name], after[name])}
    unchanged = {name for name in before if re.search(kept, name)}
    assert after.keys() == before.keys() and unchanged <= same < before.keys()
    assert all(after[name].dtype == before[name].dtype for name in unchanged)
    model = plugins.build("models", parse(f"qwen_vl(checkpoint={trained.folder})"))
    assert model.chat.network.config.model_type == "qwen3_5"


def test_a_training_refuses_pickled_weights_with_what_to_do(tiny_qwen, examples, tmp_path):
    folder = tmp_path / "base"
    shutil.copytree(tiny_qwen, folder)
    torch.save(load_file(folder / FILE), folder / "pytorch_model.bin")
    (folder / FILE).unlink()
    task = plugins.build("tasks", "reason_seg", examples)
    spec = parse(f"qwen_vl(checkpoint={folder},prompt=locate)")
    with pytest.raises(ModelError, match=r"(?s)pytorch_model\.bin.*Convert them to safetensors"):
        train(trainer("sft"), [task], spec, tmp_path / "out", TrainingOptions())
