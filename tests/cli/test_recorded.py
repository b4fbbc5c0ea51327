"""A checkpoint is asked as its training asked; what is typed wins, and what was taken is said."""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.cli import sweep as command_line
from harness.cli.main import main
from harness.cli.recorded import LARGEST, as_trained, asked_models
from harness.record import Run
from harness.run.sweep import sweep_of
from harness.run.trained import FIELDS, VERSION
from harness.spec import parse

REPOSITORY = Path(__file__).resolve().parents[2]
POCKET = REPOSITORY / "models" / "pocket" / "checkpoint"
DATA = REPOSITORY / "tasks" / "reason_seg" / "example"
SPEC = (
    "dr2seg(checkpoint=pocket,canvas=168,prompt=short,max_new_tokens=9,frames=fps(rate=2),"
    "backend=vllm(checkpoint=a),segmenter=box,propagator=still,batch_size=3,seed=4,mine=1)"
)
ASKED = "canvas=168,prompt=short,max_new_tokens=9,frames=fps(rate=2)"


def manifest_of(spec, **more):
    plain = dict.fromkeys(FIELDS, "")
    return {**plain, "version": VERSION, "model": {"spec": spec, "name": "dr2seg"}, **more}


def written(path, plain):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plain if isinstance(plain, str) else json.dumps(plain))


@pytest.fixture
def folder(tmp_path):
    """A training of `dr2seg`, with nothing in it but its manifest."""
    written(tmp_path / "t" / "manifest.json", manifest_of(SPEC))
    (tmp_path / "t" / "checkpoint").mkdir()
    return tmp_path / "t"


@pytest.mark.parametrize("place", ["", "checkpoint"])
def test_what_is_asked_and_shown_is_taken_and_nothing_else(folder, place):
    given = f"checkpoint={folder / place}"
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},{ASKED})"
    inside = f"backend=transformers({given},max_pixels=9),segmenter=grabcut"
    assert str(as_trained(parse(f"dr2seg({inside})"))) == f"dr2seg({inside},{ASKED})"


def test_a_checkpoint_that_was_carried_elsewhere_still_says_how_it_was_asked(tmp_path):
    written(tmp_path / "copy" / "harness.json", manifest_of("dr2seg(canvas=56)"))
    given = f"checkpoint={tmp_path / 'copy'}"
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},canvas=56)"


def test_what_is_typed_wins(folder):
    given = f"canvas=28,frames=none,checkpoint={folder}"
    whole = as_trained(parse(f"dr2seg({given},prompt=paper)"))
    assert str(whole) == f"dr2seg({given},prompt=paper,max_new_tokens=9)"
    assert as_trained(whole) == whole


def test_the_model_that_was_named_to_evaluate_it_is_the_record(folder):
    evaluated = "dr2seg(checkpoint={checkpoint},frames=32)"
    written(folder / "manifest.json", manifest_of(SPEC, eval_model=evaluated))
    given = f"checkpoint={folder}"
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},frames=32)"
    written(folder / "manifest.json", manifest_of(SPEC, eval_model="spacer(frames=32)"))
    assert str(as_trained(parse(f"dr2seg({given})"))) == f"dr2seg({given},{ASKED})"


UNREADABLE = {
    "none": None, "empty": "", "no JSON": "{", "a list": "[]", "deep": "[" * 100_000,
    "no fields": {"version": VERSION, "model": {"spec": SPEC}},
    "another version": manifest_of(SPEC, version=0),
    "no model": manifest_of(SPEC, model=None), "no spec": manifest_of(SPEC, model={}),
    "no text": manifest_of(3), "no SPEC": manifest_of("dr2seg(canvas"), "a text": "\"dr2seg\"",
    "large": json.dumps(manifest_of(SPEC)) + " " * LARGEST,
}  # fmt: skip


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_record_changes_nothing(folder, kind, capsys):
    path, plain = folder / "manifest.json", UNREADABLE[kind]
    path.unlink() if plain is None else written(path, plain)
    spec = parse(f"dr2seg(checkpoint={folder})")
    assert asked_models([str(spec)], tell=True) == [spec] and capsys.readouterr().err == ""


def test_other_models_and_models_without_such_a_checkpoint_are_as_typed(folder):
    places = "Qwen/None", "none,backend=stored", "a" * 5000
    texts = [f"dr2seg(checkpoint={place})" for place in places]
    for text in ("dr2seg", f"seg_zero(checkpoint={folder})", *texts):
        assert str(as_trained(parse(text))) == text


def test_the_processes_that_do_not_lead_take_the_same_and_are_silent(folder, capsys):
    given = [f"dr2seg(checkpoint={folder})"]
    others = asked_models(given, tell=False)
    assert capsys.readouterr().err == ""
    assert asked_models(given * 2, tell=True) == others * 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ASKED in line and str(folder) in line and "give these arguments in the SPEC" in line


def test_a_sweep_names_its_models_as_they_are_evaluated(folder, tmp_path, monkeypatch):
    typed = []
    monkeypatch.setattr(command_line, "evaluate", lambda given: typed.extend(given.model) or 0)
    base = f"dr2seg(checkpoint={folder})"
    assert main(["sweep", "--model", base, "--vary", "prompt=short,paper", "--out",
                 str(tmp_path / "s")]) == 0  # fmt: skip
    assert typed == [base, f"dr2seg(checkpoint={folder},prompt=paper)"]
    plain = sweep_of(tmp_path / "s" / "run")
    assert plain["base"] == str(as_trained(parse(base)))
    assert list(plain["models"]) == [str(spec) for spec in asked_models(typed, tell=False)]


def test_a_run_says_what_was_taken_and_keeps_the_whole_model(folder, tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    for path in POCKET.iterdir():
        if not path.name.startswith("harness"):
            (folder / "checkpoint" / path.name).symlink_to(path)
    given = f"checkpoint={folder},frames=2,max_new_tokens=4"
    whole = f"dr2seg({given},canvas=168,prompt=short)"
    line = [
        "eval", "--model", f"dr2seg({given})", "--tasks", "reason_seg", "--data", str(DATA),
        "--out", str(tmp_path / "runs"), "--quiet", "--json",
    ]  # fmt: skip
    assert main(line) == 0
    first = capsys.readouterr()
    assert "note: dr2seg with the checkpoint" in first.err
    assert "with canvas=168,prompt=short; give" in first.err
    (results,) = (tmp_path / "runs").rglob("results.json")
    run = Run.open(results.parent)
    assert run.manifest["model"]["spec"] == whole == json.loads(first.out)["model"]
    before = json.loads(results.read_text())
    assert main(line) == 0  # resumed, in the same folder
    assert list((tmp_path / "runs").rglob("results.json")) == [results]
    assert json.loads(results.read_text()) == before
    capsys.readouterr()
    sample = next(iter(plugins.build("tasks", "reason_seg", DATA).samples())).id
    assert main(["explain", str(run.folder), sample, "--data", str(DATA), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == whole
