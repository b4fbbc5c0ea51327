"""Rows whose weights learned from test samples are marked, and compared with their like only."""

from dataclasses import replace

import pytest

from harness.leaderboards import formatting
from harness.leaderboards.board import build
from harness.leaderboards.gate import differences
from harness.leaderboards.render.json import to_json
from harness.leaderboards.row import _adaptation, row
from harness.record import Run

BUDGET = "vr_ttrl: 5 updates, 5 × 8 rollouts"


@pytest.fixture
def rows(make_run):
    plain = row(Run.open(make_run("a")))
    return plain, replace(plain, adaptation=BUDGET, transductive=True)


def test_the_record_says_what_was_adapted():
    described = {"method": "vr_ttrl", "budget": "5 updates, 5 × 8 rollouts", "transductive": True}
    manifest = {"model": {"description": {"adaptation": described}}}
    assert _adaptation(manifest) == {"adaptation": BUDGET, "transductive": True}
    assert _adaptation({"model": {"description": {}}}) == {}


def test_a_row_is_marked_with_its_budget(rows):
    plain, adapted = rows
    assert "§" not in formatting.marked_name(plain)
    assert formatting.marked_name(adapted).endswith("§")
    assert BUDGET in formatting.adaptation_note(adapted)
    vote = replace(plain, adaptation="vote: no update, 8 rollouts")
    assert "§" not in formatting.marked_name(vote)
    assert "transductive" not in formatting.adaptation_note(vote)


def test_the_gate_compares_like_with_like(rows):
    plain, adapted = rows
    assert not differences(adapted, adapted)
    more = replace(adapted, adaptation="vr_ttrl: 10 updates, 10 × 8 rollouts")
    for one, other in ((plain, adapted), (adapted, plain), (adapted, more)):
        (found,) = differences(one, other)
        assert "adaptation" in found and (other.adaptation or "none") in found


def test_a_board_without_such_rows_has_no_note(make_run):
    (table,) = to_json(build([make_run("a")]))["tables"]
    assert not any("transductive" in note for note in table["notes"])
    assert table["rows"][0]["adaptation"] is None
