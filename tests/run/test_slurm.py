"""What docs/scale.md says of Slurm: the job script, with stand-ins for Slurm's commands and for
harness, and the program with submitit, on this machine and with a stand-in for `sbatch`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

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


@pytest.fixture
def program(toy_command, tmp_path):
    """Runs the program with submitit after words of it were replaced, in an empty folder."""
    pytest.importorskip("submitit")
    if not PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    text = PAGE.read_text("utf-8")
    (written,) = re.findall(r"```python\n(import os\n[^`]*import submitit[^`]*)```", text)

    def run(replaced, **variables):
        lines = written
        for old, new in replaced.items():
            assert lines.count(old) == 1, old
            lines = lines.replace(old, new)
        (tmp_path / "program.py").write_text(lines, "utf-8")
        process = subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            start_new_session=True,
            env={**toy_command.environment(), **variables},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        _, output = process.communicate(timeout=120)
        return process.returncode, output

    started = []
    yield run
    for process in started:
        with suppress(ProcessLookupError):  # tasks outlive the program
            os.killpg(process.pid, signal.SIGKILL)


def here(data, model):
    """What differs where two tasks of this machine take the place of Slurm's eight."""
    return {
        'folder="slurm"': 'folder="slurm", cluster="local"',
        "nodes=2, tasks_per_node=4, gpus_per_node=4": "nodes=1, tasks_per_node=2",
        '"--model", "…"': f'"--model", "{model}"',
        '"--tasks", "…"': '"--tasks", "dots"',
        '"ROOT"': f'"{data}"',
    }


SIGNALLED = """
import time
from pathlib import Path
def begun(rank):
    return any(one.stat().st_size for one in Path("runs").rglob(f"samples.{rank}.1.jsonl"))
while not (job.done() or begun(0) and begun(1)):
    time.sleep(0.02)
for task in Path(f"/proc/{job.job_id}/task/{job.job_id}/children").read_text().split():
    os.kill(int(task), signal.SIGUSR2)
job.results()
"""


@pytest.fixture
def alone(toy_command, dots, tmp_path):
    """The results that one process writes."""
    model = "dot_finder(batch=1,delay=0.1)"
    toy_command.json(
        "eval", "--model", model, "--tasks", "dots", "--data", dots, "--out", tmp_path / "one"
    )
    (results,) = (tmp_path / "one").rglob("results.json")
    return model, results.read_bytes()


def test_tasks_of_submitit_write_what_one_process_writes(program, dots, alone, tmp_path):
    model, results = alone
    code, output = program(here(dots, model))
    assert code == 0, output
    (written,) = (tmp_path / "runs").rglob("results.json")
    assert written.read_bytes() == results
    journals = {path.name for path in written.parent.glob("samples.*")}
    assert journals == {"samples.0.1.jsonl", "samples.1.1.jsonl"}, "both predicted"


def test_at_the_signal_of_submitit_nothing_fails_and_the_job_goes_on(
    program, dots, alone, tmp_path
):
    model, results = alone
    code, output = program({**here(dots, model), "job.results()": SIGNALLED})
    assert code == 0, output
    (log,) = (tmp_path / "slurm").glob("*_0_log.out")
    assert log.read_text("utf-8").count("Requeued job") == 1
    (written,) = (tmp_path / "runs").rglob("results.json")
    assert written.read_bytes() == results
    journals = {path.name for path in written.parent.glob("samples.*")}
    assert journals >= {"samples.0.2.jsonl", "samples.1.2.jsonl"}, "both went on"


def test_a_task_of_submitit_that_fails_is_not_taken_for_done(program, dots):
    code, output = program(here(dots, "no_such_model"))
    assert code != 0
    assert "RuntimeError: exit code 2" in output


def test_slurm_is_told_what_the_program_of_submitit_says(program, tmp_path):
    for name, lines in {"sbatch": 'cp "$1" asked; echo Submitted batch job 17', "srun": ""}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{lines}\n", "utf-8")
        path.chmod(0o755)
    before = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    code, output = program({"job.results()": "assert job.job_id == '17'"}, PATH=before)
    assert code == 0, output
    requested = (tmp_path / "asked").read_text("utf-8").splitlines()
    assert {
        f"#SBATCH --{one}"
        for one in (
            "nodes=2",
            "ntasks-per-node=4",
            "gpus-per-node=4",
            "time=240",
            "signal=USR2@120",
        )
    } <= set(requested)
    (started,) = [line for line in requested if line.startswith("srun ")]
    assert "--kill-on-bad-exit=1" in started.split()
