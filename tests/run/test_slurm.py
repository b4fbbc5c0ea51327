"""The job script of docs/scale.md, with stand-ins for Slurm's commands and for harness."""

import os
import re
import signal
import subprocess
import time
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
