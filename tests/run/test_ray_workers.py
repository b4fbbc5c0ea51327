"""Workers as actors of a local Ray cluster: the same bytes, also when one of them is killed."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

from harness import plugins
from harness.errors import UsageError
from harness.run.batching import Batch
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.ray_actor import Worker
from harness.run.ray_workers import connect
from harness.run.worker_pool import WorkerNotScheduled, WorkerStartFailed
from harness.spec import parse
from harness.tasks.reason_seg import writer as reason_seg
from harness.world.shapes import make

from .conftest import TOYS
from .test_pipeline import PATIENCE, Staged, batch

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TOYS), before]))
    # Ray takes our word for the GPU.
    ray.init(
        num_cpus=2,
        num_gpus=1,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def run(root, folder, spec="dot_finder", **options):
    task = plugins.build("tasks", parse("dots"), root)
    # Two actors of a cluster that has one GPU.
    return evaluate(task, parse(spec), folder, Options(**{"worker_gpus": 0.0, **options}))


def written(folder):
    return [(folder / name).read_bytes() for name in ("results.json", "scores.jsonl")]


def test_isolated_actors_write_what_this_process_writes(dots, tmp_path):
    run(dots, tmp_path / "here")
    run(dots, tmp_path / "ray", ray="auto", workers=2, isolate=True)
    assert written(tmp_path / "here") == written(tmp_path / "ray")


def test_an_outcome_takes_its_own_records_along_and_no_others(dots):
    """Ray may begin what it was sent later first; the driver reads answers in its own order."""
    requested = [sample.query for sample in plugins.build("tasks", parse("dots"), dots).samples()]
    first, later = (Batch(place, tuple(requested[2 * place : 2 * place + 2])) for place in (0, 1))

    async def answered():
        worker = Worker(parse("dot_finder(batch=2)"), 0)
        await worker.info()
        return await asyncio.gather(worker.run(later), worker.run(first))

    for sent, (outcome, records) in zip((later, first), asyncio.run(answered()), strict=True):
        assert outcome.batch == sent.index == records[0]["begin"]
        assert [one["sample"] for one in records[1:]] == [query.id for query in sent.queries]


def test_an_actor_gives_what_is_finished_of_a_batch(monkeypatch):
    """While the last sample of the batch waits, the others can be fetched, each once."""
    last = threading.Event()
    model = Staged(on_finish=lambda query: query.id == "c" and last.wait(PATIENCE))
    monkeypatch.setattr("harness.run.ray_actor.build_model", lambda spec, seed: model)

    async def answered():
        worker = Worker(parse("staged"), 0)
        await worker.info()
        done = asyncio.create_task(worker.run(batch(0, "a", "b", "c")))
        fetched, records = [], []
        until = time.monotonic() + PATIENCE
        while len(fetched) < 2 and time.monotonic() < until:
            await asyncio.sleep(0.01)
            more, rows = await worker.fetch()
            fetched, records = fetched + more, records + rows
        last.set()
        return fetched, records, await done

    fetched, records, (outcome, rest) = asyncio.run(answered())
    assert sorted(sample for one in fetched for sample in one.samples) == ["a", "b"]
    assert sorted(one["sample"] for one in records[1:]) == ["a", "b"]
    assert [one["sample"] for one in rest] == ["c"] and outcome.samples == ("a", "b", "c")


def test_an_actor_that_is_killed_amid_its_work_changes_nothing(dots, tmp_path):
    """Nobody answers until a third actor is there, which takes the place of the one killed."""
    spec = f"dot_finder(batch=2,meet={tmp_path / 'meet'},parties=3)"
    killer = subprocess.Popen([sys.executable, "-c", KILLER, str(tmp_path / "meet")])
    try:
        run(dots, tmp_path / "ray", spec, ray="auto", workers=2)
    finally:
        assert killer.wait(30) == 0, "no actor was killed"
    assert 2 in journals(tmp_path / "ray"), "another one took its place"
    # The same model, but for whom it waits for, which no record tells.
    task, quick = plugins.build("tasks", parse("dots"), dots), parse("dot_finder(batch=2)")
    evaluate(task, plugins.build("models", quick), tmp_path / "here", Options(), model_spec=spec)
    assert written(tmp_path / "here") == written(tmp_path / "ray")


def journals(folder):
    """The numbers of the workers that have predicted something."""
    return sorted(int(path.name.split(".")[1]) for path in folder.glob("samples.*.jsonl"))


KILLER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
deadline = time.monotonic() + 240
while time.monotonic() < deadline:
    there = sorted(folder.glob("*"))
    if len(there) == 2:
        os.kill(int(there[0].name), signal.SIGKILL)
        sys.exit(0)
    time.sleep(0.05)
sys.exit(1)
"""


