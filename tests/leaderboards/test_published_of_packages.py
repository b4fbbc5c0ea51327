"""Numbers that a package prints in a CSV beside its boards are shown like those of harness."""

import codecs
import json
import sys

import pytest

from harness.cli.main import main
from harness.errors import DataError
from harness.leaderboards import definitions as board_definitions
from harness.leaderboards import published_results as published
from harness.leaderboards.board import build
from harness.leaderboards.definitions import Column, definitions, find, methods
from harness.leaderboards.render import json as board_json
from harness.leaderboards.render import markdown
from harness.leaderboards.render.summary import Style, summary
from harness.leaderboards.row import row
from harness.leaderboards.site.index import start_page
from harness.record import Run

LINES = """\
table,row,task,split,metric,protocol,printed,title
2,Zebra-7B,reason_seg,val,gIoU,seg/lisa,61.5,Zebra (2026)
2,Zebra-7B,reason_seg,val,cIoU,seg/lisa,60.1,
"""
BOARD = """\
paper = "zebra"
table = "2"
title = "ReasonSeg"
columns = [{task = "reason_seg(split=val,protocol=seg/lisa)", metrics = ["gIoU"]}]
rows = [{row = "Zebra-7B", model = "visionreasoner-7b"}]
"""


def with_units(*units):
    """Return the lines with a column `unit`."""
    head, *lines = LINES.splitlines()
    return "\n".join([f"{head},unit", *map("{},{}".format, lines, units), ""])


def forget():
    """Forget the boards that this process has read: packages are installed between processes."""
    board_definitions._boards.cache_clear()
    methods.cache_clear()
    board_definitions._results.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package whose boards lie in a folder with these files."""

    def install(body="Path(__file__).parent / 'zebra_boards'", **texts):
        folder = tmp_path / "zebra_boards"
        folder.mkdir()
        for name, text in texts.items():
            data = text if isinstance(text, bytes) else text.encode()
            (folder / name.replace("_", ".")).write_bytes(data)
        (tmp_path / "zebra_of_a_test.py").write_text(
            f"from pathlib import Path\ndef boards():\n    return {body}\n"
            "VAL = 'val'\n"
            "def zebra_task(data, *, split=VAL):\n"
            "    return Task(protocol=Protocol(name='zebra/iou'))\n"
        )
        about = tmp_path / "zebra-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zebra\nVersion: 1.0\n")
        entry = "[harness.boards]\nzebra = zebra_of_a_test:boards\n"
        entry += "[harness.tasks]\nzebra_task = zebra_of_a_test:zebra_task\n"
        (about / "entry_points.txt").write_text(entry)
        monkeypatch.syspath_prepend(str(tmp_path))
        forget()

    yield install
    forget()
    sys.modules.pop("zebra_of_a_test", None)


def test_they_stand_below_the_measured_rows(package, world, monkeypatch):
    made = row(Run.open(next(world.runs.glob("disc_seg-*"))))
    line = f"2,Zebra-7B,disc_seg,{made.split},giou,{made.protocol},61.5,Zebra (2026)\n"
    package(zebra_csv=LINES.partition("\n")[0] + "\n" + line)
    monkeypatch.setattr("harness.leaderboards.board.is_benchmark", lambda run, made: True)
    board = build(world.runs)
    rows = [one for table in board_json.to_json(board)["tables"] for one in table["rows"]]
    (shown,) = [one for one in rows if one["name"] == "Zebra-7B"]
    assert shown["kind"] == "published" and shown["rank"] is None and shown["comparable"]
    assert shown["metrics"] == {"giou": pytest.approx(0.615)}
    assert shown["source"]["title"] == "Zebra (2026)"
    for page in (markdown.render(board), start_page(board).decode()):
        assert "Zebra-7B" in page and "Zebra (2026), Table 2" in page


def test_a_number_has_the_title_of_its_own_line(package, world, monkeypatch):
    made = row(Run.open(next(world.runs.glob("disc_seg-*"))))
    place = f"disc_seg,{made.split},giou,{made.protocol}"
    lines = (f"1,Quagga,{place},5{n},{title}" for n, title in enumerate(("Zebra", "Quagga (2026)")))
    other = f"1,other,{place},52,"
    package(zebra_csv="\n".join([LINES.splitlines()[0], *lines, other, ""]), zebra_toml=BOARD)
    monkeypatch.setattr("harness.leaderboards.board.is_benchmark", lambda run, made: True)
    board = build(world.runs)
    rows = [one for table in board_json.to_json(board)["tables"] for one in table["rows"]]
    titles = {one["name"]: one["source"]["title"] for one in rows if one["kind"] == "published"}
    assert titles == {
        "Quagga, Zebra Table 1": "Zebra",
        "Quagga, Quagga (2026) Table 1": "Quagga (2026)",
        "other": "zebra",  # not the title of another line
    }
    assert "Quagga (2026), Table 1" in markdown.render(board)
    names = [text for text, _ in summary(board, Style(published=True)).rows]
    assert "Quagga [Quagga (2026), Table 1]" in names and "Quagga [Zebra, Table 1]" in names
    assert find("zebra", "2").heading == "zebra, Table 2: ReasonSeg"


@pytest.fixture
def without_cards(monkeypatch):
    """Hide the cards of all tasks."""
    function = board_definitions._default_split_and_protocol.__wrapped__
    monkeypatch.setattr("harness.plugins.find_card", lambda task: None)
    monkeypatch.setattr(board_definitions, "_default_split_and_protocol", function)


def test_a_column_has_the_defaults_of_a_task_without_a_card(without_cards, package):
    package()
    columns = {
        name: Column(task=name, metrics=("gIoU",))
        for name in ("reason_seg", "reason_seg(split=test)", "zebra_task", "not_installed")
    }
    assert {name: (column.split, column.protocol) for name, column in columns.items()} == {
        "reason_seg": ("val", "seg/lisa"),
        "reason_seg(split=test)": ("test", "seg/lisa"),
        "zebra_task": ("val", "zebra/iou"),  # takes no protocol: the only one of its source
        "not_installed": ("", ""),
    }


@pytest.mark.parametrize(
    ("stated", "split"), [('default_split = "train"\n', "train"), ("", "val"), (None, "val")]
)
def test_the_default_split_is_the_cards_or_else_the_functions(
    package, tmp_path, monkeypatch, capsys, stated, split
):
    function = board_definitions._default_split_and_protocol.__wrapped__
    monkeypatch.setattr(board_definitions, "_default_split_and_protocol", function)
    package()
    if stated is not None:
        (tmp_path / "card.toml").write_text(
            f'name = "zebra_task"\ntitle = "Z"\nprotocol = "zebra/iou"\n{stated}'
            "splits = {train = 8, val = 3}\n"
        )
    assert Column(task="zebra_task", metrics=("IoU",)).split == split
    main(["list", "tasks", "zebra_task", "--json"])
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["default_split"] == split
    assert shown.get("count") == (None if stated is None else {"train": 8, "val": 3}[split])


def test_a_run_of_a_column_whose_protocol_is_unknown_is_shown_but_not_compared(
    package, world, monkeypatch
):
    measured = row(Run.open(next(world.runs.glob("disc_seg-*"))))
    place = f"disc_seg,{measured.split},giou,{measured.protocol}"
    package(
        zebra_csv=f"{LINES.splitlines()[0]}\n2,mine,{place},1.5,Zebra\n",
        zebra_toml=f"""paper = "zebra"
