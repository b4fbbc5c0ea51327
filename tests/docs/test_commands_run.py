"""Every command of the pages is run, in the order of its page, on the generated world with pocket.

Published weights and trained checkpoints are replaced by pocket's, SAM by pocket-sam: what is
tested is that the command works. What cannot be run here stands in `NOT_RUN` with the reason; a
command that is neither fails. Tutorials' Python is run too.
"""

import json
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
from harness import presets
from harness.chat import ChatRequest
from harness.cli.main import main
from harness.spec import parse

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for path in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    if "```sh\n" in (REPOSITORY / path).read_text("utf-8") and not path.startswith("tests/")
]
BLOCK = re.compile(r"^ *```(sh|python)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
HEREDOC = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)
NAMES = "|".join(map(re.escape, sorted(presets.presets(), key=len, reverse=True)))
BEGIN = rf"(?:{NAMES}|tent\(base=|vr_ttrl\(base=)"
PRESET = re.compile(rf"""(?<=--model )(?:"({BEGIN}[^"]*)"|'({BEGIN}[^']*)'|({BEGIN}\S*))""")
STAND_INS = (
    (r"\bsam[23]_video\([^()]*\)", "pocket_sam_video"),
    (r"\bsam[23]\([^()]*\)", "pocket_sam"),
    (r"\bxmem\([^()]*\)", "flow"),
    (r"\bcheckpoint=(?!pocket\b)(?:[\w.-]+/[\w.-]+|DIR|C)(?=[,)])", "checkpoint=pocket"),
    (r"(?<=--model )(\"?)(?:MODEL|SPEC)\1(?= )", "pocket"),
    (r"(?<=--model )NEW", "random"),
    (r"runs/(MODEL|qwen_vl)\b", "runs/pocket"),
    (r"/shared/runs", "runs/old"),
    (r"--size \d+", "--size 2"),
    (r"(data make shapes (?:(?!--size).)*)$", r"\1 --size 2"),
    (r"(harness train .*)$", r"\1 --set max_steps=1"),
    (r"(max_steps=\d+(?:.*?)) --set max_steps=1$", r"\1"),
    (r"\bmax_steps=\d+", "max_steps=1"),
)
"""Patterns of a command, and what stands in for what they match."""
NOT_RUN = {
    r"^(make|pip|git|docker|RUNS|python[\d.]*|E/|\.venv|cp|vllm)\b": "installs or starts others",
    r"^(vf-eval|sh|fiftyone)\b": "another program's",
    r"^(accelerate|torchrun)|--(ray|submitit) ": "wants several devices (tests/run)",
    r"^harness view": "serves until it is stopped (tests/leaderboards)",
    r"^harness data fetch": "wants the network (tests/cli/test_fetch.py)",
    r"^harness hub p": "wants the network (tests/leaderboards/hub)",
    r"^harness hub card": "a training of the reader's (tests/leaderboards/hub)",
    r"make shapes --out ROOT": "was made for all pages",
    r"…": "leaves something out",
    r"--as-vendor": "wants the vendors' checkpoints (tests/models)",
    r"\buv\(|\$MODEL|env prepare": "wants uv (tests/run/test_uv_environment.py)",
    r"--model DIR ": "a checkpoint of the reader's",
    r"--strict": "says that two samples are not the published ones (tests/cli/test_data.py)",
    r"base_url=": "asks a server (tests/models)",
    r"^(harness server|curl|export)\b|server\.pub|server/runs": "wants its server (tests/server)",
    r"backend=(vllm|lmms|openai)|lmms": "wants packages that are not installed (make test-parts)",
    r"--model .sam3\(": "wants SAM 3 for phrases (tests/models/test_sam3_by_phrase.py)",
    r"prompts=": "reads official code (tests/models)",
    r"enable_thinking": "wants Qwen3.5's template (tests/models/test_qwen3_5.py)",
    r"adapter=runs/lora": "wants an adapter beside weights (tests/models)",
    r"external\(": "starts a program of the reader's (tests/models/test_external.py)",
    r"\b(molmo|segment_token|brightest|threshold)\b": "plugins (tests/docs)",
    r"\b(stepwise|reward=count|(bright|strict)_accuracy)\b": "plugins (tests/docs)",
    r"nodes=paper": "wants five checkpoints (tests/rehearsal)",
    r"FOLDER|video-llava|predictions tree|(said|difficulty|verdicts)\.jsonl": "files (tests/cli)",
    r"results\.json|2026_|runs/said|release": "files of other programs (tests/cli/test_formats.py)",
    r"reproduce (?!.*--dry-run)": "trains for hours (tests/cli/test_reproduce.py)",
    r"--method pocket": "trains the weights that ship (examples/pocket/tests)",
    r"harness board curves": "curves of trainings that the reader has (tests/cli/test_curves.py)",
    r"plan\.json|twins=twins": "a plan of the reader's (tests/cli/test_twin.py)",
    r"demo/runs": "would change a baseline of the repository (tests/test_gate.py)",
    r"--config (qwen|r1|table)": "trains at full size (tests/trainers/test_configurations.py)",
    r"train-tasks .*stv_205k": "trains on many videos (tests/trainers)",
    r"explain runs/saliency/mevis VIDEO": "a sample of the reader's (tests/cli/test_explain.py)",
}
"""Commands that are left out, why, and where a test has what they need."""


