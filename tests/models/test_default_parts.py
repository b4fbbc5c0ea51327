"""What segments and propagates where nothing was chosen: the paper's, or nothing."""

import json
import shlex
from pathlib import Path

import pytest

from harness import plugins
from harness.chosen.checkpoints import lacking_parts
from harness.cli.main import main
from harness.errors import UsageError
from harness.models.default_parts import default_propagator, default_segmenter
from harness.spec import parse
from harness.types import AnswerForm

ROOT = Path(__file__).resolve().parents[2]
LARGE = "facebook/sam2-hiera-large"


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub that holds nothing."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub").mkdir()
    return tmp_path / "hub"


def run(tmp_path: Path, model: str, task: str) -> int:
    data = ROOT / "tasks" / task / "example"
    command = ["eval", "--model", model, "--tasks", task, "--data", str(data)]
    return main([*command, "--out", str(tmp_path / "runs"), "--quiet"])


@pytest.mark.parametrize(
    ("model", "task", "words"),
    [
        ("qwen_vl(checkpoint=pocket)", "reason_seg", [f"segmenter=sam2(checkpoint={LARGE})"]),
        ("dr2seg(checkpoint=pocket,form=sam3)", "reason_seg", ["segmenter=sam3(checkpoint="]),
        ("videoseg_r1(checkpoint=pocket)", "mevis", ["xmem", "repo", "propagator=flow"]),
        ("visionreasoner(checkpoint=pocket,segmenter=box)", "mevis", ["knows no videos"]),
        ("vlm(dialect=molmo2,checkpoint=pocket)", "reason_seg", ["sam2(checkpoint="]),
        ("vote(base=visionreasoner(checkpoint=pocket,canvas=168))", "reason_seg", [LARGE]),
    ],
)
def test_a_run_whose_masks_nobody_was_chosen_for_is_refused_with_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, task: str, words: list[str]
) -> None:
    assert run(tmp_path, model, task) == 2
    said = "".join(capsys.readouterr()).replace("\n", " ")
    for word in (*words, "propagator=flow" if task == "mevis" else "segmenter=grabcut"):
        assert word in said, said
    assert not list(tmp_path.glob("runs/*"))


QWEN = "checkpoint=pocket,max_new_tokens=8"
PROMPT = ROOT / "tests" / "models" / "own_prompt.txt"


@pytest.mark.parametrize(
    ("model", "task", "offered"),
    [
        (f"qwen_vl({QWEN})", "reason_seg", f"qwen_vl({QWEN},segmenter=grabcut)"),
        (
            f"qwen_vl(prompt=file:{PROMPT},{QWEN})",
            "mevis",
            f"qwen_vl(prompt=file:{PROMPT},{QWEN},segmenter=grabcut,propagator=flow)",
        ),
        (
            "visionreasoner(checkpoint=pocket,segmenter=box)",
            "mevis",
            "visionreasoner(checkpoint=pocket,segmenter=box,propagator=flow)",
        ),
        ("vote(base=qwen_vl(checkpoint=pocket))", "reason_seg", ""),  # its base takes them
    ],
)
def test_a_command_with_classical_parts_is_offered_where_the_model_takes_them(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    model: str,
    task: str,
    offered: str,
) -> None:
    assert run(tmp_path, model, task) == 2
    error = capsys.readouterr().err
    last = error[error.index("harness: ") :].rstrip("\n").splitlines()
    typed = shlex.split(last[-1].removeprefix("Without weights: "))
    assert typed[:4] == ["harness", "eval", "--model", offered] if offered else len(last) == 1
    assert not offered or typed[4:6] == ["--tasks", task]


def test_the_offered_command_runs(tmp_path: Path) -> None:
    parts = "segmenter=grabcut,propagator=flow"
    assert run(tmp_path, f"qwen_vl({QWEN},{parts})", "reason_seg") in (0, 1)


def test_the_papers_part_is_the_default_where_it_is_here(hub: Path, tmp_path: Path) -> None:
    import runpy

    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from harness.models.backends.torchvision_cpu import ensure_torchvision

    ensure_torchvision()
    networks = runpy.run_path(str(Path(__file__).parent / "sam2_networks.py"))
    made, _ = networks["save"](tmp_path, seed=1)
    kept = hub / f"models--{LARGE.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("0" * 40)
    (kept / "snapshots").mkdir()
    Path(made).rename(kept / "snapshots" / ("0" * 40))
    model = plugins.build("models", parse("qwen_vl(backend=stored)"))
    described = model.describe()
    assert described["segmenter"]["checkpoint"] == described["propagator"]["checkpoint"] == LARGE
    assert model.missing_parts == {}
    sam3 = default_segmenter("dr2seg", form="sam3")
    assert default_segmenter("dr2seg", form="sam2").missing == "" != sam3.missing


@pytest.mark.parametrize("task", ["counting", "shapes_qa"])
def test_what_needs_no_mask_needs_no_choice(tmp_path: Path, task: str) -> None:
    model = "qwen_vl(checkpoint=pocket,max_new_tokens=8)"
    assert run(tmp_path, model, task) in (0, 1)


def test_responses_are_read_with_a_part_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ROOT / "tasks" / "reason_seg" / "example"
    task = plugins.build("tasks", parse("reason_seg"), data)
    text = '<think>a</think><answer>[{"bbox_2d": [9, 9, 300, 400], "point_2d": [60, 70]}]</answer>'
    rows = [json.dumps({"id": one.id, "response": text}) for one in task.samples()]
    (tmp_path / "said.jsonl").write_text("\n".join(rows) + "\n")
    line = ["score", "--tasks", "reason_seg", "--data", str(data)]
    line += ["--predictions", str(tmp_path / "said.jsonl"), "--model"]
    assert main([*line, "qwen_vl(backend=stored)"]) == 2
    assert "segmenter=grabcut" in capsys.readouterr().err
    assert main([*line, "qwen_vl(backend=stored,segmenter=grabcut)"]) == 0


def test_sam2_weights_choose_the_segmenter_only() -> None:
    spec = parse("visionreasoner(checkpoint=pocket,sam2=x)")
    assert lacking_parts(spec, frozenset({AnswerForm.MASK_TRACK})).keys() == {"propagator"}


def test_a_training_is_not_begun_whose_checkpoints_could_not_be_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("trl")
    data = ROOT / "tasks" / "reason_seg" / "example"
    line = [
        "train",
        "--method",
        "visionreasoner",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "t"),
    ]
    line += ["--model", "visionreasoner(checkpoint=pocket,canvas=168)"]
    line += ["--train-tasks", "reason_seg(split=val)", "--eval-tasks", "reason_seg"]
    assert main(line) == 2
    assert "segmenter=grabcut" in capsys.readouterr().err and not (tmp_path / "t").exists()


def test_the_parts_say_why_they_compute_nothing() -> None:
    model = plugins.build("models", parse("video_str(backend=stored)"))
    assert set(model.missing_parts) == {
        AnswerForm.MASK,
        AnswerForm.MASK_TRACK,
        AnswerForm.BOX_TRACK,
    }
    assert "it answers in words" in model.missing_parts[AnswerForm.MASK]
    with pytest.raises(UsageError, match="propagator=flow"):
        default_propagator("visionreasoner").propagate(None, 0, [])  # type: ignore[arg-type]


def test_a_model_without_a_paper_is_not_named_in_what_it_lacks():
    missing = default_segmenter("").missing
    assert missing.startswith("no segmenter is chosen. ") and "segmenter=grabcut" in missing