table = "2"
title = "discs"
columns = [{{task = "disc_seg(split={measured.split})", metrics = ["giou"]}}]
rows = [{{row = "mine", model = "{measured.model_spec}"}}]
""",
    )
    monkeypatch.setattr("harness.leaderboards.board.is_benchmark", lambda run, known: True)
    ((_, (cell,)),) = build(world.runs, definition=find("zebra", "2"), names_refused=True).grid.rows
    assert (cell.printed, cell.value) == ("1.5", measured.metrics["giou"])
    assert cell.reproduction.verdict == "cannot tell"
    assert "the column's protocol is unknown" in " ".join(cell.reproduction.differences)


def test_a_number_of_another_protocol_is_not_taken_for_the_columns(package, world):
    measured = row(Run.open(next(world.runs.glob("disc_seg-*"))))
    head, place = LINES.splitlines()[0], f"disc_seg,{measured.split}"
    own = f"2,mine,{place},giou,{measured.protocol},1.5,Zebra\n"
    package(
        zebra_csv=f"{head}\n2,mine,{place},giou,other,2.5,Zebra\n{own}"
        f"2,mine,{place},ciou,other,3.5,Zebra\n",
        zebra_toml=f"""paper = "zebra"
table = "2"
title = "discs"
rows = [{{row = "mine", model = "{measured.model_spec}"}}]

[[columns]]
task = "disc_seg(split={measured.split},protocol={measured.protocol})"
metrics = ["giou", "ciou"]
""",
    )
    board = build(world.runs, definition=find("zebra", "2"), names_refused=True)
    ((_, (giou, ciou)),) = board.grid.rows
    assert (giou.printed, giou.reproduction) == ("1.5", None)
    assert (ciou.printed, ciou.reproduction.verdict) == ("3.5", "cannot tell")
    assert "(paper: other, stated)" in " ".join(ciou.reproduction.differences)


def test_a_column_has_the_unit_of_its_printed_numbers_in_every_row(package, world):
    measured = row(Run.open(next(world.runs.glob("disc_seg-*"))))
    place = f"disc_seg,{measured.split},giou,{measured.protocol}"
    head = LINES.partition("\n")[0]
    task = f"disc_seg(split={measured.split},protocol={measured.protocol})"
    package(
        zebra_csv=f"{head}\n2,Zebra-7B,{place},83.3,Zebra\n",
        zebra_toml=f"""paper = "zebra"
