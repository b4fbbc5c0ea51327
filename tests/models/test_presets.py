"""Presets: published models under a short name, one source for commands and boards."""

import re
import shlex
import sys
import tomllib
from importlib.resources import files

import pytest

from harness import plugins, presets
from harness.cli.main import main
from harness.cli.model_choice import requested_models
from harness.errors import DataError, ModelError, UnknownPlugin, UsageError
from harness.leaderboards.definitions import definitions, shipped
from harness.models.backends.checkpoint import find
from harness.presets import preset, resolve
from harness.rehearsal import standins
from harness.spec import parse

ALL = sorted(presets.presets())
ON_HUB = re.compile(r"checkpoint=([\w.-]+/[\w.-]+)")
SPELLED_OUT = (
    "visionreasoner(checkpoint=Ricky06662/VisionReasoner-7B,"
    "segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)"
)


@pytest.mark.parametrize("name", ALL)
def test_a_preset_names_what_exists(name):
    known = preset(name)
    plugins.check_arguments("models", known.model)
    assert known.task in plugins.installed_plugins("tasks")
    # Stand-ins exist for the names that were looked up on the hub.
    assert set(ON_HUB.findall(str(known.model))) <= set(standins.names())


def test_a_preset_is_the_spec_that_it_stands_for(capsys):
    (whole,) = requested_models(["visionreasoner-7b"], tell=True)
    assert str(whole) == SPELLED_OUT
    assert capsys.readouterr().err == f"note: visionreasoner-7b is {SPELLED_OUT}\n"
    assert requested_models([SPELLED_OUT], tell=True) == [whole] and not capsys.readouterr().err


def test_arguments_replace_the_preset_s_and_reach_its_backend():
    spec = resolve(parse("visionreasoner-7b(propagator=flow,batch_size=2,max_pixels=401408)"))
    assert spec.arguments["propagator"] == "flow" and spec.arguments["batch_size"] == 2
    assert str(spec.arguments["backend"]) == "transformers(max_pixels=401408)"
    pinned = resolve(parse("visionreasoner-7b(revision=0123abc)")).arguments["backend"]
    assert str(pinned) == "transformers(revision=0123abc)"
    spec = resolve(parse("jit-qwen2.5-72b(base_url=http://there/v1)"))
    assert str(spec.arguments["backend"]).startswith("openai(model=Qwen/Qwen2.5-72B-Instruct,")
    assert "base_url=http://there/v1" in str(spec)
    with pytest.raises(UsageError, match="batch_size"):
        plugins.check_arguments("models", resolve(parse("visionreasoner-7b(batchsize=2)")))


COMMIT = preset("qwen2.5-vl-7b").revision


@pytest.mark.parametrize(
    ("given", "loads"),
    [
        ("qwen2.5-vl-7b", f"transformers(revision={COMMIT})"),
        ("qwen2.5-vl-7b(max_pixels=9)", f"transformers(max_pixels=9,revision={COMMIT})"),
        ("qwen2.5-vl-7b(revision=ab,backend=vllm)", "vllm(revision=ab)"),
        ("qwen2.5-vl-7b(backend=vllm)", f"vllm(revision={COMMIT})"),
        ("qwen2.5-vl-7b(revision=main)", "transformers(revision=main)"),
        ("qwen2.5-vl-7b(backend=transformers(revision=ab))", "transformers(revision=ab)"),
        ("qwen2.5-vl-7b(checkpoint=./mine)", "None"),
        ("qwen2.5-vl-7b(backend=stored)", "stored"),
    ],
)
def test_a_preset_loads_its_commit_of_its_own_network(given, loads):
    assert str(resolve(parse(given)).arguments.get("backend")) == loads


def test_a_preset_s_commit_is_that_of_the_network_in_another_model():
    base = resolve(parse("vr-ttrl-qwen2.5-vl-7b")).arguments["base"]
    assert str(base.arguments["backend"]) == f"transformers(revision={COMMIT})"
    newest = resolve(parse("vr-ttrl-qwen2.5-vl-7b(revision=main)"))
    assert str(newest.arguments["base"].arguments["backend"]) == "transformers(revision=main)"
    assert "revision" not in newest.arguments
    base = resolve(parse("vr-ttrl-qwen2.5-vl-7b(base=seg-zero-7b)")).arguments["base"]
    assert base == resolve(parse("seg-zero-7b"))


def test_presets_of_one_network_load_one_commit():
    commits = {}
    for known in presets.presets().values():
        base = known.model.arguments.get("base", known.model)
        name = base.arguments.get("checkpoint")
        if isinstance(name, str) and not name.startswith("{"):
            commits.setdefault(name, set()).add(known.revision)
    assert all(len(revisions) == 1 for revisions in commits.values())


def test_a_commit_that_is_not_here_has_the_command_that_fetches_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"hf download a/b --revision 0123abc\)"):
        find("a/b", revision="0123abc")


@pytest.mark.parametrize("given", ["tent(base=seg-zero-7b)", "tent(base=seg-zero-7b(canvas=9))"])
def test_a_preset_may_stand_within_another_model(given):
    base = resolve(parse(given)).arguments["base"]
    assert base == resolve(parse(given.removeprefix("tent(base=").removesuffix(")")))


def test_what_a_preset_lacks_is_asked_for():
    with pytest.raises(UsageError, match=r"a value for checkpoint.*dr2seg-sam2\(checkpoint=…\)"):
        resolve(parse("dr2seg-sam2"))
    spec = resolve(parse("dr2seg-sam2(checkpoint=mine)"))
    assert [*spec.arguments] == ["checkpoint", "segmenter", "propagator"]


