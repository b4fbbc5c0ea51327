"""A checkpoint that lacks what its model class needs is refused, with all that lacks at once."""

import json
import re
import shutil

import pytest

pytest.importorskip("torch")

from safetensors.torch import load_file, save_file

from harness.cli.main import main
from harness.errors import ModelError
from harness.models import pocket, pocket_sam
from harness.models.backends.completeness import SERVER_PARTS, check_complete, checkpoint_parts
from harness.models.backends.networks import check_network, end_tokens, load_processor
from harness.models.backends.prompt_check import check_padding, check_prompts
from harness.models.backends.transformers import transformers


@pytest.fixture
def folder(tmp_path):
    """Pocket's checkpoint, whose files may be changed; its weights are linked."""
    copy = tmp_path / "checkpoint"
    shutil.copytree(pocket.FOLDER, copy, ignore=shutil.ignore_patterns("*.safetensors"))
    (copy / "model.safetensors").symlink_to(pocket.FOLDER / "model.safetensors")
    return copy


def edit(path, change):
    plain = json.loads(path.read_text())
    change(plain)
    path.write_text(json.dumps(plain))


def lacks(folder, **options):
    return {part.name: part.lacks for part in checkpoint_parts(folder, **options) if part.lacks}


FILES = {
    "chat_template.jinja": "chat template",
    "generation_config.json": "generation_config",
    "model.safetensors": "weights",
    "processor_config.json": "processor",
    "tokenizer.json": "tokenizer",
    "tokenizer_config.json": "tokenizer",
}


def test_the_checkpoints_that_ship_are_whole():
    for part in (pocket.FOLDER, pocket.FOLDER.parent / "base"):
        assert lacks(part) == {}


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_missed_before_anything_is_loaded(folder, name):
    (folder / name).unlink()
    assert [*lacks(folder)] == [FILES[name]]
    with pytest.raises(ModelError, match=FILES[name]):
        transformers(checkpoint=str(folder))


def test_all_that_lacks_is_named_at_once(folder, capsys):
    for name in FILES:
        (folder / name).unlink()
    with pytest.raises(ModelError) as refusal:
        check_complete(folder)
    assert all(f"{name}: " in str(refusal.value) for name in FILES.values())
    assert main(["doctor", "--checkpoint", str(folder), "--json"]) == ModelError.exit_code
    found = {one["name"]: one["fix"] for one in json.loads(capsys.readouterr().out)}
    assert {name for name, fix in found.items() if fix} == set(FILES.values())


@pytest.mark.parametrize(
    "place", ["chat_template.json", "tokenizer_config.json", "processor_config.json"]
)
def test_a_template_counts_wherever_it_is_saved_and_an_empty_one_does_not(folder, place):
    text = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(" \n")
    assert [*lacks(folder)] == ["chat template"]
    if not (folder / place).exists():
        (folder / place).write_text("{}")
    edit(folder / place, lambda plain: plain.update(chat_template=text))
    assert lacks(folder) == {}


def test_an_architecture_that_is_asked_without_a_template_needs_none(folder):
    (folder / "chat_template.jinja").unlink()
    edit(folder / "config.json", lambda plain: plain.update(model_type="paligemma"))
    assert lacks(folder) == {}


def test_a_penalty_that_is_given_stands_for_the_generation_settings(folder):
    (folder / "generation_config.json").unlink()
    assert lacks(folder, has_penalty=True) == {}
    assert transformers(checkpoint=str(folder), repetition_penalty=1.0).penalty == 1.0


def test_of_a_network_behind_a_server_weights_and_template_are_not_needed(folder):
    for name in ("model.safetensors", "chat_template.jinja", "generation_config.json"):
        (folder / name).unlink()
    assert check_complete(folder, needed=SERVER_PARTS)["model_type"] == "qwen2_5_vl"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("size", None, "no limits on the pixels of images"),
        ("patch_size", 16, "patch_size 16 of images, where the network has 14"),
        ("merge_size", 4, "merge_size 4 of images, where the network has 2"),
    ],
)
def test_the_processor_of_another_network_or_half_of_one_is_refused(folder, key, value, words):
    path = folder / "processor_config.json"
    edit(path, lambda plain: plain["image_processor"].update({key: value}))
    assert words in lacks(folder)["processor"]


def test_clips_of_qwen3_have_limits_of_their_own(folder):
    edit(folder / "processor_config.json", lambda plain: plain.pop("video_processor"))
    assert lacks(folder) == {}  # of Qwen2.5-VL one file is for both, as published
    edit(folder / "config.json", lambda plain: plain.update(model_type="qwen3_vl"))
    assert "video_preprocessor_config.json" in lacks(folder)["processor"]


