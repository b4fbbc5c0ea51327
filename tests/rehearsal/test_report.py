"""The page of a rehearsal has every row, whatever the paper."""

import re

from harness.rehearsal.report import RehearsedRow, as_markdown


def test_rows_of_another_package_s_paper_stand_behind_those_of_the_papers_here() -> None:
    rows = [
        RehearsedRow(paper=paper, table="1", row=f"row of {paper}", state="failed", reason="why")
        for paper in ("zebra", "dr2seg")
    ]
    page = as_markdown(rows, [])
    assert re.findall("^## (.*)$", page, re.MULTILINE) == ["DR2Seg", "zebra"]
    assert page.index("row of dr2seg") < page.index("row of zebra")


def test_each_reason_has_a_mark_of_its_own_however_many_there_are() -> None:
    rows = [
        RehearsedRow(paper="dr2seg", table="1", row=f"{number}", state="left out", reason=reason)
        for number, reason in enumerate([*map(str, range(28)), "0"])
    ]
    page = as_markdown(rows, [])
    marks = re.findall(r"left out \((\w+)\)", page)
    assert len(set(marks)) == 28 and marks[-1] == marks[0]
    assert re.findall(r"^- \((\w+)\)", page, re.MULTILINE) == marks[:-1]
