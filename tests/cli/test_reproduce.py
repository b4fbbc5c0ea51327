"""`harness reproduce`: the commands of every table, the boards' files, and a table that is made."""

import inspect
import json
import re
import socket
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.main import build_parser, main
from harness.errors import DataError, UsageError
from harness.leaderboards.column_metrics import check_metrics
from harness.leaderboards.definitions import (
    definitions,
    find,
    methods,
    methods_of,
    read,
    unreadable,
)
from harness.leaderboards.estimate import device_of
from harness.leaderboards.published_results import PAPERS
from harness.leaderboards.table_commands import plan
from harness.papers import deviations
from harness.spec import parse, parse_list
from harness.types import AnswerForm

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "tasks" / "reason_seg" / "example"
TABLES = {
    "dt_r1": "1 2 3 4 5 6 7",
    "video_str": "1 2 3 4 5 6",
    "dr2seg": "1 2 3 4 5 6 7 10",
    "videoseg_r1": "1 2 3 4 5 6 7 B1 H3 H4 H5 H6",
    "vr_ttrl": "2 3 4 5 6 7 8 9 10 11",
}
SERVED = (
    "qwen_vl(backend=openai(model=m,base_url=http://x/v1,key_variable=NO_KEY,coordinates=pixels),"
    "segmenter=box)"
)
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


def steps_of(definition):
    return plan(definition, "ROOT", Path("out"), device_of("H100"))


def test_there_is_a_board_of_every_table_with_scores():
    wanted = {(paper, table) for paper, tables in TABLES.items() for table in tables.split()}
    assert len(wanted) == 43
    others = {(one.paper, one.table) for one in definitions()} - wanted
    assert {one for one in others if one[0] != "pocket"} == {
        ("shapes", "pocket"),
        ("overview", "all"),
    }
    small = {tuple(table.rsplit("-", 1)) for paper, table in others if paper == "pocket"}
    assert small <= wanted and wanted <= {(one.paper, one.table) for one in definitions()}


def test_a_dry_run_of_every_table_has_commands_that_can_be_given():
    parser = build_parser()
    for definition in definitions():
        steps, folders = steps_of(definition), set()
        for step in steps:
            parsed = parser.parse_args(list(step.command))
            needed = []
            if step.command[0] == "train":
                needed = [parsed.model] if parsed.model else []
                folders.add(str(parsed.out))
                assert step.estimate.hours > 0 and step.estimate.memory > 0
            elif step.command[0] == "eval":
                for task in parse_list(",".join(parsed.tasks)):
                    splits, protocols = card(task.name)
                    assert task.arguments.get("split", splits[0]) in splits
                    assert task.arguments.get("protocol", protocols[0]) in protocols
                needed = parsed.model
                assert step.needs or step.estimate.hours > 0
            for text in needed:
                check(parse(text))
                assert {*paths(parse(text))} <= folders, (definition.heading, step.name)
        kinds = [step.command[0] for step in steps]
        assert kinds == sorted(kinds, key=["train", "eval", "board"].index)
        assert {"eval", "board"} <= {*kinds}


def test_a_column_names_a_judge_if_and_only_if_its_answers_are_graded():
    for definition in definitions():
        for column in (column for column in definition.columns if column.task):
            module = sys.modules[plugins.load("tasks", column.name).__module__]
            protocol = getattr(module, "PROTOCOLS", {}).get(column.protocol)
            is_graded = protocol is not None and protocol.rubric is not None
            assert bool(column.judge) is is_graded, (definition.heading, column.task)


def check(spec):
    """The model takes the arguments, and so does one that it adapts."""
    assert spec.arguments.keys() <= {*parameters(spec.name)}, spec
    if "base" in spec.arguments:
        check(spec.arguments["base"])


@cache
def parameters(model):
    return tuple(inspect.signature(plugins.load("models", model)).parameters)


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
        "code = main(['reproduce', 'dr2seg', '3', '--dry-run', '--device', 'L40']); "
        "sys.exit(code or any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    commands = [line for line in lines if line.startswith(("harness ", "accelerate "))]
    assert [" train " in line for line in commands] == [True] * 4 + [False] * 4
    about = [line for line in lines if line.startswith(("# train", "# eval"))]
    assert len(about) == 7 and all("GB each on" in line and "L40" in line for line in about)


