"""Memory as a run records it: counted of stages, measured of processes."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness.plain import from_plain, to_plain
from harness.run.timing import (
    PeakMemory,
    Stage,
    StageMemory,
    add_attempt,
    gpu_peak,
    memory_peak,
    of_process,
    process_peaks,
    sum_stages,
    to_json,
)

LARGE = 64 << 20


def test_the_peak_of_a_process_stays_when_its_memory_is_given_back():
    before = memory_peak()
    block = bytearray(before + LARGE)
    block[::4096] = b"x" * len(block[::4096])
    held = memory_peak()
    assert held > before + LARGE // 2
    del block
    assert memory_peak() > held - LARGE // 4, "the system counts it in steps"


def test_a_process_does_not_take_its_peak_over_from_the_one_that_began_it():
    block = b"x" * (256 << 20)
    requested = "from harness.run.timing import memory_peak; print(memory_peak())"
    done = subprocess.run([sys.executable, "-c", requested], capture_output=True, check=True)
    assert 0 < int(done.stdout) < len(block)


class Cuda:
    """Two GPUs, as torch counts their tensors."""

    def __init__(self, *peaks):
        self.peaks, self.now = list(peaks), [1] * len(peaks)

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def device_count(self):
        return len(self.peaks)

    def max_memory_allocated(self, device):
        return self.peaks[device]

    def reset_peak_memory_stats(self, device):
        self.peaks[device] = self.now[device]


def test_work_that_has_the_gpu_to_itself_has_a_peak_of_its_own(monkeypatch):
    cuda = Cuda(500, 900)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    kept = StageMemory()
    kept.begin_alone()
    assert gpu_peak() == 1
    cuda.peaks = [40, 30]
    assert gpu_peak() == 40, "of the fullest one"
    (peak,) = kept.of_process().values()
    assert peak.gpu == 900, "that of loading the network is not forgotten"


def test_there_is_no_gpu_peak_without_a_gpu(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    StageMemory().begin_alone()
    assert gpu_peak() == 0


def test_the_most_at_once_is_kept():
    kept = StageMemory()
    kept.enter("language", 10, samples=2)
    kept.enter("language", 5)
    kept.leave("language", 10, samples=2)
    kept.enter("language", 20)
    assert kept.maximum("language") == (3, 25)
    assert kept.maximum("segmentation") == (0, 0)


def stages(samples, pixels, *peaks):
    return {"model": Stage(1.0, samples=samples, pixels=pixels, peaks=dict(peaks))}


def sent(stages):
    """Stages as the leader of a launch reads what another process has written."""
    plain = json.loads(json.dumps({name: to_plain(one) for name, one in stages.items()}))
    read = {name: from_plain(Stage, one) for name, one in plain.items()}
    assert read == stages
    return read


def test_processes_are_told_apart_and_what_is_counted_is_of_the_fullest():
    one = of_process(0, stages(2, 100, ("7@here", PeakMemory(30, 5))))
    two = of_process(1, sent(stages(3, 90, ("7@there", PeakMemory(40, 0)))))
    whole = sum_stages([one, one, two])
    assert (whole["model"].samples, whole["model"].pixels) == (3, 100)
    assert process_peaks(whole) == {
        "process_peak_bytes": [40, 30],
        "process_gpu_peak_bytes": [5, 0],
    }


def test_what_cannot_be_measured_is_left_out():
    assert process_peaks({}) == process_peaks(stages(1, 1, ("7", PeakMemory()))) == {}
    assert "gpu_peak_bytes" not in to_json(stages(1, 1))["model"]


@pytest.mark.parametrize("attempts", [1, 2])
def test_earlier_attempts_are_kept_as_they_were(tmp_path, attempts):
    old = {
        "wall_seconds": 2.0,
        "samples": 4,
        "workers": 1,
        "stages": {"model": {"seconds": 1.5, "memory_bytes": 1 << 30}},
    }
    (tmp_path / "timing.json").write_text(json.dumps({"attempts": [old] * attempts}))
    new = stages(2, 100, ("7", PeakMemory(30, 0)))
    add_attempt(tmp_path, seconds=2.0, samples=4, workers=1, stages=new)
    plain = json.loads((tmp_path / "timing.json").read_text())
    assert [one["stages"] for one in plain["attempts"][:-1]] == [old["stages"]] * attempts
    assert plain["attempts"][-1]["memory"] == {"process_peak_bytes": [30]}
    assert plain["attempts"][-1]["stages"] == {
        "model": {"seconds": 1.0, "samples_at_once": 2, "pixel_bytes_at_once": 100}
    }
    assert plain["wall_seconds"] == 2.0 * (attempts + 1)


@pytest.mark.parametrize(
    "damaged", [{"shard": one} for one in (3, [1], "x", "12", None)] + [{"commit": 5}]
)
def test_a_damaged_share_does_not_end_a_run_that_is_scored(tmp_path, damaged):
    share = {"wall_seconds": 1.0, "samples": 1, "workers": 1, "shard": [1, 3], "commit": None}
    for number, one in ((1, share), (2, share | damaged)):
        (tmp_path / f"timing.{number}-3.json").write_text(json.dumps({"attempts": [one]}))
    told = add_attempt(tmp_path, seconds=2.0, samples=4, workers=1, stages={}, shard=(3, 3))
    assert told is not None and "share 1 of 3" in told and "share 3 of 3" in told
    assert len(json.loads((tmp_path / "timing.json").read_text())["attempts"]) == 2
