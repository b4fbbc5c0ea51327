"""Trainings by torchrun in two processes: a signal in a long round, a kill, and the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from harness.rehearsal.stages import free_port
from harness.testing import make_shapes
from harness.trainers.state import newest_state, step_of

pytestmark = pytest.mark.slow

PROGRAM = """
import sys, time
from pathlib import Path
from harness.cli.main import main
from harness.trainers.visionreasoner.rewards import VisionReasonerReward

long, *arguments = sys.argv[1:]
curve = Path(arguments[arguments.index("--out") + 1]) / "curve.jsonl"
terms = VisionReasonerReward.terms
def sleeps(self, *given):
    if long != "none" and curve.read_bytes().count(b"\\n") >= 3:
        Path(long).touch()
        time.sleep(90)
    return terms(self, *given)
VisionReasonerReward.terms = sleeps
sys.exit(main(arguments))
"""
"""The command, but that with a file to touch the rewards after step 3 take more than a minute."""
SETTINGS = (
    "generation_batch_size=8,num_generations=2,per_device_train_batch_size=2,beta=0.01,"
    "max_completion_length=24,max_steps=6,dynamic_sampling=true,report_to=none"
)
SAME = ("checkpoint/model.safetensors", "curve.jsonl", "rollouts.jsonl")


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Return a function that begins a training in two processes."""
    folder = tmp_path_factory.mktemp("two")
    make_shapes(folder / "data", tasks=("shapes_referring",), size=6)
    (folder / "program.py").write_text(PROGRAM)

    def launched(out, *, save_steps, long="none"):
        launcher = ("torch.distributed.run", "--nproc_per_node", "2", "--master_port")
        return subprocess.Popen(
            [
                *(sys.executable, "-m", *launcher, str(free_port()), str(folder / "program.py")),
                *(str(long), "train", "--method", "visionreasoner", "--config", "pocket_cpu"),
                *("--data", str(folder / "data"), "--out", str(out)),
                *("--set", f"{SETTINGS},save_steps={save_steps}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def ended(out, **given):
        process = launched(out, **given)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said

    launched.ended = ended
    return launched


@pytest.fixture(scope="module")
def whole(launched, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    launched.ended(out, save_steps=100)
    return out


def waited(there, process):
    for _ in range(2400):
        if there():
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    raise AssertionError("nothing came")


def assert_same(out, whole):
    for name in SAME:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_signal_in_a_round_longer_than_torchruns_patience_loses_that_round_alone(
    launched, whole, tmp_path
):
    out, begun = tmp_path / "out", tmp_path / "begun"
    process = launched(out, save_steps=100, long=begun)
    waited(begun.exists, process)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)  # to torchrun, as Slurm does
    waited(lambda: step_of(newest_state(out / "state") or Path("step-0")) == 3, process)
    assert time.monotonic() - began < 25, "torchrun kills after 30 s"
    process.communicate(timeout=60)
    launched.ended(out, save_steps=100)
    assert_same(out, whole)


def test_two_processes_that_were_killed_go_on_with_the_same_bytes(launched, whole, tmp_path):
    out = tmp_path / "out"
    process = launched(out, save_steps=2)
    curve = out / "curve.jsonl"
    waited(lambda: curve.exists() and curve.read_bytes().count(b"\n") >= 3, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for number in (process.pid, *map(int, children)):  # torchrun gives each worker its own session
        os.kill(number, signal.SIGKILL)
    process.communicate(timeout=60)
    assert step_of(newest_state(out / "state")) in (2, 4)
    launched.ended(out, save_steps=2)
    assert_same(out, whole)
