"""Ten kills at random moments, resumed with other numbers of workers, change nothing."""

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from harness.run.pixels import MAX_ANSWERED
from harness.store.journal import Journal, attempt_and_worker, files, parse_line

COUNT = 480
MODEL = "dot_finder(delay=0.04,batch=4)"


@pytest.fixture
def evaluate(start):
    """Starts an evaluation in a process of its own; keywords with capitals are its variables."""

    def started(data, out, workers, *, model=MODEL, task="dots", **variables):
        line = ["eval", "--model", model, "--tasks", task, "--data", data, "--out", out]
        return start(*line, "--workers", workers, "--quiet", **variables)

    return started


def records(path):
    return [
        record
        for raw in path.read_bytes().splitlines(keepends=True)
        if (record := parse_line(raw)) is not None
    ]


def unfinished(path):
    """Batches of one worker's attempt that were begun and not finished."""
    started, done = [], {}
    for record in records(path):
        if "begin" in record:
            started.append(record["begin"])
        else:
            done.setdefault(record["batch"], set()).add(record["sample"])
    return [batch for batch in started if len(done.get(batch, ())) < 4]


def wait_for_batches(process, folder, attempt, count, *, longest=60.0):
    """Wait until this attempt has begun some batches; return False if it ended before."""
    deadline = time.monotonic() + longest
    while process.poll() is None and time.monotonic() < deadline:
        started = sum(
            "begin" in record
            for path in folder.rglob(f"samples.*.{attempt}.jsonl")
            for record in records(path)
        )
        if started >= count:
            return True
        time.sleep(0.005)
    return False


def kill_at_random(process, folder, attempt, moments):
    """SIGKILL the whole process group: before any batch, or while some batch is in work."""
    if moments.random() < 0.2:
        time.sleep(moments.uniform(0, 0.2))
    else:
        assert wait_for_batches(process, folder, attempt, moments.randint(1, 7))
        time.sleep(moments.uniform(0, 0.06))
    os.killpg(process.pid, signal.SIGKILL)


def test_ten_kills_give_the_undisturbed_results(command, evaluate, tmp_path, monkeypatch):
    import toys

    data, rough = toys.write_dots(tmp_path / "data", COUNT), tmp_path / "rough"
    monkeypatch.setenv("DELAY", "0")
    calm = command(
        *("eval", "--model", MODEL, "--tasks", "dots"),
        *("--data", data, "--out", tmp_path / "calm", "--quiet"),
    )
    assert calm.returncode == 0, calm.stderr
    monkeypatch.delenv("DELAY")
    moments = random.Random(0)
    for kill in range(10):
        attempt = next_attempt(rough)
        process = evaluate(data, rough, 1 + kill % 3)
        kill_at_random(process, rough, attempt, moments)
        _, stderr = process.communicate()
        assert process.returncode == -signal.SIGKILL, stderr
    last = evaluate(data, rough, 2, DELAY="0")
    _, stderr = last.communicate(timeout=120)
    assert last.returncode == 0, stderr
    assert_equal_runs(tmp_path / "calm", rough)
    (rough_run,) = rough.rglob("results.json")
    check_journal(rough_run.parent)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends children with their parent")
def test_a_worker_at_work_does_not_outlive_its_parent(evaluate, tmp_path):
    import toys

    data, out = toys.write_dots(tmp_path / "data", 16), tmp_path / "out"
    process = evaluate(data, out, 2, model="dot_finder(delay=60,batch=4)")
    try:
        assert wait_for_batches(process, out, 1, 2)
        tasks = Path(f"/proc/{process.pid}/task")
        workers = [one for path in tasks.glob("*/children") for one in path.read_text().split()]
        assert len(workers) >= 2
        process.kill()  # it alone, and not its group
        process.wait()
        until = time.monotonic() + 20
        while (living := [one for one in workers if running(one)]) and time.monotonic() < until:
            time.sleep(0.01)
        assert not living
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def running(process):
    """Return True unless a process has ended, whether or not anyone has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


TALKER = "dot_talker(delay=0.01,batch=8)"  # 64 queries a batch, one of them at a time
TALKED_OF = 160


def test_a_kill_costs_the_samples_in_flight_and_not_their_batch(
    command, evaluate, tmp_path, monkeypatch
):
    import toys

    data, rough = toys.write_dots(tmp_path / "data", TALKED_OF), tmp_path / "rough"
    monkeypatch.setenv("DELAY", "0")
    calm = command(
        *("eval", "--model", TALKER, "--tasks", "dots"),
        *("--data", data, "--out", tmp_path / "calm", "--quiet"),
    )
    assert calm.returncode == 0, calm.stderr
    monkeypatch.delenv("DELAY")
    output = tmp_path / "responses"
    output.touch()
    for kill in range(3):
        responded, kept = len(output.read_text().split()), len(samples(rough))
        process = evaluate(data, rough, 1, model=TALKER, SIGNS=str(tmp_path))
        deadline = time.monotonic() + 60
        while len(output.read_text().split()) < responded + 40 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        lost = len(output.read_text().split()) - responded - (len(samples(rough)) - kept)
        assert lost <= 1 + MAX_ANSWERED, f"kill {kill} cost {lost} samples"
    last = evaluate(data, rough, 2, model=TALKER, DELAY="0")
    _, stderr = last.communicate(timeout=120)
    assert last.returncode == 0, stderr
    assert_equal_runs(tmp_path / "calm", rough)
    each = [record["sample"] for record in samples(rough)]
    assert len(each) == len(set(each)) == TALKED_OF, "none that was journalled is answered again"


def samples(folder):
    """The journal's records of samples, of all attempts."""
    return [
        record
        for path in sorted(folder.rglob("samples.*.jsonl"))
        for record in records(path)
        if "sample" in record
    ]


