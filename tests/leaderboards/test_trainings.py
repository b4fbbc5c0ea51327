"""A row links the training that made its checkpoint, and nothing outside what is published."""

import json
import re
import shutil
from urllib.parse import unquote

import pytest

from harness.cli.main import main
from harness.errors import StoreError
from harness.leaderboards import formatting
from harness.leaderboards.board import build
from harness.leaderboards.render import write
from harness.leaderboards.render.links import link
from harness.leaderboards.row import row
from harness.leaderboards.site.trainings import trainings
from harness.record import Run, finish
from harness.run.checkpoint_provenance import CheckpointProvenance, origin_of, read_origins
from harness.run.contamination import Contamination, write_contamination_and_origins
from harness.trainer import CURVE

HOSTILE = "<script>alert(1)</script>"
NOTHING = Contamination(40, 0, 0, ())


def train(folder, *, seed=3, steps=300, hash="beef" * 8, method="dr2seg(n0=45)", page=True):
    """A training folder as `harness train` leaves it, without weights."""
    made = {"spec": method, "name": "dr2seg", "settings": {}}
    manifest = {
        "version": 1,
        "method": made,
        "model": None,
        "seed": seed,
        "provenance": {},
        "tasks": [{"spec": "reason_seg(split=train)"}],
        "config_hash": hash,
        "data_root": "/somewhere/else",
        "result": {} if steps is None else {"steps": steps},
    }
    (folder / "checkpoint").mkdir(parents=True)
    for path in (folder / "manifest.json", folder / "checkpoint" / "harness.json"):
        path.write_text(json.dumps(manifest))
    if page:
        (folder / "rollouts.html").write_text("rollouts")
    return folder


@pytest.fixture
def evaluated(make_run):
    """A run of a checkpoint, with what is recorded of its training."""

    def make(checkpoint, *, name="runs/a", said=None):
        description = {"chat": {"trained": said}} if said else {}
        model = {"spec": f"m(checkpoint={checkpoint})", "name": "m", "description": description}
        run = make_run(name, model="m", changes={"manifest": {"model": model}})
        write_contamination_and_origins(run, NOTHING)
        return run

    return make


def written(runs, out):
    """(the row in the JSON, the row in the Markdown) of a board of one row."""
    write(build(runs), out)
    (plain,) = json.loads((out / "board.json").read_text())["tables"][0]["rows"]
    (line,) = re.findall(r"^\| 1 \|.*$", (out / "board.md").read_text(), re.MULTILINE)
    return plain, line


@pytest.mark.parametrize("named", ["trainings/t1", "trainings/t1/checkpoint"])
def test_the_record_of_a_run_tells_the_training_of_its_checkpoint(evaluated, tmp_path, named):
    train(tmp_path / "trainings" / "t1")
    run = evaluated(tmp_path / named)
    assert read_origins(run) == (
        CheckpointProvenance(
            name="t1",
            folder="../../trainings/t1",
            method="dr2seg(n0=45)",
            tasks=("reason_seg(split=train)",),
            seed=3,
            steps=300,
            config_hash="beef" * 8,
        ),
    )
    assert str(tmp_path) not in (run / "training.json").read_text()


def test_a_row_links_the_rollouts_of_its_training(evaluated, tmp_path):
    train(tmp_path / "trainings" / "t1")
    plain, line = written(evaluated(tmp_path / "trainings" / "t1"), tmp_path / "board")
    href = "../trainings/t1/rollouts.html"
    assert (tmp_path / "board" / href).read_text() == "rollouts"
    assert plain["training"] == {
        "method": "dr2seg(n0=45)",
        "tasks": ["reason_seg(split=train)"],
        "seed": 3,
        "steps": 300,
        "config_hash": "beef" * 8,
        "folder": "t1",
        "link": href,
    }
    assert f"m (training [t1: dr2seg, 300 steps, seed 3]({href}))" in line


