"""The site in a real browser: from disk, and served while a run goes on."""

import json
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import harness
from harness import plugins
from harness.cli.main import main
from harness.leaderboards.board import build
from harness.leaderboards.formatting import p_value, signed_number, signed_span
from harness.leaderboards.grid import Cell, Grid
from harness.leaderboards.published_results import PublishedResult, PublishedRow
from harness.leaderboards.render.pages import fill
from harness.leaderboards.rollouts import groups_of
from harness.leaderboards.site.live import LiveSite
from harness.leaderboards.site.server import SiteServer
from harness.leaderboards.site.write import write_site
from harness.record import Run
from harness.run.checkpoint_provenance import write_origins
from harness.trainer import Curve
from harness.types import Adaptation, AdaptationStep, Call, Prediction, Request

HOSTILE = "<script>alert(1)</script>"
EVIL = f"evil {HOSTILE}"
FRONT = Path(__file__).resolve().parents[2] / "leaderboards" / "site" / "front"
AXE = FRONT / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FIREFOX = next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)
SEG = "#/task/disc_seg.val.seg-lisa.v1.all.f00df00d"
VIDEO = "#/task/disc_video.valid_u.rvos-mevis.v1.all.f00df00d"
PAGES = {
    "overview": "#/",
    "ranking": SEG,
    "breakdown": f"{SEG}?view=breakdown",
    "cost": f"{SEG}?view=cost",
    "history": f"{SEG}?view=history",
    "run": f"{SEG}/run/clumsy",
    "samples": f"{SEG}/samples/steady",
    "compare": f"{SEG}/samples/steady/clumsy?at=1%2Fdisc",
    "sample": f"{SEG}/sample/1%2Fdisc?a=steady&b=clumsy",
    "video": f"{VIDEO}/sample/clip3?a=steady&b=clumsy&frame=4",
    "missing": "#/task/gone",
}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """One page, with everything that it complained about or asked the network for."""

    def __init__(self, browser, start, **context):
        self.context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, **context}
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.start, self.complaints, self.asked = start, [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append("a dialog"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def at(self, fragment="#/", wait="main"):
        self.page.goto(self.start + fragment)
        self.page.wait_for_selector(wait)
        return self.page


@pytest.fixture(scope="module")
def site(world, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "build", lambda kind, spec, root: world.task(spec.name, root))
        return write_site(build(world.runs), tmp_path_factory.mktemp("pages") / "site")


@pytest.fixture
def opened(chromium, site):
    made = []

    def open_page(start=None, **context):
        made.append(Opened(chromium, start or site.as_uri(), **context))
        return made[-1]

    yield open_page
    for one in made:
        one.context.close()


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def becomes(page, read, wanted):
    """Wait until `read()` is what is wanted: a page draws a moment after what was pressed."""
    for _ in range(200):
        if read() == wanted:
            return
        page.wait_for_timeout(50)
    assert read() == wanted


def test_every_page_opens_from_disk_without_a_complaint_or_a_request(opened, site):
    here = opened()
    for fragment in PAGES.values():
        page = here.at(fragment)
        page.wait_for_timeout(150)
        assert page.locator("footer").count() == 1
    assert here.complaints == []
    assert {url.partition(":")[0] for url in here.asked} <= {"file", "data"}
    assert all(url.startswith(("data:", site.parent.as_uri())) for url in here.asked)


def test_hostile_names_questions_and_responses_are_text(opened):
    here = opened()
    page = here.at()
    assert any(name.startswith(EVIL) for name in texts(page, "tbody th.model"))
    page = here.at(f"{SEG}/sample/1%2Fdisc?a=steady", wait=".response")
    assert HOSTILE in page.locator(".sampleview .question").inner_text()
    assert HOSTILE in page.locator(".response").inner_text()
    page = here.at(f"{SEG}/sample/1%2Fdisc?a=clumsy", wait=".failed")
    assert f"no JSON {HOSTILE}" in page.locator(".facts .failed").inner_text()
    assert here.complaints == []
    assert page.locator("script").evaluate_all("all => all.filter(one => !one.src).length") == 0


def test_a_script_that_is_not_the_sites_does_not_run(opened, site, tmp_path):
    shutil.copytree(site.parent, tmp_path / "site")
    index = tmp_path / "site" / "index.html"
    planted = "<script>document.title = 'taken'</script><img src=x onerror=\"alert(1)\"></body>"
    index.write_text(index.read_text("utf-8").replace("</body>", planted), "utf-8")
    here = opened(start=index.as_uri())
    page = here.at()
    assert page.title() == "Leaderboard"
    assert "a dialog" not in here.complaints
    assert sum("Content Security Policy" in text for text in here.complaints) >= 2


def test_a_heading_sorts_and_the_order_is_a_link(opened):
    here = opened()
    page = here.at(SEG)
    assert texts(page, "tbody th.model a") == ["steady", EVIL, "clumsy"]
    failures = page.get_by_role("button", name="Failures")
    failures.click()
    becomes(page, lambda: texts(page, "tbody th.model a")[0], "clumsy")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Failures")
    failures.click()
    becomes(page, lambda: texts(page, "tbody th.model a")[2], "clumsy")
    again = opened()
    page = again.at(here.page.url.partition("index.html")[2])
    assert texts(page, "tbody th.model a")[2] == "clumsy"


def test_a_filter_and_hidden_columns_are_a_link(opened):
    here = opened()
    page = here.at()
    page.get_by_label("Filter models").fill("clum")
    becomes(page, lambda: [t.split()[0] for t in texts(page, "tbody th.model")], ["clumsy"])
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("disc_video valid_u").uncheck()
    becomes(page, lambda: texts(page, "tr.groups th"), ["disc_seg"])
    fragment = page.url.partition("index.html")[2]
    page = opened().at(fragment)
    assert [name.split()[0] for name in texts(page, "tbody th.model")] == ["clumsy"]
    assert texts(page, "tr.groups th") == ["disc_seg"]
    page.get_by_label("Filter models").fill("nobody")
    page.wait_for_selector(".empty")


def test_the_model_column_stays_when_a_wide_table_scrolls(opened):
    page = opened(viewport={"width": 390, "height": 700}).at(SEG)
    box = page.get_by_role("region", name="Ranking for disc_seg val")
    box.evaluate("box => { box.scrollLeft = 300 }")
    assert box.evaluate("box => box.scrollLeft") > 100
    name = page.locator("tbody th.model").first.bounding_box()
    assert abs(name["x"] - box.bounding_box()["x"]) < 2


def test_tables_are_as_wide_as_they_need_and_a_cut_one_has_a_sign(opened):
    here = opened(viewport={"width": 1400, "height": 900})
    page = here.at(SEG, wait=".ranking")
    assert page.locator(".scroller.more").count() == 0  # every column is seen
    page = here.at(f"{SEG}/run/clumsy", wait=".numbers")
    assert page.locator(".numbers").bounding_box()["width"] < 800  # four short columns
    page = opened(viewport={"width": 390, "height": 700}).at(SEG, wait=".scroller.more")
    sign = "element => getComputedStyle(element, '::after').content"
    assert page.locator(".scroller.more").first.evaluate(sign) == '"→"'


def test_no_page_is_wider_than_a_phone(opened):
    here, widths = opened(viewport={"width": 390, "height": 844}, is_mobile=True), {}
    for name, fragment in PAGES.items():
        here.page.goto("about:blank")  # or the page before would be measured
        page = here.at(fragment)
        page.wait_for_timeout(150)
        widths[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in widths.items() if width > 390} == {}


def losses(world):
    """Samples of the image task by how much `clumsy` lost against `steady`."""
    scores = {}
    for folder in world.runs.iterdir():
        run = Run.open(folder)
        if run.manifest["task"]["name"] == "disc_seg":
            scores[run.manifest["model"]["name"]] = {
                unit.unit: unit.scores["giou"].value for unit in run.units()
            }
    return {name: scores["clumsy"][name] - value for name, value in scores["steady"].items()}


def test_two_runs_stand_side_by_side_with_the_greatest_loss_first(opened, world):
    here = opened()
    page = here.at(SEG)
    page.get_by_label("Compare steady").check()
    page.get_by_label("Compare clumsy").check()
    page.get_by_role("button", name="Compare two").click()
    page.wait_for_selector(".rows .delta")
    expected = losses(world)
    shown = texts(page, ".rows .delta")
    least = sorted(expected.values())
    wanted = [f"{value:+.3f}".replace("-", "−") for value in least]
    assert shown == wanted[: len(shown)] and len(shown) >= 10
    ids = texts(page, ".rows .id")
    assert [expected[name] for name in ids] == pytest.approx(least[: len(ids)])
    worse = sum(value < -1e-9 for value in least)
    better = sum(value > 1e-9 for value in least)
    tally = page.locator(".tally").inner_text()
    assert f"{better} better" in tally and f"{worse} worse" in tally
    becomes(page, page.locator(".chart circle").count, 40)
    page.locator("label.choice", has_text="colour").locator("select").select_option("blue")
    becomes(page, page.locator(".tally b").inner_text, "14 samples")
    page.get_by_label("Show").select_option("parse")
    becomes(page, lambda: texts(page, ".rows .id"), ["1/disc"])
    page.get_by_role("button", name="Exchange").click()
    page.wait_for_function("() => document.querySelector('.side0 select').value === 'clumsy'")
    assert here.complaints == []


def test_the_compare_page_has_the_sentence_interval_and_p_in_either_order(opened, world):
    found = {}
    for folder in world.runs.iterdir():
        run = Run.open(folder)
        if run.manifest["task"]["name"] == "disc_seg":
            found[run.manifest["model"]["name"]] = folder
    here = opened()
    for a, b in (("steady", "clumsy"), ("clumsy", "steady")):
        made = harness.compare(found[a], found[b])
        page = here.at(f"{SEG}/samples/{a}/{b}", wait=".verdictline b")
        shown = page.locator(".verdictline").inner_text()
        assert made.verdict() in shown and f"B − A {signed_number(made.difference)}" in shown
        assert signed_span(made.interval) in shown and p_value(made.p_value) in shown
        changes = page.locator(".changes").inner_text()
        assert f"model: {a}" in changes and f"→ {b}" in changes
    assert here.complaints == []


@pytest.mark.parametrize(
    "old", ["disc_seg.val.seg-lisa", "disc_seg.val.seg-lisa.v1", "disc_seg.val.seg-lisa.f00df00d"]
)
def test_a_link_of_an_earlier_version_opens_its_table(opened, old):
    here = opened()
    page = here.at(f"#/task/{old}/sample/1%2Fdisc?a=steady", wait=".sampleview")
    assert page.locator("h1").inner_text() == "1/disc"
    page = here.at("#/task/disc_seg.train.seg-lisa", wait=".empty")
    assert "has no table" in page.locator(".empty").inner_text()


def test_a_model_that_scores_nothing_has_no_bar(opened, make_run, rescore, tmp_path):
    nothing = rescore(make_run("runs/none", model="none"), lambda *_: 0.0)
    here = opened(start=write_site(build(nothing), tmp_path / "site").as_uri())
    page = here.at("#/", wait=".overview td.num a")
    assert page.locator(".overview td .bar").evaluate("bar => bar.offsetWidth") == 0
    assert page.locator(".overview td.first").count() == 0  # the first of one row


def test_names_beside_equal_points_stand_apart_in_the_chart_of_costs(opened, make_run, tmp_path):
    for name in ("first", "second", "third"):
        make_run(f"runs/{name}", model=f"a name longer than a chart has room for, {name}", shift=3)
    here = opened(start=write_site(build(tmp_path / "runs"), tmp_path / "site").as_uri())
    page = here.at(f"{SEG}?view=cost", wait=".costs svg circle")
    names = page.locator(".costs figure").last.get_by_text(
        re.compile("^a name.*(first|second|third)$")
    )
    boxes = sorted(names.nth(place).bounding_box()["y"] for place in range(names.count()))
    assert len(boxes) == 3 and all(b - a >= 11 for a, b in pairwise(boxes))


def test_a_link_to_a_run_that_is_gone_leads_to_the_others(opened):
    page = opened().at(f"{SEG}/run/gone", wait=".empty")
    page.locator(".empty a").click()
    page.wait_for_selector(".ranking")


def test_a_question_on_colours_keeps_them_and_others_are_drawn_on_grey(opened, world):
    here = opened()
    page = here.at(f"{SEG}/sample/1%2Fdisc?a=steady", wait=".looks")
    grey = page.get_by_label("Grey image")
    assert "the blue disc" in page.locator(".sampleview .question").first.inner_text()
    assert not grey.is_checked()
    grey.click()
    becomes(page, grey.is_checked, True)
    assert here.at(f"{SEG}/sample/1%2Froll?a=steady", wait=".looks") and grey.is_checked()


def test_what_went_wrong_is_pictures_with_scores_the_lowest_first(opened):
    here = opened()
    page = here.at(f"{SEG}/run/clumsy", wait=".worst a")
    failed, lowest = page.locator(".cause").all()
    assert "parse failures" in failed.locator("h3").inner_text()
    assert "Lowest scores" in lowest.locator("h3").inner_text()
    scores = [float(text) for text in lowest.locator("b").all_inner_texts()]
    assert len(scores) == 12 and scores == sorted(scores)
    for part, count in ((failed, 3), (lowest, 12)):
        pictures = part.locator("a .thumb:not(.none)").evaluate_all(
            "pictures => pictures.map(one => getComputedStyle(one).backgroundImage)"
        )
        assert len(pictures) == count and all("media/" in one for one in pictures)
    assert all("disc" in text or "roll" in text for text in texts(page, ".worst a span:last-child"))


def test_overlays_have_a_legend_of_their_colours(opened):
    here = opened()
    for fragment, part in (("#/", ".strip"), (f"{SEG}/sample/1%2Froll?a=steady", ".sampleview")):
        page = here.at(fragment, wait=f"{part} .legend")
        legend = page.locator(f"{part} .legend").first.inner_text().split("\n")
        assert " ".join(legend).split()[:4] == ["hit", "false", "positive", "missed"]
    page.get_by_role("button", name="Ground truth").click()
    becomes(page, lambda: page.locator(".legend").inner_text().strip(), "ground truth")


def test_several_trainings_share_their_charts_and_one_is_pinned(opened, tmp_path):
    for name in ("one", "two", "one-again"):
        folder = tmp_path / "trainings" / name
        folder.mkdir(parents=True)
        plain = {"spec": "dr2seg", "name": "dr2seg", "settings": {}}
        manifest = {"version": 1, "method": plain, "model": None, "tasks": [], "seed": 3}
        manifest |= {"provenance": {}, "config_hash": "beef" * 8, "result": {"steps": 30}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        curve = Curve(folder / "curve.jsonl")
        for step in range(30):
            others = {f"accuracy/{number}": number * step for number in range(9)}
            numbers = {**others, "kl": 0.1, "loss": -0.1, "reward": step / 30 + (name == "two")}
            curve.append(step, numbers)
    out = tmp_path / "site"
    assert main(["board", "site", "--runs", str(tmp_path / "trainings"), "--out", str(out)]) == 0
    here = opened(start=(out / "index.html").as_uri())
    page = here.at("#/", wait=".curves svg")
    reward = page.locator(".curves figure").first
    assert [text.split() for text in texts(page, ".curves figcaption")] == [
        ["reward", "2", "equal"],
        ["loss", "all", "equal"],
        ["kl", "all", "equal"],
        *([f"accuracy/{number}", "all", "equal"] for number in range(6)),
    ]
    assert reward.locator("path[stroke='#0072b2']").count() == 1
    assert reward.locator("path[stroke-dasharray], g[stroke-dasharray]").count() == 1
    page.get_by_role("button", name="two", exact=True).click()
    page.wait_for_function("() => location.hash.includes('pin=two')")
    page.get_by_label("Smoothing").fill("90")
    page.wait_for_function("() => location.hash.includes('smooth=90')")
    first = page.locator(".curves figure").first
    becomes(page, first.locator("path[stroke-opacity='0.18']").count, 2)
    chart = first.locator(".chart").bounding_box()

    def hovered():
        page.mouse.move(chart["x"] + chart["width"] / 2, chart["y"] + chart["height"] / 2)
        page.mouse.move(chart["x"] + chart["width"] / 2 + 3, chart["y"] + chart["height"] / 2)
        return "step " in first.locator(".chart").text_content()

    becomes(page, hovered, True)
    assert here.complaints == []


def test_keys_move_open_and_close_samples(opened):
    here = opened()
    page = here.at(f"{SEG}/samples/steady/clumsy", wait=".rows .delta")
    ids = texts(page, ".rows .id")
    page.keyboard.press("j")
    page.wait_for_selector(f"aside[aria-label='Sample {ids[0]}']")
    page.keyboard.press("j")
    page.wait_for_selector(f"aside[aria-label='Sample {ids[1]}']")
    page.keyboard.press("k")
    page.wait_for_selector(f"aside[aria-label='Sample {ids[0]}']")
    page.keyboard.press("o")
    page.wait_for_selector("[aria-pressed=true]:text('Prediction')")
    page.keyboard.press("/")
    page.keyboard.type("roll")
    rolls = [name for name in ids if name.endswith("roll")]
    becomes(page, lambda: texts(page, ".rows .id")[: len(rolls)], rolls)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.wait_for_selector("aside[aria-label=Summary]")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("main.samplepage")
    before = page.url
    page.keyboard.press("j")
    page.wait_for_function("before => location.href !== before", arg=before)
    page.go_back()
    page.go_back()
    page.wait_for_selector("main.work")


def test_a_video_is_scrubbed_frame_by_frame_and_the_frame_is_a_link(opened):
    here = opened()
    page = here.at(f"{VIDEO}/sample/clip3?a=steady", wait=".scrubber")
    slider = page.get_by_label("Frame", exact=True)
    assert slider.get_attribute("aria-valuetext") == "frame 0 (1 of 9), 0 s"
    slider.focus()
    for frame in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        wanted = f"frame {frame} ({frame + 1} of 9), {frame} s"
        becomes(page, lambda: slider.get_attribute("aria-valuetext"), wanted)
    assert "frame=3" in page.url
    page.locator("h1").click()
    page.keyboard.press(".")
    page.wait_for_selector("output:text('frame 4 (5 of 9)')")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "() => Number(new URLSearchParams(location.hash.split('?')[1]).get('frame')) > 5"
    )
    page.get_by_role("button", name="Pause").click()
    assert here.complaints == []


def test_light_and_dark_are_palettes_of_their_own(opened):
    here = opened(color_scheme="dark")
    page = here.at()
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(21, 23, 26)"
    page.get_by_role("button", name="Switch to light colours").click()
    becomes(page, lambda: page.evaluate(ground), "rgb(253, 253, 251)")


def test_without_javascript_the_tables_are_there(opened):
    here = opened(java_script_enabled=False)
    here.page.goto(here.start)
    assert here.page.locator("table").count() == 3
    assert "clumsy" in here.page.locator("main").inner_text()
    assert "JavaScript is off" in here.page.locator("main").inner_text()


def test_a_papers_table_has_both_numbers_on_the_papers_scale(opened, world, tmp_path):
    empty = {"defect": "", "model": None, "reproduction": None}
    cells = (
        Cell(column="gIoU", printed="64.9", unit="percent", value=0.6512, **empty),
        Cell(column="accuracy", printed=None, unit="", value=0.5, **empty),
        Cell(column="tokens", printed="26.9", unit="tokens", value=None, **empty),
    )
    made = replace(build(world.runs), grid=Grid(heading="Table 3", rows=(("one", cells),)))
    page = opened(write_site(made, tmp_path / "site", images=False).as_uri()).at()
    assert texts(page, "table.grid td") == ["64.9 → 65.1", "0.500", "26.9"]


def test_only_samples_on_which_models_differ_are_said_to(opened, serve, make_run, rescore):
    alike = rescore(make_run("a", model="a"), lambda i, value: 0.5)
    other = rescore(make_run("b", model="b"), lambda i, value: 0.7 if i == 4 else 0.5)
    page = opened(serve([alike, other])).at(SEG, wait=".card")
    (small,) = texts(page, ".card small")
    assert "0.500–0.700" in small


def test_a_missing_chunk_is_told_and_the_rest_works(opened, site, tmp_path):
    shutil.copytree(site.parent, tmp_path / "site")
    shutil.rmtree(tmp_path / "site" / "data" / "t0")
    here = opened(start=(tmp_path / "site" / "index.html").as_uri())
    page = here.at(f"{SEG}/samples/steady", wait=".empty")
    assert "no samples of" in page.locator(".empty").inner_text()
    assert here.at(SEG).locator("tbody tr").count() == 3


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci in site/front")
@pytest.mark.parametrize(
    ("scheme", "names"), [("light", list(PAGES)), ("dark", ["overview", "breakdown", "compare"])]
)
def test_axe_finds_nothing_serious(opened, scheme, names):
    here = opened(color_scheme=scheme)
    found = []
    for name in names:
        page = here.at(PAGES[name])
        page.wait_for_timeout(200)
        page.evaluate(AXE.read_text("utf-8"))
        report = page.evaluate("axe.run({resultTypes: ['violations']})")
        found += [
            (name, one["id"], one["nodes"][0]["html"][:120])
            for one in report["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    assert found == []


@pytest.fixture
def serve():
    servers = []

    def start(folders):
        server = SiteServer(LiveSite(folders))
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server.url

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


PIXEL = """([x, y, of]) => {
  const canvas = document.querySelectorAll('.picture canvas')[of];
  const scale = canvas.width / %d;
  return [...canvas.getContext('2d').getImageData((x + .5) * scale, (y + .5) * scale, 1, 1).data];
}"""
HIT, WRONG, MISSED = [0, 158, 115], [213, 94, 0], [86, 180, 233]


def test_overlays_are_drawn_from_run_lengths(opened, serve, world):
    """Of one sample, a pixel of each kind has its colour, by the masks of record and benchmark."""
    start = serve([world.runs])
    here = opened(start=start)
    sample = next(one for one in world.task().samples() if one.id == "6/disc")
    truth = sample.target.answer.masks[0].to_array()
    folder = next(
        path
        for path in world.runs.iterdir()
        if (run := Run.open(path)).manifest["model"]["name"] == "clumsy"
        and run.manifest["task"]["name"] == "disc_seg"
    )
    found = Run.open(folder).prediction(sample.id).answer.masks[0].to_array()
    kinds = {"hit": truth & found, "wrong": found & ~truth, "missed": truth & ~found}
    places = {}
    for kind, mask in kinds.items():
        rows, columns = mask.nonzero()
        places[kind] = [int(columns[len(columns) // 2]), int(rows[len(rows) // 2])]
    link = f"{SEG}/sample/6%2Fdisc?a=clumsy&opacity=100&outline=0"
    page = here.at(link, wait=".picture canvas")

    def seen(kind):
        return page.evaluate(PIXEL % truth.shape[1], [*places[kind], 0])[:3]

    def wait_for(kind, colour):
        page.wait_for_function(
            f"([at, colour]) => ({PIXEL % truth.shape[1]})(at).slice(0, 3).join() === colour",
            arg=[[*places[kind], 0], ",".join(map(str, colour))],
        )

    wait_for("hit", HIT)
    assert (seen("wrong"), seen("missed")) == (WRONG, MISSED)
    page.get_by_role("button", name="Prediction").click()
    wait_for("hit", WRONG)
    assert seen("wrong") == WRONG and seen("missed") not in (HIT, WRONG, MISSED)
    page.get_by_role("button", name="Ground truth").click()
    wait_for("missed", HIT)
    assert seen("hit") == HIT and seen("wrong") not in (HIT, WRONG, MISSED)
    page.get_by_role("button", name="Image", exact=True).click()
    page.wait_for_function(
        "() => new URLSearchParams(location.hash.split('?')[1]).get('layer') === 'image'"
    )
    assert [text for text in here.complaints if "getImageData" not in text] == []


def test_every_frame_is_its_own(opened, serve, world):
    """The disc is where the benchmark's mask says, in each frame of the grid."""
    here = opened(start=serve([world.runs]))
    sample = next(one for one in world.task("disc_video").samples() if one.id == "clip3")
    page = here.at(f"{VIDEO}/sample/clip3?a=steady&layer=image", wait=".scrubber")
    for frame in (0, 4, 8):
        page.get_by_label("Frame", exact=True).fill(str(frame))
        page.wait_for_selector(f"output:text('frame {frame} ({frame + 1} of 9)')")
        page.wait_for_timeout(100)
        mask = sample.target.answer.masks[frame].to_array()
        rows, columns = mask.nonzero()
        inside = [int(columns.mean()), int(rows.mean()), 0]
        colour = page.evaluate(PIXEL % mask.shape[1], inside)[:3]
        truth = sample.query.media[0].frame(frame)[inside[1], inside[0]]
        assert max(abs(int(a) - int(b)) for a, b in zip(colour, truth, strict=True)) < 45


def test_a_run_that_goes_on_is_followed(opened, serve, make_run, tmp_path):
    make_run("all/done", model="done")
    folder = make_run("all/one", model="one", shift=3)
    for name in ("results.json", "scores.jsonl", "checksums.json", "timing.json"):
        (folder / name).unlink()
    path = next(folder.glob("samples.*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:8]))
    here = opened(start=serve([tmp_path / "all"]))
    page = here.at(SEG)
    row = page.locator("tbody tr", has_text="8 of 40 answered")
    row.wait_for()
    before = row.locator(".headline").inner_text()
    with path.open("ab") as file:
        file.write(b"".join(lines[8:30]))
    page.locator("tbody tr", has_text="30 of 40 answered").wait_for()
    assert page.locator("tbody tr .headline").nth(1).inner_text() != before
    page.locator(".live", has_text="30 of 40").wait_for()
    page = here.at(f"{SEG}/samples/one?failure=&sort=id", wait=".rows .id")
    page.locator(".tally", has_text="40 samples").wait_for()
    assert here.complaints == []


@pytest.mark.skipif(FIREFOX is None, reason="there is no Firefox here")
def test_firefox_draws_a_sample_from_disk(site, tmp_path):
    """Playwright drives builds of its own alone, so the system's takes a picture of the page.

    It does so when the page has loaded: the copy names the chunks and images that are asked for.
    """
    shutil.copytree(site.parent, tmp_path / "site")
    index = tmp_path / "site" / "index.html"
    chunks = [path for path in sorted(index.parent.glob("data/t0/*.js")) if "-" in path.name]
    names = [index.parent / "data/t0/samples.js", *chunks]
    early = "".join(f'<script defer src="{p.relative_to(index.parent)}"></script>' for p in names)
    images = (path.relative_to(index.parent) for path in index.parent.glob("media/?????????*"))
    shown = "".join(f'<img src="{name}" width="1" height="1">' for name in images)
    text = index.read_text("utf-8").replace("</head>", f"{early}</head>")
    index.write_text(text.replace("</body>", f"{shown}</body>"), "utf-8")
    link = f"{index.as_uri()}{SEG}/sample/6%2Fdisc?a=clumsy&opacity=100&outline=0"
    picture = tmp_path / "firefox.png"
    for _ in range(5):  # on a busy machine a page has loaded before its canvas is drawn
        subprocess.run(
            [FIREFOX, "--headless", "--profile", tmp_path, "--screenshot", picture, link],
            check=True,
            capture_output=True,
            timeout=120,
        )
        pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
        seen = [(np.abs(pixels - one).max(axis=2) < 8).sum() for one in (HIT, WRONG, MISSED)]
        if min(seen) > 100:
            break
    assert min(seen) > 100


@pytest.mark.skipif(
    shutil.which("node") is None or not (FRONT / "node_modules" / "esbuild").is_dir(),
    reason="node or the front end's packages are not installed: npm ci in site/front",
)
def test_the_bundle_is_what_its_sources_give(tmp_path):
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=FRONT, check=True, timeout=120)
    for name in ("site.js", "licences.txt"):
        assert (tmp_path / name).read_bytes() == (FRONT.parent / "static" / name).read_bytes()


def test_rollouts_of_several_turns_are_drawn_without_a_complaint(opened, tmp_path):
    plan = '{"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"]}'
    twin = '{"instances": [{"id": 1, "name": "red cup", "mask": "masks/1", "frames": []}]}'
    turns = [
        f"<think>look</think><dt_plan>{plan}</dt_plan>",
        f"<dt_rep>{twin}</dt_rep>",
        "<think>so</think><execute>print('<b>')</execute>",
        "<results>2</results>",
        "<think>so</think><task>vqa</task><answer>two</answer>",
    ]
    spans = [[len(one), number % 2 == 1] for number, one in enumerate(turns)]
    row = {"sample": "s", "rollout": 0, "text": "".join(turns), "tokens": 9, "cut": False}
    log = Curve(tmp_path / "rollouts.jsonl")
    log.append(1, {**row, "components": {"total": 2.75}, "facts": {"spans": spans}})
    path = tmp_path / "rollouts.html"
    styles = ("page.css", "rollouts.css", "transcripts.css")
    given = {"groups": groups_of(log.path), "summary": "x", "notes": ()}
    path.write_text(fill("rollouts.html", *styles, title="Rollouts", **given), "utf-8")
    here = opened(start=path.as_uri())
    page = here.at("")
    assert here.complaints == []
    assert page.locator(".block").count() == 9 and page.locator(".block.injected").count() == 2
    assert page.locator("rect").count() == 3 and page.locator("table").count() == 1
    assert "print('<b>')" in page.locator("main").inner_text()
    graph = page.locator(".graph").bounding_box()
    assert graph["width"] > 100 and graph["height"] > 40
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_turns_a_plan_a_twin_and_steps_of_adaptation_are_drawn(opened, make_run, tmp_path):
    plan = '{"SAM2": [], "Depth": [], "Stats": ["SAM2", "Depth"]}'
    twin = '{"instances": [{"id": 1, "name": "red <b>cup</b>", "frames": [{"frame": 0, "x": 3}]}]}'
    turns = [
        f"<think>look 𝒙</think><dt_plan>{plan}</dt_plan>",
        f"<dt_rep>{twin}</dt_rep>",
        "<think>so</think><execute>print('<b>')</execute>",
        "<results>2</results>",
        "<answer>two</answer>",
    ]
    begun = ["".join(turns[:1]), "".join(turns[:3]), "".join(turns)]
    steps = (
        AdaptationStep(label=1, agreement=0.5, parsed=3, rewards=(0.0, 1.0, 0.25), entropy=0.7),
        AdaptationStep(rewards=(0.5,), rolled_back=True),
    )

    def predict(sample, number):
        request = Request(text=f"Think of {sample.query.text}", system="You are <i>kind</i>.")
        return Prediction(
            query_id=sample.query.id,
            answer=sample.target.answer,
            responses=(turns[0], turns[2], turns[4]),
            calls=tuple(Call(request=request, response=text) for text in begun),
            adaptation=Adaptation(method="vr_ttrl", steps=steps),
            notes=("cut off after 9 tokens",) if number == 2 else (),
        )

    site = write_site(build(make_run("a", predict=predict)), tmp_path / "site")
    here = opened(start=site.as_uri())
    page = here.at(f"{SEG}/sample/2%2Froll?a=one", wait=".transcript")
    blocks = texts(page, ".block .tagname")
    assert blocks == [
        "think",
        "dt_plan",
        "dt_rep, injected",
        "think",
        "execute",
        "results, injected",
        "answer",
    ]
    assert page.locator(".plan rect").count() == 3 and page.locator(".plan path").count() == 2
    assert texts(page, ".twin tbody td") == ["1", "red <b>cup</b>", "3"]
    assert "print('<b>')" in page.locator(".block.of-execute").inner_text()
    rewards = page.locator(".rewards").first
    assert rewards.get_attribute("aria-label") == "0, 1, 0.25"
    assert rewards.locator("i.label").count() == 1
    assert texts(page, ".steps tbody th") == ["1", "2, rolled back"]
    page.get_by_text("Request, 3 calls").click()
    assert "Think of Which thing would roll?" in page.locator(".requests").inner_text()
    assert "You are <i>kind</i>." in page.locator(".requests .system").inner_text()
    page = here.at(f"{SEG}/run/one", wait=".cause")
    assert "1 of 40: truncated responses" in " ".join(texts(page, ".cause h3"))
    page.locator(".cause a[title='1/roll']").first.click()
    page.wait_for_selector("main.samplepage")
    assert here.complaints == []


def test_the_curves_and_rollouts_of_a_training_stand_on_its_runs_page(opened, make_run, tmp_path):
    training = tmp_path / "t1"
    manifest = {
        "method": {"spec": "dr2seg", "name": "dr2seg", "settings": {"steps": 30}},
        "tasks": [],
        "seed": 3,
        "config_hash": "beef" * 8,
    }
    curve = Curve(training / "curve.jsonl")
    log = Curve(training / "rollouts.jsonl")
    (training / "checkpoint").mkdir(parents=True)
    for path in (training / "manifest.json", training / "checkpoint" / "harness.json"):
        path.write_text(json.dumps(manifest))
    for step in range(30):
        curve.append(step, {"reward": step / 30, "loss": -0.1})
    for number, value in enumerate((1.0, 0.0)):
        row = {"sample": "s", "rollout": number, "text": "<think>a</think>", "tokens": 5}
        log.append(7, {**row, "cut": False, "components": {"iou": value, "total": value + 1}})
    model = {"spec": f"m(checkpoint={training})", "name": "m", "description": {}}
    run = make_run("runs/a", model="m", changes={"manifest": {"model": model}})
    write_origins(run, [training])
    site = write_site(build(run), tmp_path / "site")
    here = opened(start=site.as_uri())
    page = here.at(f"{SEG}/run/m", wait=".curves svg")
    assert texts(page, ".curves figcaption") == ["reward", "loss"]
    assert texts(page, ".terms thead th") == ["Rollout", "iou", "total", "advantage", "tokens"]
    assert texts(page, ".terms tbody td")[:2] == ["1.000", "2.000"]
    assert here.complaints == []


def test_rows_of_papers_stand_below_unranked_and_refused_runs_are_named(
    opened, make_run, monkeypatch, tmp_path
):
    first, second, edited = (
        make_run(f"runs/{name}", model=name, shift=shift)
        for name, shift in (("worse", 9), ("better", 1), ("edited", 1))
    )
    (edited / "results.json").write_text((edited / "results.json").read_text() + " ")
    monkeypatch.setattr("harness.leaderboards.board.is_benchmark", lambda run, made: True)
    spot = PublishedResult(
        **{**dict.fromkeys(PublishedResult.__slots__, ""), "paper": "dr2seg", "table": "1"}
        | {"row": "Great", "metric": "giou", "printed": "99.9", "unit": "percent"}
    )
    rows = (PublishedRow(results=(spot,), is_comparable=True),)
    monkeypatch.setattr("harness.leaderboards.ranked_table.published_rows", lambda *_: rows)
    made = build([first, second, edited], names_refused=True)
    here = opened(write_site(made, tmp_path / "site", images=False).as_uri())
    for fragment in ("#/", SEG, f"{SEG}?sort=giou", f"{SEG}?sort=-giou"):
        page = here.at(fragment, wait="tr.refused")
        names = [text.split()[0] for text in texts(page, "tbody tr th.model")]
        measured = ["worse", "better"] if fragment.endswith("sort=giou") else ["better", "worse"]
        assert sorted(names[:2]) == sorted(measured) and names[2:] == ["edited", "Great"]
        assert names[:2] == measured or fragment == "#/"
        great = page.locator("tr.published", has_text="Great").first
        weight = "node => Math.max(...[...node.children].map(c => +getComputedStyle(c).fontWeight))"
        assert great.evaluate(weight) == 400
        refused = page.locator("tr.refused").inner_text()
        assert "results.json" in refused and str(tmp_path) not in refused
    assert great.locator("svg.hollow circle").count() == 1 and "–" in great.inner_text()
    page = here.at()
    assert "2 of 2 models measured, 1 of 1 rows of papers, 1 run refused" in page.inner_text("main")
    page.get_by_label("Reported in papers").uncheck()
    becomes(page, page.locator("tr.published").count, 0)
    assert here.complaints == []
