"""A checkpoint is asked as its training asked; what is typed wins, and what was taken is said."""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.checkpoint_config import FILE, MAX_BYTES, VERSION, read, write
from harness.chosen.trained_settings import MAX_SHOWN, as_trained
from harness.cli import sweep as command_line
from harness.cli.main import main
from harness.cli.model_choice import model_specs, requested_models
from harness.errors import ModelError, UsageError
from harness.models.backends.checkpoint import SHIPPED
from harness.record import Run
from harness.run.sweep import Sweep, sweep_of
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.trainer import Trainer

REPOSITORY = Path(__file__).resolve().parents[2]
POCKET = REPOSITORY / "models" / "pocket" / "checkpoint"
DATA = REPOSITORY / "tasks" / "reason_seg" / "example"
SPEC = (
    "dr2seg(checkpoint=pocket,canvas=168,prompt=short,max_new_tokens=9,frames=fps(rate=2),"
    "backend=vllm(checkpoint=a),segmenter=box,propagator=still,batch_size=3,seed=4,mine=1)"
)
ASKED = "canvas=168,prompt=short,frames=fps(rate=2),max_new_tokens=9"


def config_of(spec, version=VERSION):
    return {"version": version, "model": spec}


def written(path, plain):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plain if isinstance(plain, str) else json.dumps(plain))


@pytest.fixture
def folder(tmp_path):
    """A training of `dr2seg`, with nothing in its checkpoint but how it is to be asked."""
    written(tmp_path / "t" / "checkpoint" / "config.json", "{}")
    write(tmp_path / "t" / "checkpoint", parse(SPEC))
    return tmp_path / "t"


def says(folder, spec):
    written(folder / "checkpoint" / FILE, config_of(spec))


def test_a_file_has_all_that_is_carried_and_nothing_else(folder):
    known = read(folder / "checkpoint")
    assert known.name == "dr2seg" and known.arguments["frames"] == parse("fps(rate=2)")
    carried = "form canvas prompt keyframe frames max_new_tokens system"
    assert set(known.arguments) == set(carried.split())
    assert known.arguments["system"] is None and known.arguments["form"] == "sam2"
    write(folder, Spec("saliency", {"candidates": 3}))
    assert read(folder) == Spec("saliency") and read(folder.parent) is None


class Writes(Trainer):
    name = "writes"

    def describe(self):
        return {}

    def train(self, run):
        for place in (run.checkpoint, run.out / "adapter"):
            place.mkdir()
        return {}


@pytest.mark.parametrize(
    ("model", "evaluated", "kept"),
    [
        ("random(seed=3)", None, "random"),
        (None, "spacer(checkpoint={checkpoint},map=vsi,segmenter=box)", "spacer(map=vsi)"),
        ("random", "spacer(checkpoint={checkpoint},pixels=28224)", "spacer(pixels=28224)"),
    ],
)
def test_a_training_writes_it_beside_the_weights(model, evaluated, kept, tmp_path):
    from harness.checkpoint_config import without_defaults

    options = TrainingOptions(eval_model=evaluated)
    train(Writes(), [], None if model is None else parse(model), tmp_path / "out", options)
    for place in ("checkpoint", "adapter"):
        assert without_defaults(read(tmp_path / "out" / place)) == parse(kept)


def test_a_checkpoint_is_a_model(folder, tmp_path, capsys):
    for place in (folder, folder / "checkpoint"):
        (whole,) = requested_models([str(place)], tell=True)
        assert str(whole) == f"dr2seg(checkpoint={place},{ASKED})"
        assert ASKED in capsys.readouterr().err
    first, second = requested_models([str(folder), "random,whole_frame"], tell=False)[1:]
    assert (str(first), str(second)) == ("random", "whole_frame")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=FILE):
        requested_models([str(tmp_path / "empty")], tell=False)


class Makes(Writes):
    makes = "random"


def test_a_training_of_a_plugin_s_own_network_is_a_model(tmp_path):
    train(Makes(), [], None, tmp_path / "out", TrainingOptions())
    for place in ("out", "out/checkpoint"):
        (spec,) = requested_models([str(tmp_path / place)], tell=False)
        assert str(spec) == f"random(checkpoint={tmp_path / place})"