def test_the_runs_of_a_training_lead_back_to_it(make_run, tmp_path):
    training = train(tmp_path / "t1")
    model = {"spec": f"m(checkpoint={training})", "name": "m", "description": {}}
    run = make_run("t1/eval/disc", model="m", changes={"manifest": {"model": model}})
    write_contamination_and_origins(run, NOTHING)
    assert read_origins(run)[0].folder == "../.."
    assert written(run, training / "board")[0]["training"]["link"] == "../rollouts.html"
    moved = training.rename(tmp_path / "moved")
    assert written(moved / "eval", tmp_path / "b")[0]["training"]["link"] == (
        "../moved/rollouts.html"
    )


def test_without_its_page_the_folders_own_record_is_linked(evaluated, tmp_path):
    train(tmp_path / "t1", page=False)
    plain, _ = written(evaluated(tmp_path / "t1"), tmp_path / "board")
    assert plain["training"]["link"] == "../t1/manifest.json"


def test_a_checkpoint_that_was_copied_away_is_linked_by_what_lies_in_it(evaluated, tmp_path):
    shutil.copytree(train(tmp_path / "t1") / "checkpoint", tmp_path / "mine")
    plain, _ = written(evaluated(tmp_path / "mine"), tmp_path / "board")
    assert (plain["training"]["folder"], plain["training"]["steps"]) == ("mine", 300)
    assert plain["training"]["link"] == "../mine/harness.json"


@pytest.mark.parametrize("where", ["far/deep", "alias"])
def test_a_training_outside_what_is_published_is_named_without_a_way(evaluated, tmp_path, where):
    training = train(tmp_path / "secret" / "t1")
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "far" / "t2").symlink_to(training)
    named = tmp_path / "far" / "t2" if where == "alias" else training
    out = tmp_path / "far" / "deep" / "board"
    plain, line = written(evaluated(named), out)
    assert plain["training"]["link"] is None
    assert plain["training"]["folder"] == "t1" and "m (training t1: dr2seg, 300" in line
    about = {name: value for name, value in plain.items() if name != "model_spec"}
    assert "secret" not in json.dumps(about)


def test_another_training_in_the_same_place_is_not_linked(evaluated, tmp_path):
    run = evaluated(train(tmp_path / "t1"))
    shutil.rmtree(tmp_path / "t1")
    assert written(run, tmp_path / "board")[0]["training"]["link"] is None
    train(tmp_path / "t1", hash="dead" * 8, seed=4)
    plain, _ = written(run, tmp_path / "board")
    assert (plain["training"]["seed"], plain["training"]["link"]) == (3, None)


def test_what_a_training_is_called_is_text_and_its_link_is_quoted(evaluated, tmp_path):
    name = "javascript:a [b](c) 'é#?<i>"
    training = train(tmp_path / name, method=f"m(note={HOSTILE})")
    run = evaluated("placeholder")
    manifest = json.loads((run / "manifest.json").read_text())
    assert read_origins(run) == ()
    origin = origin_of(training, run=run)
    kept = {slot: getattr(origin, slot) for slot in CheckpointProvenance.__slots__}
    (run / "training.json").write_text(json.dumps({"trainings": [kept]}))
    assert manifest["model"]["description"] == {}
    plain, line = written(run, tmp_path / "board")
    href = plain["training"]["link"]
    assert re.fullmatch(r"[A-Za-z0-9./%_~-]+", href) and unquote(href) == f"../{name}/rollouts.html"
    assert (tmp_path / "board" / unquote(href)).is_file()
    assert HOSTILE not in (tmp_path / "board" / "board.md").read_text()
    assert line.count(f"({href})") == 1 and "<i>" not in line


def test_of_several_trained_parts_the_row_shows_the_one_that_speaks(make_run, tmp_path):
    one, two = train(tmp_path / "one", hash="1" * 32), train(tmp_path / "two", hash="2" * 32)
    output = {"method": "dr2seg(n0=45)", "tasks": [], "seed": 3, "config_hash": "2" * 32}
    spec = f"m(segmenter=s(checkpoint={one}),backend=b(checkpoint={two}))"
    for name, description, shown in (("a", {}, "one"), ("b", {"chat": {"trained": output}}, "two")):
        model = {"spec": spec, "name": "m", "description": description}
        run = make_run(name, model="m", changes={"manifest": {"model": model}})
        write_contamination_and_origins(run, NOTHING)
        assert [origin.name for origin in read_origins(run)] == ["one", "two"]
        assert row(Run.open(run)).training.folder == shown


