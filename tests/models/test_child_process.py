"""Messages between this process and one that runs a plugin's code."""

import os

import pytest

from harness.models.child_process import Channel


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_messages_come_whole_and_in_order(pipe):
    channel = Channel(*pipe)
    channel.send({"frame": 3}, b"\n{}\n")
    channel.send({"done": True})
    assert channel.receive(5) == ({"frame": 3, "bytes": 4}, b"\n{}\n")
    assert channel.receive(5) == ({"done": True, "bytes": 0}, b"")
    with pytest.raises(TimeoutError):
        channel.receive(0.01)


@pytest.mark.parametrize(
    "line",
    [b"5", b"{}", b'{"bytes": true}', b'{"bytes": -1}', b'{"bytes": "3"}', b"no", b"[" * 50_000],
    ids=str,
)
def test_a_line_that_is_no_message_is_refused(line, pipe):
    os.write(pipe[1], line + b"\n")
    with pytest.raises(ValueError, match=r"."):
        Channel(*pipe).receive(5)
