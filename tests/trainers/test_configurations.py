"""The configurations that ship: each can be trained, and evaluated, as it stands."""

import importlib.util
import json
import re
import shlex
import tomllib
import typing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from harness import plugins
from harness.chosen.checkpoints import (
    check_parts,
    fill_checkpoint,
    parse_eval_model,
    with_checkpoint,
)
from harness.cli.main import build_parser
from harness.cli.train import COMMAND_KEYS, configured, method_of
from harness.cli.train import train as command_of_train
from harness.errors import HarnessError, MissingDependency, UsageError
from harness.spec import Spec, convert, parse
from harness.trainers.grpo.trainer import GrpoTrainer

TRAINERS = Path(__file__).resolve().parents[2] / "trainers"
OWN_WORLD = ("pocket", "pocket_sam")  # these draw what they train on, and begin with no model
PARTS = {
    "backend": "backends",
    "sampler": "backends",
    "segmenter": "segmenters",
    "propagator": "propagators",
}
"""Arguments of models that are plugins themselves."""

SHIPPED = sorted(TRAINERS.glob("*/configs/*.toml"))
TRAINED = [path for path in SHIPPED if path.parts[-3] not in OWN_WORLD]


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=["/".join(p.parts[-3::2]) for p in paths])


def read(path):
    return tomllib.loads(path.read_text("utf-8"))


def command(path):
    """What a file's own header types to train with it; the least, where it shows nothing."""
    own = f"train --method {path.parts[-3]} --config {path.stem}"
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#   ")]
    shown = "\n".join(line.removeprefix("#") for line in lines).replace("\\\n", " ").splitlines()
    found = [" ".join(line.split()) for line in shown]
    found = [line.partition("harness ")[2] for line in found if f"{own} " in line]
    return found[0] if found else own


@cache
def asked(path):
    """The options and the settings that this command comes to, those of the file among them."""
    given, settings = configured(build_parser("train").parse_args(shlex.split(command(path))))
    return given, method_of(given, settings)


def model_of(path):
    """What a training begins with: the file's model, or the one that its header types."""
    return parse(asked(path)[0].model)


@cache
def built(path):
    """The trainer of that command."""
    return plugins.build("trainers", asked(path)[1])


def checked(kind, spec):
    """Whether a plugin takes what its SPEC gives it, all the way down."""
    hints = typing.get_type_hints(plugins.load(kind, spec.name))
    for key, value in spec.arguments.items():
        assert plugins.accepts(kind, spec.name, key), f"{spec.name} takes no {key}"
        if key in PARTS and isinstance(value, Spec):
            checked(PARTS[key], value)
        elif key in hints:
            convert(value, hints[key], f"{spec.name}({key}=…)")


def test_there_are_configurations_of_every_method():
    """Of the package's own; other packages bring theirs, and the rewards of `grpo`."""
    own = {
        name
        for name, entry in plugins.installed_plugins("trainers").items()
        if entry.module.startswith("harness.")
    }
    assert {path.parts[-3] for path in SHIPPED} == own - {"grpo"}


@named(SHIPPED)
def test_its_settings_are_those_of_its_trainer(path):
    settings = {key for key in read(path) if key not in COMMAND_KEYS}
    assert settings <= set(asked(path)[1].arguments)
    assert built(path).describe()


@named(TRAINED)
def test_it_names_its_model_and_its_tasks(path):
    plain = read(path)
    checked("models", model_of(path))
    assert plain["train_tasks"]
    if "eval_model" in plain:
        checked("models", parse_eval_model(plain["eval_model"]))
    for key in ("train_tasks", "eval_tasks"):
        for text in plain.get(key, ()):
            checked("tasks", parse(text))


@named(TRAINED)
def test_what_it_trains_is_evaluated_with_the_rest_of_its_model_as_it_was(path, tmp_path):
    spec = model_of(path)
    made = with_checkpoint(spec, tmp_path)
    assert made.arguments == {**spec.arguments, "checkpoint": str(tmp_path)}
    assert parse(str(made)) == made


PAPERS = [path for path in TRAINED if path.stem != "pocket_cpu"]
QUESTIONS = ("video_str", "video_str_sft", "spacer", "video_r1")


