"""A run whose files were changed after it was finished is refused by name, and numbers are
computed from scores again.
"""

import json
from dataclasses import asdict

import pytest

from harness.errors import StoreError
from harness.leaderboards.board import build
from harness.leaderboards.differences.bracket import Bracketed
from harness.leaderboards.gate import check
from harness.leaderboards.render import markdown
from harness.leaderboards.repeats import repeats
from harness.leaderboards.site.index import start_page
from harness.leaderboards.site.live import LiveSite
from harness.leaderboards.site.write import write_site
from harness.record import Run, unfinished_below
from harness.run.contamination import Contamination, write_contamination
from harness.scores import Corpus
from harness.store import checksums, journal
from harness.store.atomic import json_bytes
from harness.store.checksums import LATER_FILES, PROTOCOLS, TRAININGS, write_later

EMPTY = {"protocol": "a", "about": "", "papers": ()}


def edit_results(folder, *, metric="giou", value=0.99):
    plain = json.loads((folder / "results.json").read_text())
    plain["metrics"][metric] = value
    (folder / "results.json").write_text(json.dumps(plain))


def edit_scores(folder):
    lines = (folder / "scores.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    first["scores"]["area_error"][0] += 0.5
    (folder / "scores.jsonl").write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")


def edit_journal(folder):
    """Another response, with a checksum of its line that is right."""
    path = folder / "samples.0.1.jsonl"
    records = [journal.parse_line(raw) for raw in path.read_bytes().splitlines(keepends=True)]
    records[3]["prediction"]["responses"] = ["something else"]
    path.write_bytes(b"".join(map(journal.line, records)))


def add_to_journal(folder):
    (folder / "samples.3.2.jsonl").write_bytes((folder / "samples.0.1.jsonl").read_bytes())


def edit_manifest(folder):
    plain = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**plain, "deviations": []}))


EDITS = {
    "manifest.json": edit_manifest,
    "results.json": edit_results,
    "scores.jsonl": edit_scores,
    "samples.0.1.jsonl": edit_journal,
    "samples.3.2.jsonl": add_to_journal,
}
READERS = {
    "board": lambda good, other: build([good, other]),
    "gate, candidate": lambda good, other: check(good, other),
    "gate, baseline": lambda good, other: check(other, good),
    "repeats": lambda good, other: repeats([good, other]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_named_and_refused(make_run, name, reader):
    good = make_run("good")
    model = {"spec": "one(checkpoint=runs/one)", "name": "one", "description": {"seed": 1}}
    other = make_run("other", seed=1, changes={"manifest": {"seed": 1, "model": model}})
    EDITS[name](other)
    with pytest.raises(StoreError) as error:
        READERS[reader](good, other)
    assert f"{other / name}" in str(error.value) and "harness score RUN" in str(error.value)
    assert str(good) not in str(error.value)


@pytest.mark.parametrize("name", EDITS)
def test_a_board_names_a_refused_run_counts_it_nowhere_and_shows_the_others(
    make_run, name, tmp_path
):
    make_run("runs/good")
    model = {"spec": "evil", "name": "evil", "description": {}}
    other = make_run("runs/other", changes={"manifest": {"model": model}}, shift=2)
    alone = build(other.with_name("good"))
    EDITS[name](other)
    made = build(tmp_path / "runs", names_refused=True)
    assert made.tables == alone.tables
    (refused,) = made.refused
    assert (refused.run, refused.model, refused.task) == ("other", "evil", "disc_seg")
    assert f"other/{name}" in refused.reason and str(tmp_path) not in refused.reason
    for text in (markdown.render(made), start_page(made).decode()):
        assert text.count("evil") == 1 and f"other/{name}" in text
    assert made.title == alone.title and "1 refused" in start_page(made).decode()
    live = LiveSite([tmp_path / "runs"])
    assert live.board.refused == made.refused
    index = json.loads(live.file("data/index.js")[0].partition(b",")[2].rpartition(b")")[0])
    assert [row["run"] for row in index["board"]["refused"]] == ["other"]
    write_site(made, tmp_path / "site", images=False)


def test_a_run_whose_numbers_are_not_those_of_its_scores_is_refused_beside_others(make_run):
    """Its checksums are right, so that only its scores tell; alone, it leaves no table."""
    good, other = make_run("good"), make_run("other")
    edit_results(other)
    seal(other)
    made = build([other, good], names_refused=True)
    assert [one.run for one in made.refused] == ["other"] and "giou" in made.refused[0].reason
    assert [entry.row.run for entry in made.tables[0].entries] == ["good"]
    assert build(other, names_refused=True).tables == ()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "name", ["manifest.json", "results.json", "scores.jsonl", "samples.0.1.jsonl"]
)
def test_a_missing_file_is_named_and_refused(make_run, name, reader):
    """Also where other runs are beside it: a baseline without it would let anything pass. Only a
    board goes on without `results.json`, for which it names the run as unfinished.
    """
    if (reader, name) == ("board", "results.json"):
        pytest.skip("see test_a_run_without_results_does_not_block_a_board")
    make_run("before/video", task="disc_video")
    make_run("after/video", task="disc_video")
    good, folder = make_run("after/disc"), make_run("before/disc")
    (folder / name).rename(folder / "elsewhere")
    with pytest.raises(StoreError, match=name.replace(".", r"\.")) as error:
        READERS[reader](good.parent, folder.parent)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    "lost", [["results.json"], ["results.json", "checksums.json"], ["results.json", "scores.jsonl"]]
)
def test_a_run_without_results_does_not_block_a_board(make_run, lost):
    """An evaluation that was killed while it wrote them leaves this behind."""
    make_run("runs/video", task="disc_video")
    folder = make_run("runs/disc")
    for name in lost:
        (folder / name).unlink()
    assert [table.task for table in build(folder.parent).tables] == ["disc_video"]
    assert unfinished_below(folder.parent) == [folder]
    for read in (lambda: build(folder), lambda: check(folder, folder.parent / "video")):
        with pytest.raises(StoreError) as error:
            read()
        assert str(folder) in str(error.value)