def test_a_model_s_name_is_no_folder(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    folder.rename(folder.parent / "random")
    assert requested_models(["random"], tell=False) == [Spec("random")]
    assert requested_models(["./random"], tell=False)[0].name == "dr2seg"
    for text in ("", " ", "\0", "x/" * 2500, "~nobody_of_this_name/x"):
        with pytest.raises(UsageError, match="NAME"):
            requested_models([text], tell=False)


@pytest.mark.parametrize("place", ["", "checkpoint"])
def test_what_is_asked_and_shown_is_taken_and_nothing_else(folder, place):
    given = f"checkpoint={folder / place}"
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},{ASKED})"
    inside = f"backend=transformers({given},max_pixels=9),segmenter=grabcut"
    assert str(as_trained(parse(f"dr2seg({inside})"))) == f"dr2seg({inside},{ASKED})"


@pytest.mark.parametrize("place", ["", "adapter", "adapter/"])
def test_an_adapter_is_asked_as_its_training_asked_it(folder, place, tmp_path, capsys):
    """The same weights as those of the training's checkpoint, which has the adapter in them."""
    written(folder / "adapter" / "adapter_config.json", "{}")
    write(folder / "adapter", parse(SPEC))
    written(tmp_path / "base" / FILE, config_of("dr2seg(canvas=56)"))
    adapter = f"adapter={folder}/{place}"
    for base in ("Qwen/Base", tmp_path / "base"):
        given = f"checkpoint={base},backend=transformers({adapter})"
        (whole,) = requested_models([f"dr2seg({given})"], tell=True)
        assert str(whole) == f"dr2seg({given},{ASKED})"
        assert adapter.replace("=", " ") in capsys.readouterr().err
    other = f"seg_zero({given})"
    assert as_trained(parse(other)) == parse(other)


def test_an_adapter_that_was_not_trained_here_leaves_its_base_as_it_was(folder, tmp_path):
    (folder / "lora").mkdir()
    for adapter in (folder / "lora", tmp_path / "none", "a" * 5000):
        given = f"checkpoint={folder},backend=transformers(adapter={adapter})"
        assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},{ASKED})"
        alone = f"dr2seg(checkpoint=a/b,backend=transformers(adapter={adapter}))"
        assert as_trained(parse(alone)) == parse(alone)


def test_a_checkpoint_that_was_carried_elsewhere_still_says_how_it_was_asked(tmp_path):
    written(tmp_path / "copy" / FILE, config_of("dr2seg(canvas=56)"))
    given = f"checkpoint={tmp_path / 'copy'}"
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},canvas=56)"


def test_what_is_typed_wins(folder):
    given = f"canvas=28,frames=none,checkpoint={folder}"
    whole = as_trained(parse(f"dr2seg({given},prompt=paper)"))
    assert str(whole) == f"dr2seg({given},prompt=paper,max_new_tokens=9)"
    assert as_trained(whole) == whole


RULED = ("spacer", "video_str", "video_r1", "videochat_r1")
RULE = "fps(rate=2,max_pixels=602112,min_pixels=100352)"


@pytest.mark.parametrize("name", RULED)
def test_a_typed_rule_for_frames_keeps_its_pixels(folder, name):
    says(folder, f"{name}(frames=8,pixels=28224)")
    typed = f"{name}(checkpoint={folder},backend=stored,segmenter=box,propagator=still,frames="
    for rule in (RULE, "video_str"):
        whole = as_trained(parse(f"{typed}{rule})"))
        assert str(whole) == f"{typed}{rule})"
    shown = plugins.build("models", as_trained(parse(f"{typed}{RULE})"))).frames
    assert str(shown) == RULE
    assert str(as_trained(parse(f"{typed}4)"))) == f"{typed}4,pixels=28224)"


