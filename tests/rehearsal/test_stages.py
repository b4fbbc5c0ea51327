"""Stages of a rehearsal: forked processes, their order, and what they leave."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from harness.rehearsal import stages
from harness.rehearsal.stages import Children, Stage


def run(arguments):
    match arguments:
        case ["say", text]:
            print(text)
        case ["fail", text]:
            print("harness: " + text, file=sys.stderr)
            return 4
        case ["raise"]:
            raise RuntimeError("not foreseen")
        case ["exit"]:
            raise SystemExit(2)
        case ["rank", out]:
            path = Path(out) / f"{os.environ['RANK']}-of-{os.environ['WORLD_SIZE']}"
            path.write_text(os.environ["MASTER_PORT"])
        case ["one hangs"]:
            if os.environ["RANK"] == "0":
                time.sleep(60)
            return 3
        case ["leave", pid_file]:
            child = subprocess.Popen(["sleep", "60"])
            Path(pid_file).write_text(str(child.pid))
        case ["only", path]:
            Path(path).mkdir()  # fails if another one is there
            time.sleep(0.2)
            Path(path).rmdir()
        case ["hang"]:
            time.sleep(60)
    return 0


@pytest.fixture
def play(tmp_path):
    def play(*several, at_once=2):
        ended = []
        children = Children(run, tmp_path / "logs", at_once=at_once)
        outcomes = children.play(several, lambda stage, outcome: ended.append(stage.name))
        assert sorted(ended) == sorted(outcomes) == sorted(stage.name for stage in several)
        return outcomes

    return play


def stage(name, *arguments, **others):
    return Stage(name=name, arguments=arguments, **others)


def test_a_stage_has_its_output_time_and_memory(play):
    outcome = play(stage("a", "say", "a result"))["a"]
    assert outcome.code == 0
    assert outcome.output == "a result\n"
    assert outcome.peak > 2**20
    assert outcome.reason == ""


def test_the_reason_is_the_last_error_that_harness_prints(play):
    outcomes = play(stage("a", "fail", "no such file"), stage("b", "raise"), stage("c", "exit"))
    assert (outcomes["a"].code, outcomes["a"].reason) == (4, "code 4: no such file")
    assert (outcomes["b"].code, outcomes["b"].reason) == (70, "code 70: RuntimeError: not foreseen")
    assert outcomes["c"].code == 2


def test_what_follows_a_failed_stage_is_not_run(play):
    outcomes = play(
        stage("c", "say", "c", after=("b",)),
        stage("b", "say", "b", after=("a",)),
        stage("a", "fail", "broken"),
        stage("d", "say", "d"),
    )
    assert [outcomes[name].code for name in "abcd"] == [4, None, None, 0]
    assert outcomes["b"].reason == "a failed"


def test_a_stage_of_two_is_given_up_while_the_first_still_runs(play, tmp_path):
    outcomes = play(
        stage("slow", "only", str(tmp_path / "held")),
        stage("broken", "fail", "broken"),
        stage("both", "say", "both", after=("slow", "broken")),
    )
    assert outcomes["slow"].code == 0
    assert (outcomes["both"].code, outcomes["both"].reason) == (None, "broken failed")


@pytest.mark.parametrize("at_once", [1, 2])
def test_processes_of_a_stage_know_their_ranks(play, tmp_path, at_once):
    play(stage("a", "rank", str(tmp_path), processes=2), at_once=at_once)
    ports = {(tmp_path / f"{rank}-of-2").read_text() for rank in range(2)}
    assert len(ports) == 1


def test_a_process_that_fails_ends_the_others_of_its_stage(play):
    began = time.monotonic()
    assert play(stage("a", "one hangs", processes=2))["a"].code == 3
    assert time.monotonic() - began < 30


def test_what_a_command_left_running_is_ended(play, tmp_path):
    play(stage("a", "leave", str(tmp_path / "pid")))
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        with suppress(FileNotFoundError):
            if " Z " not in Path(f"/proc/{pid}/stat").read_text():
                time.sleep(0.05)
                continue
        return
    raise AssertionError("it still runs")


def test_a_command_that_hangs_is_ended(play, monkeypatch):
    monkeypatch.setattr(stages, "TIMEOUT", 0.3)
    outcome = play(stage("a", "hang"))["a"]
    assert outcome.code == stages.TIMED_OUT
    assert outcome.reason == "still running after 0 s"


def test_stages_that_write_to_one_folder_run_one_after_the_other(play, tmp_path):
    outcomes = play(
        *(stage(name, "only", str(tmp_path / "held"), alone="folder") for name in "abc"), at_once=3
    )
    assert [outcome.code for outcome in outcomes.values()] == [0, 0, 0]
