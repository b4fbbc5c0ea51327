"""What methods declare of their papers, and what of a composition is not the paper's."""

import inspect
import tomllib

import pytest

from harness import papers, plugins
from harness.models.dt_r1.catalog import PRESETS
from harness.models.dt_r1.executor import TwinBuilder
from harness.papers import Deviation, declared_settings, deviations
from harness.spec import parse
from harness.types import AnswerForm

LARGE = "sam2(checkpoint=facebook/sam2-hiera-large)"
PARTS = {"segmenter": "segmenters", "propagator": "propagators"}
METHODS = [
    name
    for name, entry in plugins.installed_plugins("models").items()
    if (plugins.folder(entry) / papers.FILE_NAME).is_file() and declared_settings(name)[0]
]


def part(text):
    spec = parse(text)
    return {"name": spec.name, **spec.arguments}


def test_every_method_of_a_paper_declares_what_the_paper_used():
    assert {
        "qwen_vl",
        "visionreasoner",
        "seg_zero",
        "dr2seg",
        "videoseg_r1",
        "video_str",
        "spacer",
        "video_r1",
        "videochat_r1",
        "vr_ttrl",
        "anti_consensus",
        "vote",
    } <= set(METHODS)


def test_a_model_around_another_deviates_where_that_one_does():
    spec = "vr_ttrl(base=visionreasoner(canvas=168),rollouts=16)"
    described = {"segmenter": {"name": "grabcut"}}
    found = {one.setting for one in deviations(spec, described, [AnswerForm.MASK])}
    assert found == {"rollouts", "segmenter", "canvas"}


@pytest.mark.parametrize("model", METHODS)
def test_what_is_declared_are_settings_and_parts_that_there_are(model):
    paper, settings = declared_settings(model)
    assert paper and settings
    for one in settings:
        assert plugins.accepts("models", model, one.setting.partition(".")[0])
        for value in one.paper if one.setting in PARTS else ():
            spec = parse(value)
            known = inspect.signature(plugins.load(PARTS[one.setting], spec.name)).parameters
            assert set(spec.arguments) <= set(known)


@pytest.mark.parametrize("model", METHODS)
def test_the_papers_own_composition_has_no_deviation(model):
    """What a paper has none of can never be as in it: videos with methods for images."""
    known = [one for one in declared_settings(model)[1] if one.paper and not one.tasks]
    defaults = inspect.signature(plugins.load("models", model)).parameters
    for form in AnswerForm:
        described, given = {}, []
        for one in known:
            where = dict(one.where or {})
            if where.get("form", "sam2") != "sam2":
                continue
            if one.setting in PARTS:
                described[one.setting] = part(one.paper[0])
            elif one.record.startswith("perception"):
                nodes = described.setdefault("perception", {"nodes": {}})["nodes"]
                nodes[one.record.rpartition(".")[2]] = None if "none" in one.paper else one.paper[0]
            elif one.record:
                described["voters"] = {"checkpoint": one.paper[0]}
            elif defaults[one.setting].default not in one.paper:
                given.append(f"{one.setting}={one.paper[0]}")
        spec = f"{model}({','.join(given)})" if given else model
        found = deviations(spec, described, [form])
        assert not [one for one in found if one.setting in {other.setting for other in known}]


CUT = {"segmenter": part(LARGE), "propagator": part("still")}
OTHERS = [
    ("visionreasoner", {"segmenter": {"name": "grabcut"}}, "mask", {"segmenter": "grabcut"}),
    ("visionreasoner", {"segmenter": {"name": "grabcut"}}, "count", {}),
    ("visionreasoner(canvas=168)", CUT, "mask", {"canvas": "168"}),
    ("visionreasoner", CUT, "mask_track", {"propagator": "still"}),
    ("dr2seg(prompt=short)", CUT, "mask", {"prompt": "short"}),
    ("dr2seg(form=sam3)", CUT, "mask", {"segmenter": LARGE}),
    ("dr2seg(form=sam3)", {"segmenter": part("sam3(checkpoint=facebook/sam3)")}, "mask", {}),
    (
        "qwen_vl",
        {"segmenter": part("sam2(checkpoint=facebook/sam2-hiera-tiny)")},
        "mask",
        {"segmenter": "sam2(checkpoint=facebook/sam2-hiera-tiny)"},
    ),
    (
        "qwen_vl",
        {"segmenter": part("pocket_sam(checkpoint=pocket-sam)")},
        "mask",
        {"segmenter": "pocket_sam(checkpoint=pocket-sam)"},
    ),
    ("qwen_vl", {"segmenter": part("sam2(checkpoint=/weights/sam2-hiera-large)")}, "mask", {}),
    (
        "qwen_vl",
        {"segmenter": part("sam2(checkpoint=/c/models--facebook--sam2-hiera-large/x)")},
        "mask",
        {},
    ),
    ("qwen_vl", {"segmenter": part("sam2(checkpoint=a.pt,config=sam2_hiera_l)")}, "mask", {}),
    (
        "videoseg_r1(context=840)",
        {**CUT, "voters": {"checkpoint": "runs/x"}},
        "mask_track",
        {"propagator": "still", "sampler": "runs/x"},
    ),
    ("video_str(frames=8)", {}, "choice", {"frames": "8"}),
    (
        "video_str(frames=8)",
        {"segmenter": part("box"), "propagator": part("still")},
        "mask",
        {"segmenter": "box"},
    ),
    ("pocket", CUT, "mask", {}),
    ("evil/<script>", CUT, "mask", {}),
]