def test_a_sweep_over_rules_evaluates_each_once(folder):
    says(folder, "spacer(frames=8,pixels=28224)")
    rules = [parse(f"linspace(n=8,max_pixels={pixels})") for pixels in (200704, 50176)]
    sweep = Sweep(parse(f"spacer(checkpoint={folder})"), {"frames": rules}, resolve=as_trained)
    budgets = [str(as_trained(spec)).partition("frames=")[2] for spec, _ in sweep.models()]
    assert budgets == ["8,pixels=28224)", *(f"{rule})" for rule in rules)]


DAMAGED = {
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "deep": "[" * 100_000,
    "no fields": {},
    "another version": config_of(SPEC, version=0),
    "no text": config_of(3),
    "no SPEC": config_of("dr2seg(canvas"),
    "a text": '"dr2seg"',
    "large": json.dumps(config_of(SPEC)) + " " * MAX_BYTES,
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_named_and_changes_no_score(folder, kind):
    written(folder / "checkpoint" / FILE, DAMAGED[kind])
    with pytest.raises(ModelError, match=FILE):
        requested_models([f"dr2seg(checkpoint={folder})"], tell=True)


def test_a_checkpoint_of_others_is_asked_as_typed(folder, capsys):
    (folder / "checkpoint" / FILE).unlink()
    spec = parse(f"dr2seg(checkpoint={folder})")
    assert requested_models([str(spec)], tell=True) == [spec] and capsys.readouterr().err == ""


def test_other_models_and_models_without_such_a_checkpoint_are_as_typed(folder):
    places = "Qwen/None", "none,backend=stored", "a" * 5000
    texts = [f"dr2seg(checkpoint={place})" for place in places]
    for text in ("dr2seg", f"seg_zero(checkpoint={folder})", *texts):
        assert str(as_trained(parse(text))) == text


def test_the_innermost_checkpoint_counts_as_it_does_for_backends(folder, tmp_path):
    written(tmp_path / "other" / FILE, config_of("dr2seg(canvas=56)"))
    inner, other = f"transformers(checkpoint={folder})", f"checkpoint={tmp_path / 'other'}"
    for given in (
        f"backend=ablation(images=grey,chat={inner})",
        f"{other},backend={inner}",
        f"backend=ablation({other},chat={inner})",
    ):
        assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},{ASKED})"
    given = f"{other},backend=ablation(images=grey)"
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},canvas=56)"


def test_what_segments_and_samples_is_not_asked(folder):
    inner = f"transformers(checkpoint={folder})"
    says(folder, "videoseg_r1(canvas=56,sampler_frames=4)")
    for text in (f"videoseg_r1(sampler={inner})", f"videoseg_r1(segmenter=sam2({inner[13:-1]}))"):
        assert as_trained(parse(text)) == parse(text)
    whole = as_trained(parse(f"videoseg_r1(backend={inner})"))
    assert whole.arguments["sampler_frames"] == 4


