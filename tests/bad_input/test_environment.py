"""The machine: full disks, no memory, killed and hanging processes, interrupts."""

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

case = pytest.mark.case


@pytest.fixture
def start(harness, process, request):
    """Starts `harness eval` as a process of its own."""

    def run(*arguments, model="random", **options):
        line = ["eval", "--model", model, "--tasks", *harness.benchmarks, "--quiet", "--json"]
        places = ["--data", harness.folder / "data", "--out", harness.folder / "runs"]
        started = process.start(*line, *places, *arguments, **options)
        shown, errors = started.communicate(timeout=60)
        assert started.returncode == harness.expected, errors
        assert "Traceback" not in errors
        assert started.returncode == 0 or shown == ""
        return errors

    return run


def results(folder):
    (path,) = folder.rglob("results.json")
    return path.read_bytes(), path.with_name("scores.jsonl").read_bytes()


@case(
    "a disk that is full, at any moment",
    "stops with the file's name; what was finished is "
    "kept, and the same command goes on to the undisturbed results",
    code=5,
)
@pytest.mark.parametrize(
    ("size", "name"),
    [
        (0, "lease.json"),
        (200, "manifest.json"),
        (2500, "samples.0.1.jsonl"),
    ],
)
def test_a_full_disk_stops_the_run_and_loses_nothing(harness, mevis, start, size, name):
    assert name in start("--batch-size", 2, largest=size)
    runs = harness.folder / "runs"
    assert not list(runs.rglob("results.json")) and not list(runs.rglob("*.tmp"))
    journal = next(runs.rglob("mevis")) / "samples.0.1.jsonl"
    kept = journal.read_bytes() if journal.exists() else b""
    assert (b'"sample"' in kept) == name.startswith("samples")
    options = {"model": "random", "code": 0}
    harness.eval("--batch-size", 2, **options)
    harness.eval("--batch-size", 2, out="calm", **options)
    assert results(runs) == results(harness.folder / "calm")
    assert journal.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1]), "finished work was lost"


@case(
    "a disk that is full when the scores are written",
    "no results.json; the old one stays as it was",
    code=5,
)
def test_a_full_disk_at_the_end_leaves_no_half_of_a_result(harness, counting, tmp_path):
    if os.geteuid() != 0 or not Path("/dev/shm").is_dir():
        pytest.skip("a small file system can only be made by root")
    place = tmp_path / "runs"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place], capture_output=True
    )
    if made.returncode:
        pytest.skip("no file system may be mounted here")
    try:
        done = harness.eval(model="whole_frame", tasks="counting")
        done.says(os.strerror(errno.ENOSPC))
        assert not list(place.rglob("results.json")) and not list(place.rglob(".*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=1m", place], check=True)
        harness.eval(model="whole_frame", tasks="counting", code=0)
        found = results(place)
    finally:
        subprocess.run(["umount", place], check=True)
    harness.eval(model="whole_frame", tasks="counting", out="calm", code=0)
    assert found == results(harness.folder / "calm")


@case("a folder that cannot be written", "refused; names it", code=5)
@pytest.mark.parametrize("command", ["eval", "score", "board", "data", "explain"])
def test_a_folder_that_cannot_be_written_is_named(harness, counting, command):
    out = "/proc/harness"  # not even root writes here
    runs = harness.folder / "runs"
    if command == "eval":
        done = harness.eval(tasks="counting", out=out)
    elif command == "score":
        done = harness.score([{"id": "0", "answer": 3}], "--out", out, tasks="counting")
    elif command == "data":
        done = harness("data", "make", "shapes", "--out", out, "--size", 1)
    else:
        harness.eval(tasks="counting", code=0)
        done = (
            harness("board", "build", "--runs", runs, "--out", out)
            if command == "board"
            else harness("explain", harness.run, "0", "--image", f"{out}.png")
        )
    done.says(out)