def shown(capsys, *arguments):
    """The commands of a dry run, each with the lines above it."""
    assert main(["reproduce", *arguments, "--dry-run"]) == 0
    return capsys.readouterr().out.split("\n\n")


def test_a_dry_run_counts_the_papers_samples_and_not_a_generated_worlds(
    tmp_path, monkeypatch, capsys
):
    """The tutorial's toy data lies in a folder that is called ROOT."""
    command = ("dr2seg", "1", "--device", "H100")
    nowhere = shown(capsys, *command)
    monkeypatch.chdir(tmp_path)
    assert (
        main(["data", "make", "shapes", "--out", "ROOT", "--size", "1", "--tasks", "reason_seg"])
        == 0
    )
    capsys.readouterr()
    assert shown(capsys, *command) == shown(capsys, *command, "--data", "ROOT") == nowhere
    evaluations = [part for part in nowhere if part.startswith("# eval")]
    assert all("200 of reason_seg(split=val" in part and "779 of" in part for part in evaluations)
    assert "7,000 of visionreasoner_7k" in "".join(nowhere) and "38 s" not in "".join(nowhere)


def test_a_row_that_fits_no_device_names_what_does(capsys):
    (row,) = [
        part for part in shown(capsys, "vr_ttrl", "8", "--device", "L40S") if "updates=10" in part
    ]
    assert "more than the 48 GB of one L40S" in row
    assert "#     finetune=lora in --model: 34 GB" in row and "H100" in row
    assert "GB of the machine's own memory" in row
    for table in ("2", "3", "10"):  # what the paper had is enough
        assert "more than" not in "".join(shown(capsys, "vr_ttrl", table, "--device", "H100"))


def test_a_training_is_launched_on_the_machines_that_its_configuration_names(tmp_path, capsys):
    parts = shown(capsys, "dt_r1", "7", "--device", "RTX 4090")
    for part in (part for part in parts if part.startswith("# train")):
        (command,) = [line for line in part.splitlines() if line.startswith("accelerate")]
        config = re.search(r"--config (\S+)", command)[1]
        text = (ROOT / "trainers" / "dt_r1" / "configs" / f"{config}.toml").read_text("utf-8")
        for option in ("--num_machines", "--num_processes"):
            said = re.findall(rf"{option} (\d+)", text)
            assert re.findall(rf"{option} (\d+)", command) == said, config
    command = ["reproduce", "dt_r1", "1", "--data", str(tmp_path), "--out", str(tmp_path / "o")]
    assert main(command) == UsageError.exit_code
    assert "--machine_rank RANK" in capsys.readouterr().err, "it cannot start the other machine"


def test_a_row_behind_a_server_is_run_where_its_key_is_given_and_named_where_not(
    tmp_path, monkeypatch, capfd
):
    parts = shown(capfd, "video_str", "1", "--device", "H100")
    left = {"GPT-4o": "OPENAI_API_KEY", "Gemini-2.0-Flash": "GEMINI_API_KEY"}
    for name, key in left.items():
        (part, *_) = [part for part in parts if part.startswith(f"# eval {name}\n")]
        assert f"${key}; left out" in part and "harness eval" in part and "GB" not in part
    (local, *_) = [part for part in parts if part.startswith("# eval MiniCPM-V-2.6\n")]
    assert "vllm serve openbmb/MiniCPM-V-2_6" in local
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (part, *_) = [one for one in shown(capfd, "video_str", "1") if "# eval GPT-4o\n" in one]
    assert "with the key in $OPENAI_API_KEY" in part and "left out" not in part
    (tmp_path / "mine.toml").write_text(BOARD.replace("whole_frame", SERVED))
    command = ["reproduce", str(tmp_path), "1", "--data", str(EXAMPLE)]
    assert main([*command, "--out", str(tmp_path / "o")]) == 0
    said = "left out: eval frame: needs m at http://x/v1, with the key in $NO_KEY"
    assert said in capfd.readouterr().err


