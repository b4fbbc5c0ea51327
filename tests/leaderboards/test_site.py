"""The site's files: what they hold, and what happens to folders, data and journals that are bad."""

import base64
import http.client
import io
import json
import re
import shutil
import threading
import zlib
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

import harness
from harness import media, plugins
from harness.cli.main import main
from harness.errors import StoreError, UsageError
from harness.interchange.journal_form import prediction_from_json
from harness.leaderboards.board import build
from harness.leaderboards.site import chunks
from harness.leaderboards.site.details import QUESTION, chunk
from harness.leaderboards.site.history import history, steps
from harness.leaderboards.site.index import start_page
from harness.leaderboards.site.keys import keys
from harness.leaderboards.site.live import LiveSite
from harness.leaderboards.site.media import FRAMES, Thumbnails, describe
from harness.leaderboards.site.pairs import MAX_SAMPLES, compared_rows
from harness.leaderboards.site.runs import curve_columns
from harness.leaderboards.site.server import SiteServer
from harness.leaderboards.site.write import SiteFolder, write_site
from harness.record import Run, finish
from harness.types import Failure, FailureKind, Prediction

HOSTILE = "<script>alert(1)</script>"


def read_all(path):
    """Return key and value of each chunk of a file, unpacked if it is packed."""
    chunks = []
    for line in path.read_text("utf-8").split("\n")[:-1]:
        assert line.startswith("H(") and line.endswith(")")
        key, value = json.loads(f"[{line[2:-1]}]")
        if isinstance(value, str):
            value = json.loads(zlib.decompress(base64.b64decode(value), -zlib.MAX_WBITS))
        chunks.append((key, value))
    return chunks


def read(path):
    """Return key and value of the first chunk of a file."""
    return read_all(path)[0]


def predictions(path):
    """Return the first predictions of a run, which are the second chunk of its file."""
    _, (key, value) = read_all(path)
    assert key == f"{path.parent.name}/{path.stem}-0"
    return value


@pytest.fixture(scope="module")
def site(world, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "build", lambda kind, spec, root: world.task(spec.name, root))
        out = tmp_path_factory.mktemp("site") / "out"
        write_site(build(world.runs, title=f"Board {HOSTILE}"), out)
    return out


def test_every_chunk_is_named_by_its_key(site):
    files = sorted((site / "data").rglob("*.js"))
    assert len(files) > 12
    for path in files:
        assert f"data/{read(path)[0]}.js" == path.relative_to(site).as_posix()


def test_the_index_holds_the_board_as_it_is(site):
    _, index = read(site / "data/index.js")
    assert index["board"] == json.loads((site / "board.json").read_text())
    assert [table["key"] for table in index["site"]["tables"]] == [
        "disc_seg.val.seg-lisa.v1.all.f00df00d",
        "disc_video.valid_u.rvos-mevis.v1.all.f00df00d",
    ]
    assert (site / "board.md").read_text().startswith("# Board &lt;script&gt;")


def test_columns_hold_each_sample_once_with_every_runs_score(site, world):
    _, index = read(site / "data/index.js")
    _, columns = read(site / "data/t0/samples.js")
    rows = index["board"]["tables"][0]["rows"]
    place = next(i for i, row in enumerate(rows) if row["name"] == "clumsy")
    run = Run.open(next(p for p in world.runs.iterdir() if p.name == rows[place]["run"]))
    units = list(run.units())
    assert columns["id"] == [unit.unit for unit in units] and columns["unit"] is None
    own = columns["runs"][f"r{place}"]
    assert own["score"] == [round(unit.scores["giou"].value, 4) for unit in units]
    assert [i for i, letter in enumerate(own["failure"]) if letter == "p"] == [3, 4, 11]
    assert own["tokens"][0] == 60 and own["cut"] == []
    colour = columns["categories"]["colour"]
    assert [colour["values"][i] for i in colour["at"]] == [u.categories["colour"] for u in units]
    assert len(columns["mediums"]) == 20 and columns["media"][0] == columns["media"][1] == [0]


def test_predictions_and_ground_truth_are_those_of_the_record(site, world):
    _, index = read(site / "data/index.js")
    _, columns = read(site / "data/t1/samples.js")
    _, targets = read(site / "data/t1/target-0.js")
    samples = list(world.task("disc_video").samples())
    assert targets[2]["answer"]["masks"] == [m.to_json() for m in samples[2].target.answer.masks]
    folder = next(
        p for p in world.runs.iterdir() if p.name == index["board"]["tables"][1]["rows"][0]["run"]
    )
    chunk = predictions(site / "data/t1/r0.js")
    kept = Run.open(folder).prediction(columns["id"][2])
    assert prediction_from_json({**chunk["samples"][2], "query_id": kept.query_id}) == kept


