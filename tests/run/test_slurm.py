"""What docs/scale.md says of Slurm: the job script, with stand-ins for Slurm's commands and for
harness, and `--submitit`, on this machine and with a stand-in for `sbatch`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli.main import main
from harness.errors import MissingDependency, ModelError, Unavailable, UsageError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
STAND_INS = {
    "srun": """
        [ "$1" = --kill-on-bad-exit=1 ] || exit 99
        shift
        for rank in 0 1; do
            SLURM_NTASKS=2 SLURM_PROCID=$rank SLURM_LOCALID=$rank setsid "$@" &
            pids="$pids $!"
        done
        echo $pids > tasks.new; mv tasks.new tasks
        worst=0
        for pid in $pids; do wait $pid || worst=$?; done
        exit $worst""",
    "scancel": """
        echo "$*" > scancel
        for pid in $(cat tasks); do kill -TERM -- -$pid; done""",
    "scontrol": """
        ls finished.* | wc -l > finished_before
        echo "$*" > scontrol""",
    "harness": """
        [ "$WORLD_SIZE" = 2 ] && [ "$LOCAL_RANK" = "$RANK" ] || exit 98
        [ -z "$FAILS" ] || exit 4
        trap "sleep 0.$((2 + 3 * RANK)); touch finished.$RANK; exit 130" TERM
        touch begun.$RANK
        for i in $(seq 300); do sleep 0.1; done""",
}


@pytest.fixture
def job(tmp_path):
    """Starts the script in an empty folder."""
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    (script,) = re.findall(r"```sh\n(#!/bin/bash.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for name, lines in {**STAND_INS, "job": script}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(lines if name == "job" else f"#!/bin/bash\n{lines}\n", "utf-8")
        path.chmod(0o755)
    started = []

    def start(**variables):
        path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "SLURM_JOB_ID": "17", **variables}
        process = subprocess.Popen([str(tmp_path / "bin" / "job")], cwd=tmp_path, env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def test_at_the_time_limit_tasks_finish_and_the_job_is_requeued(job, tmp_path):
    process = job()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and len(list(tmp_path.glob("begun.*"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)
    process.wait(20)
    assert (tmp_path / "scancel").read_text().split() == ["--signal=TERM", "17"]
    assert (tmp_path / "scontrol").read_text().split() == ["requeue", "17"]
    assert int((tmp_path / "finished_before").read_text()) == 2, "the slower task was waited for"


def test_a_task_that_fails_ends_the_job_with_its_exit_code(job, tmp_path):
    assert job(FAILS="yes").wait(20) == 4
    assert not (tmp_path / "scontrol").exists()


LOCAL = "cluster=local,tasks_per_node=2"


@pytest.fixture
def evaluation(toy_command, dots, tmp_path):
    """Starts `harness eval --submitit …` in an empty folder, with a model that takes its time."""
    pytest.importorskip("submitit")
    started = []

    def start(parameters, model="dot_finder(batch=1,delay=0.1)", **variables):
        line = ["eval", "--model", model, "--tasks", "dots", "--data", str(dots)]
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", *line, "--out=runs", "--submitit", parameters],
            cwd=tmp_path,
            start_new_session=True,
            env={**toy_command.environment(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):  # tasks outlive the command
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def alone(toy_command, dots, tmp_path):
    """The results that one process writes."""
    given = ["--model", "dot_finder(batch=1,delay=0.1)", "--tasks", "dots", "--data", dots]
    toy_command.json("eval", *given, "--out", tmp_path / "one")
    (results,) = (tmp_path / "one").rglob("results.json")
    return results.read_bytes()


def send(process, tmp_path, number):
    """Send a signal to the tasks of the local job once each has journalled a sample."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        journals = [*(tmp_path / "runs").rglob("samples.*.1.jsonl")]
        if sum(one.stat().st_size > 0 for one in journals) == 2:
            break
        time.sleep(0.02)
    (job,) = children(process.pid)
    for task in children(job):
        os.kill(task, number)


def children(number):
    return list(map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split()))


def written(tmp_path):
    (path,) = (tmp_path / "runs").rglob("results.json")
    return path.read_bytes(), {one.name for one in path.parent.glob("samples.*")}


def test_tasks_of_submitit_write_what_one_process_writes(evaluation, alone, tmp_path):
    process = evaluation(LOCAL)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert written(tmp_path) == (alone, {"samples.0.1.jsonl", "samples.1.1.jsonl"}), "both predict"
    assert "dots" in output, "the table of the first task"