def test_rows_behind_servers_are_told_apart_by_the_networks_they_ask():
    rows = {one.row.row: one for one in methods_of(find("video_str", "1"))}
    server = "openai(model=openbmb/MiniCPM-V-2_6,base_url=http://gpu7/v1,concurrency=8)"
    used = f"video_r1(backend={server})"
    assert [name for name, one in rows.items() if one.is_of(used)] == ["MiniCPM-V-2.6"]
    assert rows["Video-R1"].is_of("video_r1(checkpoint=Video-R1/Video-R1-7B,backend=vllm)")


def test_the_memo_row_has_the_papers_views():
    """Appendix C: random crop, flip and colour jitter."""
    rows = [row for row in find("vr_ttrl", "10").rows if "MEMO" in row.row]
    specs = [parse(row.model) for row in rows]
    assert len(specs) == 2 and all(spec.arguments["geometric"] for spec in specs)
    (found,) = deviations("memo(base=pocket)", {}, [AnswerForm.MASK])[-1:]
    assert found.setting == "geometric"
    assert not [one for one in deviations(rows[0].model, {}, []) if one.setting == "geometric"]


def test_a_board_of_pocket_is_estimated_for_a_cpu_and_a_generated_world(capsys):
    """Not for the papers' samples on the papers' GPUs: each command takes minutes at most."""
    for table in ("dr2seg-3", "vr_ttrl-2"):
        assert main(["reproduce", "pocket", table, "--dry-run"]) == 0
        lines = capsys.readouterr().out.splitlines()
        about = [line for line in lines if line.startswith(("# train", "# eval"))]
        assert about and all("1 GB each on 1 × CPU" in line and " h," not in line for line in about)
        assert not any("about 0" in line or "assumed" in line for line in lines)


@pytest.mark.parametrize(
    ("paper", "table", "named"),
    [("dr2seg", "99", TABLES["dr2seg"].split()), ("lisa", "1", [*PAPERS, "shapes", "overview"])],
)
def test_an_unknown_paper_or_table_names_what_there_is(paper, table, named):
    with pytest.raises(UsageError) as error:
        find(paper, table)
    assert all(name in str(error.value) for name in named)


def test_a_training_in_a_folder_of_a_papers_name_hides_no_board(tmp_path, monkeypatch):
    (tmp_path / "dr2seg").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find("dr2seg", "3").paper == "dr2seg"


def test_a_folder_without_boards_hides_none(tmp_path, monkeypatch):
    (tmp_path / "glance").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="dr2seg"):
        find("glance", "1")


def test_an_unknown_device_names_those_that_are_known(capsys):
    code = main(["reproduce", "dr2seg", "3", "--dry-run", "--device", "abacus"])
    assert code == UsageError.exit_code
    assert "H100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('paper = "mine"', "paper = 3", "paper"),
        ('title = "two baselines"', "", "title"),
        ('row = "frame"', 'line = "frame"', "number 1: unknown key 'line'; its keys are row,"),
        ('task = "reason_seg", ', "judged = 1,", "columns, number 1: unknown key 'judged'"),
        ('"two baselines"', '"x"\ntrainings.a.model = "y"', "[trainings.a]: unknown key 'model'"),
        ('table = "1"', 'file = "x"', "the file: unknown key 'file'; its keys are"),
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


@pytest.mark.parametrize(
    ("plugins_named", "metrics", "expected"),
    [
        ("", ["gIoU", "time"], ""),
        ("", ["gIuO"], r"number 1: .*\bgIoU, .*found 'gIuO'"),
        ("", ["reasoning tokens"], r"\bgIoU, .*found 'reasoning tokens'.*the file's `metrics`"),
        ("reasoning_tokens", ["reasoning tokens"], ""),
        ("reasoning_tokens", ["reasoning"], r"\breasoning tokens, found 'reasoning'"),
        ("reasoning_token", ["reasoning tokens"], r"'reasoning_token'.*\breasoning_tokens"),
        ("bertscore(model=/none)", ["BERTScore"], ""),  # what it measures is not known here
    ],
)
def test_a_metric_that_no_column_can_have_is_refused_before_anything_runs(
    tmp_path, capsys, plugins_named, metrics, expected
):
    board = BOARD.replace('["gIoU", "time"]', json.dumps(metrics))
    (tmp_path / "1.toml").write_text(
        f"metrics = {json.dumps([plugins_named] * bool(plugins_named))}{board}"
    )
    exit_code = main(["reproduce", str(tmp_path), "1", "--dry-run"])
    assert bool(exit_code) == bool(expected)
    assert re.search(expected, capsys.readouterr().err)


