"""Published configurations, run as they are written, with stand-ins of their networks."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("trl")

from harness.errors import Locked, UsageError
from harness.leaderboards.definitions import definitions, find, with_rows
from harness.leaderboards.published_results import PAPERS
from harness.presets import presets, resolve
from harness.rehearsal import amounts, report, standins
from harness.rehearsal.command import TablePlan
from harness.spec import parse

ROOT = Path(__file__).parents[2]
ONE_OF_EACH = (
    "dt_r1/6: JiT",
    "video_str/6: Qwen2.5-VL-7B-Instruct",
    "dr2seg/3: DR2Seg [R_desc=Y,R_len=N]",
    "videoseg_r1/4: Baseline Qwen2.5-VL-7B + SAM2-Large",
    "vr_ttrl/4: VisionReasoner-7B w/ VR-TTRL [updates=1]",
)


def harness(*arguments, cwd, **environment):
    line = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(
        line,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def test_a_row_of_each_paper_runs_as_it_is_written(tmp_path):
    chosen = [part for name in ONE_OF_EACH for part in ("--rows", name)]
    done = harness("reproduce", "--all", "--rehearse", *chosen, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = f"{len(ONE_OF_EACH)} rows: {len(ONE_OF_EACH)} ran."
    assert counts in done.stdout
    assert counts in (tmp_path / "out" / "rehearsal.md").read_text()
    boards = [path.read_text() for path in (tmp_path / "out").glob("*/board.md")]
    assert len(boards) == len(ONE_OF_EACH)
    assert all(board.startswith("# REHEARSAL") for board in boards)


NETWORK = "Qwen/Qwen2.5-VL-7B-Instruct"
"""What stands for a checkpoint that a training makes."""
WITHOUT_STAND_INS = {
    "videollama3-7b": "lmms-eval runs the model's own code, which a stand-in does not have"
}


def presets_by_task():
    """Presets as they are typed, by the task that they are for."""
    found = defaultdict(list)
    for one in presets().values():
        if one.name not in WITHOUT_STAND_INS:
            given = ",".join(f"{name}={NETWORK}" for name in one.needs)
            found[one.task].append(f"{one.name}({given})" if given else one.name)
    return found


def test_a_preset_runs_as_it_is_typed_and_its_record_has_the_whole_spec(tmp_path):
    given = ["--tasks", "reason_seg", "--data", "x", "--subset", "first2", "--rehearse", "--quiet"]
    name = "visionreasoner-7b(max_pixels=100352)"
    done = harness("eval", "--model", name, *given, "--out", "runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    spec = str(resolve(parse(name)))
    assert json.loads(manifest.read_text())["model"]["spec"] == spec
    assert f"{name} is {spec}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("task", "models"), presets_by_task().items())
def test_every_preset_runs_as_it_is_typed(task, models, tmp_path):
    given = ["--tasks", task, "--data", "x", "--subset", "first6", "--rehearse", "--quiet"]
    done = harness("eval", "--model", ",".join(models), *given, "--out", "runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = [json.loads(one.read_text()) for one in (tmp_path / "runs").rglob("results.json")]
    assert len(results) == len(models)
    lost = [one["model_spec"] for one in results if one["n_failed"] == one["n_total"]]
    assert not lost, "no sample is answered"


def test_a_command_that_cannot_run_fails_its_rehearsal(tmp_path):
    segmenter = "sam2(checkpoint=facebook/sam2-lost)"
    model = f"qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,segmenter={segmenter})"
    command = ["eval", "--rehearse", "--model", model, "--tasks", "reason_seg", "--out", "runs"]
    done = harness(*command, cwd=tmp_path)
    assert done.returncode == 4
    assert "facebook/sam2-lost" in done.stderr


def test_twelve_broken_configurations_are_found():
    script = ROOT / "tests" / "rehearsal" / "mutants.py"
    done = subprocess.run(
        [sys.executable, script, "--sample", "12"], capture_output=True, text=True, check=False
    )
    assert "12 mutants, 0 survived" in done.stdout, done.stdout + done.stderr


def test_every_row_of_the_papers_is_run_or_left_out_with_a_reason(tmp_path):
    plan = TablePlan(tmp_path)
    for definition in definitions():
        if definition.paper in PAPERS:
            plan.add(definition)
    lines = [report.left_out(d, row) for d, row, stages in plan.rows if not stages]
    assert [line for line in lines if line.state != "left out"] == []


def test_a_mixture_has_the_data_of_its_sets(tmp_path):
    amounts.make_world(tmp_path, ["videoseg_r1_15k"])
    assert (tmp_path / "ref_youtube_vos" / "train").is_dir()


def test_models_of_servers_in_tables_are_served(tmp_path):
    plan = TablePlan(tmp_path)
    for definition in definitions():
        if definition.paper in PAPERS:
            plan.add(definition)
    behind = re.compile(r"openai\((?:[^()]*,)?(?:model|checkpoint)=([^,)]+)")
    named = {name for stage in plan.stages.values() for name in behind.findall(stage.line)}
    assert named and named <= set(standins.served())


def test_reasons_are_of_rows_that_there_are():
    rows = {row.row.partition(" [")[0] for one in definitions() for row in one.rows}
    assert set(report._reasons()) <= rows


def test_a_killed_rehearsal_resumes_after_the_commands_that_ended(tmp_path):
    row = "Qwen2.5-VL-7B-Instruct"  # two evaluations
    typed = ["reproduce", "video_str", "1", "--rehearse", "--rows", row, "--out", "out"]
    line = [sys.executable, "-m", "harness", *typed]
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as killed:
        name = next(
            match[1]
            for text in killed.stderr
            if (match := re.search(r"rehearsal: (.*): \d+ s, ok$", text))
        )
        beside = harness(*typed, cwd=tmp_path)
        assert beside.returncode == Locked.exit_code and str(killed.pid) in beside.stderr
        killed.kill()
    done = harness(*typed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "where 1 command ended before" in done.stderr
    assert f"{name} begins" not in done.stderr
    assert "1 row: 1 ran." in done.stdout
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as again:
        begins_anew = any(f"{name} begins" in text for text in again.stderr)
        again.kill()
    assert begins_anew


def test_only_the_benchmarks_of_the_rows_are_made(tmp_path):
    rows = ["DR2Seg [R_desc=Y,R_len=N]"]
    plan = TablePlan.of(with_rows([find("dr2seg", "3")], rows), tmp_path)
    amounts.make_world(tmp_path / "data", sorted(plan.tasks))
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert names == {"reason_seg", "visionreasoner_7k", "shapes.json"}


def test_rows_that_no_table_has_are_refused(tmp_path):
    rows = ("--rows", "X", "--rows", "VisionReasoner")
    done = harness("reproduce", "dr2seg", "1", "--rehearse", *rows, cwd=tmp_path)
    assert done.returncode == UsageError.exit_code
    assert "VisionReasoner" in done.stderr


def test_a_folder_of_something_else_is_not_emptied(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    done = harness("reproduce", "dr2seg", "1", "--rehearse", "--out", ".", cwd=tmp_path)
    assert done.returncode == UsageError.exit_code
    assert (tmp_path / "mine.txt").read_text() == "precious"


@pytest.mark.slow
def test_every_table_of_the_papers_runs_as_it_is_written(tmp_path):
    done = harness("reproduce", "--all", "--rehearse", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-20_000:]


@pytest.mark.slow
def test_every_broken_configuration_is_found():
    script = ROOT / "tests" / "rehearsal" / "mutants.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]


NOT_HERE = re.compile(r"adapter=|molmo|CHECKOUT|XMem|said\.jsonl|=/models/|lmms|vllm|,$")
"""What a command of a page needs that a rehearsal does not make: a checkout, a file, a package."""
TRAINED = re.compile(r"\bcheckpoint=(runs/\w+|DIR|OUT|C)(?=[,)])")
"""A checkpoint that the reader of a page has trained."""
REST = "--tasks reason_seg --data ROOT --out RUNS"
"""What a page leaves out as `…`."""


def written_commands():
    """Commands of pages and cards that evaluate or train published networks, with their pages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages += sorted(ROOT.glob("models/*/README.md")) + sorted(ROOT.glob("trainers/*/README.md"))
    for page in pages:
        text = page.read_text("utf-8")
        blocks = [*re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
        blocks += re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
        for block in blocks:
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                command = re.search(r"harness ((?:eval|train) .*)", line.partition(" #")[0])
                known = [f"={name}" for name in standins.names()] + list(presets())
                named = command and any(name in command[1] for name in known)
                if command and named and not NOT_HERE.search(command[1]):
                    yield page.relative_to(ROOT), command[1].replace("…", REST)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), sorted(set(written_commands())))
def test_commands_of_pages_run_as_they_are_written(page, command, tmp_path):
    for folder in set(TRAINED.findall(command)):
        trained = standins.make("Qwen/Qwen2.5-VL-7B-Instruct", None, tmp_path / "cache")
        shutil.copytree(trained, tmp_path / folder)
    name, *arguments = shlex.split(command.replace("\\", ""))
    done = harness(name, "--rehearse", *arguments, cwd=tmp_path)
    assert done.returncode == 0, f"{page}: {command}\n{done.stderr[-3000:]}"
