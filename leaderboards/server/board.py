"""The test server's board: the score shown of each account's best upload, as JSON and as a page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from harness.errors import counted
from harness.leaderboards import formatting
from harness.leaderboards.render.pages import fill
from harness.leaderboards.render.sections import Block, Cells, Heading, Paragraph
from harness.leaderboards.server.hosted import Hosted
from harness.leaderboards.server.store import Upload

STYLE = "page.css"


def to_json(tasks: Mapping[str, Hosted], uploads: Iterable[Upload]) -> dict[str, Any]:
    """Return the board: each task with its rows, best first; equal scores share a rank."""
    uploads = list(uploads)
    return {"tasks": [_table(hosted, uploads) for hosted in tasks.values()]}


def _table(hosted: Hosted, uploads: Iterable[Upload]) -> dict[str, Any]:
    """Return a task's table: each account once, with its best upload that moved the score."""
    of_task = [upload for upload in uploads if upload.task == hosted.key]
    n_by_account = Counter(upload.account for upload in of_task)
    sign = -1 if hosted.better == "higher" else 1
    moves = [upload for upload in of_task if upload.moved and upload.shown is not None]
    moves.sort(key=lambda upload: (sign * (upload.shown or 0), upload.number))
    best: dict[str, Upload] = {}
    for upload in moves:
        best.setdefault(upload.account, upload)
    ranked = list(best.values())
    scores = [upload.shown for upload in ranked]
    return {
        "task": hosted.key,
        "split": hosted.split,
        "protocol": hosted.protocol,
        "headline": hosted.headline,
        "better": hosted.better,
        "samples": hosted.samples,
        "units": hosted.units,
        "step": hosted.step,
        "rows": [
            {
                "rank": scores.index(upload.shown) + 1,
                "method": upload.method,
                "account": upload.account,
                "shown": upload.shown,
                "since": f"{datetime.fromtimestamp(upload.received_at, UTC):%Y-%m-%d %H:%M}",
                "uploads": n_by_account[upload.account],
            }
            for upload in ranked
        ],
    }


def page(board: Mapping[str, Any], title: str) -> str:
    """Return the board as a page without scripts that reloads every half minute."""
    rows = sum(len(table["rows"]) for table in board["tasks"])
    summary = f"{counted(rows, 'score')} on {counted(len(board['tasks']), 'task')}"
    return fill("server.html", STYLE, title=title, summary=summary, blocks=[*_blocks(board)])


def _blocks(board: Mapping[str, Any]) -> Iterator[Block]:
    """Yield a heading, a remark and a ranking for each task of the board."""
    for table in board["tasks"]:
        yield Heading(text=f"{table['task']} {table['split']}")
        moves = f"a score moves by {table['step']:.3g} or more" if table["step"] else "exact scores"
        samples = counted(table["samples"], "sample")
        yield Paragraph(text=f"{samples}, protocol {table['protocol']}; {moves}; times in UTC")
        heading = formatting.heading(table["headline"], table["better"])
        yield Cells(
            head=("Rank", "Method", "Account", heading, "Since", "Uploads"),
            rows=[
                (
                    str(row["rank"]),
                    row["method"],
                    row["account"],
                    formatting.number(row["shown"]),
                    row["since"],
                    str(row["uploads"]),
                )
                for row in table["rows"]
            ],
            left=3,
        )