def test_the_metrics_of_the_papers_boards_are_those_of_their_tasks():
    for definition in definitions():
        check_metrics(definition)


def test_a_row_without_a_model_is_left_out_and_said(tmp_path, capsys):
    (tmp_path / "1.toml").write_text(BOARD)
    assert main(["reproduce", str(tmp_path), "1", "--dry-run"]) == 0
    assert "left out: elsewhere: the board names no model" in capsys.readouterr().out


def test_each_board_of_the_page_is_planned_with_an_estimate(tmp_path, capsys):
    blocks = re.findall(r"^```toml\n(.*?)^```", (DOCS / "published.md").read_text(), re.S | re.M)
    for place, block in enumerate(blocks):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "board.toml").write_text(block)
        table = tomllib.loads(block)["table"]
        assert main(["reproduce", str(folder), table, "--dry-run", "--device", "L40S"]) == 0
        assert "× L40S" in capsys.readouterr().out
    assert blocks


def test_the_trainings_of_dr2segs_page_stand_in_table_1():
    page = (ROOT / "trainers" / "dr2seg" / "README.md").read_text()
    named = {Path(path).name for path in re.findall(r"--out (\S+)", page)} - {"small"}
    rows = {one.row.row: one.spec for one in methods_of(find("dr2seg", "1"))}
    wanted = {rows[name].arguments["checkpoint"] for name in ("DR2Seg", "DR2Seg*")}
    assert wanted <= named


def test_two_boards_of_one_name_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(BOARD)
    with pytest.raises(DataError, match=r"b\.toml"):
        find(str(tmp_path), "1")


def test_a_board_that_cannot_be_read_stops_no_other(tmp_path):
    (tmp_path / "a.toml").write_text(BOARD)
    (tmp_path / "b.toml").write_text(BOARD.replace('table = "1"', 'table = "2"\nset = 1'))
    assert find(str(tmp_path), "1").table == "1"
    assert [path.name for path in unreadable(tmp_path)] == ["b.toml"]
    with pytest.raises(DataError, match="unknown key 'set'"):
        find(str(tmp_path), "2")


@pytest.mark.parametrize("fault", ["set = 1", "= ="])
def test_a_board_that_cannot_be_read_is_named_where_no_other_is_found(tmp_path, fault):
    (tmp_path / "a.toml").write_text(f"{BOARD}\n{fault}\n")
    (tmp_path / "card.toml").write_text('name = "x"\n')
    with pytest.raises(
        UsageError, match=r"a folder of boards, found .*Left out: .*a\.toml"
    ) as error:
        find(str(tmp_path), "9")
    assert "card.toml" not in str(error.value) and "dr2seg" in str(error.value)


def test_a_configuration_that_is_not_installed_is_named(tmp_path):
    path = tmp_path / "board.toml"
    trained = BOARD.replace('model = "whole_frame"', 'model = "dr2seg(checkpoint={x})"')
    path.write_text(f'{trained}\n[trainings.x]\nmethod = "dr2seg"\nconfig = "gone"\n')
    with pytest.raises(DataError, match="gone"):
        steps_of(read(path))


