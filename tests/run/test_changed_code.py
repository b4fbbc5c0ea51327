"""The code of a user's own plugins: recorded, compared on resume, the same in every process."""

import json
import sys
from dataclasses import dataclass

import pytest

from harness.cli.main import main
from harness.errors import DataError, ResumeMismatch
from harness.leaderboards.board import build
from harness.leaderboards.differences.changed import answer_changes
from harness.leaderboards.repeats import repeats
from harness.plugin_code import code_changes, plugin_code
from harness.record import Run, finish

MODULES = {
    "model.py": """
from dataclasses import dataclass
from pathlib import Path

from harness import Answer, Model, Prediction
from harness.masks import Rle
from . import threshold
from .words import WORDS

PROMPT = (Path(__file__).parent / "prompts" / "ask.txt").read_text()


@dataclass(frozen=True)
class Finder(Model):
    name: str = "bright_finder"
    batch_size: int = 4

    def describe(self):
        return {}

    def predict(self, queries):
        predictions = []
        for query in queries:
            mask = Rle.from_array(query.media[0].frame(0)[:, :, 0] > threshold.BRIGHT)
            predictions.append(Prediction(query_id=query.id, answer=Answer(masks=(mask,))))
        return predictions


def bright_finder(*, start: int = 0):
    if start:
        import bright_finder.late
    return Finder()
""",
    "__init__.py": "",
    "threshold.py": "BRIGHT = 127\n",
    "words/__init__.py": "from ..numbers import ONE\nWORDS = (ONE,)\n",
    "numbers.py": "ONE = 1\n",
    "late.py": "LATE = True\n",
    "unrelated.py": "UNRELATED = 1\n",
    "prompts/ask.txt": "Find {question}\n",
    "prompts/other.txt": "Perhaps read\n",
    "notes/other.txt": "Not read\n",
    "scorer.py": """
from harness.scores import Mean
from .least import LEAST


def score(unit, predictions):
    \"\"\"Score one unit.\"\"\"
    found = sum(p.answer.masks[0].area > LEAST for p in predictions)
    return {"found": Mean(found / len(unit))}
""",
    "least.py": "LEAST = 5\n",
    "task.py": """
from dataclasses import replace
from functools import partial
from harness.scores import Metric
from harness.task import Ceiling, Protocol
from toys import dots
from .scorer import score


def graded_dots(data):
    protocol = Protocol(
        name="dots/found",
        score=partial(score),
        metrics=(Metric("found"),),
        headline="found",
        ceiling=Ceiling(value=1.0),
        about="",
    )
    return replace(dots(data), name="graded_dots", protocol=protocol)
""",
    "reward.py": """
def brightness(response, sample, **facts):
    return min(len(response) / 100, 1.0)
""",
}
USED = {"__init__.py", "late.py", "model.py", "numbers.py", "threshold.py", "words/__init__.py"}
TEXTS = {"prompts/ask.txt", "prompts/other.txt"}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The folder of an installed package with a model and a reward."""
    site = tmp_path / "site"
    record = site / "bright_finder-0.1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: bright-finder\nVersion: 0.1\n")
    (record / "entry_points.txt").write_text(
        "[harness.models]\nbright_finder = bright_finder.model:bright_finder\n"
        "[harness.tasks]\ngraded_dots = bright_finder.task:graded_dots\n"
        "[harness.rewards]\nbrightness = bright_finder.reward:brightness\n"
    )
    for name, text in MODULES.items():
        path = site / "bright_finder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # edits keep their size and second
    yield site / "bright_finder"
    for name in [name for name in sys.modules if name.partition(".")[0] == "bright_finder"]:
        del sys.modules[name]


def evaluated(dots, out, *more):
    line = ["eval", "--model", "bright_finder", "--tasks", "dots", "--data", dots, "--out", out]
    return main([str(word) for word in [*line, "--quiet", *more]])


def only_run(out):
    (manifest,) = out.rglob("manifest.json")
    return Run(manifest.parent)


def test_the_code_is_the_modules_that_the_plugin_imports_and_the_files_that_it_names(package):
    code = plugin_code(["bright_finder"])
    assert code["bright_finder"]["version"] == "0.1"
    assert set(code["bright_finder"]["files"]) == USED | TEXTS
    of_reward = plugin_code(["brightness"])["bright_finder"]["files"]
    assert set(of_reward) == {"__init__.py", "reward.py"}
    both = plugin_code(["brightness", "bright_finder", "box"])
    assert set(both["bright_finder"]["files"]) == USED | TEXTS | {"reward.py"}


@pytest.mark.parametrize("name", sorted(USED | TEXTS))
def test_a_change_of_any_of_them_is_another_hash(package, name):
    before = plugin_code(["bright_finder"])
    path = package / name
    path.write_text(f"{path.read_text()}\nCHANGED = True\n")
    after = plugin_code(["bright_finder"])
    differing = {
        file
        for file, value in after["bright_finder"]["files"].items()
        if before["bright_finder"]["files"][file] != value
    }
    assert differing == {name}


def test_comments_layout_and_other_files_do_not_count(package):
    before = plugin_code(["bright_finder"])
    (package / "threshold.py").write_text("# How bright?\n\nBRIGHT = (\n    127\n)\n")
    (package / "unrelated.py").write_text("UNRELATED = 2\n")
    (package / "notes" / "other.txt").write_text("Changed\n")
    (package / "results.json").write_text("{}")
    assert plugin_code(["bright_finder"]) == before


def test_a_text_that_the_plugin_writes_into_its_package_is_no_change_of_its_code(package):
    threshold = package / "threshold.py"
    threshold.write_text("BRIGHT = 127\nCACHE = 'cache.json'\n")
    before = plugin_code(["bright_finder"])
    (package / "cache.json").write_text("{}")
    assert not code_changes(before, plugin_code(["bright_finder"]))


def test_a_folder_whose_name_begins_a_path_counts(package):
    (package / "threshold.py").write_text("BRIGHT = 127\nPATH = f'notes/{BRIGHT}.txt'\n")
    assert "notes/other.txt" in plugin_code(["bright_finder"])["bright_finder"]["files"]


def test_a_class_in_a_function_may_have_lines_of_text_at_the_margin(monkeypatch):
    class Made:
        pass

    Made.__module__ = "__main__"
    codes = []
    for text in ("Find it", "Find all"):
        source = f'    class Made:\n        PROMPT = """\n{text}\n"""\n'
        monkeypatch.setattr("inspect.getsource", lambda _, source=source: source)
        codes.append(plugin_code([], Made()))
    assert code_changes(*codes)


def test_a_module_beside_others_counts_with_those_that_it_imports(tmp_path, monkeypatch):
    @dataclass
    class Made:
        pass

    outside = tmp_path / "weights.bin"
    outside.write_text("far")
    (tmp_path / "lone_model.py").write_text(
        "import lone_help\nimport numpy\nimport unknown_one\n"
        f"FOLDER, WEIGHTS = 'own_prompts', {str(outside)!r}\n"
    )
    for name in ("own_prompts/a1.txt", "own_results/a1.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("Find")
    (tmp_path / "lone_help.py").write_text("X = 1\n")
    (tmp_path / "lone_other.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    Made.__module__ = "lone_model"
    expected = {"lone_model.py", "lone_help.py", "own_prompts/a1.txt"}
    assert set(plugin_code([], Made())["lone_model"]["files"]) == expected


def test_code_that_python_cannot_read_has_a_hash(package):
    before = plugin_code(["bright_finder"])
    (package / "late.py").write_text("def (\n")
    assert plugin_code(["bright_finder"]) != before


@pytest.mark.parametrize("workers", [1, 2])
def test_an_edited_plugin_is_refused_and_its_old_score_is_not_told(
    package, dots, tmp_path, capsys, workers
):
    out = tmp_path / "out"
    assert evaluated(dots, out) == 0
    recorded = only_run(out).manifest
    assert set(recorded["provenance"]["plugins"]["bright_finder"]["files"]) >= USED
    (package / "threshold.py").write_text("BRIGHT = 250\n")
    capsys.readouterr()
    assert evaluated(dots, out, "--workers", workers) == ResumeMismatch.exit_code
    streams = capsys.readouterr()
    assert "bright_finder, threshold.py" in streams.err and "model.py" not in streams.err
    assert "--restart" in streams.err
    assert only_run(out).manifest == recorded


def test_the_same_code_resumes_with_another_number_of_workers(package, dots, tmp_path):
    out = tmp_path / "out"
    assert evaluated(dots, out, "--workers", 2) == 0
    recorded = only_run(out).manifest
    assert evaluated(dots, out) == 0 and only_run(out).manifest == recorded


def test_accepted_code_goes_on_and_the_record_says_so(package, dots, tmp_path, capsys):
    out = tmp_path / "out"
    model = package / "model.py"
    working = model.read_text()
    model.write_text(working.replace("predictions = []", "predictions = [][1]"))
    assert evaluated(dots, out) != 0
    sys.modules.pop("bright_finder.model")
    model.write_text(working)
    assert evaluated(dots, out, "--retry-failed") == ResumeMismatch.exit_code
    assert "--accept-code goes on" in capsys.readouterr().err
    assert evaluated(dots, out, "--retry-failed", "--accept-code") == 0
    manifest = only_run(out).manifest
    (change,) = manifest["changed"]
    assert "model.py" in change["setting"] and change["from"] != change["to"]
    now = manifest["provenance"]["plugins"]["bright_finder"]["files"]["model.py"]
    assert now == change["to"]
    assert evaluated(dots, out) == 0, "the accepted code is that of the run"
    assert len(only_run(out).manifest["changed"]) == 1
    board = build(out)
    assert any("different code: code of bright_finder" in note for note in board.tables[0].notes)


def test_a_finished_run_does_not_become_one_of_other_code(package, dots, tmp_path, capsys):
    out = tmp_path / "out"
    assert evaluated(dots, out) == 0
    recorded = only_run(out).manifest
    (package / "threshold.py").write_text("BRIGHT = 250\n")
    for options in (["--accept-code"], ["--accept-code", "--retry-failed"]):  # none has failed
        assert evaluated(dots, out, *options) == ResumeMismatch.exit_code
        told = capsys.readouterr().err
        assert "--restart" in told and "--accept-code" not in told
    assert only_run(out).manifest == recorded


@pytest.mark.parametrize(("name", "is_told"), [("prompts/ask.txt", True), ("threshold.py", False)])
def test_a_text_that_a_plugin_may_write_itself_is_told(
    name, is_told, package, dots, tmp_path, capsys
):
    out = tmp_path / "out"
    assert evaluated(dots, out) == 0
    (package / name).write_text("BRIGHT = 250\n")
    assert evaluated(dots, out) == ResumeMismatch.exit_code
    assert ("outside its package" in capsys.readouterr().err) == is_told


def test_two_codes_of_a_plugin_are_not_told_as_the_same(package, dots, tmp_path, capsys):
    assert evaluated(dots, tmp_path / "a", "--seed", 0) == 0
    for name in [name for name in sys.modules if name.partition(".")[0] == "bright_finder"]:
        del sys.modules[name]
    (package / "threshold.py").write_text("BRIGHT = 255\n")
    assert evaluated(dots, tmp_path / "b", "--seed", 1) == 0
    a, b = only_run(tmp_path / "a"), only_run(tmp_path / "b")
    line = "code of bright_finder, threshold.py differs"
    assert answer_changes(a, b) == [line]
    capsys.readouterr()
    assert main(["diff", str(a.folder), str(b.folder), "--data", str(dots)]) == 0
    assert line in " ".join(capsys.readouterr().out.split())
    with pytest.raises(DataError, match="the same code"):
        repeats([a.folder, b.folder])


def test_boards_and_gates_count_the_numbers_of_an_older_scorer(package, dots, tmp_path, capsys):
    out, board = tmp_path / "out", tmp_path / "board"
    line = ["eval", "--model", "bright_finder", "--tasks", "graded_dots", "--data", dots]
    line = [str(word) for word in [*line, "--out", out]]
    assert main(line) == 0
    baseline = str(only_run(out).folder)
    commands = {
        "board": ["board", "build", "--runs", str(out), "--out", str(board)],
        "site": ["board", "site", "--runs", str(out), "--out", str(tmp_path / "site-of-runs")],
        "gate": ["board", "check", "--baseline", baseline, "--candidate", str(out)],
    }

    def notes():
        texts = {}
        for name, command in commands.items():
            capsys.readouterr()
            assert main(command) == 0
            texts[name] = " ".join("".join(capsys.readouterr()).split())
        texts["page"] = (board / "board.md").read_text()
        return {name: "of an older scorer" in text for name, text in texts.items()}, texts

    def edited(name, old, new):
        path = package / name
        path.write_text(path.read_text().replace(old, new))
        for module in [module for module in sys.modules if module.startswith("bright_finder")]:
            del sys.modules[module]

    edited("scorer.py", "Score one unit.", "Count the masks.")
    edited("task.py", "import replace", "import field, replace")
    assert not any(notes()[0].values()), "neither docstrings nor the loader make a number"
    edited("least.py", "5", "100")
    has_note, texts = notes()
    assert all(has_note.values()), texts
    assert "1 number of graded_dots is of an older scorer" in texts["board"]
    assert "2 numbers of graded_dots are" in texts["gate"]
    assert main(["score", baseline]) == 1 and only_run(out).results["metrics"]["found"] == 1
    assert main([*line, "--rescore"]) == 0 and not any(notes()[0].values())

    run = only_run(out)
    old_record = {key: value for key, value in run.results.items() if key != "scoring_code"}
    finish(run.folder, list(run.units()), old_record)
    edited("least.py", "100", "5")
    assert not any(notes()[0].values()), "nothing is known of an earlier version's scorer"


def test_a_record_without_code_is_resumed(package, dots, tmp_path):
    out = tmp_path / "out"
    assert evaluated(dots, out) == 0
    run = only_run(out)
    manifest = dict(run.manifest)
    plain = {key: value for key, value in manifest["provenance"].items() if key != "plugins"}
    (run.folder / "results.json").unlink()
    (run.folder / "manifest.json").write_text(json.dumps({**manifest, "provenance": plain}))
    assert evaluated(dots, out) == 0


def test_a_finished_run_says_that_nothing_was_predicted(package, dots, tmp_path, capsys):
    out = tmp_path / "out"
    line = ["eval", "--model", "bright_finder", "--tasks", "dots", "--data", dots, "--out", out]
    for is_repeat in (False, True):
        capsys.readouterr()
        assert main([str(word) for word in line]) == 0
        assert ("nothing was predicted" in capsys.readouterr().err) == is_repeat


def test_a_class_of_the_program_counts_with_its_source(dots, tmp_path):
    """A script's own model, whose class changes between two runs of the script."""
    script = tmp_path / "script.py"
    text = """
import sys
sys.path.insert(0, {toys!r})
import harness
from harness import Answer, Model, Prediction
from harness.masks import Rle

class Mine(Model):
    name = "mine"
    batch_size = 8
    code = 3  # a name that a user may choose
    def describe(self):
        return {{}}
    def predict(self, queries):
        masks = [query.media[0].frame(0)[:, :, 0] > {bright} for query in queries]
        return [
            Prediction(query_id=query.id, answer=Answer(masks=(Rle.from_array(mask),)))
            for query, mask in zip(queries, masks)
        ]

print({printed!r})
task = harness.load_task("dots", data={data!r})
run = harness.evaluate(task, Mine(), out={out!r})
print(run.results["metrics"])
"""
    import subprocess

    from tests.run.conftest import TOYS

    def ran(bright, printed):
        out = str(tmp_path / "out")
        values = {"bright": bright, "printed": printed, "data": str(dots), "out": out}
        script.write_text(text.format(toys=str(TOYS), **values))
        return subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
        )

    assert ran(127, "first").returncode == 0
    assert ran(127, "second").returncode == 0, "the rest of the script does not count"
    changed = ran(250, "third")
    assert changed.returncode != 0 and "__main__, Mine" in changed.stderr