@case(
    "a batch that does not fit into memory",
    "tried in halves; a sample that does not fit is a failure of the infrastructure",
    code=0,
)
@pytest.mark.parametrize("error", ["OutOfMemory('full')", "MemoryError()", "OutOfMemoryError()"])
@pytest.mark.parametrize("most", [0, 1, 3])
def test_batches_are_halved_until_they_fit(harness, counting, plugin, error, most):
    plugin(
        "models",
        toy=f"""
class OutOfMemoryError(RuntimeError):
    "Called as torch calls its own."


class Small(Model):
    def predict(self, queries):
        if len(queries) > {most}:
            raise {error}
        return super().predict(queries)


def toy():
    return Small(counts, batch_size=8)
""",
    )
    limit, code = ("--infrastructure-limit", 1), int(most == 0)  # 1: no sample has an answer
    found = harness.eval(*limit, model="toy", tasks="counting", code=code).task("counting")
    failed = 8 if most == 0 else 0
    assert found["failures"]["infrastructure"] == found["n_failed"] == failed
    assert found["failures"]["model"] == 0


@case(
    "a server, node or file that fails for more than 5 % of the samples",
    "no score, whatever the others scored; the same command tries the lost ones again",
    code=6,
)
def test_what_the_infrastructure_lost_is_no_score(harness, counting, plugin):
    from harness.types import query_id

    fails = f"""
def toy():
    def answer(query):
        if query.id in {[query_id(one) for one in "36"]!r}:
            raise Unavailable("server http://gpu7 is down")
        return Answer(count=3)

    return Model(answer)
"""
    plugin("models", toy=fails)
    done = harness.eval(model="toy", tasks="counting")
    done.says("2 of 8", "server http://gpu7 is down", "at most 5.0%")
    assert (
        not (harness.run / "results.json").exists() and not (harness.run / "scores.jsonl").exists()
    )
    assert json.loads((harness.run / "manifest.json").read_text())["infrastructure_limit"] == 0.05
    harness("board", "build", "--runs", harness.folder / "runs", "--out", "board", code=5)
    # Of several pairs the others have their scores, and the code says that one has none.
    both = ("--model", "toy,whole_frame", "--tasks", "counting", "--data", harness.folder / "data")
    done = harness.main("eval", *both, "--out", harness.folder / "runs", "--quiet", "--json")
    assert done.code == 6
    models = json.loads(done.out)["models"]
    assert models["whole_frame"]["tasks"]["counting"]["n_scored"] == 8
    assert [*models["toy"]["tasks"]["counting"]] == ["lost"]
    allowed = harness.eval("--infrastructure-limit", 0.25, model="toy", tasks="counting", code=0)
    assert allowed.task("counting")["failures"]["infrastructure"] == 2


DYING = """
def toy():
    def answer(query):
        if query.id.startswith("{first}"):
            {death}
        return Answer(count=3)

    return Model(answer)
"""


@case(
    "a worker process that is killed or hangs over a sample",
    "replaced; after two the batch "
    "is a failure of the infrastructure, and a later run tries it again",
    code=0,
)
@pytest.mark.parametrize(
    ("death", "options"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", ("--isolate",)),
        ("import time; time.sleep(60)", ("--timeout", 1)),
    ],
)
def test_a_batch_that_no_worker_survives_is_a_failure(harness, counting, plugin, death, options):
    from harness.types import query_id

    plugin("models", toy=DYING.format(death=death, first=query_id("3")))
    done = harness.eval(
        *options, "--infrastructure-limit", 1, "--batch-size", 2, model="toy", tasks="counting"
    )
    found = done.task("counting")
    assert found["failures"]["infrastructure"] == found["n_failed"] == 2
    shown = harness("explain", harness.run, "3", "--json").json
    assert "worker" in shown["failure"]


