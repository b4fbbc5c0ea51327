"""A sandbox runs honest code, tells whose fault a failure is, and survives its workers."""

import ast
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from harness.cli.main import main
from harness.errors import (
    MissingDependency,
    SandboxFault,
    SandboxUnavailable,
    Unavailable,
    UsageError,
)
from harness.sandbox import pool, probes, tiers
from harness.sandbox.pool import Sandbox, open_sandbox
from harness.sandbox.process import Worker, WorkerLost
from harness.sandbox.protocol import Limits
from harness.sandbox.tiers import Launch, launch


@pytest.fixture(scope="module")
def sandbox():
    try:
        opened = open_sandbox()
    except SandboxUnavailable as lacking:
        assert "self-test" not in str(lacking), "a tier that is here leaks"
        pytest.skip(str(lacking))
    with opened:
        yield opened


def test_code_gets_its_data_and_hands_over_plain_values(sandbox):
    done = sandbox.run(
        "import numpy as np, cv2, statistics\n"
        "print('ä', len(data['mask']))\n"
        "mask = np.array(data['mask'], np.uint8)\n"
        "emit({'area': mask.sum(), 'box': cv2.boundingRect(mask)})\n"
        "emit(doubled(mask))",
        data={"mask": [[0, 1], [0, 1]]},
        prelude="def doubled(mask): return 2 * mask",
    )
    assert done.error is None and done.refused is None and not done.timed_out
    assert done.output == "ä 2\n"
    assert done.values == ({"area": 2, "box": [1, 0, 1, 2]}, [[0, 2], [0, 2]])
    assert done.value == [[0, 2], [0, 2]]


def test_an_error_is_its_last_line_and_what_came_before_it_stays(sandbox):
    done = sandbox.run("print('so far')\nemit(1)\ndef one():\n    return data['x']\none()", data={})
    assert (done.output, done.values, done.error) == ("so far\n", (1,), "KeyError: 'x'")
    assert sandbox.run("if :").error == "SyntaxError: invalid syntax"
    assert sandbox.run("raise SystemExit").error is None
    assert sandbox.run("\ud800\0").error
    assert sandbox.run("emit({1, 2})").error == "TypeError: set is not JSON"


def test_a_refused_call_has_its_name(sandbox):
    if not sandbox.describe()["names"]:
        pytest.skip("this tier cannot tell")
    assert sandbox.run("import socket; socket.socket()").refused == "socket"
    assert sandbox.run("import os; os.fork()").refused in ("clone", "fork")
    assert (
        sandbox.run(
            "import os, socket\ntry:\n    os.fork()\nexcept OSError:\n    socket.socket()"
        ).refused
        == "socket"
    )


SURVIVED = {
    "a call that is caught": "import os\ntry:\n    os.fork()\nexcept OSError:\n    print('no')",
    "SciPy": "import scipy.ndimage as n, numpy as np; print(n.label(np.ones((5, 5)))[1])",
    "the folder of temporary files": "import tempfile; print(tempfile.gettempdir())",
    "the platform": "import platform; print(platform.platform())",
    "a help": "import argparse; print(argparse.ArgumentParser('a').format_help())",
    "the terminal's size": "import shutil; print(shutil.get_terminal_size())",
}


@pytest.mark.parametrize("code", SURVIVED.values(), ids=SURVIVED)
def test_a_refused_call_that_a_library_survives_is_none(sandbox, code):
    done = sandbox.run(code, timeout=60)
    assert (done.error, done.refused) == (None, None) and done.output.strip()


def test_executions_are_what_the_kernel_kills_first_when_memory_is_short(sandbox):
    own = int(Path("/proc/self/oom_score_adj").read_text())
    worker = sandbox._free.queue[-1]._process.pid
    thread = threading.Thread(target=sandbox.run, args=("import time; time.sleep(0.5)",))
    thread.start()
    deadline = time.monotonic() + 20
    while not (children := Path(f"/proc/{worker}/task/{worker}/children").read_text().split()):
        assert time.monotonic() < deadline
    adjusted = int(Path(f"/proc/{children[0]}/oom_score_adj").read_text())
    thread.join()
    assert adjusted == 1000 >= own


def test_the_same_code_does_the_same_twice(sandbox):
    code = "import random, numpy as np; emit([random.random(), np.random.rand(), hash('a')])"
    assert sandbox.run(code).value == sandbox.run(code).value
    sandbox.run("left = 1")
    assert sandbox.run("left").error == "NameError: name 'left' is not defined"


