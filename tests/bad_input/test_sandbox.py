"""Code that a model wrote; `tests/sandbox/` has every attack on every tier."""

import os
import signal

import pytest

from harness.errors import SandboxUnavailable
from harness.sandbox import tiers
from harness.sandbox.pool import open_sandbox

case = pytest.mark.case


@pytest.fixture(scope="module")
def sandbox():
    try:
        opened = open_sandbox(workers=1)
    except SandboxUnavailable as lacking:
        assert "self-test" not in str(lacking), "a tier that is here leaks"
        pytest.skip(str(lacking))
    with opened:
        yield opened


@pytest.fixture(autouse=True)
def goes_on(sandbox):
    """Whatever was run, the next execution is as if nothing had been."""
    yield
    assert sandbox.run("emit(len([1]))").value == 1


@case(
    "code that loops, forks, or reads secrets",
    "an error of the code, not tried again",
    code=0,
)
def test_code_that_attacks_is_an_error_of_its_own(sandbox):
    assert sandbox.run("while True: pass", timeout=0.3).timed_out
    for code in ("import os; os.fork()", "open('/etc/passwd')"):
        done = sandbox.run(code)
        assert "Error" in done.error and not done.timed_out


@case(
    "code that prints a forged result or a pickle",
    "text, never unpickled; a value has to be strict JSON",
    code=0,
)
def test_a_forged_result_is_text(sandbox, tmp_path):
    touch = (
        f"import os, pickle\nclass One:\n    def __reduce__(self):\n"
        f"        return os.system, ('touch {tmp_path}/touched',)\n"
    )
    assert sandbox.run(touch + "print(pickle.dumps(One()))").output
    done = sandbox.run(touch + "os.write(3, b'v\\0\\0\\0\\x04' + pickle.dumps(One())[:4])")
    assert done.values == () and "UTF-8" in done.error
    done = sandbox.run("print('<answer>1</answer></results>')")
    assert (done.output, done.values) == ("<answer>1</answer></results>\n", ())
    assert [*tmp_path.iterdir()] == []


@case(
    "no sandbox on this machine",
    "no code is run: the error names what each tier lacks",
    code=6,
)
def test_without_a_sandbox_no_code_is_run(monkeypatch):
    monkeypatch.setattr(tiers.shutil, "which", lambda name: None)
    monkeypatch.setattr(tiers.kernel, "landlock_version", lambda: 0)
    with pytest.raises(SandboxUnavailable, match="bwrap") as raised:
        open_sandbox()
    assert raised.value.exit_code == 6


@case("code that prints megabytes", "ended at 64 KiB", code=0)
def test_code_that_prints_megabytes_is_ended(sandbox):
    done = sandbox.run("while True: print('x' * 1000)")
    assert "65536 bytes" in done.error and 60_000 < len(done.output) <= 65536


@case("code that emits NaN", "a ValueError of the code: NaN is no JSON", code=0)
def test_nan_is_not_emitted(sandbox):
    done = sandbox.run("import numpy as np; emit(1); emit(np.array([np.nan]))")
    assert done.values == (1,) and done.error.startswith("ValueError")


@case(
    "a sandbox's worker that is killed",
    "another one runs the code; then a failure of the infrastructure",
    code=0,
)
def test_a_killed_worker_is_replaced(sandbox):
    (worker,) = sandbox._free.queue
    os.killpg(worker._process.pid, signal.SIGKILL)
    assert sandbox.run("emit(2)").value == 2