@case(
    "a run without workers that is killed",
    "the same command goes on to the undisturbed results",
    code=-9,
)
def test_a_killed_run_goes_on(harness, counting, plugin, process, start):
    from harness.types import query_id

    place = plugin(
        "models",
        toy=DYING.format(
            death="os.environ.get('DIE') and os.kill(os.getpid(), signal.SIGKILL)",
            first=query_id("5"),
        ),
    )
    process.path.append(place)
    start(model="toy", DIE="1")
    runs = harness.folder / "runs"
    assert not list(runs.rglob("results.json"))
    harness.eval(model="toy", tasks="counting", code=0)
    harness.eval(model="toy", tasks="counting", out="calm", code=0)
    assert results(runs) == results(harness.folder / "calm")


@case("Ctrl-C", "code 130; what was finished is kept and the same command goes on", code=130)
def test_an_interrupt_is_said_and_loses_nothing(harness, counting, plugin, monkeypatch):
    plugin(
        "models",
        toy="""
def toy():
    def answer(query):
        if query.id.startswith(os.environ.get("STOP", "none")):
            raise KeyboardInterrupt
        return Answer(count=3)

    return Model(answer)
""",
    )
    from harness.types import query_id

    monkeypatch.setenv("STOP", query_id("5"))
    done = harness.eval(model="toy", tasks="counting").says("interrupted")
    assert done.out == "" and not list((harness.folder / "runs").rglob("results.json"))
    (journal,) = (harness.folder / "runs").rglob("samples.*.jsonl")
    kept = journal.read_bytes()
    assert kept.count(b'"sample"') == 4
    monkeypatch.delenv("STOP")
    assert harness.eval(model="toy", tasks="counting", code=0).task("counting")["n_failed"] == 0
    assert journal.read_bytes() == kept


@case(
    "modules such as `torch.py` or `multiprocessing.py` in the current folder",
    "not run",
    code=0,
)
def test_what_lies_in_the_current_folder_is_not_run(harness, counting):
    quick = harness.folder / "quick"
    quick.mkdir()
    (quick / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    place = harness.folder / "data"
    for name in ("multiprocessing", "torch", "numpy", "json", "rich", "harness", "sitecustomize"):
        path = place / f"{name}.py"
        path.write_text(f"open({str(harness.folder / 'canary')!r}, 'w')")
    entry = "import sys; from harness.cli.main import main; sys.exit(main())"
    for arguments in (
        (
            "eval",
            "--model",
            "whole_frame",
            "--tasks",
            "counting",
            "--data",
            place,
            "--out",
            harness.folder / "runs",
            "--workers",
            2,
            "--quiet",
            "--json",
        ),
        ("doctor", "--json"),
    ):
        # As the installed command does, whose first place to look is not the current folder.
        line = [sys.executable, "-P", "-c", entry, *map(str, arguments)]
        paths = os.pathsep.join(filter(None, [str(quick), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            line,
            capture_output=True,
            text=True,
            cwd=place,
            timeout=60,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert done.returncode == 0, done.stderr
        assert not (harness.folder / "canary").exists()


@case("a reader of a pipe that goes away", "ends quietly", code=0)
def test_a_closed_pipe_is_no_error(harness, process):
    line = f"{sys.executable} -m harness list models | head -n 0; exit ${{PIPESTATUS[0]}}"
    environment = process.environment()
    environment.pop("PYTHONUNBUFFERED", None)  # buffered output is written at the end
    for more in ({}, {"PYTHONUNBUFFERED": "1"}):
        done = subprocess.run(
            ["bash", "-c", line],
            capture_output=True,
            text=True,
            env=environment | more,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")


@case("a space of addresses of 0.3 GB", "said: memory, and what takes it", code=6)
def test_memory_that_is_too_small_to_begin_is_named(harness, tmp_path):
    line = [sys.executable, "-m", "harness", "data", "make", "shapes", "--out", tmp_path / "a"]
    limited = f"ulimit -v 300000; exec {shlex.join(map(str, line))}"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["sh", "-c", limited], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == harness.expected, done.stderr
    assert "memory" in done.stderr and "ulimit" in done.stderr and "Traceback" not in done.stderr
