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
from harness.leaderboards.render import markdown, page, write
from harness.leaderboards.render.markup import Markup, element, escape
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


def test_three_files_are_written_and_nothing_else(board, tmp_path):
    paths = write(board, tmp_path / "deep" / "out")
    assert sorted(path.name for path in paths) == ["board.html", "board.json", "board.md"]
    assert sorted(tmp_path.rglob("*.*")) == sorted(paths)


def test_a_file_that_cannot_be_written_leaves_the_old_one(board, tmp_path):
    (tmp_path / "board.json").mkdir()
    (tmp_path / "board.md").write_text("old")
    with pytest.raises(StoreError):
        write(board, tmp_path)
    assert (tmp_path / "board.json").is_dir()
    assert not list(tmp_path.glob("*.tmp"))


def test_the_page_is_well_formed_and_fetches_nothing(board):
    text = page.render(board)
    reader = read(text)
    assert len(reader.ids) == len(set(reader.ids))
    for tag, attributes in reader.tags:
        assert tag not in ("link", "iframe", "object", "base")
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("src", "data:").startswith("data:image/jpeg;base64,") or not (
            attributes.get("src")
        )
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"https?://|@import|url\(", text)


def test_no_text_becomes_markup(board):
    text = page.render(board)
    assert HOSTILE not in text
    reader = read(text)
    assert sum(tag == "script" for tag, _ in reader.tags) == 2  # the data and ours
    shown = "".join(reader.text)
    assert f"Board & {HOSTILE}" in shown  # the title
    assert f"evil {HOSTILE}" in shown  # a model's name
    assert f"disc {HOSTILE}" in shown  # a question
    assert f"It rolls. {HOSTILE} </script>" in shown  # a response
    assert f"parse: no JSON {HOSTILE}" in shown  # a failure


def test_the_policy_names_the_hashes_of_the_style_and_the_script_that_are_there(board):
    text = page.render(board)
    policy = next(
        attributes["content"]
        for tag, attributes in read(text).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    assert f"style-src '{page.digest(style)}'" in policy
    assert f"script-src '{page.digest(script)}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_embedded_data_are_those_of_the_json_file(board):
    text = page.render(board)
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1]
    assert not set("<>&") & set(inside)
    assert json.loads(inside) == json.loads(board_json.render(board))


def test_the_json_holds_every_row_with_its_numbers(board):
    plain = json.loads(board_json.render(board))
    assert plain["version"] == 1
    table = plain["tables"][0]
    assert (table["task"], table["protocol"], table["better"]) == ("disc_seg", "seg/lisa", "higher")
    rows = {row["model"]: row for row in table["rows"]}
    assert rows["clumsy"]["rank"] == 3
    assert rows["clumsy"]["failures"]["parse"] == 3
    assert rows["clumsy"]["answered"] == 37 / 40
    assert rows["clumsy"]["to_best"]["n_groups"] == 20
    assert rows["clumsy"]["breakdowns"]["colour"]["red"]["n"] == 14
    assert rows["clumsy"]["gallery"]["samples"][-1]["sample"]
    assert "data:image" not in board_json.render(board)


def test_numbers_intervals_coverage_and_failures_are_on_the_page(board):
    shown = "".join(read(page.render(board)).text)
    row = board.tables[0].entries[2].row
    for text in (
        formatting.number(row.value),
        formatting.span(row.interval),
        "92.5 %",
        "3 parse",
        "seg/lisa",
        "giou ↑",
        "area_error ↓",
        "40 samples",
        "1 min 02 s",
        "0123456789",
        formatting.ranking_rule(board.level),
    ):
        assert text in shown


def test_every_interval_is_drawn_inside_its_axis(board):
    tags = [attributes for tag, attributes in read(page.render(board)).tags if tag == "line"]
    drawn = [attributes for attributes in tags if attributes["class"] == "interval"]
    assert len(drawn) == 6
    for attributes in drawn:
        assert 0 <= float(attributes["x1"]) <= float(attributes["x2"]) <= 168


def test_sort_keys_are_numbers_or_empty(board):
    cells = [
        attributes["data-sort"]
        for tag, attributes in read(page.render(board)).tags
        if tag == "td" and "data-sort" in attributes
    ]
    assert len(cells) > 30
    for cell in cells:
        assert cell == "" or float(cell) is not None


def test_the_gallery_shows_every_view_once_a_switch(board):
    tags = read(page.render(board)).tags
    switches = [a for tag, a in tags if tag == "input"]
    assert len(switches) == 3 * 6
    assert sum("checked" in a for a in switches) == 6
    labels = [a["for"] for tag, a in tags if tag == "label"]
    assert labels == [a["id"] for a in switches]
    images = [a["class"].split() for tag, a in tags if tag == "img"]
    for view in ("image", "ground_truth", "prediction"):
        assert sum(f"of-{view}" in classes for classes in images) == 36


def test_a_missing_benchmark_is_said_on_the_page(world, tmp_path):
    gone = build(world.runs, data_root=tmp_path / "gone")
    shown = "".join(read(page.render(gone)).text)
    assert str(tmp_path / "gone") in shown and "J&F" in shown


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
    page_text = paths[2].read_text(encoding="utf-8")
    assert "half � nul �" in page_text
    assert json.loads(paths[1].read_text(encoding="utf-8"))["tables"]


@given(st.text(), st.text())
def test_any_text_survives_an_element_and_adds_none(text, other):
    made = element("p", {"title": other}, text)
    reader = read(made)
    assert [tag for tag, _ in reader.tags] == ["p"]
    if "\r" not in text and text.isprintable():
        assert "".join(reader.text) == text
        assert made.startswith("<p")


def test_markup_is_not_escaped_twice():
    assert element("p", {}, element("b", {}, "<"), Markup("&amp;")) == "<p><b>&lt;</b>&amp;</p>"
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
        (formatting.duration(3599.6), "1 h 00 min"),
        (formatting.duration(59.99), "60.0 s"),
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
    made = build(folders, picks=0)
    rows = {entry.row.run: entry.row for entry in made.tables[0].entries}
    assert rows["b"].training is None
    reader = Reader()
    reader.feed(page.render(made))
    output = "dr2seg on reason_seg(split=train), seed 3, beefbeefbeef"
    assert output in reader.text and ("td", {"title": "dr2seg(n0=45)"}) in reader.tags
    listed = {row["run"]: row["training"] for row in board_json.to_json(made)["tables"][0]["rows"]}
    assert listed["b"] is None
    assert listed["a"]["config_hash"] == "beef" * 5
    assert list(listed["a"]["tasks"]) == ["reason_seg(split=train)"]


def test_a_training_that_says_nothing_of_itself_is_no_record(make_run):
    model = {"spec": "m", "name": "m", "description": {"chat": {"trained": {"method": "sft"}}}}
    with pytest.raises(StoreError, match="manifest"):
        build([make_run("a", changes={"manifest": {"model": model}})], picks=0)
