"""What a worker reports is read strictly, and the code's time is its own."""

import socket
import tempfile
import time

import pytest

from harness.sandbox.execution import read_execution
from harness.sandbox.protocol import FRAME, VALUE, Ended, Limits
from harness.sandbox.worker import CONFINED_MESSAGE, _Watched


@pytest.mark.parametrize(("kind", "values"), [(VALUE, (7,)), (b"?", ())])
def test_a_frame_of_another_kind_is_no_value(kind, values):
    done = read_execution(
        Ended.BY_ITSELF,
        0,
        b"",
        FRAME.pack(kind, 1) + b"7",
        limits=Limits(),
        timeout=1.0,
        seconds=0.1,
        refused=None,
    )
    assert done.values == values
    assert (repr(b"?") in done.error) == (not values)


def test_the_time_of_code_begins_when_it_is_confined():
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as frames:
        watched = _Watched(0, {out.fileno(): None, frames.fileno(): None}, ours)
        watched.began -= 100
        theirs.sendall(CONFINED_MESSAGE)
        watched._read_control()
    assert watched.confined and time.monotonic() - watched.began < 50