@pytest.mark.parametrize("name", LATER_FILES)
@pytest.mark.parametrize("change", ["edited", "lost"])
def test_what_is_written_after_the_numbers_is_named_and_refused_too(
    make_run, tmp_path, name, change
):
    """Which samples and which training a board tells of."""
    folder, good = make_run("a"), make_run("b")
    nothing = Contamination(n_total=40, samples=0, images=0, alike=0, scans=0, examples=())
    write_contamination(folder, nothing)
    write_later(folder, TRAININGS, b'{"trainings": []}\n')
    write_later(folder, PROTOCOLS, b'{"journal": null}\n')
    build(folder)
    if change == "lost":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    for read in (lambda: build(folder), lambda: check(good, folder)):
        with pytest.raises(StoreError) as error:
            read()
        assert str(folder / name) in str(error.value)


def test_malformed_numbers_by_protocol_refuse_their_run_alone(make_run):
    """The checksum is right, so that only the reader tells."""
    good, other = make_run("good"), make_run("other")
    for protocols in (
        [{"protocol": "a"}],
        [{**asdict(Bracketed(**EMPTY)), "metrics": ["giou"]}],
        3,
    ):
        plain = {"journal": checksums.journal_of(other), "protocols": protocols}
        write_later(other, PROTOCOLS, json_bytes(plain))
        made = build([good, other], names_refused=True)
        assert [one.run for one in made.refused] == ["other"]
        assert PROTOCOLS in made.refused[0].reason
        assert [entry.row.run for entry in made.tables[0].entries] == ["good"]


def test_a_refused_run_that_two_folders_name_is_one_row(make_run, tmp_path):
    make_run("runs/good")
    other = make_run("runs/other")
    edit_manifest(other)
    made = build([tmp_path / "runs", other, tmp_path / "runs" / ".." / "runs"], names_refused=True)
    assert [one.run for one in made.refused] == ["other"]


