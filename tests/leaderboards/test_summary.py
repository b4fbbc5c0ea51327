"""A board as one table for papers: numbers, intervals, bold where shown, footnotes, three forms."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.main import main
from harness.errors import UsageError
from harness.leaderboards.board import build
from harness.leaderboards.published_results import PublishedResult, PublishedRow
from harness.leaderboards.render import write_tables
from harness.leaderboards.render.files import FORMATS, markdown, table_csv
from harness.leaderboards.render.latex import escape, label
from harness.leaderboards.render.latex import render as latex
from harness.leaderboards.render.summary import Style, summary

HOSTILE = "=cmd|' /C calc'!A0 \\input{/etc/passwd} $x^2$ 100% #1 & ~_{}\n\x00é"
DOCUMENT = (
    "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n%s\n\\end{document}\n"
)


@pytest.fixture
def board(world, make_run, installed, rescore):
    """Three runs of one task, of which the first is far better, and one of them of another."""
    folders = []
    for name, value in (("best", 0.9), ("good", 0.5), ("fair", 0.49)):
        folder = make_run(name, model=name)
        # Every other image is off by the same: the runs differ on each by more than they vary.
        rescore(folder, lambda index, _, value=value: value + 0.05 * (index % 2))
        folders.append(folder)
    return build([*folders, make_run("videos", task="disc_video", model="good")])


def shown(board, **style):
    return summary(board, Style(**style))


def test_every_number_has_the_interval_of_its_record(board):
    found = shown(board, metrics="all", percent=False, digits=4)
    entries = {entry.row.name: entry.row for table in board.tables for entry in table.entries}
    some = 0
    for name, cells in found.rows:
        for column, cell in zip(found.columns, cells, strict=True):
            row = next(
                (
                    entry.row
                    for table in board.tables
                    for entry in table.entries
                    if entry.row.name == name and table.title == column.task
                ),
                None,
            )
            if row is None or row.metrics.get(column.metric) is None:
                assert not cell.value
                continue
            pair = row.intervals[column.metric]
            assert float(cell.value) == pytest.approx(row.metrics[column.metric], abs=1e-4)
            if pair is not None:
                some += 1
                assert (float(cell.low), float(cell.high)) == pytest.approx(pair, abs=1e-4)
                reach = max(float(cell.value) - pair[0], pair[1] - float(cell.value))
                assert float(cell.plus_minus) == pytest.approx(reach, abs=2e-4)
    assert entries and some > 3


def test_bold_is_what_is_shown_to_be_better_than_every_other_row(board):
    by_name = dict(shown(board).rows)
    best = [name for name, cells in by_name.items() if any(cell.is_best for cell in cells)]
    assert best == ["best"]
    (table,) = [table for table in board.tables if len(table.entries) > 1]
    tied = table.entries[1:]
    ranked = tuple(replace(entry, rank=1) for entry in tied)
    rest = replace(board, tables=(replace(table, entries=ranked),))
    assert not any(cell.is_best for _, cells in shown(rest).rows for cell in cells)
    assert not any(text.startswith("Bold") for _, text in shown(rest).footnotes)


@pytest.mark.parametrize(("other", "best"), [("alike", []), ("fair", ["good"])])
def test_bold_is_decided_among_the_rows_that_are_printed(
    other, best, board, make_run, installed, rescore
):
    folder = make_run("alike", model="alike")
    rescore(folder, lambda index, _: 0.5 + 0.05 * (index % 2 == 0))
    folders = [entry.folder for table in board.tables for entry in table.entries]
    found = shown(build([*folders, folder]), rows=("good", other))
    assert [name for name, cells in found.rows if any(cell.is_best for cell in cells)] == best
    assert any(text.startswith("Bold") for _, text in found.footnotes) == bool(best)


def test_a_label_is_printed_without_a_badge(board):
    (table,) = [table for table in board.tables if len(table.entries) > 1]
    entries = tuple(
        replace(entry, row=replace(entry.row, badges=("toy",))) for entry in table.entries
    )
    board = replace(board, tables=(replace(table, entries=entries),))
    names = [name for name, _ in shown(board, rows=("best=Ours", "good")).rows]
    assert names == ["Ours", "good [toy]"]


def test_options_of_the_table_need_a_format(board, tmp_path, capsys):
    folder = board.tables[0].entries[0].folder
    typed = ["board", "build", "--runs", str(folder), "--out", str(tmp_path / "out")]
    for option in (["--rows", "best"], ["--published"], ["--label", "tab:x"]):
        assert main([*typed, *option]) == UsageError.exit_code
        assert "--format" in capsys.readouterr().err


def test_a_row_alone_is_not_bold_and_rows_are_one_a_model(board):
    found = shown(board)
    assert [name for name, _ in found.rows].count("good") == 1
    columns = {column.task: place for place, column in enumerate(found.columns)}
    (alone,) = [table.title for table in board.tables if len(table.entries) == 1]
    assert not dict(found.rows)["good"][columns[alone]].is_best
    assert not dict(found.rows)["best"][columns[alone]].value


def test_tasks_are_the_columns_in_their_order(board):
    def tasks(names):
        return [column.task.split()[0] for column in shown(board, tasks=names).columns]

    both = tasks("")
    assert tasks(",".join(reversed(both))) == both[::-1] and tasks(both[1]) == both[1:]
    with pytest.raises(UsageError, match=both[0]):
        tasks("absent")
    with pytest.raises(UsageError, match="absent"):
        shown(board, metrics="absent,giou")


def test_columns_are_splits_in_their_order(board):
    (table, *_) = board.tables
    other = replace(table, split="other")
    both = replace(board, tables=(other, table))
    names = f"{table.task}(split={table.split}),{table.task}(split=other)"
    columns = shown(both, tasks=names).columns
    assert [column.task for column in columns] == [table.title, other.title]
    with pytest.raises(UsageError, match="split=other"):
        shown(both, tasks=f"{table.task}(split=lost)")


def test_samples_without_an_answer_have_a_footnote(board):
    (table, *others) = board.tables
    (first, *rest) = table.entries
    total = first.row.n_total
    failed = replace(first, row=replace(first.row, n_scored=total - 2, n_failed=2))
    text = latex(shown(replace(board, tables=(replace(table, entries=(failed, *rest)), *others))))
    assert f"{total - 2} of {total} samples are answered" in text.partition("minipage")[2]
    assert "samples are answered" not in latex(shown(board))


def test_rows_are_chosen_ordered_and_labelled(board):
    names = [name for name, _ in shown(board).rows]
    assert names[:3] == ["best", "good", "fair"]
    found = shown(board, rows=("fair=Ours, all=in", "best")).rows
    assert [name for name, _ in found] == ["Ours, all=in", "best"]
    assert found[1][1] == shown(board).rows[0][1]
    odd = hostile(board)
    assert [name for name, _ in shown(odd, rows=(HOSTILE,)).rows] == [HOSTILE]
    with pytest.raises(UsageError, match="fair"):
        shown(board, rows=("absent=x",))
    assert "\\label{tab:mine}" in latex(shown(board, label="tab:mine"))
    for title, caption in (("Discs", "Discs."), ("Where is the disc?", "Where is the disc?")):
        assert f"\\caption{{{caption}}}" in latex(shown(replace(board, title=title)))


def test_rows_of_papers_are_as_printed_and_only_those_of_the_same_protocol(board):
    (table,) = [table for table in board.tables if len(table.entries) > 1]
    result = PublishedResult(
        paper="dr2seg",
        table="1",
        row="LISA",
        task=table.task,
        split=table.split,
        metric=table.headline,
        protocol=table.protocol,
        printed="44.40",
    )
    other = replace(result, row="unknown")
    rows = (
        PublishedRow(results=(result,), is_comparable=True),
        PublishedRow(results=(other,), is_comparable=False),
    )
    board = replace(board, tables=(replace(table, published=rows),))
    assert len(shown(board).rows) == 3
    *measured, (name, cells) = shown(board, published=True).rows
    assert measured == [*shown(board).rows]
    assert name == "LISA [DR2Seg, Table 1]" and [cell.value for cell in cells] == ["44.40"]
    fractions = shown(board, published=True, percent=False, rows=("LISA=LISA-7B",)).rows
    assert [(row, cells[0].value) for row, cells in fractions] == [
        ("LISA-7B [DR2Seg, Table 1]", "0.444")
    ]
    with_source = [text for _, text in shown(board, published=True).footnotes if "paper" in text]
    assert len(with_source) == 1
    measured_alone = shown(board, published=True, rows=("best",)).footnotes
    assert not [text for _, text in measured_alone if text in with_source]
    same_name = replace(rows[0], results=(replace(result, row="best"),))
    board = replace(board, tables=(replace(table, published=(same_name,)),))
    names = [name for name, _ in shown(board, published=True, rows=("best=Ours",)).rows]
    assert names == ["Ours", "best [DR2Seg, Table 1]"]


def test_percent_fractions_and_digits(board):
    column = shown(board).columns[0]
    assert column.is_percent and column.write(0.61234) == "61.2"
    assert shown(board, percent=False).columns[0].write(0.61234) == "0.612"
    assert shown(board, digits=0).columns[0].write(0.61234) == "61"
    with pytest.raises(UsageError, match="digits"):
        shown(board, digits=-1)
    with pytest.raises(UsageError, match="giou"):
        shown(board, metrics="ciou_of_another")


def test_numbers_beyond_one_and_errors_are_no_percent(board):
    table = board.tables[0]
    for change in ({"metrics": {table.headline: 1.4}}, {"better": {table.headline: "lower"}}):
        entries = [
            replace(one, row=replace(one.row, intervals={}, **change)) for one in table.entries
        ]
        other = replace(board, tables=(replace(table, entries=tuple(entries)),))
        assert not shown(other).columns[0].is_percent


def test_footnotes_name_protocol_subset_and_samples_of_each_column(board):
    found = shown(board)
    notes = dict(found.footnotes)
    for table, column in zip(board.tables, found.columns, strict=True):
        assert f"rotocol {table.protocol}" in notes[column.mark]
        assert "all of the split" in notes[column.mark]
        n_samples = table.entries[0].row.n_total
        n_groups = {"disc_seg": 20, "disc_video": 8}[table.task]
        assert (f"{n_samples} samples of {n_groups} images" in notes[column.mark]) == (
            n_samples != n_groups
        )


def test_footnotes_in_latex_are_short_and_the_full_ones_are_comments(board):
    table, *others = board.tables
    entry, *rest = table.entries
    marked = replace(entry, row=replace(entry.row, transductive=True))
    note = "a long note"
    table = replace(table, entries=(marked, *rest), notes=(note,))
    text = latex(shown(replace(board, tables=(table, *others))))
    comments, _, page = text.partition("\\begin{table}")
    record = f"data {table.data[:12]}"
    assert record in comments and f"% {note}\n" in comments
    assert record not in page and note not in page
    assert escape(f"rotocol {table.protocol}") in page and "all of the split" in page
    assert r"\S{}: learns" in page and r"$\dagger$:" not in page
    other_data = replace(table, data="0" * 64)
    page = latex(shown(replace(board, tables=(table, other_data)))).partition("\\begin{table}")[2]
    assert record in page and f"data {'0' * 12}" in page, "what tells equal columns apart"


def test_a_spreadsheet_reads_numbers_and_no_formula(board):
    board = hostile(board)
    rows = list(csv.reader(io.StringIO(table_csv(shown(board, metrics="all")))))
    assert len({len(row) for row in rows}) == 1 and len(rows) == 1 + len(shown(board).rows)
    assert all(
        board.tables[0].protocol in name for name in rows[0][1:] if board.tables[0].title in name
    )
    for row in rows[1:]:
        assert not row[0].startswith(("=", "+", "-", "@"))
        assert all(cell == "" or float(cell) >= 0 for cell in row[1:])
    bare = list(csv.reader(io.StringIO(table_csv(shown(board, spread="none")))))
    assert len(bare[0]) == 1 + len(board.tables)


def hostile(board):
    """The board with a title and a model's name that no language takes as they are."""
    first, *others = board.tables
    (entry, *rest) = first.entries
    named = replace(entry, row=replace(entry.row, name=HOSTILE))
    return replace(board, title=HOSTILE, tables=(replace(first, entries=(named, *rest)), *others))


