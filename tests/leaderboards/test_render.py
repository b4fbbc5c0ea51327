import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import StoreError
from harness.leaderboards import formatting
from harness.leaderboards.board import build
from harness.leaderboards.render import json as board_json
from harness.leaderboards.render import markdown, write
from harness.leaderboards.render.pages import escape, templates
from harness.store import checksums

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "input", "img", "br", "line", "circle"}


class Reader(HTMLParser):
    """Text and tags, checking that every element is closed in its turn."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.tags, self.ids = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for key, value in attributes if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def board(world):
    from harness import plugins

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "build", lambda kind, spec, root: world.task(spec.name, root))
        return build(world.runs, title=f"Board & {HOSTILE}")


def test_two_files_are_written_and_nothing_else(board, tmp_path):
    paths = write(board, tmp_path / "deep" / "out")
    assert sorted(path.name for path in paths) == ["board.json", "board.md"]
    assert sorted(tmp_path.rglob("*.*")) == sorted(paths)


def test_a_file_that_cannot_be_written_leaves_the_old_one(board, tmp_path):
    (tmp_path / "board.json").mkdir()
    (tmp_path / "board.md").write_text("old")
    with pytest.raises(StoreError):
        write(board, tmp_path)
    assert (tmp_path / "board.json").is_dir()
    assert not list(tmp_path.glob("*.tmp"))


def test_the_json_holds_every_row_with_its_numbers(board):
    plain = json.loads(board_json.render(board))
    assert plain["version"] == 2
    table = plain["tables"][0]
    assert (table["task"], table["protocol"], table["better"]) == ("disc_seg", "seg/lisa", "higher")
    rows = {row["model"]: row for row in table["rows"]}
    assert rows["clumsy"]["rank"] == 3
    assert rows["clumsy"]["failures"]["parse"] == 3
    assert rows["clumsy"]["answered"] == 37 / 40
    assert rows["clumsy"]["to_best"]["n_groups"] == 20
    assert rows["clumsy"]["breakdowns"]["colour"]["red"]["n"] == 14
    assert str(board.tables[0].entries[0].folder.parent) not in board_json.render(board)


def test_the_markdown_has_tables_of_one_width_and_no_live_html(board):
    text = markdown.render(board)
    assert HOSTILE not in text
    assert "## disc_seg val" in text
    assert "| 3 | clumsy |" in text
    assert "3 parse" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count(" | ") for line in block.strip().split("\n")}) == 1


def test_responses_with_broken_characters_are_written(make_run, tmp_path):
    folder = make_run("a", changes={"results": {"model": "half \\ud800 nul \x00"}})
    text = (folder / "results.json").read_bytes().replace(rb"\\ud800", rb"\ud800")
    (folder / "results.json").write_bytes(text)
    checksums.write(folder, {"results.json": text})
    paths = write(build(folder), tmp_path / "out")
    assert re.search(r"half +nul", paths[0].read_text(encoding="utf-8"))
    assert json.loads(paths[1].read_text(encoding="utf-8"))["tables"]


@given(st.text(), st.text())
def test_any_text_survives_a_template_and_adds_no_element(text, other):
    page = templates().from_string('<p title="{{ other }}">{{ text }}</p>')
    made = page.render(text=text, other=other)
    reader = read(made)
    assert [tag for tag, _ in reader.tags] == ["p"]
    if "\r" not in text and text.isprintable():
        assert "".join(reader.text) == text
        assert made.startswith("<p")


def test_markup_is_not_escaped_twice():
    page = "{% macro b() %}<b>{{ text }}</b>{% endmacro %}<p>{{ b() }}</p>"
    assert templates().from_string(page).render(text="<") == "<p><b>&lt;</b></p>"
    assert escape("\"'") == "&quot;&#x27;"


@given(st.text())
def test_a_markdown_cell_is_one_line_without_open_markup(text):
    made = markdown.escape(text)
    assert "\n" not in made
    assert "<" not in made
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", made)


def test_a_metric_with_an_at_sign_stays_readable_and_a_mention_is_none():
    assert markdown.escape("P@0.5 by @somebody") == "P@0.5 by &#64;somebody"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (formatting.number(0.12345), "0.123"),
        (formatting.number(None), "–"),
        (formatting.signed_number(-0.0001), "+0.000"),
        (formatting.signed_number(-0.02), "−0.020"),
        (formatting.percent(0.99999), "99.9 %"),
        (formatting.percent(1.0), "100 %"),
        (formatting.span((0.1, 0.2)), "0.100 to 0.200"),
    ],
)
def test_wording(made, expected):
    assert made == expected


def test_the_training_behind_a_row_is_named_and_can_be_found(make_run):
    trained = {
        "method": "dr2seg(n0=45)",
        "tasks": [{"spec": "reason_seg(split=train)"}],
        "seed": 3,
        "config_hash": "beef" * 5,
    }
    model = {
        "spec": "m(checkpoint=runs/x)",
        "name": "m",
        "description": {"chat": {"checkpoint": "x", "trained": trained}},
    }
    folders = [make_run("a", changes={"manifest": {"model": model}}), make_run("b", model="two")]
    made = build(folders)
    rows = {entry.row.run: entry.row for entry in made.tables[0].entries}
    assert rows["b"].training is None
    listed = {row["run"]: row["training"] for row in board_json.to_json(made)["tables"][0]["rows"]}
    assert listed["b"] is None
    assert listed["a"]["config_hash"] == "beef" * 5
    assert list(listed["a"]["tasks"]) == ["reason_seg(split=train)"]


def test_a_training_that_says_nothing_of_itself_is_no_record(make_run):
    model = {"spec": "m", "name": "m", "description": {"chat": {"trained": {"method": "sft"}}}}
    with pytest.raises(StoreError, match="manifest"):
        build([make_run("a", changes={"manifest": {"model": model}})])
