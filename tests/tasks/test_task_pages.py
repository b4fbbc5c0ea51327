"""The worked examples of docs/tasks are run as they stand, and show what comes out of them.

A page's blocks are run in order in one folder, in which `tasks` is the repository's and ROOT the
generated world of seed 0 and size 8: Python is executed, `cat > FILE <<'END'` writes a file, each
`harness …` line is the command. Numbers and fingerprints of the `text` block behind a command have
to be in what it printed.
"""

import re
import shlex
from pathlib import Path

import pytest

from harness.cli.main import build_parser, main
from harness.plugins import installed_plugins
from harness.spec import parse_list

REPOSITORY = Path(__file__).resolve().parents[2]
ABOUT_CODE = ("adding.md",)
"""Pages for those who write a benchmark, not for those who use one."""
PAGES = [
    page
    for page in sorted((REPOSITORY / "docs" / "tasks").glob("*.md"))
    if page.name not in ABOUT_CODE
]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)
TOLD = re.compile(r"\b(?:\d+\.\d{4,}|[0-9a-f]{32})\b")
OF_TRAINING = ("training_sets.md",)
"""Pages whose commands train networks, which cannot be had here: they are only parsed."""
OF_VIDEOS = ("rvtbench.md", "video_segmentation.md")
"""Pages whose commands segment videos with `saliency`, for a minute: run in the slow tier."""
NOT_HERE = {
    "spatio_temporal_qa.md": ("chat(", "verdicts.jsonl", "runs/said/v_star"),
    "general_video_qa.md": ("checkpoint=…",),
}
"""Parts of commands that need what cannot be had here: weights, verdicts, or published files."""
HUB = "data fetch"


def blocks(page):
    for indent, kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        yield kind, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)


def commands(text):
    for line in FILE.sub("", text).replace("\\\n", " ").splitlines():
        command = line.partition("  #")[0].strip()
        if command.startswith("harness "):
            yield command


def is_run(page, command):
    return HUB not in command and not any(part in command for part in NOT_HERE.get(page.name, ()))


@pytest.fixture
def scratch(shapes, tmp_path, monkeypatch):
    """An empty folder with the repository's tasks and the world that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    (tmp_path / "tasks").symlink_to(REPOSITORY / "tasks")
    (tmp_path / "ROOT").symlink_to(shapes)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in OF_VIDEOS else (), id=page.stem)
        for page in PAGES
        if page.name not in OF_TRAINING
    ],
)
def test_the_examples_of_a_page_run_and_show_what_comes_out(page, scratch, capsys):
    printed, ran = "", 0
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, str(page), "exec"), {})
        elif kind == "sh":
            printed = ""
            for name, content in FILE.findall(text):
                (scratch / name).write_text(content, encoding="utf-8")
            for command in commands(text):
                if not is_run(page, command) or "data make shapes --out ROOT --size 8" in command:
                    continue
                code = main(shlex.split(command)[1:])
                out = capsys.readouterr()
                # A page may show a response that a protocol does not read: code 1.
                assert code == int("no sample has an answer" in out.err), f"{command}\n{out.err}"
                printed, ran = printed + out.out, ran + 1
        elif kind == "text" and printed:
            missing = [one for one in TOLD.findall(text) if one not in printed]
            assert not missing, f"{page.name} shows {missing}, but there came:\n{printed}"
            printed = ""
    assert ran >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_not_run_is_at_least_a_command_with_tasks_that_exist(page):
    known = installed_plugins("tasks")
    every = [one for kind, text in blocks(page) if kind == "sh" for one in commands(text)]
    for command in every:
        given = build_parser(command.split()[1]).parse_args(shlex.split(command)[1:])
        named = [getattr(given, "task", None), *(getattr(given, "tasks", None) or [])]
        for text in filter(None, named):
            assert all(spec.name in known for spec in parse_list(text.replace("…", "x"))), command
    for part in NOT_HERE.get(page.name, ()):
        assert any(part in command for command in every), f"{part} is on the page no more"


def test_every_benchmark_has_a_page_with_its_name():
    from harness.card import Card

    info = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shapes = (REPOSITORY / "docs" / "shapes.md").read_text(encoding="utf-8")
    for path in REPOSITORY.glob("tasks/*/card.toml"):
        name = Card.read(path).name
        assert f"`{name}`" in info or f"`{name}`" in shapes, name