def test_the_checkpoint_is_the_one_that_a_backend_finds(tmp_path, monkeypatch):
    """A shipped name is no folder here, and a whole checkpoint no training around another."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "pocket" / FILE, config_of("visionreasoner(canvas=56)"))
    typed = parse("visionreasoner(checkpoint=pocket)")
    assert as_trained(typed) == typed
    assert as_trained(parse("visionreasoner(checkpoint=./pocket)")).arguments["canvas"] == 56
    monkeypatch.setitem(SHIPPED, "pocket", tmp_path / "pocket")  # weights that say the same
    assert as_trained(typed) == typed
    for place, canvas in (("whole", 28), ("whole/checkpoint", 84)):
        written(tmp_path / place / "config.json", "{}")
        written(tmp_path / place / FILE, config_of(f"visionreasoner(canvas={canvas})"))
    for place, canvas in (("whole", 28), ("whole/checkpoint", 84)):
        whole = as_trained(parse(f"visionreasoner(checkpoint={place})"))
        assert whole.arguments["canvas"] == canvas


def test_a_checkpoint_in_the_cache_of_hugging_face_is_known_too(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / "models--me--name"
    for revision, canvas in (("main", 56), ("late", 84)):
        commit = revision[0] * 40
        written(cached / "refs" / revision, commit)
        written(cached / "snapshots" / commit / FILE, config_of(f"dr2seg(canvas={canvas})"))
    for more, canvas in (("", 56), (",backend=transformers(revision=late)", 84)):
        whole = as_trained(parse(f"dr2seg(checkpoint=me/name{more})"))
        assert whole.arguments["canvas"] == canvas
    assert as_trained(parse("dr2seg(checkpoint=me/other)")) == parse("dr2seg(checkpoint=me/other)")


def test_what_the_model_does_not_take_is_left_out_and_said(folder, capsys):
    says(folder, "dr2seg(canvas=56,map=named)")
    given = f"dr2seg(checkpoint={folder})"
    (whole,) = requested_models([given], tell=True)
    assert str(whole) == f"dr2seg(checkpoint={folder},canvas=56)"
    output = capsys.readouterr().err
    assert "canvas=56" in output and "map=named" in output
    says(folder, "dr2seg(map=named)")
    assert requested_models([given], tell=True) == [parse(given)]
    output = capsys.readouterr().err
    assert "map=named" in output and "SPEC" not in output


def test_a_note_is_one_plain_line_whatever_the_record_says(folder, capsys):
    text = "\x1b[31mred\n\u2028two\u202e" + "long" * MAX_SHOWN
    says(folder, f'dr2seg(canvas=56,system="{text}")')
    (whole,) = requested_models([f"dr2seg(checkpoint={folder})"], tell=True)
    assert whole.arguments["system"] == text
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable() and "canvas=56" in line and "red two" in line
    assert "cut" in line and len(line) < 2 * MAX_SHOWN


RESPONSES = (
    ("val_00000", "17, 20, 99, 110"),
    ("val_00001", "60, 30, 150, 92"),
    ("val_00002", "10, 5, 120, 81"),
)


def test_stored_responses_are_read_as_they_were_asked(folder, tmp_path, capsys):
    """Evaluated, replayed and scored, the same responses have the same score: boxes on 168
    x 168.
    """
    file = tmp_path / "said.jsonl"
    file.write_text(
        "".join(
            json.dumps(
                {
                    "id": name,
                    "response": (
                        "<think>x</think><description>y</description>"
                        f'<answer>[{{"bbox_2d": [{box}], '
                        '"point_2d": [60, 60]}]</answer>'
                    ),
                }
            )
            + "\n"
            for name, box in RESPONSES
        )
    )
    more = "segmenter=box,propagator=still"
    data = ["--tasks", "reason_seg", "--data", str(DATA), "--out", str(tmp_path / "runs"), "--json"]
    reader = f"dr2seg(checkpoint={folder},backend=stored,{more})"
    lines = {
        "asked": ["eval", "--model", reader.replace("=stored", f"=stored(file={file})")],
        "replayed": ["eval", "--model", f"replay(file={file},model={reader})"],
        "scored": ["score", "--predictions", str(file), "--model", reader],
        "typed": [
            "score",
            "--predictions",
            str(file),
            "--name",
            "typed",
            "--model",
            reader.replace(more, f"{more},canvas=840"),
        ],
    }
    metrics = {}
    for name, line in lines.items():
        quiet = ["--quiet"] if line[0] == "eval" else []
        assert main([*line, *data, *quiet]) == 0
        output = capsys.readouterr()
        results = json.loads(output.out)["tasks"]["reason_seg"]
        assert results["n_failed"] == 0
        metrics[name] = results["metrics"]
        assert "note: dr2seg" in output.err
    assert metrics["asked"] == metrics["replayed"] == metrics["scored"] != metrics["typed"]


def test_verify_reads_responses_as_they_were_asked(folder, monkeypatch, capsys):
    readers = []
    monkeypatch.setattr(
        "harness.cli.verify.verify_task", lambda task, reader: readers.append(reader) or []
    )
    model = f"dr2seg(checkpoint={folder},backend=stored,segmenter=box)"
    line = ["verify", "--tasks", "reason_seg", "--data", str(DATA), "--json", "--model"]
    assert main([*line, model]) == 0
    assert str(folder) in capsys.readouterr().err
    assert readers[0].prompt.resize == (168, 168)
    assert main([*line, "none"]) == 0
    assert readers[1] is None and capsys.readouterr().err == ""


def test_the_processes_that_do_not_lead_take_the_same_and_are_silent(folder, capsys):
    given = [f"dr2seg(checkpoint={folder})"]
    others = requested_models(given, tell=False)
    assert capsys.readouterr().err == ""
    assert requested_models(given * 2, tell=True) == others * 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ASKED in line and str(folder) in line and "SPEC" in line


def test_a_sweep_names_its_models_as_they_are_evaluated(folder, tmp_path, monkeypatch):
    typed = []
    monkeypatch.setattr(command_line, "evaluate", lambda given: typed.extend(given.model) or 0)
    base = f"dr2seg(checkpoint={folder})"
    assert (
        main(
            [
                "eval",
                "--model",
                base,
                "--vary",
                "prompt=short,paper",
                "--tasks",
                "t",
                "--data",
                ".",
                "--out",
                str(tmp_path / "s"),
            ]
        )
        == 0
    )
    assert typed == [base, f"dr2seg(checkpoint={folder},prompt=paper)"]
    plain = sweep_of(tmp_path / "s" / "run")
    assert plain["base"] == str(as_trained(parse(base)))
    assert list(plain["models"]) == [str(spec) for spec in requested_models(typed, tell=False)]


@pytest.mark.parametrize(
    ("manifest", "parts"),
    [
        ({"model": {"spec": SPEC}}, ",segmenter=box,propagator=still"),
        (
            {"model": {"spec": SPEC}, "eval_model": "dr2seg(segmenter=grabcut)"},
            ",segmenter=grabcut",
        ),
        ({"model": {"spec": "pocket(segmenter=box)"}}, ""),
        ({"eval_model": "dr2seg(segmenter=sam2(checkpoint={checkpoint}))"}, ""),
        ({"model": None}, ""),
        ("{", ""),
        (None, ""),
    ],
)
def test_a_folder_alone_has_the_parts_of_its_training(folder, manifest, parts, capsys):
    if manifest is not None:
        written(folder / "checkpoint" / "harness.json", manifest)
    (spec,) = model_specs([str(folder)])
    assert str(spec) == f"dr2seg(checkpoint={folder}{parts})"
    assert ("the parts of its training" in capsys.readouterr().err) == bool(parts)
    (spec,) = model_specs([f"{folder}(segmenter=grabcut,prompt=paper)"], tell=False)
    assert spec.arguments["segmenter"] == "grabcut" and spec.arguments["prompt"] == "paper"


def test_a_run_says_what_was_taken_and_keeps_the_whole_model(folder, tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    for path in POCKET.iterdir():
        if not path.name.startswith("harness"):
            (folder / "checkpoint" / path.name).unlink(missing_ok=True)
            (folder / "checkpoint" / path.name).symlink_to(path)
    given = f"checkpoint={folder},frames=2,max_new_tokens=4,segmenter=box"
    whole = f"dr2seg({given},canvas=168,prompt=short)"
    line = [
        "eval",
        "--model",
        f"dr2seg({given})",
        "--tasks",
        "reason_seg",
        "--data",
        str(DATA),
        "--out",
        str(tmp_path / "runs"),
        "--quiet",
        "--json",
    ]
    assert main(line) == 1  # random weights: no response is read
    first = capsys.readouterr()
    assert "note: dr2seg" in first.err and "canvas=168,prompt=short" in first.err
    (results,) = (tmp_path / "runs").rglob("results.json")
    run = Run.open(results.parent)
    assert run.manifest["model"]["spec"] == whole == json.loads(first.out)["model"]
    before = json.loads(results.read_text())
    assert main(line) == 1  # resumed, in the same folder
    assert list((tmp_path / "runs").rglob("results.json")) == [results]
    assert json.loads(results.read_text()) == before
    capsys.readouterr()
    sample = next(iter(plugins.build("tasks", "reason_seg", DATA).samples())).id
    assert main(["explain", str(run.folder), sample, "--data", str(DATA), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == whole
