"""Attacks on a server by HTTP: none passes."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import escape

import pytest

from harness.errors import DataError
from harness.leaderboards.server import board
from harness.leaderboards.server.hosted import SHOWN_NAME, Settings, check, score
from harness.leaderboards.server.store import Upload
from harness.plugins import build
from harness.spec import parse


def post(token):
    """Beginning of an upload's header, without the end of its last line."""
    line = "POST /tasks/counting/uploads?method=a HTTP/1.1"
    return f"{line}\r\nHost: x\r\nAuthorization: Bearer {token}"


def raw(server, content, wait=30.0):
    """Send bytes, and return all that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), wait) as connection:
        connection.sendall(content)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


TRAVERSALS = (
    "/../server.key",
    "/%2e%2e/server.key",
    "/tasks/../../server.key",
    "/uploads/..%2f..%2fserver.key",
    "/uploads/1/../../runs/1/scores.jsonl",
    "/uploads/1%00/samples",
    "/uploads/-1",
    "/uploads/99999999999999999999",
    "//etc/passwd",
    "/server.key",
    "/runs/1/scores.jsonl",
    "/tasks/counting",
)


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_to_a_file(server, path):
    token = server.token("curious")
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        status, content, _ = server.ask(method, path, token=token)
        assert status in (404, 405), content
        assert str(server.folder) not in str(content)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    answer = raw(server, f"{head}Connection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 405"))


def test_nothing_of_a_request_becomes_a_header(server, counts):
    token = server.token("injector")
    for method in ("a%0d%0aX-Evil:%201", "a%0aX-Evil:1", "%3Cscript%3E", "%00", "a%e2%80%a8b", "+"):
        path = f"/tasks/counting/uploads?method={method}"
        status, plain, headers = server.ask("POST", path, counts(), token)
        assert status == 400 and "method" in plain["error"]
        assert "X-Evil" not in str(headers) and "\n" not in plain["error"]
    get = f"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n\tAuthorization: Bearer {token}"
    for content in (
        f"{post(token)}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
        f"{get}\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nA: " + "b" * 10**6,
        "\x00" * 9999,
    ):
        with suppress(ConnectionError):  # it hangs up before all is sent
            assert raw(server, content.encode()).split(b" ")[1] in (b"400", b"401", b"422", b"431")


@pytest.mark.parametrize(
    "query", ["&format=pickle", "&format=jsonl&format=coco", "&x=1", "&method=b"]
)
def test_what_the_address_states_is_checked(server, counts, query):
    status, plain = server.upload(server.token("sloppy"), counts(), query)
    assert status == 400 and "expected" in plain["error"]


def test_names_in_html_and_sql_stay_text(server, hosted):
    for name in ("<script>alert(1)</script>", "a'); DROP TABLE uploads; --", 'x" onload="y'):
        token = f"{name}.secret"
        assert server.ask("GET", "/uploads", token=token)[0] == 401
        upload = Upload(
            account=name,
            task="counting",
            method=name,
            settings="{}",
            file="f",
            sha256="",
            content="",
            size=1,
            received_at=0.0,
            state="scored",
            shown=0.5,
            moved=1,
        )
        page = board.page(board.to_json(hosted, [upload]), name)
        assert "<script" not in page and 'onload="' not in page and escape(name) in page
    assert server.ask("GET", "/uploads", token=server.token("still-there"))[:2] == (200, [])


def test_a_slow_header_and_an_idle_connection_are_cut(server):
    """Waits of this server are a second, and others are served meanwhile."""
    token = server.token("patient")
    starts = (b"", b"GET /board.json HTTP/1.1\r\nHost: x\r\nX-A: ", b"POST ")
    connections = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(60)]
    for place, connection in enumerate(connections):
        connection.sendall(starts[place % 3])
    assert server.ask("GET", "/uploads", token=token)[0] == 200
    began = time.monotonic()
    for connection in connections:
        with suppress(ConnectionResetError):
            while connection.recv(65536):
                pass
        connection.close()
    assert time.monotonic() - began < 30
    dripping = socket.create_connection(("127.0.0.1", server.port), 60)
    head = post(token)
    dripping.sendall(f"{head}\r\nContent-Length: 1000\r\n\r\nabc".encode())
    assert b" 408 " in dripping.recv(65536)
    dripping.close()
    assert server.ask("GET", "/uploads", token=token)[1] == []


def test_too_many_connections_cut_those_that_wait(running):
    server = running(connections=20)
    connections = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(60)]
    assert server.ask("GET", "/uploads", token=server.token("late"))[0] == 200
    for connection in connections:
        connection.close()


def test_large_bodies_are_refused_before_they_are_read(running, counts):
    server = running("--max-mib", "1")
    token = server.token("large")
    head = post(token)
    for size in ("1048577", "9" * 300):
        answer = raw(server, f"{head}\r\nContent-Length: {size}\r\n\r\n".encode())
        assert answer.split(b" ")[1] in (b"413", b"400")
    chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(f"{head}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        with suppress(ConnectionError):
            for _ in range(64):
                connection.sendall(chunk)
        assert connection.recv(65536).split(b" ")[1] == b"413"
    assert not [*(server.folder / "incoming").iterdir()]
    assert server.upload(token, counts())[0] == 201


def test_one_upload_of_an_account_is_read_at_a_time(server, counts):
    token = server.token("parallel")
    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(lambda tag: server.upload(token, counts(0, tag)), range(6)))
    assert {status for status, _ in done} <= {201, 429} and any(status == 201 for status, _ in done)


def boxes(samples, change):
    rows = []
    for sample in samples:
        (box,) = sample.target.answer.boxes
        rows.append({"id": sample.id, "boxes": [change(box, sample.query.size)]})
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda box, size: [*box],
        lambda box, size: [box[0], box[1], box[2] + 1, box[3] + 1],
        lambda box, size: [size[0] - box[2], box[1], size[0] - box[0], box[3]],
        lambda box, size: [number / 1.5 for number in box],
    ],
    ids=["right", "a pixel", "flipped", "of a resized image"],
)
def test_the_labels_decide_no_refusal(change, hosted, samples, labels, tmp_path, monkeypatch):
    """`harness score` refuses boxes that the ground truth shows to be in another unit: a hint."""
    monkeypatch.chdir(tmp_path)
    task, content = hosted["refcoco"], boxes(samples["refcoco"], change)
    (tmp_path / "upload").write_bytes(content)
    limits = {"hosted": task, "settings": Settings(), "max_bytes": 2**20}
    check(build("tasks", parse(task.spec), labels), **limits)
    (tmp_path / SHOWN_NAME).rename(tmp_path / "upload")
    value = score(build("tasks", parse(task.spec), labels), name="a", **limits)
    assert value is not None and 0 <= value <= 1


def test_the_check_does_not_read_targets(hosted, samples, labels, tmp_path, monkeypatch):
    """Uploads for which labels of another order would be right get the same answer."""
    answers = [sample.target.answer.count for sample in samples["counting"]]
    told = set()
    for shift in range(3):
        folder = tmp_path / str(shift)
        folder.mkdir()
        monkeypatch.chdir(folder)
        rows = [
            {"id": sample.id, "answer": answers[(place + shift) % len(answers)]}
            for place, sample in enumerate(samples["counting"])
        ]
        rows[3]["answer"] = -1
        (folder / "upload").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        with pytest.raises(DataError) as error:
            check(
                build("tasks", parse("counting"), labels),
                hosted=hosted["counting"],
                settings=Settings(),
                max_bytes=2**20,
            )
        told.add(str(error.value))
    assert len(told) == 1
