"""Pages with code are run, commands are documented, examples in modules are right."""

import ast
import doctest
import importlib
import pkgutil
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import harness

REPOSITORY = Path(__file__).parent.parent
VALUES = REPOSITORY / "docs" / "design" / "values.md"
ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n?|\n)+)", re.MULTILINE)
NAME = re.compile(r"^    \**(\w+):", re.MULTILINE)
BLOCK = re.compile(r"^```python( setup)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Modules that need packages of an extra to be imported are tested with their rooms.
CORE = [
    module.name
    for module in pkgutil.walk_packages(harness.__path__, "harness.")
    if not re.match(
        r"harness\.(models|trainers|__main__|leaderboards\.history|lmms\.models"
        r"|environments\.(openenv|verifiers))",
        module.name,
    )
]


WITH_EXAMPLES = [name for name in CORE if ">>>" in Path(find_spec(name).origin).read_text("utf-8")]


def test_every_module_of_the_core_is_importable():
    for name in CORE:
        importlib.import_module(name)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_are_right(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.fixture(scope="module")
def page():
    """The names that docs/design/values.md defines."""
    blocks = BLOCK.findall(VALUES.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for kind in (" setup", ""):
        for found, code in blocks:
            if found == kind:
                exec(compile(code, str(VALUES), "exec"), names)
    return names


def test_docstrings_name_the_parameters_that_a_function_has():
    paths, wrong = list[Path](), []
    for room in ("harness", "tasks", "models", "trainers", "leaderboards"):
        paths += sorted((REPOSITORY / room).rglob("*.py"))
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)) if "Args:" in source else ():
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.args.kwarg:
                continue
            if {ast.unparse(one) for one in node.decorator_list} - {"classmethod", "staticmethod"}:
                continue  # a decorator may add parameters
            section = ARGUMENTS.search(ast.get_docstring(node) or "")
            given = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
            named = set(NAME.findall(section[1])) if section else set()
            wrong += [f"{path}: {node.name}({name})" for name in sorted(named - given)]
    assert not wrong


def test_each_of_the_five_scorers_fits_in_fifteen_lines():
    blocks = [code for kind, code in BLOCK.findall(VALUES.read_text("utf-8")) if not kind]
    assert len(blocks) == 5
    for code in blocks:
        assert len([line for line in code.splitlines() if line.strip()]) <= 15, code


def sample(page, number, answer, **target):
    from harness.media import pixels

    media = pixels([np.zeros((4, 6, 3), np.uint8)], times=(0.0,), is_video=False, id="x")
    query = page["Query"](id=f"q{number}", text="?", media=(media,), forms=())
    return page["Sample"](
        id=f"s{number}", query=query, target=page["Target"](answer=answer, **target)
    )


def said(page, number, **fields):
    return page["Prediction"](query_id=f"q{number}", answer=page["Answer"](**fields))


def square(page, left, right):
    mask = np.zeros((4, 6), bool)
    mask[1:3, left:right] = True
    return page["Rle"].from_array(mask)


def test_a_unit_of_soft_masks_is_matched_object_by_object(page):
    masks = [square(page, 0, 2), square(page, 3, 6)]
    unit = [sample(page, k, page["Answer"](masks=(mask,))) for k, mask in enumerate(masks)]
    soft = [page["SoftMask"].from_array(mask.to_array() * 0.9) for mask in reversed(masks)]
    predictions = [said(page, k, soft_masks=(one,)) for k, one in enumerate(soft)]
    assert page["ref_davis"](unit, predictions) == {"J": page["Mean"](1.0, weight=2)}


def test_corpora_are_computed_over_all_units(page):
    totals = page["Totals"]((page["CIDER"],))
    for number in range(3):
        one = sample(page, number, page["Answer"](), references=("a", "b"))
        totals.add(page["caption"]([one], [said(page, number, text=f"text {number}")]))
    assert totals.values() == {"CIDEr": 3.0}


def test_a_chain_is_one_unit_and_lgm_follows_from_its_means(page):
    answer, box = page["Answer"], page["Box"](0, 0, 2, 2)
    ground_truths = [
        answer(text="a dog"),
        answer(interval=page["Interval"](1, 3)),
        answer(box_track=(box, None)),
    ]
    unit = [sample(page, number, ground_truth) for number, ground_truth in enumerate(ground_truths)]
    right = [
        said(page, 0, text="a dog"),
        said(page, 1, interval=page["Interval"](2, 4)),
        said(page, 2, box_track=(box, box)),
    ]
    scores = page["chain"](unit, right)
    assert scores["when"] == page["Mean"](1 / 3) and scores["where"] == page["Mean"](0.5)
    assert scores["joint"] == page["Mean"](1.0)
    metrics = tuple(page["Metric"](name) for name in ("what", "when", "where", "joint"))
    totals = page["Totals"]((*metrics, page["LGM"]))
    totals.add(scores)
    expected = -(np.log1p(-0.999) + np.log1p(-1 / 3) + np.log1p(-0.5)) / 3
    assert totals.values()["LGM"] == pytest.approx(expected)


def test_no_target_is_neither_an_empty_mask_nor_a_failure(page):
    nothing = sample(page, 0, page["Answer"](no_target=True))
    something = sample(page, 1, page["Answer"](masks=(square(page, 0, 3),)))
    answer = said(page, 0, no_target=True)
    assert page["no_target"]([nothing], [answer])["N-acc"] == page["Ratio"](1, 1)
    mask = said(page, 0, masks=(square(page, 0, 2),))
    assert page["no_target"]([nothing], [mask])["cIoU"] == page["Ratio"](0, 4)
    assert page["no_target"]([something], [answer])["T-acc"] == page["Ratio"](0, 1)


PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_to_files(path):
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


FENCED = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
CARDS = [
    path
    for room in ("models", "trainers", "examples")
    for path in REPOSITORY.glob(f"{room}/**/*.md")
]


def anchors(path: Path) -> set[str]:
    """Return the addresses of a page's headings, as GitHub and the site write them."""
    titles = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize(
    "path", [*PAGES, *CARDS], ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_links_into_pages_lead_to_headings(path):
    text = FENCED.sub("", path.read_text("utf-8"))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text):
        assert anchor in anchors(path.parent / target if target else path), f"{target}#{anchor}"


def test_the_navigation_of_the_site_has_every_page():
    listed = re.findall(
        r"[\w./-]+\.md|[\w./-]+/(?=[\n,\]])", (REPOSITORY / "mkdocs.yml").read_text("utf-8")
    )
    names = [path.relative_to(REPOSITORY).as_posix() for path in (*PAGES, *CARDS)]
    folders = tuple(path for path in listed if path.endswith("/"))
    assert [name for name in names if name not in listed and not name.startswith(folders)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_commands_on_pages_are_understood(path):
    from harness.cli.main import build_parser

    for block in re.findall(
        r"^```sh\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        joined = block.replace("\\\n", " ")
        for line in joined.splitlines():
            command = line.partition("#")[0].strip()
            if command.startswith("harness ") and "…" not in command and "make|" not in command:
                build_parser(command.split()[1]).parse_args(shlex.split(command)[1:])


OWN_WORLD = ("pocket", "pocket_sam")
"""Methods that need torch alone."""
SHOWING = [*PAGES, *REPOSITORY.glob("trainers/*/README.md"), *REPOSITORY.glob("models/*/README.md")]
SHOWING = [path for path in SHOWING if path.name != "CHANGELOG.md" and "design" not in path.parts]


@pytest.fixture(scope="module")
def networks():
    """Models that need torch."""
    from harness import plugins
    from harness.catalog.requirements import requirements_of

    found = plugins.installed_plugins("models").items()
    return {name for name, entry in found if "torch" in requirements_of("models", entry)}


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_page_names_the_extras_that_its_commands_need(path, networks):
    text = path.read_text("utf-8")
    lines = [line.strip().lstrip("$ ") for line in text.replace("\\\n", " ").splitlines()]
    trained = {
        name
        for line in lines
        if re.match(r"(harness|accelerate) .*--method", line)
        for name in re.findall(r"--method (\w+)", line)
    }
    shown = {
        name
        for line in lines
        if line.startswith("harness eval")
        for name in re.findall(r"--model \"?(\w+)", line)
    }
    if trained - set(OWN_WORLD):
        assert "[train]" in text
    if trained or shown & networks:
        assert "[torch]" in text or "[train]" in text


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_what_is_installed_is_a_checkout_or_on_an_index(path):
    """No index has this package yet."""
    plain = r"pip install \W*visual-reasoning-harness(?!\S* @ git\+)"
    assert not re.search(plain, path.read_text("utf-8"))


FAMILIES = sorted(path.stem for path in (REPOSITORY / "tests/golden").glob("compare_*.py"))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_conformance_page_is_up_to_date_and_deviations_are_nothing(
    family, compared, monkeypatch
):
    monkeypatch.syspath_prepend(str(REPOSITORY / "tests" / "golden"))
    conformance = importlib.import_module("conformance")
    assert conformance.check(compared(family.removeprefix("compare_"))) == []