def of(*methods):
    return named([path for path in PAPERS if path.parts[-3] in methods])


def frames_of(spec):
    """The rule for frames of a model, whose network is not looked for."""
    others = {key: value for key, value in spec.arguments.items() if key != "checkpoint"}
    model = plugins.build("models", Spec(spec.name, {**others, "backend": Spec("stored")}))
    return model.frames.spec.arguments


LOOKING = [path for path in PAPERS if model_of(path).name == "videoseg_r1"]
"""Trainings of VideoSeg-R1, the supervised row of its Table 4 among them."""


@named([*LOOKING, *(path for path in PAPERS if path.parts[-3] in QUESTIONS)])
def test_what_a_paper_evaluates_otherwise_than_it_trains_is_evaluated_so(path, tmp_path):
    plain = read(path)
    trained, made = (
        parse(plain["model"]),
        fill_checkpoint(parse_eval_model(plain["eval_model"]), str(tmp_path)),
    )
    assert (made.name, made.arguments["checkpoint"]) == (trained.name, str(tmp_path))
    other = {
        key
        for key in {**trained.arguments, **made.arguments}
        if trained.arguments.get(key) != made.arguments.get(key)
    }
    if path in LOOKING:
        assert other == {"checkpoint", "sampler", "propagator"}
        assert made.arguments["propagator"].name == "xmem"
        assert made.arguments["sampler"].arguments == {"checkpoint": "Qwen/Qwen2.5-VL-7B-Instruct"}
        if path.parts[-3] == "videoseg_r1":
            assert read(path).get("think", True) == made.arguments.get("think", True)
        with pytest.raises(MissingDependency, match="XMem"):  # and not after days of training
            check_parts(Spec(made.name, {"propagator": made.arguments["propagator"]}))
    else:
        assert other == {"checkpoint", "frames", "segmenter", "propagator"}
        assert "frames" not in made.arguments
        before, after = (frames_of(one) for one in (trained, made))
        assert (before["max_frames"], after["n"]) == (16, 32)
        assert before["min_pixels"] == 128 * 28 * 28 < before["max_pixels"] < after["max_pixels"]


def test_the_rows_of_a_table_are_evaluated_alike():
    """VideoSeg-R1's Table 4 compares trainings: supervised and reinforced, both without thought."""
    rows = ("sft/configs/videoseg_r1_table_4", "videoseg_r1/configs/table_4_rl_without_cot")
    supervised, reinforced = (read(TRAINERS / f"{row}.toml") for row in rows)
    for key in ("model", "eval_model", "train_tasks"):
        assert supervised[key] == reinforced[key]