def test_a_record_of_another_checkpoint_than_the_model_describes_is_not_believed(
    evaluated, tmp_path
):
    output = {"method": "sft", "tasks": [], "seed": 1, "config_hash": "abc"}
    made = row(Run.open(evaluated(train(tmp_path / "t1"), said=output))).training
    assert (made.method, made.steps, made.folder, made.link) == ("sft", None, None, None)


def test_runs_of_before_and_models_that_nothing_trained_have_no_link(evaluated, make_run, tmp_path):
    run = make_run("runs/b", model="one")
    assert read_origins(run) == () and row(Run.open(run)).training is None
    output = {"method": "sft", "tasks": [], "seed": 1, "config_hash": "abc"}
    older = evaluated(train(tmp_path / "t1", hash="abc"), name="c", said=output)
    (older / "training.json").unlink()
    finish(older, Run.open(older).units(), Run.open(older).results)
    plain, line = written(older, tmp_path / "board")
    assert plain["training"]["config_hash"] == "abc" and "training" not in line
    (tmp_path / "foreign").mkdir()
    for text in ("[]", "{", '{"config_hash": "x"}', '{"config_hash": "x", "method": 3}'):
        (tmp_path / "foreign" / "manifest.json").write_text(text)
        assert origin_of(tmp_path / "foreign", run=run) is None


def test_a_trainer_that_counts_no_steps_has_none(evaluated, tmp_path):
    run = evaluated(train(tmp_path / "t1", steps=None))
    made = row(Run.open(run)).training
    assert made.steps is None and formatting.training_name(made) == "t1: dr2seg, seed 3"


def test_what_is_kept_for_others_names_the_training_and_no_folder(evaluated, tmp_path, capsys):
    run = evaluated(train(tmp_path / "t1"))
    assert main(["board", "keep", "--runs", str(run.parent), "--out", str(tmp_path / "kept")]) == 0
    capsys.readouterr()
    (origin,) = read_origins(tmp_path / "kept" / "a")
    assert (origin.name, origin.folder, origin.steps) == ("t1", "", 300)
    plain, _ = written(tmp_path / "kept", tmp_path / "board")
    assert (plain["training"]["folder"], plain["training"]["link"]) == ("t1", None)


def test_a_board_at_the_root_of_a_machine_publishes_itself_alone(tmp_path):
    root = type(tmp_path)(tmp_path.anchor)
    training = train(tmp_path / "t1")
    assert link(training, root / "a-folder-that-is-not-there") is None
    assert link(training, tmp_path / "board") == "../t1/rollouts.html"


@pytest.mark.parametrize(
    "plain",
    [
        [],
        {},
        {"trainings": None},
        {"trainings": [{}]},
        {"trainings": ["t1"]},
        {
            "trainings": [
                {
                    "name": "a",
                    "folder": "b",
                    "method": "c",
                    "tasks": [],
                    "seed": "1",
                    "steps": None,
                    "config_hash": "d",
                }
            ]
        },
        {
            "trainings": [
                {
                    "name": 5,
                    "folder": "b",
                    "method": "c",
                    "tasks": [],
                    "seed": 1,
                    "steps": None,
                    "config_hash": "d",
                }
            ]
        },
    ],
)
def test_a_record_that_was_tampered_with_is_refused(make_run, plain):
    run = make_run("a")
    (run / "training.json").write_text(json.dumps(plain))
    with pytest.raises(StoreError, match=r"training\.json"):
        row(Run.open(run))


@pytest.mark.parametrize("spoiled", [{"tasks": 5}, {"method": "x"}, {"tasks": [3]}, {"seed": {}}])
def test_an_odd_training_is_left_out_of_a_site(make_run, tmp_path, spoiled):
    folder = train(tmp_path / "t")
    (folder / CURVE).write_text('{"step": 1, "reward": 0.5}\n')
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | spoiled))
    named = [training["name"] for training in trainings([tmp_path], build([make_run("a")]))]
    assert named in ([], ["t"])