def test_images_are_written_once_and_a_videos_frames_lie_in_a_grid(site):
    _, columns = read(site / "data/t1/samples.js")
    medium = columns["mediums"][0]
    assert medium["frames"] == 9 and medium["shown"] == list(range(9)) and medium["columns"] == 8
    sheet = np.asarray(Image.open(site / "media" / medium["file"])).astype(int)
    width, height = medium["cell"]
    assert sheet.shape == (2 * height, 8 * width, 3)
    ninth = sheet[height:, :width]
    assert np.abs(ninth - sheet[:height, :width]).max() > 60  # the disc has moved
    assert len(list((site / "media").glob("*.webp"))) == 20 + 8 + 2


def test_a_long_video_keeps_64_frames_and_says_which():
    frame = np.zeros((40, 1000, 3), np.uint8)
    long = media.pixels([frame] * 200, times=range(200), is_video=True, id="a" * 32)
    made = describe(long)
    assert len(made["shown"]) == FRAMES and made["shown"][-1] == 199 and made["cell"] == [480, 19]


def test_a_medium_is_written_once(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(SiteFolder, "save", lambda self, name, content: saved.append(name))
    folder = SiteFolder(tmp_path, None, images=True)
    image = media.pixels([np.zeros((4, 4, 3), np.uint8)], times=[0], is_video=False, id="b" * 32)
    assert folder.add(image) == folder.add(image) and saved == [f"media/{'b' * 32}.webp"]


def test_thumbnails_fill_sheets_of_a_hundred():
    sheets = {}
    made = Thumbnails(lambda number, content: sheets.update({number: content}))
    for _ in range(101):
        made.add(None)
    made.close()
    sizes = [Image.open(io.BytesIO(sheets[number])).size for number in (0, 1)]
    assert sizes == [(960, 960), (960, 96)]


def test_a_prompt_is_stored_once_whatever_was_asked():
    odd = f"odd {QUESTION} a dog"  # the sign itself is kept as it is
    plain = [
        {"usage": [0, 0, 0, 0], "calls": [{"request": {"text": text}, "response": "x"}]}
        for text in ("Find a dog!", "Find a cat!", odd)
    ]
    made = chunk([*plain, None], ("a dog", "a cat", "a dog", "?"))
    assert made["texts"] == [f"Find {QUESTION}!", odd]
    *given, missing = made["samples"]
    assert [one["calls"][0]["request"]["text"] for one in given] == [0, 0, 1] and missing is None


def test_half_a_character_is_written(tmp_path):
    assert chunks.plain("k", {"text": "\ud800"}) == b'H("k",{"text":"?"})\n'


def test_the_start_page_has_the_tables_and_no_live_html(world):
    page = start_page(build(world.runs, title=HOSTILE)).decode()
    assert HOSTILE not in page and "evil &lt;script&gt;" in page
    assert re.findall(r"<script[^>]*>", page) == [
        '<script defer src="site.js">',
        '<script defer src="data/index.js">',
    ]
    assert page.count("<table") == 3 and "unsafe" not in page


def test_a_site_replaces_an_earlier_site_and_nothing_else(world, site, tmp_path):
    out = tmp_path / "out"
    board = build(world.runs)
    for _ in range(2):
        write_site(board, out, images=False)
        (out / "data/stale.js").write_text("")
    write_site(board, out, images=False)
    assert not (out / "data/stale.js").exists() and not (out / "media").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    for place in (tmp_path / "mine", tmp_path / "mine" / "thesis.tex"):
        with pytest.raises(UsageError, match=place.name):
            write_site(board, place)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years"
    code = main(["board", "site", "--runs", str(world.runs), "--out", str(tmp_path / "mine")])
    assert code == UsageError.exit_code


def test_a_site_that_cannot_be_written_leaves_the_earlier_one(world, tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_site(build(world.runs), out, images=False)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.leaderboards.site.write.history", full)
    with pytest.raises(StoreError, match="No space left"):
        write_site(build(world.runs, title="new"), out)
    assert (out / "board.md").read_text().startswith("# Leaderboard")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_equal_runs_give_equal_sites(world, site, tmp_path):
    again = tmp_path / "again"
    write_site(build(world.runs, title=f"Board {HOSTILE}"), again)
    files = sorted(path.relative_to(site) for path in site.rglob("*") if path.is_file())
    assert files == sorted(p.relative_to(again) for p in again.rglob("*") if p.is_file())
    assert [f for f in files if (site / f).read_bytes() != (again / f).read_bytes()] == []


def test_nothing_of_this_machine_is_published(site, world):
    for path in site.rglob("*"):
        if path.suffix in (".js", ".json", ".html", ".md") and path.name != "site.js":
            value = read_all(path) if path.suffix == ".js" else path.read_text()
            assert str(world.data.parent) not in json.dumps(value), path


def test_without_the_benchmark_ids_and_predictions_stay(world, tmp_path):
    out = tmp_path / "out"
    write_site(build(world.runs), out, data_root=tmp_path / "gone")
    _, columns = read(out / "data/t0/samples.js")
    assert str(tmp_path / "gone") in columns["note"] and columns["mediums"] == []
    assert columns["id"][0] == "0/roll" and columns["runs"]["r0"]["score"][0] is not None
    assert predictions(out / "data/t0/r0.js")["samples"][0]["answer"]["masks"]


def test_an_image_that_is_damaged_is_named_and_the_rest_is_there(world, make_run, tmp_path):
    shutil.copytree(world.data, tmp_path / "data")
    broken = tmp_path / "data" / "disc_seg" / "3.png"
    broken.write_bytes(broken.read_bytes()[:200])
    write_site(build(make_run("a")), tmp_path / "out", data_root=tmp_path / "data")
    _, columns = read(tmp_path / "out" / "data/t0/samples.js")
    files = [columns["mediums"][places[0]]["file"] for places in columns["media"]]
    assert [place for place, file in enumerate(files) if file is None] == [6, 7]
    assert "image" in columns["note"]


def test_a_copy_without_predictions_has_scores_and_no_chunk(make_run, tmp_path):
    folder = make_run("a")
    run = Run.open(folder)
    next(folder.glob("samples.*.jsonl")).unlink()
    finish(folder, list(run.units()), run.results, journal=False)
    write_site(build(folder), tmp_path / "out")
    _, columns = read(tmp_path / "out" / "data/t0/samples.js")
    assert set(columns["runs"]["r0"]["failure"]) == {"-"}
    assert columns["runs"]["r0"]["score"][0] > 0
    assert len(read_all(tmp_path / "out" / "data/t0/r0.js")) == 1


def test_links_of_tables_stay_apart_where_titles_are_equal(world):
    table = build(world.runs).tables[0]
    others = [
        table,
        replace(table, subset="first20"),
        replace(table, data="beef" * 8),
        replace(table, task_version=2),
    ]
    found = keys(others)
    assert len(set(found)) == 4
    assert keys([table]) == found[:1] == [f"disc_seg.val.seg-lisa.v1.all.{table.data[:8]}"]
    assert keys(others[::-1]) == found[::-1]  # a table's name does not depend on the others
    assert keys([table, table]) == [found[0], f"{found[0]}.2"]
    assert all(re.fullmatch(r"[\w.-]+", key) for key in found)


def compared(p_values):
    """Comparisons by the p value of each pair of places; None: not to be compared."""

    class Found:
        def __init__(self, p):
            self.p_value = p

    return lambda a, b: None if (a, b) not in p_values else Found(p_values[a, b])


def test_a_step_is_where_a_run_differs_from_the_first_of_its_level():
    pairs = {(0, 1): 0.4, (0, 2): 0.001, (2, 3): 0.02, (2, 4): 0.001}
    assert [step[:2] for step in steps(5, compared(pairs))] == [(0, 2), (2, 4)]
    assert not [*steps(5, compared({(0, at): 0.03 for at in range(1, 5)}))]  # 0.05 over 4 tests
    assert [at for _, at, _ in steps(2, compared({(0, 1): 0.03}))] == [1]


def test_history_follows_one_model_over_commits_and_names_the_step(make_run):
    folders = []
    for number, shift in enumerate((1.0, 1.0, 6.0)):
        provenance = {"commit": f"{number}" * 40, "dirty": False, "device": "cpu"}
        provenance |= {"packages": {}, "python": "3.11.9", "platform": "Linux"}
        folder = make_run(
            f"c{number}",
            model="one",
            shift=shift,
            seed=1 if number < 2 else 2,
            changes={"manifest": {"provenance": provenance}},
        )
        timing = {"attempts": [{"ended": 1000.0 - number}]}  # later commits ended earlier
        (folder / "timing.json").write_text(json.dumps(timing))
        folders.append(folder)
    (table,) = build([*folders, make_run("other", model="two")]).tables
    (series,) = history(table)
    assert [point["commit"][0] for point in series["points"]] == ["2", "1", "0"]
    (step,) = series["steps"]
    assert (step["since"], step["at"], step["worse"]) == (0, 1, False)
    assert series["points"][1]["value"] - series["points"][0]["value"] == pytest.approx(
        step["difference"]
    )


def test_curves_keep_rare_numbers_and_at_most_400_steps():
    rows = [{"step": step, "loss": 1 / (step + 1), "note": "x"} for step in range(2000)]
    rows[777]["eval/gIoU"] = 0.5
    rows[3]["loss"] = float("nan")
    made = curve_columns(rows)
    assert set(made) == {"step", "loss", "eval/gIoU"}
    assert len(made["step"]) in (400, 401) and made["eval/gIoU"].count(0.5) == 1
    assert made["step"][made["eval/gIoU"].index(0.5)] == 777
    json.dumps(made, allow_nan=False)


def unfinished(folder, *, kept):
    """Make a finished run one that has answered `kept` samples; return the other lines."""
    for name in ("results.json", "scores.jsonl", "checksums.json", "timing.json"):
        (folder / name).unlink()
    path = next(folder.glob("samples.*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]))
    return path, lines[kept:]


def of_live(site, name):
    content, _ = site.file(name)
    return json.loads(f"[{content.decode()[2:-2]}]")[1]


def test_an_unfinished_run_is_a_row_without_a_rank_that_grows(make_run, tmp_path):
    done = make_run("all/done", model="done")
    running = make_run("all/running", model="running", shift=3, failing={1})
    path, rest = unfinished(running, kept=5)
    site = LiveSite([tmp_path / "all"])
    rows = of_live(site, "data/index.js")["board"]["tables"][0]["rows"]
    assert [(row["name"], row["rank"], row.get("kind")) for row in rows] == [
        ("done", 1, "measured"),
        ("running", None, "running"),
    ]
    assert rows[1]["progress"] == {"answered": 5, "total": 40} and rows[1]["n_failed"] == 1
    columns = of_live(site, "data/t0/samples.js")
    assert columns["runs"]["r1"]["failure"] == ".p..." + "-" * 35
    scores = [s for s in columns["runs"]["r1"]["score"] if s is not None]
    assert len(scores) == 5 and rows[1]["metrics"]["giou"] == pytest.approx(
        sum(scores) / 5, abs=1e-4
    )
    assert site.refresh() == []
    with path.open("ab") as file:
        file.write(b"".join(rest[:10]) + rest[10][:30])
    assert site.refresh() == ["index", "t0/samples", "t0/r1-*"]
    assert of_live(site, "data/t0/samples.js")["runs"]["r1"]["failure"].count("-") == 25
    assert done.is_dir()


def test_an_unfinished_run_that_a_judge_has_to_score_keeps_its_row(make_run, tmp_path, monkeypatch):
    def without_judge(*_):
        raise UsageError("the scorer", expected="--judge SPEC", found="none")

    monkeypatch.setattr("harness.leaderboards.site.running.score_unit", without_judge)
    monkeypatch.setattr("harness.run.scoring.unit_ledger", without_judge)
    unfinished(make_run("all/running", model="running"), kept=5)
    board = of_live(LiveSite([tmp_path / "all"]), "data/index.js")["board"]
    assert board["tables"][0]["rows"][0]["progress"] == {"answered": 5, "total": 40}


def test_a_run_that_ends_while_it_is_viewed_takes_its_rank(make_run, tmp_path):
    folder = make_run("all/one", model="one")
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    unfinished(folder, kept=3)
    site = LiveSite([tmp_path / "all"])
    assert of_live(site, "data/index.js")["board"]["tables"][0]["rows"][0]["rank"] is None
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    assert site.refresh() == ["*"]
    assert of_live(site, "data/index.js")["board"]["tables"][0]["rows"][0]["rank"] == 1


def test_live_chunks_are_those_of_the_static_site(site, world):
    live = LiveSite([world.runs], title=f"Board {HOSTILE}")
    for path in sorted((site / "data").rglob("*.js")):
        name = path.relative_to(site).as_posix()
        if name != "data/index.js":
            content, _ = live.file(name)
            if re.fullmatch(r"r\d+", path.stem):  # a live run grows: its predictions lie apart
                content += live.file(name.replace(".js", "-0.js"))[0]
            assert content == path.read_bytes(), name
    _, columns = read(site / "data/t0/samples.js")
    image = f"media/{columns['mediums'][0]['file']}"
    assert live.file(image) == ((site / image).read_bytes(), "image/webp")
    assert live.file("media/t0-0.webp")[0] == (site / "media/t0-0.webp").read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "data/t9/samples.js",
        "data/t0/r9.js",
        "data/t0/r9-0.js",
        "data/t0/target-9.js",
        "data/t0/../index.js",
        "media/../board.json",
        "media/0123.webp",
        "media/t9-0.webp",
        "site.py",
        "..",
    ],
)
def test_a_name_that_the_site_does_not_have_is_none(world, name):
    live = LiveSite([world.runs])
    assert live.file(name) is None


@pytest.fixture
def served(world):
    server = SiteServer(LiveSite([world.runs]))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def ask(server, path, *, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


def test_the_server_reads_nothing_but_the_site_and_only_with_its_token(served):
    start = urlsplit(served.url).path
    status, headers, content = ask(served, start)
    assert status == 200 and b"site.js" in content
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    root = start.rpartition("/")[0]
    assert ask(served, f"{root}/data/index.js?v=3")[0] == 200
    for path in ("/", "/index.html", "/wrong/index.html", f"{root}/../../etc/passwd"):
        assert ask(served, path)[0] == 404
    for path in (f"{root}/%2e%2e/pyproject.toml", f"{root}//etc/passwd", f"{root}/data/t0"):
        assert ask(served, path)[0] == 404
    assert ask(served, start, host="evil.example")[0] == 404
    assert ask(served, start, method="POST")[0] == 501
    assert served.server_address[0] == "127.0.0.1"


def test_view_refuses_a_folder_without_runs_and_a_port_that_is_taken(served, world, tmp_path):
    assert main(["view", str(tmp_path)]) == StoreError.exit_code
    taken = ["view", str(world.runs), "--port", str(served.server_port)]
    assert main(taken) == UsageError.exit_code


def test_a_failure_of_any_kind_has_its_letter(make_run, tmp_path):
    def predict(sample, number):
        kind = (FailureKind.PARSE, FailureKind.MODEL, FailureKind.INFRASTRUCTURE)[number % 3]
        notes = ("cut off after 8 tokens",) if number == 4 else ()
        return Prediction(query_id=sample.query.id, failure=Failure(kind, "no"), notes=notes)

    write_site(build(make_run("a", predict=predict)), tmp_path / "out", images=False)
    _, columns = read(tmp_path / "out" / "data/t0/samples.js")
    assert columns["runs"]["r0"]["failure"].startswith("pmipmi")
    assert columns["runs"]["r0"]["cut"] == [4]


def test_the_protocol_decides_which_response_is_an_answer(make_run, rewrite, tmp_path):
    """As the run counts: of two samples the parser read the first, and the protocol the second."""
    run = make_run("a", failing=(1,))

    def edit(units):
        units[0]["failed"], units[1]["failed"] = 1, 0

    rewrite(run, edit)
    write_site(build(run), tmp_path / "out", images=False)
    _, columns = read(tmp_path / "out" / "data/t0/samples.js")
    assert set(columns["runs"]["r0"]["failure"][2:]) == {"."}
    assert columns["runs"]["r0"]["failure"].startswith("p.")


@pytest.mark.parametrize(
    ("rows", "samples", "count"),
    [(1, 10, 1), (3, 10, 3), (40, 200, 25), (40, 10_000, 10), (2, 10**9, 2), (9, 10**9, 2)],
)
def test_as_many_rows_are_compared_as_a_minute_allows(rows, samples, count):
    entry = SimpleNamespace(row=SimpleNamespace(n_total=samples))
    assert compared_rows(SimpleNamespace(entries=[entry] * rows)) == count
    assert count < 3 or count * (count - 1) // 2 * samples <= MAX_SAMPLES


def test_pairs_are_those_of_the_comparison_in_both_directions(site, world):
    _, pairs = read(site / "data/t0/pairs.js")
    table = build(world.runs).tables[0]
    folders = [entry.folder for entry in table.entries]
    places = range(len(folders))
    assert set(pairs) == {f"{a}-{b}" for a in places for b in places if a != b}
    for name, plain in pairs.items():
        made = harness.compare(*(folders[int(place)] for place in name.split("-")))
        assert plain["verdict"] == made.verdict()
        assert plain["difference"] == pytest.approx(made.difference)
        assert plain["p_value"] == made.p_value
        assert plain["interval"] == pytest.approx(made.interval)
        first = table.entries[int(name[0])].row.model
        assert plain["changed"][0].startswith(f"model: {first}")
