"""A worker on a server of SandboxFusion, whose address the user gives: `POST /run_code`.

The code is isolated by the server's container, which cannot be tested from here; the record says
so. `pool` uses a `Remote` in place of a `process.Worker`.
"""

import base64
import json
import time
from http.client import HTTPException
from typing import Any
from urllib.request import Request, urlopen

from harness.errors import ParseError
from harness.responses import loads_strict, storable
from harness.sandbox.execution import MAX_VALUES, Execution, read_value
from harness.sandbox.process import GRACE_SECONDS, WorkerLost
from harness.sandbox.protocol import MAX_ERROR, Limits

REMOTE_SCRIPT = """
import json

def emit(value):
    with open("emitted.jsonl", "a") as file:
        file.write(json.dumps(value, default=lambda one: one.tolist(), allow_nan=False) + "\\n")

open("emitted.jsonl", "w").close()
with open("request.json") as file:
    request = json.load(file)
namespace = {"__name__": "__main__", "data": request["data"], "emit": emit}
for name in "prelude", "code":
    exec(compile(request[name], f"<{name}>", "exec", dont_inherit=True), namespace)
"""


class Remote:
    """A server in the role of a `Worker`."""

    spent = False

    def __init__(self, url: str, limits: Limits) -> None:
        self._url = url.rstrip("/") + "/run_code"
        self._limits = limits
        self.hello: dict[str, Any] = {}

    def run(self, request: bytes, timeout: float) -> Execution:
        """Run a request.

        Raises:
            WorkerLost: the server did not answer, or reports an error of its own.
        """
        body = {
            "code": REMOTE_SCRIPT,
            "language": "python",
            "run_timeout": timeout,
            "files": {"request.json": base64.b64encode(request).decode()},
            "fetch_files": ["emitted.jsonl"],
        }
        posted = Request(
            self._url,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="POST",
        )
        began = time.monotonic()
        max_bytes = 2 * (self._limits.emitted + self._limits.printed) + (1 << 20)
        try:
            with urlopen(posted, timeout=timeout + GRACE_SECONDS) as response:
                content = response.read(max_bytes + 1)
            if len(content) > max_bytes:  # caused by the code: another try would repeat it
                return Execution(
                    output="",
                    error=f"OutputError: the code's output is longer than {max_bytes} bytes",
                    seconds=time.monotonic() - began,
                )
            answer = loads_strict(content.decode(), max_bytes)
            if not isinstance(answer, dict):
                raise TypeError(type(answer).__name__)
            if answer["status"] == "SandboxError":
                raise WorkerLost(f"{self._url}: {storable(str(answer['message']), MAX_ERROR)}")
            return self._execution(answer, timeout)
        except (OSError, HTTPException, ParseError) as error:
            raise WorkerLost(f"{self._url}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WorkerLost(f"{self._url}: not an answer of SandboxFusion: {error!r}") from error

    def close(self) -> None:
        """Do nothing: harness did not start the server."""

    def _execution(self, answer: dict[str, Any], timeout: float) -> Execution:
        """Return the execution in a server's answer, within this sandbox's limits."""
        result = answer["run_result"]
        timed_out = result["status"] == "TimeLimitExceeded"
        error = None
        if timed_out:
            error = f"TimeoutError: the code ran for more than {timeout:g} s"
        elif result["status"] != "Finished" or result["return_code"]:
            lines = str(result["stderr"] or "").strip().splitlines()
            error = storable(
                lines[-1] if lines else f"exit code {result['return_code']}", MAX_ERROR
            )
        values: list[Any] = []
        printed = str(result["stdout"] or "")
        emitted = base64.b64decode((answer.get("files") or {}).get("emitted.jsonl", ""))
        if len(printed) > self._limits.printed:
            error = f"OutputError: the code printed more than {self._limits.printed} characters"
        elif len(emitted) > self._limits.emitted:
            error = f"OutputError: the code emitted more than {self._limits.emitted} bytes"
        try:
            lines = emitted[: self._limits.emitted].decode().splitlines()
            values += [read_value(line, self._limits.emitted) for line in lines[:MAX_VALUES]]
            if len(lines) > MAX_VALUES:
                raise ParseError("emitted", expected=f"at most {MAX_VALUES} values", found="more")
        except (ParseError, UnicodeDecodeError) as fault:
            error = error or str(fault)
        return Execution(
            output=storable(printed[: self._limits.printed]),
            values=tuple(values),
            error=error,
            timed_out=timed_out,
            seconds=float(result["execution_time"] or 0.0),
        )