def answered(folder):
    return {record["sample"] for record in samples(folder)}


def wait_for_samples(process, folder, count, *, longest=120.0):
    """Wait until so many samples are journalled; return False if the process ended before."""
    deadline = time.monotonic() + longest
    while process.poll() is None and time.monotonic() < deadline:
        if len(answered(folder)) >= count:
            return True
        time.sleep(0.01)
    return False


def assert_equal_runs(calm, rough):
    (calm_run,) = calm.rglob("results.json")
    (rough_run,) = rough.rglob("results.json")
    for name in ("results.json", "scores.jsonl"):
        assert calm_run.with_name(name).read_bytes() == rough_run.with_name(name).read_bytes()


IN_FLIGHT = 8 + MAX_ANSWERED
"""Of pocket with `batch_size=8`: rows of the network, and samples that wait for their masks."""


@pytest.mark.slow
def test_ten_kills_of_pocket_cost_no_more_than_the_samples_in_flight(evaluate, tmp_path):
    """200 clips in four batches of 64. Responses to a part of a batch are those to all of it."""
    pytest.importorskip("torch")
    from harness.tasks.mevis import writer
    from harness.world.shapes import make

    count, model = 200, "pocket(batch_size=8,segmenter=box,propagator=still)"
    data, rough = tmp_path / "data", tmp_path / "rough"
    make(data, seed=5, size=count, writers={"mevis": writer.write})
    given = {"model": model, "task": "mevis"}
    calm = evaluate(data, tmp_path / "calm", 1, **given)
    _, stderr = calm.communicate()
    assert calm.returncode == 0, stderr
    order = [record["sample"] for record in samples(tmp_path / "calm")]
    assert len(order) == count
    moments = random.Random(2)
    kills = [*sorted(moments.sample(range(1, count - IN_FLIGHT), 10))]
    for wanted in kills:
        process = evaluate(data, rough, 1, **given)
        assert wait_for_samples(process, rough, wanted, longest=600.0)
        time.sleep(moments.uniform(0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    last = evaluate(data, rough, 1, **given)
    _, stderr = last.communicate()
    assert last.returncode == 0, stderr
    each = [record["sample"] for record in samples(rough)]
    assert len(each) == len(set(each)) == count, "none that was journalled is answered again"
    assert_equal_runs(tmp_path / "calm", rough)


def next_attempt(folder):
    return 1 + max(
        (attempt_and_worker(path)[0] for path in folder.rglob("samples.*.jsonl")), default=0
    )


def check_journal(folder):
    """Each worker of each attempt lost at most one batch; no finished batch was done again."""
    finished: dict[int, int] = {}
    attempts = set()
    for path in files(folder):
        attempts.add(attempt_and_worker(path)[0])
        assert len(unfinished(path)) <= 1, "a worker lost more than the batch in work"
        started = {record["begin"] for record in records(path) if "begin" in record}
        for batch in started - set(unfinished(path)):
            finished[batch] = finished.get(batch, 0) + 1
    assert finished == dict.fromkeys(range(COUNT // 4), 1), "a finished batch was done again"
    assert len(attempts) >= 6, "most kills fell into the work"


@pytest.mark.parametrize(
    ("sent", "workers"),
    [
        (signal.SIGINT, 2),
        (signal.SIGTERM, 1),
        (signal.SIGTERM, 2),
    ],
)
def test_a_signal_keeps_what_was_finished(command, evaluate, tmp_path, monkeypatch, sent, workers):
    import toys

    toys.write_dots(tmp_path / "data", COUNT)
    process = evaluate(tmp_path / "data", tmp_path / "out", workers)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((tmp_path / "out").rglob("samples.0.1.jsonl")):
        time.sleep(0.05)
    time.sleep(0.5)
    if sent == signal.SIGINT:  # Ctrl-C reaches workers too, which leave it to their parent
        os.killpg(process.pid, sent)
    else:
        process.send_signal(sent)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in stderr and "Traceback" not in stderr
    monkeypatch.setenv("DELAY", "0")
    line = ["eval", "--model", MODEL, "--tasks", "dots", "--data", tmp_path / "data"]
    done = command.json(*line, "--out", tmp_path / "out")
    assert done["tasks"]["dots"]["n_total"] == COUNT


def test_sigterm_keeps_what_was_answered_and_not_finished(start, tmp_path):
    """The signal comes while masks are made: they are journalled, and no batch is begun."""
    import toys

    toys.write_dots(tmp_path / "data", 40)
    line = ["eval", "--model", "dot_segmenter", "--tasks", "dots", "--data", tmp_path / "data"]
    process = start(*line, "--out", tmp_path / "out", "--quiet", SIGNS=str(tmp_path))
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (tmp_path / "segments").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        (tmp_path / "signalled").touch()
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "interrupted" in stderr
    (manifest,) = (tmp_path / "out").rglob("manifest.json")
    journal = Journal(manifest.parent)
    assert len(journal.places) == 4 and journal.begun == [0, 1], "the first batch, and no other"