@named(sorted(TRAINERS.glob("videoseg_r1/configs/table_h4_*.toml")))
def test_a_row_with_fewer_sets_says_how_many_samples_it_has(path):
    """They are whole sets, of which the mixture has a part: amount and ratings are not its own."""
    comment = path.read_text("utf-8").partition("\nmodel")[0]
    amounts = {"ref_youtube_vos": 4500, "ref_davis17": 1500}
    samples = sum(amounts[parse(task).name] for task in read(path)["train_tasks"])
    steps = -(-samples // built(path).settings.samples_per_round(1))
    assert "4,500" in comment and f"--set max_steps={steps}`" in comment
    assert '--set "scorer=' in comment and "--set ratings=" in comment


@of("visionreasoner", "seg_zero", "dr2seg", "videoseg_r1", "video_str", "spacer", "video_r1")
def test_a_published_training_leaves_out_prompts_that_are_too_long(path):
    assert read(path)["max_prompt_length"] >= 1300


@of("visionreasoner", "dr2seg", "videoseg_r1")
def test_the_mean_over_a_batchs_tokens_is_over_as_many_responses_in_each_full_training(path):
    """On less memory it is over as many as the official scripts for such devices take at once."""
    plain, hardware = read(path), re.search(r"_(\dx\d+gb)_full$", path.stem)
    official = {"4x80gb": 2, "8x48gb": 1}
    wanted = official.get(hardware[1], 16) if hardware else 16
    assert plain["finetune"] != "full" or plain["per_device_train_batch_size"] == wanted


MEMORY = {
    "visionreasoner": ("{}_8x48gb_full", "{}_4x80gb_full", "{}_1x48gb_lora", "{}_1x40gb_lora"),
    "seg_zero": ("{}_1x48gb_lora", "{}_1x40gb_lora"),
    "dr2seg": (
        "{}_zero_shot_8x48gb_full",
        "{}_few_shot_8x48gb_full",
        "{}_zero_shot_1x48gb_lora",
        "{}_few_shot_1x48gb_lora",
        "{}_zero_shot_1x40gb_lora",
        "{}_few_shot_1x40gb_lora",
    ),
}
SMALL = {
    "visionreasoner": ("{}_1x24gb_lora",),
    "seg_zero": ("{}_1x24gb_lora",),
    "dr2seg": ("{}_zero_shot_1x24gb_lora", "{}_few_shot_1x24gb_lora"),
}
CLASSES = [
    (method, name.format(f"qwen2_5_vl_{size}"))
    for size, several in (("7b", MEMORY), ("3b", SMALL))
    for method, names in several.items()
    for name in names
]


@pytest.mark.parametrize(("method", "name"), CLASSES)
def test_less_memory_changes_what_is_held_at_once_and_nothing_else(method, name):
    """But where a batch is what is averaged over, which its header has to say."""
    path = TRAINERS / method / "configs" / f"{name}.toml"
    comment = " ".join(line.lstrip("# ") for line in path.read_text("utf-8").splitlines())
    assert (
        "Not run where this was written" in comment or "not run where this was written" in comment
    )
    likes = [
        word
        for word in re.findall(r"\w+", comment)
        if word != name and (path.parent / f"{word}.toml").is_file()
    ]
    like, own = asked(path.parent / f"{likes[0]}.toml"), asked(path)
    assert (like[0].model, like[0].train_tasks) == (own[0].model, own[0].train_tasks)
    before, after = like[1].arguments, own[1].arguments
    differing = {key for key in {**before, **after} if before.get(key) != after.get(key)}
    assert "per_device_train_batch_size" in differing
    assert differing <= {"per_device_train_batch_size", "generation_micro_batch_size"}
    assert after["per_device_train_batch_size"] < before["per_device_train_batch_size"]
    if after["finetune"] == "full":
        assert "`bnpo`" in comment


def test_the_rows_of_a_table_with_sam_3_differ_in_their_rewards_alone():
    """DR2Seg's Table 7; with neither of its own rewards the first row is VisionReasoner's."""
    folder = TRAINERS / "dr2seg" / "configs"
    rows = [
        read(folder / f"table7_sam3{row}.toml") for row in ("_visionreasoner", "_without_r_len", "")
    ]
    assert [(row.pop("r_desc"), row.pop("r_len")) for row in rows] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    last = {
        key: value for key, value in rows[2].items() if key not in ("n0", "gamma", "gate_threshold")
    }
    assert rows[0] == rows[1] == last
    trainer = built(folder / "table7_sam3_visionreasoner.toml")
    assert trainer.describe()["form"] == "sam3" and not trainer.reward.r_desc


def test_the_few_shot_3b_of_both_methods_sees_the_same_samples_as_often():
    ours, theirs = (
        read(TRAINERS / path)
        for path in (
            "dr2seg/configs/qwen2_5_vl_3b_few_shot.toml",
            "visionreasoner/configs/dr2seg_table6.toml",
        )
    )
    for key in (
        "train_tasks",
        "max_steps",
        "per_device_train_batch_size",
        "learning_rate",
        "weight_decay",
    ):
        assert ours[key] == theirs[key]
    assert "model" not in theirs
    spec = model_of(TRAINERS / "visionreasoner/configs/dr2seg_table6.toml")
    assert spec.name == "visionreasoner"


@of("dr2seg")
def test_what_goes_on_from_the_zero_shot_training_cannot_begin_with_anything_else_unsaid(path):
    """It names no model, so that one has to be typed; Table 7's form has no zero-shot training."""
    few = read(path)["train_tasks"] == ["reason_seg(split=train)"]
    goes_on = few and read(path).get("form") != "sam3"
    assert ("model" not in read(path)) == ("--model" in command(path)) == goes_on
    checkpoint = model_of(path).arguments["checkpoint"]
    assert (checkpoint == "runs/zero_shot") == goes_on
    assert goes_on or re.fullmatch(r"Qwen/Qwen2\.5-VL-[37]B-Instruct", checkpoint)


def test_what_begins_with_no_model_is_refused(tmp_path, examples):
    path = TRAINERS / "dr2seg" / "configs" / "qwen2_5_vl_7b_lora.toml"
    line = [
        "train",
        "--method",
        "dr2seg",
        "--config",
        str(path),
        "--train-tasks",
        "reason_seg",
        "--data",
        str(examples),
        "--out",
        str(tmp_path / "out"),
    ]
    with pytest.raises(UsageError, match=r"--model"):
        command_of_train(build_parser().parse_args(line))
    assert not (tmp_path / "out").exists(), "the corrected command has to find it empty"


ADAPTED = [path for path in SHIPPED if read(path).get("finetune") == "lora"]
ONE_GPU = [path for path in ADAPTED if "deepspeed" not in read(path)]


@named(ONE_GPU)
def test_one_gpu_does_not_write_a_round_at_once_unsaid(path):
    """Responses of a round on one device, which may be too many at once."""
    trainer = built(path)
    if isinstance(trainer, GrpoTrainer):
        chosen = trainer.settings
        assert "accelerate" not in path.read_text("utf-8")
        assert "generation_micro_batch_size" in read(path), "all responses of a round at once"
        assert read(path)["generation_micro_batch_size"] <= chosen.generation_batch_size


LARGE = [path for path in PAPERS if read(path).get("finetune", "full") == "full"]


@named(LARGE)
def test_all_weights_of_a_published_network_are_spread_by_the_third_stage(path):
    assert read(path)["deepspeed"] == "zero3"


@named(TRAINED)
def test_devices_in_its_name_are_those_it_is_for(path):
    """`8x80gb_full` trains all weights, on as many processes as its header types."""
    found = re.search(r"_(\d)x\d+gb_(full|lora)$", path.stem)
    if found is not None:
        count, kind = found.groups()
        assert read(path)["finetune"] == kind and (path in LARGE) == (kind == "full")
        typed = re.search(r"--num_processes (\d+)", path.read_text("utf-8"))
        assert (typed[1] if typed else "1") == count


@pytest.fixture
def deepspeed(monkeypatch):
    """The package is there, as far as it is looked for."""
    pytest.importorskip("trl")
    find = importlib.util.find_spec
    for place in ("importlib.util", "harness.trainers.network"):
        monkeypatch.setattr(
            f"{place}.find_spec",
            lambda name, *package: name if name == "deepspeed" else find(name, *package),
        )


@pytest.fixture
def spread(monkeypatch, deepspeed):
    """The DeepSpeed configuration that a training of so many processes has, and its batches."""
    from harness.trainers.policy import deepspeed_plugin

    def by_accelerate(trainer, processes):
        """As `Accelerator.prepare` completes it, which reads the package's version first."""
        settings = trainer.settings
        count = settings.accumulation_steps(processes)
        plugin = deepspeed_plugin(settings, count)
        own = settings.per_device_train_batch_size
        assert not plugin.is_auto("train_micro_batch_size_per_gpu")
        plugin.fill_match(
            "gradient_accumulation_steps", must_match=False, gradient_accumulation_steps=count
        )
        plugin.deepspeed_config_process(
            must_match=False,
            gradient_clipping=1.0,
            train_micro_batch_size_per_gpu=own,
            train_batch_size=own * count * processes,
            **{"zero_optimization.stage3_gather_16bit_weights_on_model_save": False},
        )
        return settings, count, plugin.hf_ds_config

    return by_accelerate


@named(LARGE)
def test_its_deepspeed_file_is_understood_and_fits_its_settings(path, spread):
    """A value that contradicts the training's is an error of what completes the file."""
    typed = re.search(r"--num_processes (\d+)", path.read_text("utf-8"))
    processes = int(typed[1]) if typed else 8
    chosen, count, made = spread(built(path), processes)
    assert made.is_zero3() and not made.is_offload()
    assert made.is_true("bf16.enabled") and (chosen.bf16 or chosen.dtype == "bfloat16")
    own = chosen.per_device_train_batch_size
    numbers = {
        "train_micro_batch_size_per_gpu": own,
        "gradient_accumulation_steps": count,
        "train_batch_size": own * count * processes,
        "gradient_clipping": chosen.max_grad_norm,
    }
    assert {name: made.get_value(name) for name in numbers} == numbers
    assert "auto" not in json.dumps(made.config)
    # Without it no process has the weights that a checkpoint is written of.
    assert made.is_true("zero_optimization.stage3_gather_16bit_weights_on_model_save")
    if isinstance(built(path), GrpoTrainer):
        assert own * count * processes == chosen.generation_batch_size


@named([path for path in ADAPTED if path not in ONE_GPU])
def test_an_adapter_on_several_devices_leaves_its_weights_whole(path, spread):
    typed = re.search(r"--num_processes (\d+)", path.read_text("utf-8"))
    chosen, count, made = spread(built(path), int(typed[1]))
    assert made.get_value("zero_optimization.stage") == 2 and made.is_true("bf16.enabled")
    whole = chosen.per_device_train_batch_size * count * int(typed[1])
    assert whole == chosen.generation_batch_size and "auto" not in json.dumps(made.config)
    with pytest.raises(UsageError, match="zero2"):
        spread(replace(built(path), settings=replace(chosen, deepspeed="zero3")), int(typed[1]))


@named(ONE_GPU)
def test_an_adapters_settings_are_those_of_one_device(path):
    trainer = built(path)
    if isinstance(trainer, GrpoTrainer):
        chosen = trainer.settings
        own, count = chosen.per_device_train_batch_size, chosen.accumulation_steps(1)
        assert own == read(path)["per_device_train_batch_size"]
        assert own * count == chosen.generation_batch_size
        assert chosen.peak_learning_rate == 2e-5 and chosen.deepspeed is None


@of("videoseg_r1")
def test_difficulties_are_typed_where_a_penalty_hangs_on_them(path):
    given, settings = configured(
        build_parser().parse_args(["train", "--method", "videoseg_r1", "--config", path.stem])
    )
    bare = method_of(given, settings)
    if read(path).get("length_penalty") == "none":
        assert plugins.build("trainers", bare).ratings is None
        assert "ratings" not in command(path)
    else:
        with pytest.raises(UsageError, match=r"^videoseg_r1 .*--set scorer=….*--set ratings=FILE"):
            plugins.build("trainers", bare)
        assert built(path).ratings == Path("difficulty.jsonl")


def test_data_sets_of_a_figure_are_compared_with_as_many_samples():
    """Video-STR's Figure 5; `split=rl` of STV-205k is 12,000 questions."""
    folder = TRAINERS / "video_str_sft" / "configs"
    tasks = {text for path in folder.glob("figure5_*.toml") for text in read(path)["train_tasks"]}
    assert tasks == {
        "stv_205k(split=rl)",
        "sr_91k(sample=12000)",
        "video_r1_260k(sample=12000)",
    }


@of("visionreasoner", "seg_zero", "dr2seg", "videoseg_r1")
def test_a_published_training_is_evaluated_with_the_papers_segmenter(path):
    segmenter = model_of(path).arguments["segmenter"]
    third = "sam3(checkpoint=facebook/sam3)"
    assert str(segmenter) == (
        third if read(path).get("form") == "sam3" else "sam2(checkpoint=facebook/sam2-hiera-large)"
    )


@named(TRAINED)
def test_it_says_how_it_is_run_without_what_it_names_itself(path):
    comment = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
    assert "--train-tasks" not in " ".join(comment)
    named_here = re.findall(r"--config (\w+)", " ".join(comment))
    known = {other.stem for other in SHIPPED}
    assert set(named_here) <= known and (not named_here or path.stem in named_here)


def test_a_wrong_argument_is_found_by_the_check():
    with pytest.raises(AssertionError, match=r"^sam2 .*\bcolour\b"):
        checked("models", parse("qwen_vl(segmenter=sam2(colour=red))"))
    with pytest.raises(UsageError):
        checked("models", parse("qwen_vl(max_new_tokens=none)"))
    with pytest.raises(HarnessError, match="nothing_of_the_kind"):
        checked("tasks", parse("nothing_of_the_kind"))