OWN = """
paper = "mine"
table = "2"
title = "a training of my own"
columns = [{task = "reason_seg", metrics = ["gIoU"]}]
rows = [{row = "mine", model = "pocket(checkpoint={mine})"}]

[trainings.mine]
method = "grpo"
config = "my.toml"
"""
CONFIG = 'model = "pocket"\ntrain_tasks = ["shapes_referring(split=train)"]\nnum_generations = 4\n'


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ('{max_steps = 3, reward = "count"}', ["max_steps=3", "reward=count"]),
        ('["max_steps=3,bf16=false"]', ["max_steps=3,bf16=false"]),
        ("{bf16 = true}", ["bf16=true"]),
    ],
)
def test_a_training_has_a_configuration_of_ones_own(tmp_path, given, typed, is_absolute):
    board = OWN.replace("my.toml", f"{tmp_path}/my.toml") if is_absolute else OWN
    (tmp_path / "2.toml").write_text(f"{board}set = {given}\n")
    (tmp_path / "my.toml").write_text(CONFIG)
    trained, evaluated, _ = steps_of(find(str(tmp_path), "2"))
    options = build_parser().parse_args(trained.command)
    assert options.configuration == str(tmp_path / "my.toml") and options.set == typed
    assert [*trained.samples] == ["shapes_referring(split=train)"]
    # The checkpoint of a training is as small as the network that it begins with.
    assert {trained.estimate.memory, evaluated.estimate.memory} == {1.0}
    assert not unreadable(tmp_path)  # a configuration is no board
    (tmp_path / "my.toml").write_text(f"{CONFIG}processes = 2\n")
    assert steps_of(find(str(tmp_path), "2"))[0].processes == 2


def test_a_table_with_a_training_of_pocket_asks_for_no_data_of_a_benchmark(tmp_path, capsys):
    (tmp_path / "2.toml").write_text(OWN)
    (tmp_path / "my.toml").write_text(CONFIG)
    command = ["reproduce", str(tmp_path), "2", "--dry-run"]
    assert main(command) == 0
    assert "1 GB each on 1 × CPU" in (shown := capsys.readouterr().out)
    assert "harness data make shapes" in shown and "data fetch" not in shown


@pytest.mark.parametrize(
    ("text", "config", "named"),
    [
        (OWN, None, "my.toml of grpo: expected a file, relative to the board's, or a name"),
        (OWN, 'model = "pocket"', "expected the key train_tasks"),
        (OWN, 'train_tasks = ["reason_seg"]', "expected the key model"),
        (OWN, "= =", "a TOML file"),
        (OWN, f'{CONFIG}max_steps = "six"', "settings of 'train mine': expected numbers"),
        (OWN, CONFIG.replace('"pocket"', "5"), "expected SPECs as model, found 5"),
        (OWN, 'model = "pocket"\ntrain_tasks = [5]\n', "expected SPECs as train_tasks, found [5]"),
        (OWN, f"{CONFIG}processes = 0", "expected a number ≥ 1 as processes, found 0"),
        (f"{OWN}set = 'max_steps=3'", CONFIG, "set is 'max_steps=3', not a table {max_steps"),
        (f"{OWN}set = {{a = [1]}}", CONFIG, "not a table {max_steps = 300} or a list"),
    ],
)
def test_a_training_that_is_not_in_the_form_is_refused(tmp_path, text, config, named):
    (tmp_path / "2.toml").write_text(text)
    if config is not None:
        (tmp_path / "my.toml").write_text(config)
    with pytest.raises(DataError) as error:
        steps_of(find(str(tmp_path), "2"))
    assert named in str(error.value)


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
    mistyped = tmp_path / "mistyped.toml"
    mistyped.write_text(BOARD.replace("gIoU", "gIuO"))
    runs, out = str(tmp_path / "out" / "runs"), str(tmp_path / "mistyped")
    command = ["board", "build", "--runs", runs, "--board", str(mistyped), "--out", out]
    assert main(command) == DataError.exit_code and "gIoU, cIoU" in capfd.readouterr().err


def test_a_command_that_fails_ends_it_with_its_code(tmp_path, capfd):
    (tmp_path / "mine.toml").write_text(BOARD)
    command = ["reproduce", str(tmp_path), "1", "--data", str(tmp_path)]
    assert main([*command, "--out", str(tmp_path / "out")]) == DataError.exit_code
    assert not (tmp_path / "out" / "mine-1").exists()


