"""Every SPEC of docs/models.md is one that its plugins take; no weights are looked for."""

import inspect
import re
import typing
from pathlib import Path

import pytest

from harness import plugins
from harness.errors import UnknownPlugin, UsageError
from harness.frames import frame_policy
from harness.leaderboards.definitions import definitions
from harness.leaderboards.published_results import PAPERS
from harness.models.dt_r1.catalog import assignment
from harness.presets import presets, resolve
from harness.spec import Spec, convert, parse, parse_list

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r'--(model|tasks) (?:"([^"]*)"|(\S+))')
INLINE = re.compile(r"`([a-z_0-9]+\([^`]*\))`")
KINDS = {
    "backend": "backends",
    "sampler": "backends",
    "chat": "backends",
    "model": "models",
    "base": "models",
    "segmenter": "segmenters",
    "propagator": "propagators",
}
"""Of what kind the plugin is that a parameter names."""
TRAINERS = PAGE.parents[1] / "trainers"
BASELINE = re.compile(r"^\| (.+?) \| ((?:run|trained|external|files)\b.*)", re.MULTILINE)
TABLES = re.compile(r"\bTables? ([A-Z]?\d+(?:(?:, | and )[A-Z]?\d+)*)")
CONFIGURED = re.compile(r"--config (\w+)|`(table\w+|qwen2_5_vl\w+)(?=`|…`)(…?)")


def commands():
    """(option, text) of every `--model` and `--tasks`, as a shell hands it over."""
    blocks = "\n".join(BLOCK.findall(PAGE.read_text("utf-8"))).replace("\\\n", "")
    return [(kind, quoted or plain) for kind, quoted, plain in OPTION.findall(blocks)]


MODELS = sorted({text for kind, text in commands() if kind == "model"})
TASKS = sorted({text for kind, text in commands() if kind == "tasks"})
TABLE = sorted(
    {
        text
        for text in INLINE.findall(PAGE.read_text("utf-8"))
        if not re.search(r"…|\\\||=[,)]|\(\)", text)
        and text.partition("(")[0] in plugins.installed_plugins("models")
    }
)


def specs(text):
    """The SPECs of a text, with those of presets in their place."""
    return list(map(resolve, parse_list(text)))


def check(kind, spec):
    """Raise unless the plugin is there and takes these arguments, and so on inside them."""
    function = plugins.load(kind, spec.name)
    signature = inspect.signature(function).parameters
    known = {name for name, one in signature.items() if one.kind is one.KEYWORD_ONLY}
    if extra := set(spec.arguments) - known:
        raise UsageError(
            f"{kind} {spec.name}", expected=f"one of {sorted(known)}", found=str(sorted(extra))
        )
    hints = typing.get_type_hints(function)
    for name, value in spec.arguments.items():
        plain = convert(value, hints.get(name, typing.Any), f"{spec.name}({name}=…)")
        if isinstance(plain, Spec) and name in KINDS:
            check(KINDS[name], plain)
        elif isinstance(plain, Spec) and name == "nodes":
            assignment(plain)
        elif isinstance(plain, Spec):
            assert name == "frames", f"say in KINDS of what kind {name} is"
            frame_policy(plain)


def compositions(spec):
    """The SPECs of models with a network in a SPEC: itself, or what it holds."""
    inner = [value for value in spec.arguments.values() if isinstance(value, Spec)]
    found = (
        [spec]
        if spec.name in plugins.installed_plugins("models")
        and plugins.accepts("models", spec.name, "backend")
        else []
    )
    return found + [one for part in inner for one in compositions(part)]


def test_there_are_commands_or_presets_for_every_method_with_weights():
    quoted = {name for _, how in baselines() for name in re.findall(r"`([\w.-]+)`", how)}
    names = {specs(text)[0].name for text in MODELS}
    names |= {preset.model.name for name, preset in presets().items() if name in quoted}
    assert {
        "qwen_vl",
        "seg_zero",
        "visionreasoner",
        "dr2seg",
        "videoseg_r1",
        "video_str",
        "spacer",
        "video_r1",
        "videochat_r1",
        "replay",
        "external",
    } <= names
    assert len(MODELS) > 10 and len(TASKS) > 5 and TABLE


