"""The gate's command: its formats, its limits by task, the update of a baseline, the action."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree

import pytest
import yaml

from harness.cli.main import build_parser, main
from harness.errors import UsageError
from harness.leaderboards.board import build
from harness.leaderboards.gate import check
from harness.leaderboards.gate_formats import annotations, junit, markdown
from harness.leaderboards.site.write import write_site
from harness.record import Run

ROOT = Path(__file__).parents[2]
HOSTILE = "a%b\n::error::x | <img src=x onerror=alert(1)> \x1b[2J"


@pytest.fixture
def pair(make_run, rescore):
    """A baseline and a candidate that lost on every sample, of a model with a hostile name."""
    before = make_run("before", model=HOSTILE)
    return before, rescore(make_run("after", model=HOSTILE), lambda i, v: v - 0.2 + i / 1000)


def gate(pair, *arguments):
    return main(
        ["board", "check", "--baseline", f"{pair[0]}", "--candidate", f"{pair[1]}", *arguments]
    )


def test_a_gate_on_a_handful_says_that_no_drop_is_significant(make_run):
    report = check(make_run("a"), make_run("b", shift=9))
    (verdict,) = report.verdicts
    few = replace(verdict, comparison=replace(verdict.comparison, n_groups=5))
    shown = [one.text() for one in (report, replace(report, verdicts=(few,)))]
    assert ["nearly the same in all of them" in text for text in shown] == [False, True]


def test_the_badge_is_a_picture_or_what_shields_reads(pair, tmp_path, capsys):
    picture, data = tmp_path / "gate.svg", tmp_path / "gate.json"
    assert gate(pair, "--format", f"badge={picture}", "--format", f"badge={data}") == 1
    words = "".join(ElementTree.fromstring(picture.read_text()).itertext())
    assert words == "gatefailed, 1 of 1 task"
    plain = json.loads(data.read_text())
    message = "failed, 1 of 1 task"
    assert plain == {"schemaVersion": 1, "label": "gate", "message": message, "color": "d55e00"}
    assert capsys.readouterr().out.startswith("FAILED  the task got worse")
    assert gate((pair[0], pair[0]), "--format", "badge") == 0
    assert json.loads(capsys.readouterr().out)["message"] == "passed, 1 task"


@pytest.mark.parametrize(("name", "begins"), [("gate.SVG", "<svg"), ("gate.png", None)])
def test_a_badge_is_of_the_form_that_its_file_names(pair, tmp_path, name, begins):
    path = tmp_path / name
    code = gate(pair, "--format", f"badge={path}")
    if begins is None:
        assert code == UsageError.exit_code and not path.exists()
    else:
        assert path.read_text().startswith(begins)


@pytest.mark.parametrize("fails", [True, False])
def test_junit_skips_an_inconclusive_task_unless_it_fails(make_run, rescore, fails):
    before = make_run("before")
    after = rescore(make_run("after"), lambda i, v: v + (i % 5 - 2) / 10)
    report = check(before, after, max_drop=0.001, fail_on_inconclusive=fails)
    assert report.verdicts[0].inconclusive
    ((suite,),) = (ElementTree.fromstring(junit(report).encode()),)
    assert [suite.get(name) for name in ("failures", "skipped")] == (
        ["1", "0"] if fails else ["0", "1"]
    )
    (case,) = suite.findall("testcase")
    assert (case.find("failure") is None) != fails and (case.find("skipped") is None) == fails
    element = case.find("failure" if fails else "skipped")
    assert element.get("message").startswith("inconclusive: ")


def test_junit_counts_what_failed_and_is_well_formed(pair, make_run):
    video = make_run("v", task="disc_video")
    suites = ElementTree.fromstring(junit(check([pair[0], video], [pair[1], video])).encode())
    (suite,) = suites
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    failed, passed = suite.findall("testcase")
    assert "disc_seg val" in failed.get("name") and passed.find("failure") is None
    assert "0.18" in failed.find("failure").get("message")
    assert "\\x1b" in failed.find("system-out").text


def test_an_annotation_is_one_line_whatever_the_names(pair):
    (line,) = annotations(check(*pair)).splitlines()
    assert re.fullmatch(r"::error title=disc_seg val giou::[^\n]+", line)
    assert "%0A" in line and line.count("::") == 2


def test_markdown_shows_hostile_names_as_text(pair):
    text = markdown(check(*pair))
    assert "<img" not in text and "Gate failed" in text.splitlines()[0]
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} <= {6}
    assert "harness explain" in text


def test_worsened_samples_are_linked_to_their_pages_on_a_site_of_both(pair, tmp_path, capsys):
    """The rows have one model name, which the site and the links tell apart alike."""
    start = write_site(build(pair), tmp_path / "site", images=False)
    assert gate(pair, "--format", "json", "--site", str(start.parent)) == 1
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    worst = [one["sample"] for one in task["samples"]["worst"]]
    index = json.loads((start.parent / "data" / "index.js").read_text().partition(",")[2][:-2])
    (table,) = index["site"]["tables"]
    runs = {row["name"]: row["run"] for row in index["board"]["tables"][0]["rows"]}
    for sample, link in zip(worst, task["links"], strict=True):
        page, _, fragment = link.partition("#")
        path, _, query = fragment.partition("?")
        assert page == start.as_uri() and parse_qs(query).keys() == {"a", "b"}
        assert [*map(unquote, path.split("/")[2:])] == [table["key"], "sample", sample]
        assert [runs[one] for (one,) in parse_qs(query).values()] == ["before", "after"]
    text = markdown(check(*pair, site="https://example.org/site/"))
    assert text.count("](https://example.org/site/#/task/") == len(worst)
    assert "](" not in markdown(check(*pair))


def test_one_run_writes_several_formats(pair, tmp_path, capsys):
    files = {name: tmp_path / "reports" / f"gate.{name}" for name in ("markdown", "junit", "json")}
    options = [f"--format={name}={path}" for name, path in files.items()]
    assert gate(pair, "--format", "text", *options) == 1
    assert capsys.readouterr().out.startswith("FAILED")
    assert json.loads(files["json"].read_text())["passed"] is False
    assert files["markdown"].read_text() == markdown(check(*pair))
    assert gate(pair, "--format", "text", "--format", "junit") == 2
    assert gate(pair, "--format", "xml") == 2
    assert gate(pair, "--tasks", " disc_seg, ") == gate(pair) == 1


def test_in_github_actions_summary_and_annotations_are_written(pair, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert gate(pair) == 1
    out = capsys.readouterr().out
    assert out.startswith("FAILED") and "\n::error title=" in out
    assert (tmp_path / "summary.md").read_text() == markdown(check(*pair))
    assert gate(pair, "--json") == 1
    assert json.loads(capsys.readouterr().out)["passed"] is False


@pytest.mark.parametrize("text", ["x", "-1", "nan", "disc_seg=", "disc_seg=x"])
def test_a_limit_that_is_no_number_is_refused(pair, text, capsys):
    assert gate(pair, f"--max-drop={text}") == 2
    assert text in capsys.readouterr().err


def test_a_baseline_is_updated_by_copies_without_predictions(pair, tmp_path, capsys, make_run):
    video = make_run("v", task="disc_video")
    runs = tmp_path / "runs"
    for place, run in (("seg", pair[1]), ("video", video)):
        run.rename((runs / place).parent.mkdir(exist_ok=True) or runs / place)
    kept = tmp_path / "kept"
    assert main(["board", "keep", "--runs", str(pair[0]), "--out", str(kept)]) == 0
    assert gate((kept, runs)) == 1
    assert gate((kept, runs), "--tasks", "disc_seg", "--update-baseline") == 0
    assert Run.open(kept).results == Run.open(runs / "seg").results
    assert not [*kept.rglob("samples.*")] and not [*tmp_path.glob("kept.*")]
    assert gate((kept, runs)) == 0
    assert "disc_video valid_u: only in the candidate" in capsys.readouterr().out
    assert gate((kept, runs), "--update-baseline") == 0
    assert (kept / "video" / "results.json").exists()


def test_a_baseline_with_predictions_is_not_replaced(pair, capsys):
    before = sorted((path, path.read_bytes()) for path in pair[0].iterdir() if path.is_file())
    assert gate(pair, "--update-baseline") == 2
    assert str(pair[0]) in capsys.readouterr().err
    assert (
        sorted((path, path.read_bytes()) for path in pair[0].iterdir() if path.is_file()) == before
    )


def test_the_action_has_the_gates_options_and_the_page_says_so():
    action = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    settings = build_parser().parse_args(["board", "check", "--baseline=b", "--candidate=c"])
    options = {name.replace("_", "-"): value for name, value in vars(settings).items()}
    # The action sets the formats; a baseline is updated by hand; both are of the action alone.
    own, others = {"report", "python"}, {"format", "json", "update-baseline"}
    of_the_parser = {"function", "parser", "instead"}
    assert action.keys() - own == options.keys() - others - of_the_parser
    for name in ("max-cut", "level"):
        assert float(action[name]["default"]) == options[name]
    inputs = re.search(r"Inputs: (.*?) Outputs:", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    assert set(re.findall(r"`([a-z-]+)`", inputs[1])) >= action.keys()


def test_each_step_of_the_page_is_whole():
    page = (ROOT / "docs" / "ci.md").read_text()
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        found = yaml.safe_load(block)
        for step in found["jobs"]["gate"]["steps"] if "jobs" in found else found:
            assert len({"run", "uses"} & step.keys()) == 1, step
            if step.get("id") == "gate":
                inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
                required = {name for name, one in inputs.items() if one.get("required")}
                assert required <= step["with"].keys() <= inputs.keys()


@pytest.mark.parametrize(
    ("has_harness", "python", "installs_with"),
    [(True, "", None), (False, "", "python"), (True, "python9", "python9")],
)
def test_the_action_installs_harness_if_the_workflow_did_not_or_an_interpreter_is_named(
    tmp_path, has_harness, python, installs_with
):
    step, _ = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    programs, called = tmp_path / "programs", tmp_path / "called"
    programs.mkdir()
    interpreter = (
        f'#!/bin/sh\nif [ "$2" = venv ]; then basename "$0" > {called}; mkdir -p "$3/bin"; '
        'cp "$0" "$3/bin/python"; fi\n'
    )
    for name in ("python", "python9", *(["harness"] if has_harness else [])):
        (programs / name).write_text(interpreter)
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHON": python,
        "SOURCE": "source",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_PATH": str(tmp_path / "path"),
    }
    line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(line, env=environment, cwd=tmp_path, check=True)
    assert (called.read_text().strip() if called.exists() else None) == installs_with
    assert (tmp_path / "path").exists() == (installs_with is not None)


def test_the_actions_gate_step_runs_in_a_plain_shell(pair, tmp_path):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [one for one in action["runs"]["steps"] if one.get("id") == "gate"]
    inputs = {name: str(one.get("default", "")) for name, one in action["inputs"].items()}
    inputs |= {"baseline": str(pair[0]), "candidate": str(pair[1]), "report": "reports"}
    given = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], value)
        for name, value in step["env"].items()
    }
    output, summary = tmp_path / "output", tmp_path / "summary.md"
    environment = {
        **os.environ,
        **given,
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "::error title=disc_seg val" in done.stdout
    assert "Gate failed" in summary.read_text()
    written = dict(one.split("=", 1) for one in output.read_text().splitlines())
    assert written["passed"] == "false"
    assert ElementTree.parse(tmp_path / written["junit"]).getroot().tag == "testsuites"
    assert (tmp_path / written["markdown"]).read_text() == summary.read_text()
    output.unlink()
    nothing = {**environment, "BASELINE": "gone"}
    done = subprocess.run(line, env=nothing, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode > 1 and output.read_text() == "passed=false\n"


@pytest.mark.parametrize(
    "name", ["x\n::stop-commands::y", "::add-mask::x", "a ##[error]b", "a\r::b"]
)
@pytest.mark.parametrize("form", ["text", "github", "markdown"])
def test_no_line_of_a_report_is_a_workflow_command_of_a_name(
    make_run, rescore, name, form, capsys, monkeypatch, tmp_path
):
    before = make_run("before", model=name)
    after = rescore(make_run("after", model=name), lambda i, v: v - 0.2 + i / 1000)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert gate((before, after), "--format", form) == 1
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if line.strip().startswith("::") or "##[" in line]
    assert all(line.startswith("::error title=disc_seg val") for line in commands)
    assert len(commands) == (form == "github")


@pytest.mark.parametrize(
    ("change", "code", "output"),
    [
        ({"REPORT": "a\nevil=1"}, 2, ""),
        ({"REPORT": "a\revil=1"}, 2, ""),
        (
            {"MAX_DROP": "0.1 *=? \n\t x=0.2"},
            0,
            "passed=true\nmarkdown=r/gate.md\njunit=r/gate.xml\n",
        ),
    ],
)
def test_the_action_expands_no_pattern_and_writes_no_line_of_an_input(
    tmp_path, change, code, output
):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [one for one in action["runs"]["steps"] if one.get("id") == "gate"]
    (tmp_path / "program").mkdir()
    program = tmp_path / "program" / "harness"
    program.write_text('#!/bin/sh\nfor one; do echo "<$one>"; done\n')
    program.chmod(0o755)
    (tmp_path / "0.9").touch()
    given = dict.fromkeys(step["env"], "") | {"REPORT": "r"} | change
    environment = given | {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code
    written = tmp_path / "output"
    assert (written.read_text() if written.exists() else "") == output
    if "MAX_DROP" in change:
        limits = re.findall(r"<--max-drop>\n<(.*)>", done.stdout)
        assert limits == ["0.1", "*=?", "x=0.2"]