def test_a_training_that_was_begun_goes_on(tmp_path):
    (tmp_path / "trainings" / "dr2seg_7b").mkdir(parents=True)
    (tmp_path / "trainings" / "dr2seg_7b" / "manifest.json").write_text("{}")
    steps = plan(find("dr2seg", "3"), "ROOT", tmp_path, device_of("H100"))
    trained = [step.command for step in steps if step.command[0] == "train"]
    assert ["--resume" in one for one in trained] == [True, False, False, False]


JIT = "jit(backend=openai(model={},base_url={},coordinates=pixels{}),nodes=paper)"


@pytest.mark.parametrize("table", ["1", "2", "3", "5", "6"])
def test_jit_is_a_row_of_the_tables_that_print_it(table):
    rows = {row.row: row for row in find("dt_r1", table).rows}
    assert "nodes=paper" in rows["JiT"].model
    found = [m.row.row for m in methods_of(find("dt_r1", table)) if m.is_of(rows["JiT"].model)]
    assert found == ["JiT"]


def test_language_models_over_twins_are_told_apart_by_the_network_of_their_backend():
    rows = methods_of(find("dt_r1", "4"))
    for model, row in (
        ("Qwen/Qwen2.5-72B-Instruct", ["Qwen2.5-72B"]),
        ("/weights/Qwen2.5-72B-Instruct", ["Qwen2.5-72B"]),
        ("gemini-2.0-flash-lite", ["Gemini-2.0-flash-lite"]),
        ("another", []),
    ):
        used = JIT.format(model, "http://elsewhere:1/v1", "")
        assert [one.row.row for one in rows if one.is_of(used)] == row


def test_a_row_without_its_server_or_key_is_left_out_and_said(tmp_path, capsys, monkeypatch):
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    served = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    board = tmp_path / "ours-1.toml"
    rows = [JIT.format("m", served, ""), JIT.format("n", served, ",key_variable=NO_SUCH_KEY")]
    named = ", ".join(f'{{row = "{place}", model = "{one}"}}' for place, one in enumerate(rows))
    board.write_text(
        'paper = "ours"\ntable = "1"\ntitle = "t"\n'
        f'columns = [{{task = "counting", metrics = ["accuracy"]}}]\nrows = [{named}]\n'
    )
    ran = []
    monkeypatch.setattr("subprocess.run", lambda line, **_: ran.append(line) or Done())
    line = ["reproduce", str(tmp_path), "1", "--data", str(tmp_path), "--out", str(tmp_path / "o")]
    assert main(line) == 0
    said = capsys.readouterr().err
    assert f"left out: eval 0: needs a server with m at {served}" in said
    assert "left out: eval 1: needs n" in said and "$NO_SUCH_KEY" in said
    assert [one[3] for one in ran if "harness" in one] == ["board"]
    free.listen()
    monkeypatch.setenv("NO_SUCH_KEY", "k")
    ran.clear()
    assert main(line) == 0
    free.close()
    assert [one[3] for one in ran if "harness" in one] == ["eval", "eval", "board"]


class Done:
    returncode, stdout = 0, ""


@pytest.mark.slow
def test_a_papers_table_is_made_with_pocket_on_a_generated_world(tmp_path, capfd):
    pytest.importorskip("trl")
    data, out = tmp_path / "data", tmp_path / "out"
    assert main(["data", "make", "shapes", "--out", str(data), "--size", "4"]) == 0
    command = ["reproduce", "pocket", "dr2seg-3", "--data", str(data), "--out", str(out)]
    assert main(command) == 0
    made = json.loads((out / "pocket-dr2seg-3" / "board.json").read_text())
    (table,) = made["tables"]
    assert {row["kind"] for row in table["rows"]} == {"measured"}  # of a world, no paper's numbers
    assert len(table["rows"]) == 3 and all("pocket-sam" in row["badges"] for row in table["rows"])
    cells = [cell for _, cells in made["grid"]["rows"] for cell in cells]
    assert len(cells) == 9 and all(cell["value"] is not None for cell in cells)
    assert all(cell["printed"] is None for cell in cells)


def test_no_board_names_a_part_of_another_method_twice():
    assert len({(m.definition.heading, m.row, str(m.spec)) for m in methods()}) == len(methods())
