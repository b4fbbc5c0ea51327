"""`--as-vendor`: the evaluation that is chosen for a model and a task, and what is refused."""

import json
import runpy
from pathlib import Path

import pytest

from harness.chosen.as_vendor import as_vendor, settings_note
from harness.chosen.names import named_models
from harness.cli.main import main
from harness.errors import UsageError
from harness.record import Run

GOLDEN = Path(__file__).parent.parent / "golden"
EXAMPLES = Path(__file__).parent.parent.parent / "tasks"


def chosen(text, *tasks):
    ((typed, spec),) = named_models(text)
    return as_vendor(typed, spec, tasks)


@pytest.mark.parametrize(
    ("preset", "task", "settings"),
    [
        ("qwen2.5-vl-7b", "video_mme", "qwen2_5_vl_report"),
        ("qwen3-vl-8b", "video_mme", "qwen3_vl_videomme"),
        ("qwen3-vl-8b-thinking", "video_mme", "qwen3_vl_thinking_videomme"),
        ("internvl3.5-8b", "mvbench", "internvl3_5_mvbench"),
        ("internvl3.5-38b", "refcoco", "internvl3_5_refcoco"),
        ("glm-4.5v", "video_mme", "glm_v_bench"),
        ("molmo2-8b", "video_mme", "molmo2_videomme"),
        ("llava-onevision-7b", "video_mme", "llava_onevision_videomme"),
    ],
)
def test_a_preset_has_its_vendors_evaluation_of_a_task(preset, task, settings):
    spec = chosen(preset, task)
    assert spec.arguments["vendor"] == settings
    assert "from " in settings_note(spec) and settings in settings_note(spec)


def test_a_presets_own_value_yields_to_the_vendor_and_a_typed_one_does_not():
    assert "max_new_tokens=8192" in str(named_models("qwen3-vl-8b-thinking")[0][1])
    assert "max_new_tokens" not in chosen("qwen3-vl-8b-thinking", "video_mme").arguments
    typed = chosen("qwen3-vl-8b-thinking(max_new_tokens=64,temperature=0.0)", "video_mme")
    assert typed.arguments["max_new_tokens"] == 64
    assert typed.arguments["backend"].arguments == {"temperature": 0.0}


@pytest.mark.parametrize(
    ("text", "tasks", "message"),
    [
        ("qwen3-vl-8b", ["mvbench"], "evaluations of video_mme"),
        ("internvl3.5-8b", ["mvbench", "refcoco"], "one evaluation that its vendor published"),
        ("gemma-3-4b", ["video_mme"], "Google published no code"),
        ("qwen3.5-9b", ["video_mme"], "Qwen published no code"),
        ("glm-4.6v", ["video_mme"], "found none"),
        ("visionreasoner-7b", ["video_mme"], "qwen_vl or vlm"),
        ("qwen3-vl-8b(vendor=qwen3_vl_report)", ["video_mme"], "without vendor"),
        (
            "internvl3.5-8b(backend=openai(model=m,base_url=http://127.0.0.1:9/v1))",
            ["mvbench"],
            "backend that has image_processor",
        ),
    ],
)
def test_what_is_not_published_or_cannot_be_held_is_refused(text, tasks, message):
    with pytest.raises(UsageError, match=message):
        chosen(text, *tasks)


def test_an_evaluation_as_the_vendor_does_it(tmp_path, capsys):
    """The record has the settings, and what was typed is a deviation."""
    pytest.importorskip("transformers")
    networks = runpy.run_path(str(GOLDEN / "vendor_networks.py"))
    checkpoint = networks["qwen3_vl"](tmp_path / "Qwen3-VL-0B-Instruct")
    command = ["eval", "--model", f"{checkpoint}(max_new_tokens=4)", "--as-vendor"]
    command += ["--tasks", "video_mme", "--data", str(EXAMPLES / "video_mme/example")]
    assert main([*command, "--out", str(tmp_path / "runs"), "--json"]) <= 1  # random weights
    output = capsys.readouterr()
    assert "qwen3_vl_videomme: frames=fps(rate=2" in output.err
    (differs,) = json.loads(output.out)["tasks"]["video_mme"]["deviations"]
    assert (differs["setting"], differs["used"], differs["paper"]) == (
        "max_new_tokens",
        "4",
        "32768",
    )
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("manifest.json"))
    run = Run.open(folder)
    described = run.manifest["model"]["description"]
    assert described["vendor"]["name"] == "qwen3_vl_videomme"
    assert described["chat"]["presence_penalty"] == 1.5
    assert "resample=torchvision_bicubic" in described["frames"]
    assert main(["explain", str(folder), next(iter(run.units())).samples[0]]) == 0
    assert "evaluation/VideoMME/infer_instruct.sh" in capsys.readouterr().out


def test_as_vendor_beside_vary_is_refused(capsys):
    command = ["eval", "--model", "qwen3-vl-8b", "--as-vendor", "--vary", "frames=2,4"]
    assert main([*command, "--tasks", "video_mme", "--data", ".", "--out", "runs"]) == 2
    assert "--as-vendor" in capsys.readouterr().err