def test_a_mistyped_name_is_told_the_nearest_preset(capsys):
    with pytest.raises(UnknownPlugin, match=r"qwen2\.5-vl-7b"):
        preset("qwen2.5vl-7b")
    with pytest.raises(UnknownPlugin, match="visionreasoner-7b"):
        requested_models(["visionreasoner7b"], tell=False)


def test_boards_name_presets_where_there_is_one():
    """So that the SPEC of a published model stands in one file."""
    standing = {str(one.model) for one in presets.presets().values()}
    assert {row.model for one in definitions() for row in one.rows} & standing
    for path in shipped().glob("*.toml"):
        for row in tomllib.loads(path.read_text("utf-8"))["rows"]:
            spelled_out = row.get("model", "") in standing
            assert not spelled_out, f"{path.name}: {row['row']} spells a preset out"


def test_every_published_model_of_a_board_is_a_preset_or_built_on_one():
    for path in shipped().glob("*.toml"):
        rows = tomllib.loads(path.read_text("utf-8"))["rows"]
        models = [row["model"] for row in rows if ON_HUB.search(row.get("model", ""))]
        networks = {name for model in models for name in ON_HUB.findall(model)}
        assert all("sam2" in name or "sam3" in name for name in networks), path.name


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that brings presets, by the texts of its files."""

    def install(**texts):
        folder = tmp_path / "mine"
        folder.mkdir()
        for name, text in texts.items():
            (folder / f"{name}.toml").write_text(text)
        (tmp_path / "mine.py").write_text(
            "from pathlib import Path\ndef folder():\n    return Path(__file__).parent / 'mine'\n"
        )
        about = tmp_path / "mine-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[harness.presets]\nmine = mine:folder\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop("mine", None)


def test_a_package_brings_presets_of_its_own(package, capsys):
    package(ours='[ours-1b]\nmodel = "random(seed=3)"\nabout = "Ours"\ntask = "reason_seg"\n')
    assert str(resolve(parse("ours-1b"))) == "random(seed=3)"
    assert main(["list", "presets", "ours-1b"]) == 0
    assert "random(seed=3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        '[visionreasoner-7b]\nmodel = "random"\nabout = ""\ntask = "reason_seg"\n',
        '[random]\nmodel = "saliency"\nabout = ""\ntask = "reason_seg"\n',
        '[mine]\nmodel = "random("\nabout = ""\ntask = "reason_seg"\n',
        '[mine]\nabout = ""\ntask = "reason_seg"\n',
        '[mine]\nmodel = "random"\nabout = ""\ntask = "reason_seg"\nextra = 1\n',
        "[mine",
    ],
)
def test_a_package_s_file_that_is_not_in_the_form_is_named(package, text):
    package(theirs=text)
    with pytest.raises(DataError, match=r"theirs\.toml"):
        presets.presets()


def test_a_checkpoint_without_a_training_finds_its_model_by_its_architecture(tiny_qwen, capsys):
    (spec,) = requested_models([str(tiny_qwen)], tell=True)
    assert str(spec) == f"qwen_vl(checkpoint={tiny_qwen})"
    assert "Qwen2_5_VLForConditionalGeneration" in capsys.readouterr().err


def test_a_bare_checkpoint_takes_arguments_which_reach_its_backend_and_may_name_a_file(
    tiny_qwen, tmp_path
):
    (tmp_path / "prompt.txt").write_text("Find {question}.")
    for written, put in (
        ("prompt=locate", "prompt=locate"),
        (f"prompt=file:{tmp_path / 'prompt.txt'}", 'prompt="Find {question}."'),
        ("max_pixels=3136,segmenter=grabcut", "segmenter=grabcut"),
    ):
        (spec,) = requested_models([f"{tiny_qwen}({written})"], tell=False)
        assert str(spec).startswith(f"qwen_vl(checkpoint={tiny_qwen},") and put in str(spec)
        assert ("max_pixels=3136" in str(spec.arguments.get("backend"))) == ("max" in written)
    with pytest.raises(UsageError, match="one checkpoint"):
        requested_models([f"{tiny_qwen}(checkpoint=org/name)"], tell=False)
    with pytest.raises(UsageError, match=r"no folder \./nowhere"):
        requested_models(["./nowhere(prompt=locate)"], tell=False)


def test_what_a_checkpoint_cannot_say_is_asked_for_with_the_command(
    tiny_qwen, shapes, tmp_path, capsys
):
    task = ["--tasks", "reason_seg", "--data", str(shapes), "--subset", "first1"]
    given = [*task, "--out", str(tmp_path / "runs"), "--quiet"]
    assert main(["eval", "--model", str(tiny_qwen), *given]) == 2
    typed = re.search(r"--model (\S+)", capsys.readouterr().err.replace("\n", ""))
    (model,) = shlex.split(typed[1])
    assert model.startswith(f"{tiny_qwen}(") and "segmenter=grabcut" in model
    assert main(["eval", "--model", model, *given]) == 1  # random weights: no response is read


@pytest.mark.parametrize("config", ['{"architectures": ["BertModel"]}', "{}", None])
def test_a_checkpoint_of_an_unknown_architecture_is_refused_with_the_way(tmp_path, config):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(UsageError, match=r"Qwen2_5_VL.*NAME\(checkpoint="):
        requested_models([str(tmp_path)], tell=False)


def test_each_architecture_has_a_model_that_takes_what_is_given():
    listed = files("harness.models").joinpath("architectures.toml").read_text("utf-8")
    for text in tomllib.loads(listed).values():
        plugins.check_arguments("models", parse(text))