def test_what_was_printed_before_time_ran_out_is_kept(sandbox):
    done = sandbox.run("print('here')\nwhile True: pass", timeout=0.3)
    assert done.timed_out and done.output == "here\n" and done.seconds >= 0.3


def test_many_threads_get_each_its_own_answer(sandbox):
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda one: sandbox.run("emit(data ** 2)", one).value, range(40))
    assert [*found] == [one**2 for one in range(40)]


def workers_of(sandbox):
    return [one for one in sandbox._free.queue if one is not None]


def test_a_worker_that_is_killed_is_replaced_and_the_code_runs(sandbox):
    (worker, *_) = workers_of(sandbox)
    os.killpg(worker._process.pid, signal.SIGKILL)
    assert [sandbox.run("emit(1)").value for _ in range(3)] == [1, 1, 1]


def test_a_worker_killed_while_code_runs_is_replaced(sandbox):
    def kill():
        time.sleep(0.3)
        for one in {*before} - {*workers_of(sandbox)}:
            os.killpg(one._process.pid, signal.SIGKILL)

    before = workers_of(sandbox)
    killer = threading.Thread(target=kill)
    killer.start()
    done = sandbox.run("import time; time.sleep(1); emit(1)")
    killer.join()
    assert done.value == 1


def test_an_execution_too_many_for_a_worker_is_run_by_the_next(sandbox):
    for worker in workers_of(sandbox):
        worker._executions_left = 0
    assert sandbox.run("emit(1)").value == 1
    assert any(worker._executions_left > 0 for worker in workers_of(sandbox))


