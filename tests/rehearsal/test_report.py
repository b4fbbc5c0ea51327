"""The page of a rehearsal has every row, whatever the paper."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.rehearsal.amounts import Replaced, described
from harness.rehearsal.report import RehearsedRow, as_markdown
from harness.rehearsal.stages import Outcome, Stage


def stage(name, seconds, gigabytes):
    outcome = Outcome(code=0, seconds=seconds, peak=int(gigabytes * 2**30))
    return Stage(name=name, arguments=(name.partition(" ")[0],)), outcome


NAMES = st.sampled_from(["A", "B", "A [x]", "A [y]", "B [x=1, y] (7B)"])
TABLES = st.sampled_from(["1", "2", "B1"])
TRAINED = st.sampled_from([(), (stage("train t1", 9, 2.0),), (stage("train t2", 9, 1.0),)])
EVALUATED = st.lists(
    st.sampled_from([stage("eval 0", 3, 0.5), stage("eval 1", 4, 1.5)]),
    min_size=1,
    max_size=2,
    unique_by=lambda part: part[0].name,
)
RAN = st.builds(
    lambda table, name, trained, evaluated: RehearsedRow(
        paper="dr2seg", table=table, row=name, stages=(*trained, *evaluated)
    ),
    TABLES,
    NAMES,
    TRAINED,
    EVALUATED,
)
LEFT_OUT = st.builds(
    lambda table, name, reason: RehearsedRow(
        paper="dr2seg", table=table, row=name, state="left out", reason=reason
    ),
    TABLES,
    st.sampled_from(["A", "B", "C"]),
    st.sampled_from(["no code", "no file"]),
)


def ran_on(page):
    """Rows that ran: table, name, trainings, evaluations and memory of each."""
    for line in re.findall(r"^\| (.*) \|$", page, re.MULTILINE):
        cells = line.split(" | ")
        if len(cells) != 4 or cells[0] == "row":
            continue
        name, trainings, listed, memory = cells
        for tables, parts in re.findall(r"\*\*(.*?)\*\* ([^*]*)", listed):
            for part in parts.removesuffix("; ").split("; "):
                setting, evaluations = re.fullmatch(r"(\[.*[\])] )?(\d+: .*)", part).groups()
                whole = f"{name} {setting or ''}".strip()
                for table in tables.split(", "):
                    yield table, whole, trainings, evaluations, memory


def left_out_on(page):
    """Rows that were left out: table, name and reason of each."""
    for reason, listed in re.findall(r"^- left out: (.*)\. Rows: (.*)$", page, re.MULTILINE):
        for names, tables in re.findall(r"([^;]+) \((.*?)\)(?:; )?", listed):
            for name in names.split(", "):
                yield from ((table, name, reason) for table in tables.split(", "))


@given(st.lists(RAN, max_size=8), st.lists(LEFT_OUT, max_size=6))
def test_every_row_is_read_back_from_the_page(ran, left_out):
    page = as_markdown([*ran, *left_out], [], [])
    assert Counter(ran_on(page)) == Counter(
        (
            row.table,
            row.row,
            row.seconds_of("train"),
            row.seconds_of("eval"),
            f"{row.peak / 2**30:.1f}",
        )
        for row in ran
    )
    assert Counter(left_out_on(page)) == Counter(
        (row.table, row.row, row.reason) for row in left_out
    )


def test_rows_of_one_name_and_training_are_a_line():
    trained = stage("train t", 29, 1.1)
    rows = [
        RehearsedRow(paper="dr2seg", table=table, row=name, stages=(trained, stage(*evaluated)))
        for table, name, evaluated in (
            ("1", "A", ("eval 50", 7, 0.6)),
            ("2", "A", ("eval 53", 5, 0.6)),
            ("4", "A [n=1]", ("eval 54", 0, 0.6)),
            ("4", "A [n=2]", ("eval 55", 1, 0.6)),
            ("8", "A [n=1]", ("eval 54", 0, 0.6)),
        )
    ]
    line = "| A | t: 29 | **1** 50: 7; **2** 53: 5; **4, 8** [n=1] 54: 0; **4** [n=2] 55: 1 | 1.1 |"
    assert line in as_markdown(rows, [], []).splitlines()


def test_amounts_that_are_the_same_here_are_a_line():
    amounts = [
        Replaced("max_steps", "2", published, training=training)
        for published, training in (("70", "a"), ("300", "b"), ("70", "c"), ("70", "c"))
    ]
    assert "| max_steps | 2 | 70, 300 |" in as_markdown([], [], amounts).splitlines()
    assert described(amounts) == [
        "max_steps of a, c: 2 in place of 70",
        "max_steps of b: 2 in place of 300",
    ]


def test_rows_of_another_package_s_paper_stand_behind_those_of_the_papers_here() -> None:
    rows = [
        RehearsedRow(paper=paper, table="1", row=f"row of {paper}", state="failed", reason="why")
        for paper in ("zebra", "dr2seg")
    ]
    page = as_markdown(rows, [], [])
    assert re.findall("^## (.*)$", page, re.MULTILINE) == ["DR2Seg", "zebra"]
    assert page.index("row of dr2seg") < page.index("row of zebra")