@pytest.mark.parametrize(("model", "described", "form", "wanted"), OTHERS)
def test_each_setting_that_is_not_the_papers_is_named(model, described, form, wanted):
    found = deviations(model, described, [AnswerForm(form)])
    assert {one.setting: one.used for one in found} == wanted


def twin_of(nodes):
    """The record of a model with these nodes, and what of it is not the paper's."""
    described = {"perception": TwinBuilder(parse(nodes)).describe()}
    found = deviations("dt_r1(prompt=paper)", described, [AnswerForm.MASK])
    assert found == deviations("jit", described, [AnswerForm.MASK])
    return {one.setting.removeprefix("nodes."): one.used for one in found}


def test_nodes_are_compared_by_what_they_are_and_not_by_the_word_of_the_spec():
    spelled = ",".join(f"{role}={spec}" for role, spec in PRESETS["paper"].items())
    assert twin_of("paper") == twin_of(f"local({spelled},Tracking=none)") == {}
    assert set(twin_of("local")) == {*PRESETS["local"]} - {"DepthStats", "OpenCV"}


@pytest.mark.parametrize(
    ("change", "role"),
    [
        ("SAM2=sam2", "SAM2"),  # without a checkpoint
        ("SAM2=sam2(checkpoint=facebook/sam2-hiera-tiny)", "SAM2"),
        ("OWLv2=owlv2(checkpoint=google/owlv2-large-patch14-ensemble)", "OWLv2"),
        ("DINOv2=none", "DINOv2"),
        ("OCR=ocr", "OCR"),
        (
            "SemanticAnalysis=semantic_analysis(by_question=true,"
            "backend=transformers(checkpoint=Qwen/Qwen2.5-VL-3B-Instruct))",
            "SemanticAnalysis",
        ),
    ],
)
def test_each_node_that_is_not_the_papers_is_named(change, role):
    assert set(twin_of(f"paper({change})")) == {role}


@pytest.mark.parametrize(
    "change",
    [
        "SAM2=sam2(checkpoint=/weights/sam2-hiera-large,grid=16)",
        "SAM2=child(node=sam2(checkpoint=facebook/sam2-hiera-large),gpu=1)",
        "SemanticAnalysis=semantic_analysis(by_question=true,backend=openai("
        "model=Qwen/Qwen2.5-VL-7B-Instruct,base_url=http://127.0.0.1:8000/v1))",
    ],
)
def test_where_a_node_runs_is_no_deviation(change):
    assert twin_of(f"paper({change})") == {}


def test_the_reader_of_responses_that_exist_counts():
    described = {"reader": {"segmenter": {"name": "grabcut"}}}
    text = "replay(file=a.jsonl,model=visionreasoner(backend=stored))"
    (found,) = deviations(text, described, [AnswerForm.MASK])
    assert found == Deviation("segmenter", "grabcut", LARGE)


def test_a_declaration_that_is_none_is_an_error_that_names_it(monkeypatch):
    for text in (
        "[qwen_vl]",
        "[qwen_vl]\npaper = 'x'\n[[qwen_vl.settings]]\ncolour = 1",
        "[qwen_vl]\npaper='x'\n[[qwen_vl.settings]]\nsetting='a'\nforms=['b']",
    ):
        monkeypatch.setattr(papers, "_read_paper", lambda _, text=text: tomllib.loads(text))
        with pytest.raises(papers.DataError, match="qwen_vl"):
            declared_settings("qwen_vl")


def test_a_setting_may_be_another_on_one_task():
    """SpaceR's official evaluation asks for a map on VSI-Bench, and nowhere else."""

    def differs(spec, task):
        found = deviations(spec, {}, (AnswerForm.CHOICE, AnswerForm.NUMBER), task)
        return [one.used for one in found if one.setting == "map"]

    assert differs("spacer", "vsi_bench") == ["listed"]
    assert differs("spacer(map=vsi)", "vsi_bench") == []
    assert differs("spacer(map=vsi)", "video_mme") == ["vsi"]
    assert differs("spacer", "video_mme") == []