def test_a_batch_that_kills_its_actor_twice_is_lost_and_nothing_else(dots, tmp_path):
    done = run(
        dots, tmp_path / "a", "dot_finder(fault=die,every=23,batch=2)", ray="auto", workers=2
    )
    ids = [sample.query.id for sample in plugins.build("tasks", parse("dots"), dots).samples()]
    deadly = {place // 2 for place, one in enumerate(ids) if int(one, 16) % 23 == 0}
    assert done.results["failures"]["infrastructure"] == 2 * len(deadly) > 0
    assert done.results["n_total"] == 40


def test_an_actor_that_is_silent_for_too_long_is_replaced(dots, tmp_path):
    done = run(
        dots,
        tmp_path / "a",
        "dot_finder(fault=hang,every=23,batch=2)",
        ray="auto",
        workers=2,
        timeout=2.0,
    )
    assert 0 < done.results["failures"]["infrastructure"] <= 8


def test_a_model_that_cannot_be_built_ends_the_run(dots, tmp_path):
    with pytest.raises(UsageError, match="fault"):
        run(dots, tmp_path / "a", "dot_finder(fault=nonsense)", ray="auto", workers=2)
    with pytest.raises(WorkerStartFailed, match="ActorDiedError"):
        run(dots, tmp_path / "b", "dot_finder(exit=3)", ray="auto", workers=1)


def test_an_actor_that_no_machine_has_room_for_ends_the_run_in_words(dots, tmp_path):
    with pytest.raises(WorkerNotScheduled, match=r"2 GPU .* 1 s, .*2 CPUs"):
        run(dots, tmp_path / "a", ray="auto", workers=1, worker_gpus=2.0, worker_wait=1.0)


def test_two_actors_do_not_share_a_gpu_by_wholes(dots, tmp_path):
    with pytest.raises(WorkerNotScheduled, match=r"1 GPU .* 1 s, .*1 GPUs"):
        run(dots, tmp_path / "a", ray="auto", workers=2, worker_gpus=1.0, worker_wait=1.0)


def test_two_actors_share_a_gpu_by_halves(dots, tmp_path):
    spec = f"dot_finder(meet={tmp_path / 'meet'},parties=2)"  # both of them work
    task, quick = plugins.build("tasks", parse("dots"), dots), parse("dot_finder")
    evaluate(task, plugins.build("models", quick), tmp_path / "here", Options(), model_spec=spec)
    run(dots, tmp_path / "ray", spec, ray="auto", workers=2, worker_gpus=None)
    assert journals(tmp_path / "ray") == [0, 1]
    assert written(tmp_path / "here") == written(tmp_path / "ray")


POCKET = (
    "pocket(segmenter=box,propagator=still,max_new_tokens=64,"
    "backend=transformers(dtype=float32,device=cpu))"
)


def test_an_actor_that_holds_a_network_writes_what_this_process_writes(tmp_path):
    """One actor, for loading a network takes longer than all else here."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    make(tmp_path / "data", seed=0, size=4, writers={"reason_seg": reason_seg.write})
    task = plugins.build("tasks", parse("reason_seg"), tmp_path / "data")
    done = evaluate(task, parse(POCKET), tmp_path / "here", Options(batch_size=2))
    evaluate(task, parse(POCKET), tmp_path / "ray", Options(batch_size=2, ray="auto"))
    assert written(tmp_path / "here") == written(tmp_path / "ray")
    assert done.results["n_scored"] > 0 and done.results["usage"]["completion_tokens"] > 0


def test_a_cluster_that_is_there_is_used():
    assert connect("auto", cpus=1) is False


@pytest.mark.parametrize("error", [ConnectionError, ValueError, RuntimeError])
def test_what_ray_raises_of_an_address_is_a_usage_error(error, monkeypatch):
    ray = pytest.importorskip("ray")

    def refuse(**_):
        raise error("no cluster")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(UsageError, match="no cluster"):
        connect("ray://127.0.0.1:1", cpus=1)


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_a_usage_error():
    line = "from harness.run.ray_workers import connect; connect('ray://127.0.0.1:1', cpus=1)"
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, timeout=120, check=False
    )
    assert "UsageError" in done.stderr and "ray status" in done.stderr
    assert time.monotonic() - started < 110