@pytest.mark.parametrize("text", [*MODELS, *TABLE])
def test_plugins_take_what_the_page_gives_them(text):
    for spec in specs(text):
        check("models", spec)


@pytest.mark.parametrize("text", TASKS)
def test_tasks_take_what_the_page_gives_them(text):
    for spec in parse_list(text):
        check("tasks", spec)


@pytest.mark.parametrize("text", MODELS)
def test_a_real_checkpoint_stands_with_its_segmenter_and_propagator(text):
    for spec in specs(text):
        for one in compositions(spec):
            if one.arguments.get("checkpoint", one.name) in ("pocket", "runs/pocket"):
                continue  # its own defaults are what it was trained with
            twin = plugins.accepts("models", one.name, "nodes")
            named = {"nodes"} if twin else {"segmenter", "propagator"}
            assert named <= set(one.arguments), one


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("qwen_vl(checkpont=a)", UsageError),
        ("qwen_vl(keyframe=last)", UsageError),
        ("qwen_vl(segmenter=sam2(chekpoint=a))", UsageError),
        ("videoseg_r1(sampler=sam2)", UnknownPlugin),
        ("qwen_vl(frames=fps(rate=2,mst=64))", UsageError),
    ],
)
def test_a_slip_on_the_page_would_be_found(text, error):
    with pytest.raises(error):
        check("models", parse(text))


def baselines():
    """What each row of the table is about, and how it is reached."""
    return BASELINE.findall(PAGE.read_text("utf-8"))


def words_of(method):
    """Words of a name in a paper's table, without sizes and what stands in brackets."""
    plain = re.sub(r"\[.*?\]|\(.*?\)|-(?:\d+B|Instruct|Large)\b", " ", method).lower()
    return [one for one in plain.split() if one not in ("w/", "w/o", "+", "base", "baseline")]


def reached(method, table, rows):
    """Whether a row names the method, and with a variant of it the table."""
    for row in rows:
        output = re.sub(r"sam (\d)", r"sam\1", row.replace("\\", "").lower())
        named = all(
            re.search(rf"(?<![\w-]){re.escape(one)}(?!\w)", output) for one in words_of(method)
        )
        tables = {one for found in TABLES.findall(row) for one in re.split(", | and ", found)}
        if named and (table in tables or not ("[" in method or "w/o" in method)):
            return True
    return False


def test_every_method_of_the_papers_tables_has_a_row():
    boards = [one for one in definitions() if one.paper in PAPERS]
    methods = sorted({(one.paper, one.table, row.row) for one in boards for row in one.rows})
    assert len(methods) > 100
    rows = [about for about, _ in baselines()]
    assert not [one for one in methods if not reached(one[2], one[1], rows)]


def test_every_configuration_of_the_table_ships():
    found = [
        (re.findall(r"--method (\w+)", how), [*CONFIGURED.finditer(how)]) for _, how in baselines()
    ]
    found = [(methods, names) for methods, names in found if names]
    assert len(found) > 5
    for (method,), names in found:
        for name in names:
            pattern = f"{name[1] or name[2]}{'*' if name[3] else ''}.toml"
            assert list((TRAINERS / method / "configs").glob(pattern)), f"{method}: {pattern}"


@pytest.mark.parametrize(
    ("method", "table", "there"),
    [
        ("One", "2", True),
        ("Baseline One-7B-Instruct (ours) + SAM2-Large", "2", True),
        ("One [without it]", "H3", True),
        ("One [without it]", "2", False),
        ("One w/o that", "4", False),
        ("Number-One", "2", False),
        ("Two", "2", False),
    ],
)
def test_a_method_without_a_row_would_be_found(method, table, there):
    assert reached(method, table, ["Three, four", "One's Tables 1, 4 and H3, with SAM 2"]) is there
