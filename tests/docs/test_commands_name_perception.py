"""Every documented command for published weights names its segmenter and its propagator."""

import re
import tomllib
from pathlib import Path

import pytest

from harness import plugins
from harness.presets import presets, resolve
from harness.spec import Spec, parse_list

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("models/*/*.md"),
    *ROOT.glob("models/*/*.py"),
    *ROOT.glob("trainers/*/*.md"),
    *ROOT.glob("models/*/*/*.md"),
]
COMMAND = re.compile(
    r'harness (?:eval|sweep)\b(?:[^"\n]|\\\n)*?--model (?:"([^"]*)"|([a-z][\w.-]*)(?=\s))'
)
METHODS = (
    "qwen_vl",
    "visionreasoner",
    "seg_zero",
    "dr2seg",
    "videoseg_r1",
    "video_str",
    "spacer",
    "video_r1",
    "videochat_r1",
)
PUBLISHED = re.compile(r"[\w.-]+/[\w.-]+\Z")


def commands(text):
    """The models of `harness eval`, as a shell hands them over; no folders of one's own."""
    models = [re.sub(r"\\?\n *", "", "".join(one)) for one in COMMAND.findall(text)]
    return [model for model in models if not model.startswith("./")]


def unnamed(model):
    """Methods with published weights, or a server, whose segmenter or propagator is not named."""
    return [
        str(spec)
        for spec in map(resolve, parse_list(model))
        if _published(spec) and not {"segmenter", "propagator"} <= set(spec.arguments)
    ]


def _published(spec: Spec):
    given = str(spec.arguments.get("checkpoint", ""))
    weights = PUBLISHED.match(given) and not given.startswith("runs/")
    return spec.name in METHODS and bool(weights or spec.arguments.get("backend"))


def test_commands_are_found_and_a_slip_among_them_would_be():
    found = [one for page in PAGES for one in commands(page.read_text("utf-8"))]
    assert sum(one.startswith((*METHODS, *presets())) for one in found) > 30
    slip = 'harness eval --model "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,\\\nframes=8)" …'
    assert commands(slip) == ["qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,frames=8)"]
    assert unnamed(*commands(slip))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_for_published_weights_names_its_perception(page):
    output = [
        one for one in commands(page.read_text("utf-8")) if "…(" not in one and "(…" not in one
    ]
    assert not [bad for one in output for bad in unnamed(one)]


@pytest.mark.parametrize(
    "path",
    sorted(ROOT.glob("trainers/*/configs/*.toml")),
    ids=lambda path: f"{path.parts[-3]}/{path.stem}",
)
def test_a_configuration_names_what_its_checkpoint_is_evaluated_with(path):
    model = tomllib.loads(path.read_text("utf-8")).get("eval_model")
    for spec in parse_list(model) if model else ():
        if plugins.accepts("models", spec.name, "segmenter"):
            assert {"segmenter", "propagator"} <= set(spec.arguments)