def test_at_the_signal_of_submitit_nothing_fails_and_the_job_goes_on(evaluation, alone, tmp_path):
    process = evaluation(LOCAL)
    send(process, tmp_path, signal.SIGUSR2)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    (log,) = (tmp_path / "runs" / ".submitit").glob("*_0_log.out")
    assert log.read_text("utf-8").count("Requeued job") == 1
    results, journals = written(tmp_path)
    assert results == alone
    assert journals >= {"samples.0.2.jsonl", "samples.1.2.jsonl"}, "both went on"


def test_a_job_that_is_killed_is_submitted_again(evaluation, alone, tmp_path):
    process = evaluation(LOCAL)
    send(process, tmp_path, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert len([*(tmp_path / "runs" / ".submitit").glob("*_0_log.out")]) == 2
    results, journals = written(tmp_path)
    assert results == alone
    assert journals >= {"samples.0.1.jsonl", "samples.0.2.jsonl"}, "what was journalled is kept"


def test_a_task_that_fails_is_not_taken_for_done_nor_tried_again(evaluation, tmp_path):
    process = evaluation(LOCAL, model="dot_finder(batch=1,width=wrong)")
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (UsageError.exit_code, ModelError.exit_code), errors
    assert len([*(tmp_path / "runs" / ".submitit").glob("*_0_log.out")]) == 1
    assert "width" in errors


@pytest.mark.parametrize("text", ["partitoin=gpu", "nodes=many", "map_count=3", "gpu"])
def test_a_parameter_that_submitit_does_not_have_is_refused(evaluation, tmp_path, text):
    process = evaluation(f"cluster=local,{text}")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == UsageError.exit_code
    assert text.partition("=")[0] in errors
    assert not [*tmp_path.glob("runs/.submitit/*.pkl")], "nothing was submitted"
    if text == "partitoin=gpu":
        assert all(name in errors for name in ("partition", "gpus_per_node", "timeout_min"))


def test_slurm_is_told_what_the_command_says(evaluation, tmp_path):
    """With a stand-in for Slurm, which takes a job and loses it."""
    stand_ins = {
        "sbatch": 'cp "$1" asked; echo Submitted batch job 17',
        "srun": "",
        "sacct": "echo 'JobID|State'; echo '17|FAILED'; echo '17_0|FAILED'",
        "scancel": "",
    }
    for name, lines in stand_ins.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{lines}\n", "utf-8")
        path.chmod(0o755)
    before = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    parameters = "partition=gpu,nodes=2,gpus_per_node=4,timeout_min=240,setup='module load cuda'"
    process = evaluation(parameters, PATH=before)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (tmp_path / "asked").exists():
        time.sleep(0.05)
    requested = (tmp_path / "asked").read_text("utf-8").splitlines()
    assert {
        f"#SBATCH --{one}"
        for one in (
            "partition=gpu",
            "nodes=2",
            "ntasks-per-node=4",
            "gpus-per-node=4",
            "time=240",
            "signal=USR2@120",
        )
    } <= set(requested)
    assert "module load cuda" in requested
    (line,) = [line for line in requested if line.startswith("srun ")]
    assert "--kill-on-bad-exit=1" in line.split()
    process.kill()


class Stand:
    """A stand-in for the package: its jobs end as they are told to."""

    def __init__(self, *jobs, states=()):
        self.states = list(states)
        self.core = SimpleNamespace(utils=SimpleNamespace(FailedJobError=ChildProcessError))
        self.jobs, self.submitted, self.cancelled, self.given = list(jobs), [], 0, {}
        shared = {"nodes", "gpus_per_node", "tasks_per_node"}
        slurm = {"partition", "signal_delay_s", "gpus_per_node"}
        self.AutoExecutor = lambda folder, cluster: self
        self.AutoExecutor._valid_parameters = lambda: shared
        self.SlurmExecutor = SimpleNamespace(_valid_parameters=lambda: slurm)
        self.job_id, self.num_tasks, self.paths = "17", 2, SimpleNamespace(folder="f", stderr="e")

    def update_parameters(self, **given):
        self.given = given

    def submit(self, command):
        self.submitted.append(command)
        self.ends = self.jobs.pop(0)
        if isinstance(self.ends, Exception):
            raise self.ends
        return self

    def get_info(self):
        return {"State": self.states.pop(0)} if self.states else {}

    def task(self, rank):
        return SimpleNamespace(exception=lambda: self.end(self.ends[rank]), stderr=lambda: "told")

    def end(self, code):
        if code == "Ctrl-C":
            raise KeyboardInterrupt
        reason = "died" if code is None else f"trace\nRuntimeError: exit code {code}\n"
        return None if code == 0 else RuntimeError(reason)

    def results(self):
        return ["the table\n", ""]

    def cancel(self):
        self.cancelled += 1


@pytest.mark.parametrize(
    ("jobs", "code", "submitted"),
    [
        ([(0, 0)], 0, 1),
        ([(130, None), (6, None), (0, 0)], 0, 3),
        ([(None, None)] * 3, 6, 3),
        ([(4, None), (0, 0)], 4, 1),
        ([(6, 6)], 6, 1),
        ([(0, "Ctrl-C")], 130, 1),
    ],
)
def test_what_becomes_of_a_job(monkeypatch, shapes, tmp_path, capsys, jobs, code, submitted):
    stand = Stand(*jobs)
    monkeypatch.setitem(sys.modules, "submitit", stand)
    given = ["--model=random", "--tasks=reason_seg", f"--data={shapes}", f"--out={tmp_path}"]
    line = ["eval", *given, "--submitit=partition=gpu,gpus_per_node=4"]
    assert main(line) == code
    assert [one.typed for one in stand.submitted] == [tuple(line)] * submitted
    assert stand.given["slurm_partition"] == "gpu" and stand.given["tasks_per_node"] == 4
    assert stand.cancelled == (code == 130)
    assert ("the table" in capsys.readouterr().out) == (code == 0)


def test_without_submitit_it_is_named(monkeypatch, shapes, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "submitit", None)
    given = ["--model=random", "--tasks=reason_seg", f"--data={shapes}", f"--out={tmp_path}"]
    assert main(["eval", *given, "--submitit=partition=gpu"]) == MissingDependency.exit_code
    assert "pip install submitit" in capsys.readouterr().err


def test_a_launcher_does_not_submit(monkeypatch, shapes, tmp_path, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    given = ["--model=random", "--tasks=reason_seg", f"--data={shapes}", f"--out={tmp_path}"]
    assert main(["eval", *given, "--submitit=partition=gpu"]) == UsageError.exit_code
    assert "--submitit" in capsys.readouterr().err


@pytest.fixture
def submitted(monkeypatch, shapes, tmp_path):
    """Submits to a stand-in, and returns the exit code."""

    def submit(stand, parameters="partition=gpu", *more):
        monkeypatch.setitem(sys.modules, "submitit", stand)
        monkeypatch.setattr("harness.run.slurm_job.sleep", lambda seconds: None)
        given = ["--model=random", "--tasks=reason_seg", f"--data={shapes}", f"--out={tmp_path}"]
        return main(["eval", *given, f"--submitit={parameters}", *more])

    return submit


def test_a_job_that_slurm_refuses_is_a_parameter_to_mend(submitted, capsys):
    refused = ChildProcessError("sbatch: error: invalid partition specified: gpu")
    assert submitted(Stand(refused)) == UsageError.exit_code
    assert "invalid partition specified" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("states", "jobs"),
    [
        (["RUNNING", "COMPLETING", "CANCELLED by 1000"], 1),
        (["PREEMPTED", "TIMEOUT", "NODE_FAIL"], 3),
    ],
)
def test_a_job_that_somebody_cancels_is_not_submitted_again(submitted, states, jobs, capsys):
    stand = Stand(*[(130, None)] * 3, states=states)
    assert submitted(stand) == Unavailable.exit_code
    assert len(stand.submitted) == jobs
    assert states[-1] in capsys.readouterr().err


@pytest.mark.parametrize("parameters", ["slurm_gpus_per_node=8", "nodes=2", "tasks_per_node=2"])
@pytest.mark.parametrize("option", ["--workers=2", "--against=earlier", "--shard=1/2"])
def test_what_several_tasks_cannot_do_is_not_submitted(submitted, parameters, option, capsys):
    stand = Stand((0, 0))
    assert submitted(stand, parameters, option) == UsageError.exit_code
    assert not stand.submitted and option.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--workers=2", "--shard=1/2"])
def test_what_one_task_can_do_is_submitted(submitted, option):
    assert submitted(Stand((0, 0)), "slurm_gpus_per_node=1", option) == 0
