"""Several processes of a launcher write what one writes, and none mistakes an earlier launch."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from harness.errors import StoreError, Unavailable, UsageError
from harness.record import Run
from harness.run.distributed import (
    HEARTBEATS_FOLDER,
    Leader,
    ProcessRank,
    _beat_file,
    detect_launch,
    heartbeat,
    own_gpu,
    rendezvous,
    share,
)
from harness.run.timing import add_attempt, sum_stages
from harness.run.workers import LocalWorker
from harness.store.journal import Journal

from .test_pipeline import Staged, batch, wholes


@pytest.fixture
def launch(start):
    """Starts all processes of a launch, as a launcher does."""

    def started(data, out, size, model="dot_finder(batch=2)"):
        line = ["eval", "--model", model, "--tasks", "dots", "--data", data, "--out", out, "--json"]
        size_of = {"WORLD_SIZE": str(size)}
        return [start(*line, RANK=str(n), LOCAL_RANK=str(n), **size_of) for n in range(size)]

    return started


def ended(processes):
    """Return what each process wrote to standard output and error; none of them may fail."""
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(said), said
    return said


def written(out):
    (results,) = out.rglob("results.json")
    Run.open(results.parent).check_files()
    return [results.read_bytes(), results.with_name("scores.jsonl").read_bytes()]


def test_three_processes_write_what_one_writes(command, launch, dots, tmp_path):
    line = ["eval", "--model", "dot_finder(batch=2)", "--tasks", "dots", "--data", dots]
    command.json(*line, "--out", tmp_path / "one")
    shown = ended(launch(dots, tmp_path / "three", 3))
    assert written(tmp_path / "one") == written(tmp_path / "three")
    assert json.loads(shown[0][0])["tasks"]["dots"]["n_total"] == 40
    assert [out for out, _ in shown[1:]] == ["", ""], "only the first process shows"
    files = {path.name for path in (tmp_path / "three").rglob("samples.*")}
    assert files == {f"samples.{rank}.1.jsonl" for rank in range(3)}
    (timing,) = (tmp_path / "three").rglob("timing.json")
    (attempt,) = json.loads(timing.read_text())["attempts"]
    assert set(attempt["stages"]["model"]["seconds_by_process"]) == {"0", "1", "2"}
    again = ended(launch(dots, tmp_path / "three", 2))
    assert again[0][0] == shown[0][0], "a finished run is not made again"
    assert {path.name for path in (tmp_path / "three").rglob("samples.*")} == files


@pytest.mark.parametrize(
    "launcher",
    [
        ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
        pytest.param(
            [
                "accelerate.commands.launch",
                "--multi_gpu",
                "--num_processes",
                "2",
                "--num_machines",
                "1",
                "--mixed_precision",
                "no",
                "--dynamo_backend",
                "no",
            ],
            marks=pytest.mark.slow,  # it begins torch's launcher, which sets the variables
        ),
    ],
)
def test_the_launchers_of_torch_and_accelerate_are_understood(
    command, toy_command, dots, tmp_path, launcher
):
    """Their processes hash texts with seeds of their own, which forks do not."""
    pytest.importorskip(launcher[0].partition(".")[0])
    requested = ["eval", "--model", "dot_finder(batch=2)", "--tasks", "dots", "--data", dots]
    command.json(*requested, "--out", tmp_path / "one")
    line = [sys.executable, "-m", *launcher, "-m", "harness", *requested, "--out", tmp_path / "two"]
    done = subprocess.run(
        list(map(str, line)),
        cwd=toy_command.folder,
        env=toy_command.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert written(tmp_path / "one") == written(tmp_path / "two")
    files = {path.name for path in (tmp_path / "two").rglob("samples.*")}
    assert files == {"samples.0.1.jsonl", "samples.1.1.jsonl"}, "both predicted"


def test_a_model_that_only_raises_ends_a_launch_as_it_ends_one_process(launch, tmp_path, toys):
    import toys as package

    data = package.write_dots(tmp_path / "many", 80)
    model = "dot_finder(batch=2,fault=raise,every=1)"
    started = launch(data, tmp_path / "a", 2, model)
    output, errors = started[0].communicate(timeout=120)
    started[1].kill()
    started[1].communicate()
    assert started[0].returncode != 0 and "20 samples" in errors, output + errors


def test_a_killed_launch_goes_on_with_another_number_of_processes(
    command, launch, dots, tmp_path, monkeypatch
):
    model = "dot_finder(batch=2,delay=0.1)"
    started = launch(dots, tmp_path / "a", 2, model)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not all(
        any(path.stat().st_size for path in (tmp_path / "a").rglob(f"samples.{rank}.1.jsonl"))
        for rank in range(2)
    ):
        time.sleep(0.02)
    for process in started:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    monkeypatch.setenv("DELAY", "0")
    ended(launch(dots, tmp_path / "a", 3, model))
    command.json("eval", "--model", model, "--tasks=dots", "--data", dots, "--out", tmp_path / "b")
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_a_helper_does_not_take_an_earlier_launch_for_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.run.distributed.START_SECONDS", 0.1)
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "go.json").write_text(
        json.dumps({"attempt": 1, "run": "r", "leader": "old", "numbers": ["00", "11"]})
    )
    with pytest.raises(Exception, match="share"):
        rendezvous(ProcessRank(1, 2), tmp_path)


def launch_of_two(folder, number):
    """What the leader yields for four batches, of which a helper predicts two."""
    slow = {"on_finish": lambda query: time.sleep(0.02)}
    plan = [batch(index, f"{number}.{index}") for index in range(4)]

    def help_out():
        answer = rendezvous(ProcessRank(1, 2), folder)
        share(ProcessRank(1, 2), Staged(**slow), folder, attempt=answer["attempt"], batches=plan)

    helper = threading.Thread(target=help_out)
    helper.start()
    leader = Leader(ProcessRank(0, 2), LocalWorker(Staged(**slow), folder, number), folder, number)
    outcomes = list(leader.run(plan))
    helper.join(10)
    return outcomes


def test_timing_has_the_seconds_of_every_process_of_a_launch(tmp_path):
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "stages.1.json").write_text(
        json.dumps(
            {
                "leader": "of a launch that was killed",
                "stages": {"propagation": {"seconds": 1000.0, "memory_bytes": 1}},
            }
        )
    )
    for number in (1, 2):
        outcomes = launch_of_two(tmp_path, number)
        assert sum(len(one.samples) for one in wholes(outcomes)) == 4
        add_attempt(
            tmp_path,
            seconds=1.0,
            samples=4,
            workers=1,
            stages=sum_stages(one.stages for one in outcomes),
        )
    attempts = json.loads((tmp_path / "timing.json").read_text())["attempts"]
    assert len(attempts) == 2
    for attempt in attempts:
        assert list(attempt["stages"]) == ["language", "segmentation", "propagation"]
        info = attempt["stages"]["propagation"]
        by_process = info["seconds_by_process"]
        assert set(by_process) == {"0", "1"} and all(0.04 <= s < 10 for s in by_process.values())
        assert info["seconds"] == pytest.approx(sum(by_process.values()), abs=0.002)
    assert list((tmp_path / "launch").iterdir()) == []


def test_a_helper_that_does_not_tell_what_it_cost_is_not_waited_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.run.distributed.COST_SECONDS", 0.3)
    leader = Leader(ProcessRank(0, 2), LocalWorker(Staged(), tmp_path, 1), tmp_path, 1)
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "stages.1.json").write_text(json.dumps({"leader": leader.number}))
    assert list(leader._costs()) == []


def quickly(monkeypatch, **seconds):
    for name, value in ({"BEAT_SECONDS": 0.05, "POLL_SECONDS": 0.02} | seconds).items():
        monkeypatch.setattr(f"harness.run.distributed.{name}", value)


def led(folder, own=None, launch=None):
    """Lead four batches, of which another process has the last two."""
    leader = Leader(launch or ProcessRank(0, 2), LocalWorker(own or Staged(), folder, 1), folder, 1)
    return list(leader.run([batch(index, str(index)) for index in (0, 2, 1, 3)]))


def help_out(folder, model, plan):
    answer = rendezvous(ProcessRank(1, 2), folder)
    share(ProcessRank(1, 2), model, folder, attempt=answer["attempt"], batches=plan)


def test_a_helper_that_is_not_heard_of_any_more_ends_the_run_by_name(tmp_path, monkeypatch):
    """It does one of its two batches, and is then as silent as a process that was killed."""
    quickly(monkeypatch, SILENT_SECONDS=0.5)
    helper = threading.Thread(target=help_out, args=(tmp_path, Staged(), [batch(1, "1")]))
    helper.start()
    with pytest.raises(Unavailable, match=r"^process 1 .* 0 s"):
        led(tmp_path)
    helper.join(10)
    assert set(Journal(tmp_path).places) == {"0", "2", "1"}, "what was finished is kept"


def test_a_helper_that_never_begins_ends_the_run_by_name(tmp_path, monkeypatch):
    quickly(monkeypatch, START_SECONDS=0.1)
    (tmp_path / "launch").mkdir()
    for name in ("hello", "seen", "alive"):  # of a launch that was killed
        text = json.dumps({"number": "old", "leader": "old"})
        (tmp_path / "launch" / f"{name}.1.json").write_text(text)
    with pytest.raises(Unavailable, match=r"^process 1 .* 0 s.*--out"):
        led(tmp_path)


def test_a_helper_without_work_is_waited_for_though_an_earlier_one_had_begun(tmp_path, monkeypatch):
    """It starts late, and would wait for an answer that nobody gives any more."""
    quickly(monkeypatch, START_SECONDS=10.0, COST_SECONDS=0.2)
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "seen.1.json").write_text(json.dumps({"leader": "old"}))
    answers = []

    def late():
        time.sleep(0.5)
        with suppress(StoreError):
            answers.append(rendezvous(ProcessRank(1, 2), tmp_path))

    helper = threading.Thread(target=late)
    helper.start()
    leader = Leader(ProcessRank(0, 2), LocalWorker(Staged(), tmp_path, 1), tmp_path, 1)
    list(leader.run([batch(0, "0")]))
    helper.join(20)
    assert [one["leader"] for one in answers] == [leader.number]


def test_a_helper_that_is_slow_and_lives_is_waited_for(tmp_path, monkeypatch):
    quickly(monkeypatch, SILENT_SECONDS=0.5)
    slow = Staged(on_generate=lambda queries: queries[0].id == "1" and time.sleep(0.8))
    given = (tmp_path, slow, [batch(1, "1"), batch(3, "3")])
    helper = threading.Thread(target=help_out, args=given)
    helper.start()
    outcomes = led(tmp_path)
    helper.join(10)
    assert sum(len(one.samples) for one in wholes(outcomes)) == 4
    assert list((tmp_path / "launch").iterdir()) == []


def test_a_leader_that_was_long_busy_looks_before_it_calls_anyone_dead(tmp_path, monkeypatch):
    quickly(monkeypatch, SILENT_SECONDS=0.3)
    done = threading.Event()

    def after_the_helper(queries):
        if queries[0].id == "2":
            assert done.wait(10)
            time.sleep(0.5)

    def helped():
        help_out(tmp_path, Staged(), [batch(1, "1"), batch(3, "3")])
        done.set()

    helper = threading.Thread(target=helped)
    helper.start()
    outcomes = led(tmp_path, Staged(on_generate=after_the_helper))
    helper.join(10)
    assert sum(len(one.samples) for one in wholes(outcomes)) == 4


def test_a_leader_that_lives_is_waited_for_however_long_it_is_at_another_task(
    tmp_path, monkeypatch
):
    quickly(monkeypatch, START_SECONDS=0.5)
    with heartbeat(ProcessRank(0, 2), tmp_path), heartbeat(ProcessRank(1, 2), tmp_path) as launch:
        outcomes = []

        def late():
            time.sleep(0.8)
            outcomes.extend(led(tmp_path / "run"))

        leader = threading.Thread(target=late)
        leader.start()
        answer = rendezvous(launch, tmp_path / "run")
        share(
            launch,
            Staged(),
            tmp_path / "run",
            attempt=answer["attempt"],
            batches=[batch(1, "1"), batch(3, "3")],
        )
        leader.join(10)
    assert sum(len(one.samples) for one in wholes(outcomes)) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "nothing is left of it"


def test_a_leader_that_has_died_is_not_waited_for(tmp_path, monkeypatch):
    quickly(monkeypatch, START_SECONDS=0.1)
    with heartbeat(ProcessRank(1, 2), tmp_path) as launch:
        there = tmp_path / HEARTBEATS_FOLDER / launch.name
        there.mkdir(parents=True, exist_ok=True)
        (there / "alive.0.json").write_text('{"process": 1, "beats": 3}')
        with pytest.raises(StoreError, match=r"/run, process 1 of 2: .* 0 s.*--out"):
            rendezvous(launch, tmp_path / "run")


def test_another_launch_that_lives_in_the_same_folder_is_not_taken_for_this_one(
    tmp_path, monkeypatch
):
    quickly(monkeypatch, START_SECONDS=0.3)
    two = [detect_launch({"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": port}) for port in "12"]
    assert two[0].name != two[1].name
    with (
        heartbeat(two[0], tmp_path),
        heartbeat(replace(two[1], rank=1), tmp_path) as launch,
        pytest.raises(StoreError, match=r"/run, process 1 of 2: .* 0 s.*--out"),
    ):
        rendezvous(launch, tmp_path / "run")


def test_a_helper_that_has_its_share_and_is_silent_there_is_not_excused_by_its_life(
    tmp_path, monkeypatch
):
    """It does one of its two batches, believes that it is done, and waits in the next run."""
    quickly(monkeypatch, SILENT_SECONDS=0.5)
    (tmp_path / "run").mkdir()
    with heartbeat(ProcessRank(0, 2), tmp_path) as launch, heartbeat(ProcessRank(1, 2), tmp_path):
        given = (tmp_path / "run", Staged(), [batch(1, "1")])
        helper = threading.Thread(target=help_out, args=given)
        helper.start()
        with pytest.raises(Unavailable, match=r"^process 1 .* 0 s"):
            led(tmp_path / "run", launch=launch)
        helper.join(10)


def test_processes_of_a_launch_tell_that_they_live_while_they_do(launch, dots, tmp_path):
    out = tmp_path / "runs"
    meet = tmp_path / "meet"  # where they wait for this test
    started = launch(dots, out, 2, f"dot_finder(batch=2,meet={meet},parties=3)")
    deadline = time.monotonic() + 60
    while (
        time.monotonic() < deadline
        and len(list(out.glob(f"{HEARTBEATS_FOLDER}/*/alive.*.json"))) < 2
    ):
        time.sleep(0.05)
    info = {path.name for path in out.glob(f"{HEARTBEATS_FOLDER}/*/alive.*.json")}
    meet.mkdir(exist_ok=True)
    for name in ("a", "b", "c"):
        (meet / name).touch()
    ended(started)
    assert info == {"alive.0.json", "alive.1.json"}
    assert not (out / HEARTBEATS_FOLDER).exists()


def test_a_helper_that_loads_its_model_for_long_is_waited_for(tmp_path, monkeypatch):
    quickly(monkeypatch, START_SECONDS=0.5, SILENT_SECONDS=0.5)
    (tmp_path / "run").mkdir()
    with heartbeat(ProcessRank(0, 2), tmp_path) as launch, heartbeat(ProcessRank(1, 2), tmp_path):

        def late():
            time.sleep(0.8)
            help_out(tmp_path / "run", Staged(), [batch(1, "1"), batch(3, "3")])

        helper = threading.Thread(target=late)
        helper.start()
        outcomes = led(tmp_path / "run", launch=launch)
        helper.join(10)
    assert sum(len(one.samples) for one in wholes(outcomes)) == 4


def test_signs_of_life_end_with_the_work(tmp_path, monkeypatch):
    quickly(monkeypatch)
    path, seen = tmp_path / "alive.1.json", set()
    with pytest.raises(KeyboardInterrupt), _beat_file(path):
        deadline = time.monotonic() + 10
        while len(seen) < 3 and time.monotonic() < deadline:
            if path.exists():
                seen.add(path.read_bytes())
        raise KeyboardInterrupt
    assert len(seen) >= 3
    last = path.read_bytes()
    time.sleep(0.2)
    assert path.read_bytes() == last


def test_a_process_that_stands_alone_is_none_of_several():
    assert detect_launch({}) is None
    assert detect_launch({"WORLD_SIZE": "1", "RANK": "0"}) is None
    several = detect_launch({"WORLD_SIZE": "4", "RANK": "3"})
    assert (several.rank, several.size, several.leads) == (3, 4, False)
    with pytest.raises(UsageError, match="WORLD_SIZE"):
        detect_launch({"WORLD_SIZE": "2", "RANK": "2"})


@pytest.mark.parametrize(
    ("seen", "local", "own"),
    [
        (None, "1", "1"),
        ("4,6", "1", "6"),
        ("GPU-a,GPU-b", "0", "GPU-a"),
        ("7", "", "7"),
        ("7", "3", "7"),
        ("", "0", ""),
        ("", "1", ""),
        ("4,6", "", "4,6"),
    ],
)
def test_each_process_sees_its_own_gpu(monkeypatch, seen, local, own):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    monkeypatch.setenv("LOCAL_RANK", local)
    own_gpu()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == own


@pytest.mark.parametrize("seen", ["4,6", "4,6,"])
def test_a_process_that_no_gpu_is_left_for_shares_none(monkeypatch, seen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UsageError, match=r"LOCAL_RANK=2: .*CUDA_VISIBLE_DEVICES=4,6"):
        own_gpu()