table = "2"
title = "discs"
columns = [{{task = "{task}", metrics = ["giou"], parts = ["", "colour=red"]}}]
rows = [{{row = "Zebra-7B"}}, {{row = "mine", model = "{measured.model_spec}"}}]
""",
    )
    board = build(world.runs, definition=find("zebra", "2"), names_refused=True)
    ((_, (printed, _)), (_, (ours, part))) = board.grid.rows
    assert (printed.printed, printed.value, ours.printed) == ("83.3", None, None)
    assert printed.unit == ours.unit == part.unit == "percent"
    page = markdown.render(board)
    assert "giou, % |" in page
    assert f"| {100 * ours.value:.1f} | {100 * part.value:.1f} |" in page


def test_a_board_of_the_package_has_them_in_its_cells(package):
    package(zebra_csv=LINES, zebra_toml=BOARD)
    definition = find("zebra", "2")
    assert definition.heading == "Zebra (2026), Table 2: ReasonSeg"
    (made,), (column,) = definition.rows, definition.columns
    assert made.model.startswith("visionreasoner(checkpoint=Ricky06662/VisionReasoner-7B,")
    (number,) = definition.printed(made, column, "", "gIoU")
    assert number.printed == "61.5"


def test_a_board_of_the_package_that_cannot_be_read_is_said(
    package, tmp_path, monkeypatch, world, capsys
):
    package(zebra_toml=BOARD + 'model = "x"\n')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zebra").mkdir()  # the package's folder
    (tmp_path / "zebra" / "card.toml").write_text('name = "zebra"\n')
    command = ["board", "build", "--runs", str(world.runs), "--out", str(tmp_path / "out")]
    for words in (["reproduce", "zebra", "2"], [*command, "--board", "zebra/2"]):
        assert main(words) == DataError.exit_code
        assert "zebra.toml: " in (said := capsys.readouterr().err)
        assert "unknown key 'model'" in said
    main(["reproduce", "zebra", "3", "--dry-run"])
    assert "unknown key 'model'" in capsys.readouterr().err
    main(command)
    assert "left out, board" in (said := capsys.readouterr().err)
    assert "unknown key 'model'" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LINES.replace("61.5", "61,5", 1), r"zebra\.csv, line 2"),
        (LINES.replace("61.5", "high"), "line 2: expected a number.*found 'high'"),
        (LINES.replace("printed", "value"), "line 1: expected the column printed"),
        (LINES.replace(",title", ",titel"), "line 1: .*found titel"),
        (LINES.replace("61.5,", "61.5,A,", 1), "line 2: .*found 1 more"),
        (LINES.replace("61.5", "0.615"), "line 2: expected `percent` or `fraction`"),
        (with_units("%", "percent"), "line 2: expected a unit, one of percent, fraction"),
        (with_units("fraction", "fraction"), "line 2: expected a number from -1 to 1"),
        (
            with_units("percent", "percent")
            + "2,Quagga,reason_seg,val,gIoU,seg/lisa,0.6,,fraction\n",
            r"one unit for Table 2, reason_seg val gIoU: percent.*0.6 in fraction \(Quagga\)",
        ),
        (LINES.replace("Zebra (", "Zébra (").encode("latin-1"), r"zebra\.csv: expected .*UTF-8"),
    ],
)
def test_a_file_that_is_not_in_the_form_is_named_with_its_line(package, text, expected):
    package(zebra_csv=text)
    with pytest.raises(DataError, match=expected):
        published.published_results("zebra")


def test_a_file_that_a_spreadsheet_wrote_is_read(package):
    package(zebra_csv=codecs.BOM_UTF8 + LINES.replace("\n", "\r\n").encode())
    numbers = [(one.printed, one.title) for one in published.published_results("zebra")]
    assert numbers == [("61.5", "Zebra (2026)"), ("60.1", "")]


@pytest.mark.parametrize("returned", ["None", "'nowhere'", "1 / 0"])
def test_a_package_that_has_no_folder_of_boards_is_named(package, returned):
    package(body=returned)
    for read in (published.papers, definitions):
        with pytest.raises(DataError, match=r"board 'zebra'"):
            read()


def test_a_paper_of_harness_cannot_be_replaced(package):
    package(dr2seg_csv=LINES)
    with pytest.raises(DataError, match=r"dr2seg\.csv"):
        published.papers()


def test_the_data_command_names_the_paper(package, capsys):
    count = "3,Zebra-7B,reason_seg,val,samples,,200,Zebra\n"
    package(zebra_csv=LINES.replace("title\n", "title,unit\n") + count.replace("\n", ",count\n"))
    assert main(["list", "tasks", "reason_seg", "--json"]) == 0
    json.loads(capsys.readouterr().out)
    assert [one.unit for one in published.published_results("zebra")] == ["percent"] * 2 + ["count"]
