"""`harness reproduce`: the commands of every table, the boards' files, and a table that is made."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import plugins
from harness.cli import reproduce
from harness.cli.main import build_parser, main
from harness.cli.reproduce import Request, plan
from harness.errors import DataError, UsageError
from harness.leaderboards.definitions import definitions, find, methods, read
from harness.leaderboards.estimate import device_of
from harness.leaderboards.published_results import PAPERS
from harness.spec import parse, parse_list

EXAMPLE = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"
TABLES = {
    "dt_r1": "1 2 3 4 5 6 7",
    "video_str": "1 2 3 4 5 6",
    "dr2seg": "1 2 3 4 5 6 7 10",
    "videoseg_r1": "1 2 3 4 5 6 7 B1 H3 H4 H5 H6",
    "vr_ttrl": "2 3 4 5 6 7 8 9 10 11",
}
BOARD = """
paper = "mine"
table = "1"
title = "two baselines"
columns = [{task = "reason_seg", metrics = ["gIoU", "time"], subset = "first2"}]
rows = [
    {row = "frame", model = "whole_frame"},
    {row = "chance", model = "random(seed=3)"},
    {row = "elsewhere"},
]
"""


def request(**given):
    return Request(data="ROOT", out=Path("out"), device=device_of("H100"), **given)


def test_there_is_a_board_of_every_table_with_scores():
    wanted = {(paper, table) for paper, tables in TABLES.items() for table in tables.split()}
    assert len(wanted) == 43
    ours = {("shapes", "pocket"), ("overview", "all")}
    assert {(one.paper, one.table) for one in definitions()} == wanted | ours


def test_boards_are_listed_by_paper_and_table(capsys):
    assert main(["list", "boards", "vr_ttrl", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {one["table"] for one in shown} == set(TABLES["vr_ttrl"].split())
    assert main(["list", "boards"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(definitions())


@pytest.mark.parametrize("pocket", [False, True], ids=["paper", "pocket"])
def test_a_dry_run_of_every_table_has_commands_that_can_be_given(pocket):
    parser = build_parser()
    small = 0
    for definition in definitions():
        made = plan(definition, request(pocket=pocket))
        rows = {row.row for row in definition.rows if row.model}
        assert pocket or rows.isdisjoint(made.left_out) or definition.paper == "dt_r1"
        small += bool(made.steps)
        folders = set()
        for step in made.steps:
            parsed = parser.parse_args(list(step.command))
            if step.kind == "train":
                assert step.estimate.hours > 0 and step.estimate.memory > 1
                needed = [parsed.model] if parsed.model else []
                folders.add(str(parsed.out))
            elif step.kind == "eval":
                for task in parse_list(",".join(parsed.tasks)):
                    splits, protocols = card(task.name)
                    assert task.arguments.get("split", splits[0]) in splits
                    assert task.arguments.get("protocol", protocols[0]) in protocols
                needed = parsed.model
            else:
                needed = []
            made_here = {one for text in needed for one in paths(parse(text))}
            assert made_here <= folders, (definition.heading, step.name)
        kinds = [step.kind for step in made.steps]
        assert kinds == sorted(kinds, key=["train", "eval", "board"].index)
        assert not made.steps or kinds[-1] == "board"
    assert small == (len(definitions()) - 2 if pocket else len(definitions()))


@cache
def card(task):
    found = plugins.find_card(task)
    return list(found.splits), list(found.protocols)


def paths(spec):
    """The checkpoints of a SPEC that a training makes."""
    for value in spec.arguments.values():
        if isinstance(value, type(spec)):
            yield from paths(value)
        elif str(value).startswith("out/"):
            yield value


def test_a_training_of_one_name_is_the_same_in_every_table():
    known = {}
    for definition in definitions():
        for name, step in definition.trainings.items():
            assert known.setdefault(name, step) == step


def test_a_dry_run_prints_commands_hours_and_memory_and_loads_no_network():
    code = (
        "import sys; from harness.cli.main import main; "
        "code = main(['reproduce', 'dr2seg', '3', '--dry-run', '--device', 'L40', '--json']); "
        "sys.exit(code or any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert plain["device"] == "L40"
    kinds = [step["kind"] for step in plain["steps"]]
    assert kinds == ["train"] * 4 + ["eval"] * 3 + ["board"]
    for step in plain["steps"][:7]:
        assert step["hours"] > 0 and step["memory_gb"] > 0


@pytest.mark.parametrize(
    ("paper", "table", "named"),
    [("dr2seg", "99", TABLES["dr2seg"].split()), ("lisa", "1", [*PAPERS, "shapes", "overview"])],
)
def test_an_unknown_paper_or_table_names_what_there_is(paper, table, named):
    with pytest.raises(UsageError) as error:
        find(paper, table)
    assert all(name in str(error.value) for name in named)


def test_an_unknown_device_names_those_that_are_known(capsys):
    code = main(["reproduce", "dr2seg", "3", "--dry-run", "--device", "abacus"])
    assert code == UsageError.exit_code
    assert "H100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('paper = "mine"', "paper = 3", "paper"),
        ('title = "two baselines"', "", "title"),
        ('row = "frame"', 'line = "frame"', "line"),
        ('model = "whole_frame"', 'model = "dr2seg(checkpoint={gone})"', "gone"),
        ("rows = [", "rows = [[", "board"),
    ],
)
def test_a_board_that_is_not_in_the_form_is_refused_with_its_path(tmp_path, old, new, named):
    path = tmp_path / "board.toml"
    path.write_text(BOARD.replace(old, new, 1))
    with pytest.raises(DataError) as error:
        read(path)
    assert str(path) in str(error.value) and named in str(error.value)


def test_two_boards_of_one_name_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(BOARD)
    with pytest.raises(DataError, match=r"b\.toml"):
        definitions(tmp_path)


def test_a_configuration_that_is_not_installed_is_named(tmp_path):
    path = tmp_path / "board.toml"
    trained = BOARD.replace('model = "whole_frame"', 'model = "dr2seg(checkpoint={x})"')
    path.write_text(f'{trained}\n[trainings.x]\nmethod = "dr2seg"\nconfig = "gone"\n')
    with pytest.raises(DataError, match="gone"):
        plan(read(path), request())


def test_a_model_that_does_not_take_an_argument_is_named(tmp_path):
    path = tmp_path / "board.toml"
    path.write_text(BOARD.replace("random(seed=3)", "random(sead=3)"))
    with pytest.raises(UsageError, match="sead"):
        plan(read(path), request())


def test_a_table_of_a_folder_is_made_and_what_is_finished_is_not_made_again(tmp_path, capfd):
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "mine.toml").write_text(BOARD)
    command = ["reproduce", str(tmp_path / "boards"), "1", "--data", str(EXAMPLE)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    made = json.loads((tmp_path / "out" / "mine-1" / "board.json").read_text())
    (table,) = made["tables"]
    assert {row["model"] for row in table["rows"]} == {"whole_frame", "random"}
    assert all(row["rescored"] and row["kind"] == "measured" for row in table["rows"])
    numbers = {row["model"]: row["metrics"]["gIoU"] for row in table["rows"]}
    cells = dict(made["grid"]["rows"])
    assert [cell["value"] for cell in cells["frame"]][:1] == [numbers["whole_frame"]]
    assert cells["frame"][1]["value"] > 0
    assert [cell["model"] for cell in cells["elsewhere"]] == [None, None]
    text = (tmp_path / "out" / "mine-1" / "board.md").read_text()
    assert "elsewhere" in text and f"{numbers['whole_frame']:.3f}" in text


def test_a_command_that_fails_ends_it_with_its_code(tmp_path, capfd):
    (tmp_path / "mine.toml").write_text(BOARD)
    command = ["reproduce", str(tmp_path), "1", "--data", str(tmp_path)]
    assert main([*command, "--out", str(tmp_path / "out")]) == DataError.exit_code
    assert not (tmp_path / "out" / "mine-1").exists()


def test_trainings_go_on_and_finished_ones_are_left(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        reproduce.subprocess,
        "run",
        lambda line, **given: ran.append(line) or subprocess.CompletedProcess(line, 0),
    )
    trainings = tmp_path / "trainings"
    finished = ["dr2seg_7b"]
    for name in ("dr2seg_7b", "dr2seg_7b_r_desc"):
        (trainings / name).mkdir(parents=True)
        (trainings / name / "manifest.json").write_text("{}")
    monkeypatch.setattr(
        reproduce,
        "Training",
        SimpleNamespace(open=lambda folder: SimpleNamespace(is_finished=folder.name in finished)),
    )
    arguments = ["reproduce", "dr2seg", "3", "--data", "ROOT", "--out", str(tmp_path), "--pocket"]
    assert main(arguments) == 0
    trained = [line for line in ran if "train" in line]
    folders = [Path(line[line.index("--out") + 1]).name for line in trained]
    assert folders == ["dr2seg_7b_without_both", "dr2seg_7b_r_desc", "dr2seg_7b_few_shot"]
    assert ["--resume" in line for line in trained] == [False, True, False]


@pytest.mark.slow
def test_a_papers_table_is_made_with_pocket_on_a_generated_world(tmp_path, capfd):
    pytest.importorskip("trl")
    data = tmp_path / "data"
    tasks = "reason_seg,visionreasoner_7k"
    assert (
        main(["data", "make", "shapes", "--out", str(data), "--size", "4", "--tasks", tasks]) == 0
    )
    command = ["reproduce", "dr2seg", "3", "--pocket", "--set", "max_steps=1"]
    assert main([*command, "--data", str(data), "--out", str(tmp_path / "out")]) == 0
    made = json.loads((tmp_path / "out" / "dr2seg-3" / "board.json").read_text())
    (table,) = made["tables"]
    assert len(table["rows"]) == 3
    assert {row["kind"] for row in table["rows"]} == {"measured"}  # of a world, no paper's numbers
    assert all("pocket" in " ".join(row["badges"]) for row in table["rows"])
    assert all(row["metrics"]["reasoning tokens"] is not None for row in table["rows"])


def test_no_board_names_a_part_of_another_method_twice():
    assert len({(m.definition.heading, m.row, str(m.spec)) for m in methods()}) == len(methods())