def test_a_run_that_does_not_say_what_it_wrote_is_refused(make_run):
    folder = make_run("a")
    (folder / "checksums.json").unlink()
    with pytest.raises(StoreError, match=r"checksums\.json.*harness eval"):
        build(folder)
    for damaged in ("", "[]", '{"version": 7}', '{"version": 2, "files": 3, "journal": null}'):
        (folder / "checksums.json").write_text(damaged)
        with pytest.raises(StoreError, match=r"checksums\.json"):
            build(folder)


def seal(folder):
    """Make all checksums right, as somebody could on purpose."""
    names = ("results.json", "scores.jsonl")
    checksums.write(folder, {name: (folder / name).read_bytes() for name in names})


@pytest.mark.parametrize("task", ["disc_seg", "disc_video"])
def test_a_headline_that_its_scores_do_not_give_is_refused_whatever_the_checksums(make_run, task):
    folder, good = make_run("a", task=task), make_run("b", task=task)
    headline = {"disc_seg": "giou", "disc_video": "J&F"}[task]
    edit_results(folder, metric=headline)
    seal(folder)
    for read in (lambda: build(folder), lambda: check(good, folder)):
        with pytest.raises(StoreError, match=r"results\.json.*0\.99"):
            read()


def test_a_breakdown_that_its_scores_do_not_give_is_refused(make_run):
    folder = make_run("a")
    plain = json.loads((folder / "results.json").read_text())
    plain["breakdowns"]["colour"]["red"]["metrics"]["giou"] = 0.5
    (folder / "results.json").write_text(json.dumps(plain))
    seal(folder)
    with pytest.raises(StoreError, match=r"results\.json.*giou .*\bred\b.*found 0\.5\b"):
        build(folder)


def test_an_interval_is_computed_from_the_scores(make_run):
    folder = make_run("a")
    plain = json.loads((folder / "results.json").read_text())
    plain["intervals"]["giou"] = [0.1, 0.2]
    (folder / "results.json").write_text(json.dumps(plain))
    seal(folder)
    low, high = build(folder).tables[0].entries[0].row.interval
    assert low < plain["metrics"]["giou"] < high


def test_a_metric_that_runs_a_network_keeps_its_recorded_number(make_run, rewrite):
    """An extra metric is not among the protocol's, so that its function is neither known nor
    called: its payloads stay in the scores.
    """
    folder = make_run("a")
    units = list(Run.open(folder).units())
    results = json.loads((folder / "results.json").read_text())
    for part in (
        results["metrics"],
        *(cell["metrics"] for cells in results["breakdowns"].values() for cell in cells.values()),
    ):
        part["evaluate[x]"] = 0.25
    results["better"]["evaluate[x]"], results["intervals"]["evaluate[x]"] = "higher", [0.2, 0.3]
    lines = [one.to_json() for one in units]
    for one in lines:
        one["scores"]["evaluate[x]"] = {"corpus": [{"candidate": "a dog", "true": "a dog"}]}
    (folder / "scores.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (folder / "results.json").write_text(json.dumps(results))
    seal(folder)
    shown = build(folder).tables[0].entries[0].row
    assert shown.metrics["evaluate[x]"] == 0.25
    assert isinstance(next(iter(Run.open(folder).units())).scores["evaluate[x]"], Corpus)


@pytest.mark.parametrize(
    "number",
    ["null", "[]", "{}", '"0.5"', "1" + "0" * 400, "1" + "0" * 5000, "NaN", "true", "[" * 99_999],
    ids=[
        "null",
        "list",
        "object",
        "text",
        "huge",
        "larger than Python reads",
        "NaN",
        "true",
        "deep",
    ],
)
@pytest.mark.parametrize("place", ["mean", "ratio", "line"])
def test_damaged_scores_are_an_error_of_the_record(make_run, number, place):
    folder = make_run("a")
    lines = (folder / "scores.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    mark = "here"
    if place == "mean":
        first["scores"]["giou"][0] = mark
    elif place == "ratio":
        first["scores"]["ciou"]["ratio"][1] = mark
    else:
        first = mark
    lines[0] = json.dumps(first).replace(json.dumps(mark), number)
    (folder / "scores.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreError, match=r"scores\.jsonl"):
        list(Run.open(folder).units())
    with pytest.raises(StoreError, match=r"scores\.jsonl"):
        build(folder)