def test_an_answer_that_nobody_waited_for_is_not_given_to_another(sandbox, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "_read_struct", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sandbox.run("emit('old')")
    assert {sandbox.run("emit('new')").value for _ in range(3)} == {"new"}


def test_two_workers_lost_are_a_fault_of_the_infrastructure():
    class Lost:
        hello, spent = {}, False

        def run(self, request, timeout):
            raise WorkerLost("it ended")

        def close(self):
            pass

    broken = Sandbox("landlock", Lost, lambda run: {}, workers=1)
    for _ in range(2):
        with pytest.raises(SandboxFault, match="landlock") as raised:
            broken.run("1")
    assert isinstance(raised.value, Unavailable), "the engine counts it as infrastructure"
    broken.close()


@pytest.mark.parametrize(
    "error", [OSError(11, "no process to spare"), subprocess.TimeoutExpired("runsc", 20)]
)
def test_a_worker_that_cannot_be_started_is_a_fault_of_the_infrastructure(
    sandbox, monkeypatch, error
):
    def failing(*given):
        raise error

    start = partial(pool._start, sandbox.tier, Limits())
    with Sandbox(sandbox.tier, start, lambda run: {}, workers=1) as one:
        one._free.queue[0]._executions_left = 0
        monkeypatch.setattr(pool, "launch", failing)
        with pytest.raises(SandboxFault, match="does not start"):
            one.run("1")
        with pytest.raises(SandboxUnavailable, match="does not start"):
            open_sandbox("gvisor")
    assert not one._free.queue[0]


def test_a_closed_sandbox_runs_nothing_and_nobody_waits_for_it():
    class Slow:
        hello, spent = {}, False

        def run(self, request, timeout):
            begun.set()
            time.sleep(0.3)
            return pool.Execution(output="", seconds=0.0)

        def close(self):
            pass

    def run():
        try:
            found.append(one.run("1").error)
        except UsageError as error:
            found.append(str(error))

    begun, found = threading.Event(), []
    one = Sandbox("landlock", Slow, lambda run: {}, workers=1)
    threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(10)
    one.close()
    again = threading.Thread(target=one.close, daemon=True)
    again.start()
    for thread in (*threads, again):
        thread.join(10)
        assert not thread.is_alive()
    assert None in found and any("closed" in str(words) for words in found)


def test_a_sandbox_that_leaks_is_refused(monkeypatch):
    """Its workers are confined by nothing: what the self-test is for."""
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    leaky = "read_file", "write_file", "open_socket", "fork", "signal_parent"
    plain = f"import os, sys; os.environ['HF_TOKEN'] = 'x'; data = {{}}\n{probes.PROBE_SOURCE}"

    def run(code, data, seconds):
        head = (
            "import json\ndata = json.loads(input())\nemit = lambda one: print(json.dumps(one))\n"
        )
        assert code in plain
        code = code.replace(", execute:", ":")
        text = subprocess.run(
            [sys.executable, "-c", head + code],
            input=json.dumps(data),
            capture_output=True,
            text=True,
            env=os.environ,
        ).stdout
        return pool.Execution(output="", values=(json.loads(text),), seconds=0.0)

    with pytest.raises(probes.Leaks) as raised:
        probes.self_test(run, {})
    assert all(name in str(raised.value) for name in (*leaky, "read_environment"))


def test_code_is_refused_where_there_is_no_sandbox(monkeypatch):
    monkeypatch.setattr(tiers.shutil, "which", lambda name: None)
    monkeypatch.setattr(tiers.kernel, "landlock_version", lambda: 0)
    with pytest.raises(SandboxUnavailable) as raised:
        open_sandbox()
    assert all(word in str(raised.value) for word in ("bubblewrap", "Landlock", "gVisor"))
    with pytest.raises(SandboxUnavailable) as one:
        open_sandbox("bubblewrap")
    assert str(one.value) in str(raised.value) and str(one.value).count("bwrap") == 1
    assert str(one.value).count("expected") == str(one.value).count("found") == 1
    assert isinstance(raised.value, MissingDependency) and raised.value.exit_code == 6
    monkeypatch.setattr(tiers.platform, "system", lambda: "Darwin")
    with pytest.raises(SandboxUnavailable, match="Linux"):
        open_sandbox("landlock")
    with pytest.raises(UsageError, match="jail"):
        open_sandbox("jail")


def test_a_worker_that_cannot_be_started_leaves_no_folder(tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    with pytest.raises(WorkerLost, match="not found"):
        Worker(Launch("gvisor", (str(tmp_path / "none"),), folder=str(folder)), Limits())
    assert not folder.exists()


def test_a_worker_that_does_not_begin_is_given_up():
    begun = time.monotonic()
    for command, words in (
        (("/bin/sleep", "60"), "in time"),
        (("/bin/sh", "-c", "sleep 40 & wait"), "in time"),  # what it started ends with it
        (("/bin/sh", "-c", "echo broken >&2; exit 1"), "broken"),
    ):
        with pytest.raises(WorkerLost, match=words):
            Worker(Launch("landlock", command, start_seconds=0.2), Limits())
    assert time.monotonic() - begun < 30


def test_a_sandbox_that_is_dropped_ends_its_worker_and_a_fork_of_its_owner_does_not():
    try:
        dropped = open_sandbox(workers=1)
    except SandboxUnavailable:
        pytest.skip("no sandbox here")
    process = dropped._free.queue[0]._process
    child = os.fork()
    if not child:
        del dropped
        os._exit(0)
    os.waitpid(child, 0)
    assert process.poll() is None
    assert dropped.run("emit(1)").values == (1,)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del dropped
        gc.collect()
    assert process.returncode is not None
    assert process.stdin.closed and process.stdout.closed and process.stderr.closed


def test_a_worker_ends_with_the_harness():
    """Also if the harness is killed while code runs."""
    program = (
        "from harness.sandbox.pool import open_sandbox\n"
        "sandbox = open_sandbox(workers=1)\n"
        "print(sandbox._free.queue[0]._process.pid, flush=True)\n"
        "sandbox.run('while True: pass', timeout=600)"
    )
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    line = harness.stdout.readline()
    if not line:
        pytest.skip("no sandbox here")
    harness.kill()
    harness.communicate()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.killpg(int(line), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the worker outlives the harness")


def test_the_record_has_the_tier_and_the_self_test(sandbox):
    described = json.loads(json.dumps(sandbox.describe()))
    assert described["tier"] in tiers.TIERS
    assert {"landlock", "names", "machine", "self_test"} <= set(described)
    assert "SUCCEEDED" not in described["self_test"].values()


def test_limits_are_held(sandbox):
    start = partial(pool._start, sandbox.tier, Limits(memory=1 << 30, printed=10, emitted=100))
    with Sandbox(sandbox.tier, start, lambda run: {}, workers=1) as small:
        assert small.run("one = bytearray(1 << 30)").error == "MemoryError"
        assert "10 bytes" in small.run("print('x' * 11)").error
        assert "100 bytes" in small.run("emit('x' * 101)").error
        assert small.run("emit('x' * 50)").value == "x" * 50
    with pytest.raises(UsageError):
        sandbox.run("1", timeout=float("nan"))


class Fusion(BaseHTTPRequestHandler):
    """A server with SandboxFusion's interface; its answers are given."""

    answers: ClassVar[list[object]] = []

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.answers.pop(0) if self.answers else really(request)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


def really(request):
    """Run the script that this test sent, as a server would."""
    import base64
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        for name, content in request["files"].items():
            Path(folder, name).write_bytes(base64.b64decode(content))
        done = subprocess.run(
            [sys.executable, "-c", request["code"]], cwd=folder, capture_output=True, text=True
        )
        files = {
            name: base64.b64encode(Path(folder, name).read_bytes()).decode()
            for name in request["fetch_files"]
        }
    result = {"execution_time": 0.1, "return_code": done.returncode}
    status = "Finished" if done.returncode == 0 else "Error"
    return {
        "status": "Success" if done.returncode == 0 else "Failed",
        "run_result": result | {"status": status, "stdout": done.stdout, "stderr": done.stderr},
        "files": files,
    }


@pytest.fixture
def fusion():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fusion)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    Fusion.answers = []
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_server_runs_code_by_its_url(fusion):
    with open_sandbox(fusion) as remote:
        assert remote.describe()["tier"] == fusion
        assert "not tested" in remote.describe()["self_test"]["isolation"]
        done = remote.run("print(1); emit(twice(data)); 1/0", 2, prelude="twice = lambda x: 2 * x")
        assert (done.output, done.value) == ("1\n", 4)
        assert done.error == "ZeroDivisionError: division by zero"
        late = {"status": "TimeLimitExceeded", "return_code": None, "stdout": "", "stderr": ""}
        Fusion.answers = [{"status": "Failed", "run_result": late | {"execution_time": 1.0}}]
        assert remote.run("1").timed_out
        for bad in ({"status": "SandboxError", "message": "full"}, {}, b"<html>", [1]):
            Fusion.answers = [bad, bad]
            with pytest.raises(SandboxFault):
                remote.run("1")
        Fusion.answers = [{}]
        assert remote.run("emit(1)").value == 1, "the second try"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('x' * 200)", "printed more than 100"),
        ("emit('x' * 5000)", "emitted more than 4000"),
        ("for _ in range(1001): emit(1)", "1000 values"),
        ("emit('x' * (1 << 21))", "longer than"),
    ],
)
def test_too_much_output_of_a_server_is_the_codes_error(fusion, code, words):
    with open_sandbox(fusion, limits=Limits(printed=100, emitted=4000)) as remote:
        done = remote.run(code)
    assert words in done.error