def prompts(folder):
    processor = load_processor(folder, name="checkpoint")
    check_prompts(processor, end_tokens(folder, processor.tokenizer))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for m in messages %}{{ m.content[-1].text }}{% endfor %}", "show images"),
        ("<|im_start|>user", "hold the question"),
    ],
)
def test_a_template_that_leaves_out_what_is_asked_is_refused(folder, template, words):
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelError, match=words):
        prompts(folder)


def test_prompts_of_a_batch_must_be_padded(folder):
    check_padding(load_processor(folder, name="checkpoint"))
    edit(folder / "tokenizer_config.json", lambda plain: plain.pop("pad_token"))
    with pytest.raises(ModelError, match="pad_token"):
        transformers(checkpoint=str(folder)).prepare()


def test_the_end_of_a_turn_must_end_a_response(folder):
    prompts(folder)
    path = folder / "generation_config.json"
    edit(path, lambda plain: plain.update(eos_token_id=plain["pad_token_id"]))
    with pytest.raises(ModelError, match=r"<\|im_end\|> \(token 640\)"):
        prompts(folder)


@pytest.mark.parametrize(
    "command",
    [["eval", "--tasks", "counting"], ["train", "--method", "sft", "--train-tasks", "counting"]],
)
def test_eval_and_train_refuse_by_the_same_function(folder, command, shapes, tmp_path, capsys):
    (folder / "chat_template.jinja").unlink()
    typed = ["--model", f"pocket(checkpoint={folder})", "--data", str(shapes)]
    assert main([*command, *typed, "--out", str(tmp_path / "out")]) == ModelError.exit_code
    assert "Copy it from the checkpoint" in capsys.readouterr().err


def test_a_segmenter_needs_neither_tokenizer_nor_template(capsys):
    assert lacks(pocket_sam.FOLDER, writes=False) == {}
    assert main(["doctor", "--checkpoint", str(pocket_sam.FOLDER)]) == 0
    assert "template" not in capsys.readouterr().out


def saved(folder, change, settings=None):
    """Save the weights again, changed, with other settings of the network."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})
    if settings:
        edit(folder / "config.json", settings)


HEAD, EMBEDDINGS = "lm_head.weight", "model.embed_tokens.weight"


def untouched(_):
    pass


def fewer_embeddings(tensors):
    tensors.update({name: tensors[name][:700].clone() for name in (HEAD, EMBEDDINGS)})


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        (untouched, None, ""),
        (untouched, lambda c: c["text_config"].update(vocab_size=900), r"[848, 128] in place of"),
        (untouched, lambda c: c["text_config"].update(intermediate_size=300), "[300, 128]"),
        (untouched, lambda c: c["vision_config"].update(depth=3), "unexpected keys"),
        (lambda tensors: tensors.pop(HEAD), None, f"missing keys: {HEAD}"),
        (fewer_embeddings, lambda c: c["text_config"].update(vocab_size=700), "700 of them"),
    ],
    ids=["whole", "vocabulary", "shape", "layer", "weight", "tokens"],
)
def test_names_and_shapes_are_checked_without_keeping_weights(folder, change, settings, words):
    saved(folder, change, settings)
    last = max(load_processor(folder, name="x").tokenizer.get_vocab().values())
    if not words:
        check_network(folder, name="x", last=last)
        return
    with pytest.raises(ModelError, match=re.escape(words)):
        check_network(folder, name="x", last=last)


def test_doctor_names_a_weight_of_another_shape(folder, capsys):
    edit(folder / "config.json", lambda c: c["text_config"].update(vocab_size=900))
    assert main(["doctor", "--checkpoint", str(folder)]) == ModelError.exit_code
    assert f"{HEAD} [848, 128]" in " ".join(capsys.readouterr().out.split())


def tied(plain):
    plain["tie_word_embeddings"] = plain["text_config"]["tie_word_embeddings"] = True


def test_a_tied_output_layer_is_the_embeddings_or_not_there(folder):
    edit(folder / "config.json", tied)
    assert "tie_word_embeddings" in lacks(folder)["weights"]
    saved(folder, lambda tensors: tensors.update({HEAD: tensors[EMBEDDINGS].clone()}))
    assert lacks(folder) == {}
    saved(folder, lambda tensors: tensors.pop(HEAD))
    assert lacks(folder) == {}


def test_weights_of_two_savings_are_refused(folder):
    shard = "model-00001-of-00001.safetensors"
    shutil.copy(folder / "model.safetensors", folder / shard)
    index = {"metadata": {}, "weight_map": dict.fromkeys(load_file(folder / shard), shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "found both" in lacks(folder)["weights"]
    (folder / "model.safetensors").unlink()
    assert lacks(folder) == {}