def statements(text: str, folder: Path, *, tutorial: bool) -> list[str]:
    """Return the commands of a page in order; files that it writes by `cat` are written."""
    found = []
    for language, block in BLOCK.findall(text):
        if language == "python":
            if tutorial:
                (folder / f"block{len(found)}.py").write_text(block, "utf-8")
                found.append(f"run block{len(found)}.py")
            continue
        if "#SBATCH" in block:  # a script, which tests/run/test_slurm.py runs
            continue
        for name, content in HEREDOC.findall(block):
            (folder / name).write_text(content, "utf-8")
        plain = HEREDOC.sub("", block).replace("\\\n", " ")
        # A quoted text may go over several lines.
        plain = re.sub(r'"[^"]*"', lambda quoted: re.sub(r"\n *", "", quoted[0]), plain)
        lines = (re.sub(r"(^| )#.*", "", line).strip() for line in plain.splitlines())
        found += [line for line in lines if line]
    return found


def spelled_out(command: str) -> str:
    """Return a command with the SPECs of its presets."""

    def spec(match: re.Match[str]) -> str:
        return f"'{presets.resolve(parse(match[1] or match[2] or match[3]))}'"

    return PRESET.sub(spec, command)


def stood_in(command: str) -> str:
    """Return a command with what can be run here."""
    for pattern, instead in STAND_INS:
        command = re.sub(pattern, instead, command)
    return re.sub(r" +", " ", command)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A root with two samples a split, runs of several models, predictions of one."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert main(["data", "make", "shapes", "--out", "ROOT", "--size", "2"]) == 0
        for name in ("old", "new", "pocket", "saliency"):
            model = "saliency" if name == "saliency" else "pocket"
            given = ["--model", model, "--tasks", "reason_seg,mevis", "--data", "ROOT"]
            assert main(["eval", *given, "--name", name, "--out", "runs"]) == 0
    for task, file in (("mevis", "mine.jsonl"), ("reason_seg", "responses.jsonl")):
        run = harness.read_run(folder / "runs" / "pocket" / task)
        with (folder / file).open("w", encoding="utf-8") as lines:
            for one in harness.read_samples(run):
                masks = [mask.to_json() for mask in one.target.answer.masks]
                said = {"masks": masks} if task == "mevis" else {"response": one.responses[0]}
                lines.write(json.dumps({"id": one.id, **said}) + "\n")
    return folder


@pytest.fixture
def desk(world, tmp_path, monkeypatch):
    """A folder to work in, as a page finds it; responses are cut short, and most say nothing."""
    for room in ("tasks", "tests", "benchmarks", "leaderboards", "examples"):
        (tmp_path / room).symlink_to(REPOSITORY / room)
    (tmp_path / "my-network").symlink_to(REPOSITORY / "models" / "pocket" / "checkpoint")
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    whole = ChatRequest.__init__

    def short(self, *values, max_new_tokens=1024, **named):
        whole(self, *values, max_new_tokens=min(max_new_tokens, 24), **named)

    monkeypatch.setattr(ChatRequest, "__init__", short)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_work(page, desk, capsys):
    failed, text = [], (REPOSITORY / page).read_text("utf-8")
    if "--out data" not in text:  # another page has made it
        (desk / "data").mkdir()
        (desk / "data" / "shapes").symlink_to(desk / "ROOT")
    commands = statements(text, desk, tutorial=page.startswith("docs/tutorials/"))
    if any("make shapes" in command for command in commands):  # its runs are of its own data
        shutil.rmtree(desk / "runs")
    for command in map(spelled_out, commands):
        if command.startswith("run "):
            runpy.run_path(command.removeprefix("run "))
            continue
        if any(re.search(pattern, command) for pattern in NOT_RUN):
            continue
        shown = stood_in(command)
        try:
            code = main(shlex.split(shown)[1:]) if shown.startswith("harness ") else "unknown"
        except SystemExit as ended:
            code = ended.code
        out = capsys.readouterr()
        is_cut_short = code == 1 and "no sample has an answer" in out.err  # by `desk`
        if code != 0 and not is_cut_short:
            failed.append(f"{shown}\n    {code}: {out.err[-700:]}")
    assert not failed, "\n".join(failed)