@pytest.mark.parametrize("spread", ["pm", "interval", "none"])
def test_latex_is_whole_and_compiles(board, tmp_path, spread):
    text = latex(shown(hostile(board), metrics="all", spread=spread))
    assert "\\input" not in text and "\x00" not in text
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    wide = 1 if spread == "none" else 2
    columns = 1 + wide * len(shown(board, metrics="all").columns)
    for line in body.splitlines():
        assert len(re.findall(r"(?<!\\)&", line)) == columns - 1 and line.endswith(r"\\")
    depth = 0
    for mark in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if mark == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\begin{") == text.count(r"\end{")
    if (program := shutil.which("pdflatex") or shutil.which("tectonic")) is None:
        return
    (tmp_path / "page.tex").write_text(DOCUMENT % text, encoding="utf-8")
    stop = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in program else []
    done = subprocess.run(
        [program, *stop, "page.tex"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 1000


@given(st.text(max_size=40))
def test_no_text_leaves_its_cell(text):
    found = escape(text)
    assert "\n" not in found and not re.search(r"(?<!\\)[%#_]", found)
    unescaped = re.sub(r"\\[A-Za-z]+\{\}|\\.|\$[^$]*\$", "", found)
    assert not set(unescaped) & set("{}&\\^")
    assert re.fullmatch(r"[a-z0-9-]+", label(text))


def test_markdown_has_a_row_a_model_and_bold_where_shown(board):
    lines = markdown(shown(board, spread="interval")).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 2 + len(shown(board).rows)
    (best,) = [line for line in table if "**" in line]
    assert best.startswith("| best |") and "[" in best


def test_the_formats_that_are_asked_for_are_written_and_no_others(board, tmp_path):
    assert write_tables(board, tmp_path, [], Style()) == ()
    paths = write_tables(board, tmp_path, FORMATS, Style())
    assert sorted(path.name for path in paths) == ["table.csv", "table.md", "table.tex"]
    assert all(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize(
    ("value", "pair", "text"),
    [
        (0.5, (0.4, 0.58), "50.0 ± 10.0"),
        (0.917, (0.543, 0.99), "91.7 [54.3, 99.0]"),
        (0.0, (0.0, 0.912), "0.0 [0.0, 91.2]"),
        (1.0, (1.0, 1.0), "100.0 ± 0.0"),
    ],
)
def test_no_plus_minus_names_a_score_that_cannot_be(board, value, pair, text):
    table = next(one for one in board.tables if one.headline == "giou")
    numbers = {"metrics": {"giou": value}, "intervals": {"giou": pair}}
    entry = replace(table.entries[0], row=replace(table.entries[0].row, **numbers), rank=None)
    only = replace(board, tables=(replace(table, entries=(entry,)),))
    shown_text = markdown(shown(only, spread="pm")).replace("*", "")
    assert f"| {text} |" in shown_text
    assert ("In brackets" in shown_text) == ("[" in text)
