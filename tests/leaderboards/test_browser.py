import re
import shutil
import subprocess

import pytest

from harness import plugins
from harness.leaderboards.board import build
from harness.leaderboards.render import rollouts, write
from harness.leaderboards.rollouts import groups_of
from harness.trainer import Curve

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--dump-dom",
]


def dump(path, profile):
    """(document after scripts ran, what the console said)."""
    done = subprocess.run(
        [PROGRAM, *OPTIONS, f"--user-data-dir={profile}", path.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def after(path, script, tmp_path):
    """The document after one more script ran in a copy whose policy lets it."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"script-src &#x27;[^;]*&#x27;", "script-src &#x27;unsafe-inline&#x27;", text)
    copy = tmp_path / "copy.html"
    copy.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return dump(copy, tmp_path / "profile")


def order(document):
    table = re.search(r'<table class="ranking">.*?</table>', document, re.DOTALL)[0]
    return [name.split()[0] for name in re.findall(r'class="model">([^<]*)', table)]


@pytest.fixture(scope="module")
def path(world, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "build", lambda kind, spec, root: world.task(spec.name, root))
        return write(build(world.runs), tmp_path_factory.mktemp("page"))[2]


def test_the_page_opens_without_a_complaint_and_shows_the_worst_sample(path, tmp_path):
    document, console = dump(path, tmp_path / "profile")
    assert console == []
    assert order(document) == ["steady", "evil", "clumsy"]
    assert "I cannot &lt;script&gt;alert(1)&lt;/script&gt;" in document
    shown = set(re.findall(r'class="id">([^<]*)<', document))
    assert len({"1/disc", "2/roll", "5/disc"} & shown) >= 2  # clumsy failed at these three
    assert {"clip3", "clip4"} <= shown
    assert 'id="theme" aria-label="Switch to dark colours"' in document.replace(
        'type="button" ', ""
    )


def test_a_heading_sorts_and_sorts_back(path, tmp_path):
    click = """
      const head = [...document.querySelectorAll('.ranking th button')]
        .find((button) => button.textContent.startsWith('Failures'));
      head.click();
    """
    document, console = after(path, click + "head.click();", tmp_path)
    assert console == []
    assert order(document)[0] == "clumsy"
    assert re.search(r'aria-sort="descending"[^>]*><button type="button">Failures', document)
    document, _ = after(path, click, tmp_path)
    assert order(document)[2] == "clumsy"


def test_a_row_without_a_number_stays_last(make_run, rewrite, tmp_path):
    def unscored(units):
        for unit in units:
            del unit["scores"]["giou"]

    runs = [
        rewrite(make_run("a", model="none"), unscored),
        make_run("b", model="good"),
        make_run("c", model="bad", shift=9),
    ]
    page = write(build(runs), tmp_path / "out")[2]
    click = "document.querySelectorAll('.ranking th button')[2].click();"
    for clicks, expected in ((1, ["good", "bad", "none"]), (2, ["bad", "good", "none"])):
        document, console = after(page, click * clicks, tmp_path)
        assert console == []
        assert order(document) == expected


def test_the_switch_shows_another_image(path, tmp_path):
    script = """
      const gallery = document.querySelector('details.samples');
      gallery.open = true;
      const shown = () => [...gallery.querySelectorAll('figure')[0].querySelectorAll('img')]
        .filter((image) => getComputedStyle(image).display !== 'none')
        .map((image) => image.className).join();
      const before = shown();
      gallery.querySelector('input.view-ground_truth').click();
      document.title = before + ' then ' + shown();
    """
    document, console = after(path, script, tmp_path)
    assert console == []
    assert "<title>of-prediction then of-ground_truth</title>" in document


def test_the_policy_stops_a_script_that_is_not_ours(path, tmp_path):
    copy = tmp_path / "copy.html"
    planted = "<script>document.title = 'taken'</script></body>"
    copy.write_text(path.read_text(encoding="utf-8").replace("</body>", planted), encoding="utf-8")
    document, console = dump(copy, tmp_path / "profile")
    assert "<title>taken" not in document
    assert any("Content Security Policy" in line for line in console)


def test_rollouts_of_several_turns_are_drawn_without_a_complaint(tmp_path):
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
    log.append(1, {**row, "terms": {"total": 2.75}, "facts": {"spans": spans}})
    page = tmp_path / "rollouts.html"
    page.write_text(rollouts.render("Rollouts", groups_of(log.path), summary="x"), "utf-8")
    document, console = dump(page, tmp_path / "profile")
    assert console == []
    assert document.count('class="block') == 9 and document.count("injected") >= 4
    assert document.count("<rect") == 3 and document.count("<table") == 1
    assert "print('&lt;b&gt;')" in document
    measure = """
      const graph = document.querySelector('.graph').getBoundingClientRect();
      const whole = document.documentElement;
      document.title = [graph.width > 100, graph.height > 40,
        whole.scrollWidth <= whole.clientWidth].join();
    """
    text = page.read_text("utf-8").replace("style-src", "script-src 'unsafe-inline'; style-src")
    page.write_text(text.replace("</body>", f"<script>{measure}</script></body>"), "utf-8")
    assert "<title>true,true,true</title>" in dump(page, tmp_path / "profile")[0]
