"""`harness eval --vary`: settings are varied as typed, and the board says what hangs on them."""

import pytest

from harness.cli import sweep as command_line
from harness.cli.main import main
from harness.cli.model_choice import requested_models
from harness.errors import UsageError
from harness.record import Run, runs_below
from harness.run.sweep import Sweep, merge_values, parse_setting, sweep_of, with_argument
from harness.spec import parse


def test_values_are_read_as_in_a_spec():
    assert parse_setting("frames=4,fps(rate=2,max_frames=8),none") == (
        "frames",
        (4, parse("fps(rate=2,max_frames=8)"), None),
    )
    for text in ("frames", "=4", "a b=1"):
        with pytest.raises(UsageError, match="SETTING=VALUE"):
            parse_setting(text)


def test_a_setting_that_is_named_again_has_all_its_values():
    assert merge_values(["a=1,2", "b.c=x", " a =3"]) == {"a": (1, 2, 3), "b.c": ("x",)}


@pytest.mark.parametrize(
    "vary", [["seed=1,2,3"], ["seed=1", "seed=2", "seed=3"], ["seed=1,2", "seed=2,3"]]
)
def test_repeated_options_vary_as_one_list_does(vary, tmp_path, monkeypatch):
    requested = []
    monkeypatch.setattr(command_line, "evaluate", lambda given: requested.extend(given.model) or 0)
    words = [word for text in vary for word in ("--vary", text)]
    where = ["--tasks", "t", "--data", ".", "--out", str(tmp_path)]
    assert main(["eval", "--model", "random", *words, *where]) == 0
    assert requested == ["random", "random(seed=1)", "random(seed=2)", "random(seed=3)"]
    assert list(sweep_of(tmp_path / "run")["models"]) == requested


def test_prompts_of_files_are_known_by_their_words_as_their_runs_are(tmp_path, monkeypatch):
    requested = []
    monkeypatch.setattr(command_line, "evaluate", lambda given: requested.extend(given.model) or 0)
    for name in ("look", "see"):
        (tmp_path / name).write_text(f"{name} for {{question}}")
    vary = f"prompt={','.join(f'file:{tmp_path / name}' for name in ('look', 'see'))}"
    where = ["--tasks", "t", "--data", ".", "--out", str(tmp_path / "runs")]
    assert main(["eval", "--model", "pocket", "--vary", vary, *where]) == 0
    evaluated = [str(spec) for spec in requested_models(requested, tell=False)]
    assert list(sweep_of(tmp_path / "runs" / "run")["models"]) == evaluated
    assert evaluated[1:] == [
        f'pocket(prompt="{word} for {{question}}")' for word in ("look", "see")
    ]


def test_a_setting_of_a_part_is_changed_where_it_stands():
    spec = parse("qwen_vl(backend=openai(model=m),frames=8)")
    assert str(with_argument(spec, "backend.seed", 3)) == (
        "qwen_vl(backend=openai(model=m,seed=3),frames=8)"
    )
    with pytest.raises(UsageError, match=r"segmenter=NAME"):
        with_argument(spec, "segmenter.size", 1)


def test_one_at_a_time_keeps_the_base_and_a_grid_is_every_combination():
    base = parse("m(a=1,b=1)")
    alone = [str(spec) for spec, _ in Sweep(base, {"a": (1, 2), "b": (3,)}).models()]
    assert alone == ["m(a=1,b=1)", "m(a=2,b=1)", "m(a=1,b=3)"]
    grid = [given for _, given in Sweep(base, {"a": (1, 2), "b": (3, 4)}, grid=True).models()]
    assert grid == [{"a": a, "b": b} for a in (1, 2) for b in (3, 4)]


def test_the_board_says_how_much_hangs_on_a_setting(command, shapes, tmp_path):
    out = tmp_path / "runs"
    done = command(
        "eval",
        "--model",
        "random(seed=1)",
        "--vary",
        "seed=2,3",
        "--tasks",
        "reason_seg",
        "--data",
        shapes,
        "--out",
        out,
        "--quiet",
    )
    assert done.returncode == 0, done.stderr
    assert len(list(out.rglob("results.json"))) == 3
    command("board", "build", "--runs", out, "--out", tmp_path / "board")
    text = (tmp_path / "board" / "board.md").read_text()
    (line,) = [line for line in text.splitlines() if "Sensitivity" in line]
    assert "3 settings" in line and "seed" in line
    other = command(
        "eval",
        "--model",
        "random",
        "--vary",
        "seed=9",
        "--tasks",
        "reason_seg",
        "--data",
        shapes,
        "--out",
        out,
    )
    assert other.returncode == UsageError.exit_code and str(out) in other.stderr


BASE = "video_str(checkpoint=pocket,prompt=short,frames=2,pixels=12544,max_new_tokens=32)"
VARIED = {"prompt": "paper", "frames": 4, "pixels": 28224}


def test_prompt_frames_and_pixels_reach_the_network_and_each_has_its_sensitivity(shapes, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    out, board = tmp_path / "runs", tmp_path / "board"
    vary = [word for name, value in VARIED.items() for word in ("--vary", f"{name}={value}")]
    where = ["--tasks", "shapes_qa(part=video)", "--subset", "first2", "--data", str(shapes)]
    swept = ["eval", "--model", BASE, *vary, *where, "--out", str(out), "--quiet"]
    assert main(swept) <= 1  # 1: random weights give no answer
    read = dict(usage_by_setting(out))
    assert set(read) == {"", *VARIED}
    base = read.pop("")
    assert read["frames"]["frames"] == 2 * base["frames"]
    assert read["prompt"]["frames"] == read["pixels"]["frames"] == base["frames"]
    for name, usage in read.items():
        assert usage["prompt_tokens"] > base["prompt_tokens"], name
    assert main(["board", "build", "--runs", str(out), "--out", str(board)]) == 0
    text = (board / "board.md").read_text()
    info = [line for line in text.splitlines() if "Sensitivity of video_str" in line]
    assert len(info) == len(VARIED)
    for name, value in VARIED.items():
        (line,) = [line for line in info if f"2 settings of {name}" in line]
        assert f"({name}={value})" in line and f"({name} " in line and "accuracy" in line


def usage_by_setting(out):
    """What a sweep's runs read, by the one setting in which they are not the base."""
    for run in map(Run.open, runs_below(out)):
        given = sweep_of(run.folder)["models"][run.manifest["model"]["spec"]]
        yield "".join(given), run.results["usage"]


def test_a_grid_of_nothing_is_refused(capsys):
    assert main(["eval", "--model", "random", "--grid"]) == 2
    assert "--vary" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sweep", "samples", "curves"])
def test_an_old_name_runs_and_says_the_new_one(name, tmp_path, capsys):
    there = ["samples", str(tmp_path)]
    typed = {"samples": there, "curves": ["curves", str(tmp_path), "--out", "f.svg"]}
    code = main(typed.get(name, [name]))
    first, *rest = capsys.readouterr().err.splitlines()
    assert code and rest and f"`harness {name}` is `harness " in first