def test_a_server_that_is_down_is_no_sandbox():
    with pytest.raises(SandboxUnavailable, match="127\\.0\\.0\\.1:9"):
        open_sandbox("http://127.0.0.1:9")


def test_doctor_shows_tiers(sandbox, capsys):
    assert main(["doctor", "--sandbox", "--json"]) == 0
    shown = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(shown) == set(tiers.TIERS)
    assert shown[sandbox.tier]["fix"] == "" and "self-test" in shown[sandbox.tier]["state"]


def test_doctor_says_what_a_sandbox_needs(monkeypatch, capsys):
    monkeypatch.setattr(tiers.shutil, "which", lambda name: None)
    monkeypatch.setattr(tiers.kernel, "landlock_version", lambda: 0)
    assert main(["doctor", "--sandbox"]) == 6
    assert "bubblewrap" in capsys.readouterr().out


def test_what_packages_set_is_not_taken_for_a_leak():
    """OpenCV sets the same variables here and in a worker when it is imported."""
    code = "import os, cv2; from harness.sandbox.pool import open_sandbox; open_sandbox().close()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "self-test" not in done.stderr


def test_a_worker_sees_none_of_the_harness_environment(monkeypatch, sandbox):
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    worker = Worker(launch(sandbox.tier, Limits()), Limits())
    try:
        request = pool._request("import os; emit(dict(os.environ))", None, "")
        assert "HF_TOKEN" not in worker.run(request, 10).value
    finally:
        worker.close()


def test_arrays_become_lists(sandbox):
    mask = np.zeros((3, 4), bool)
    done = sandbox.run(
        "import numpy as np, scipy.ndimage\n"
        "emit(scipy.ndimage.binary_fill_holes(np.zeros((3, 4), bool)))"
    )
    assert done.value == mask.tolist()
    assert ast.literal_eval(sandbox.run("print(data)", {"a": [None, 1.5]}).output) == {
        "a": [None, 1.5]
    }
