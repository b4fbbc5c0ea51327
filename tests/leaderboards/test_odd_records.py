"""One odd record ends no viewer and no watcher of one; silent connections keep nobody out."""

import http.client
import json
import random
import shutil
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from harness.leaderboards.board import build
from harness.leaderboards.site import server as site_server
from harness.leaderboards.site.live import LiveSite
from harness.leaderboards.site.server import SiteServer
from harness.store import checksums

ODD = (None, True, -1, 1e308, 10**60, "", "x\n::a", "\ud800", [], [[1]], {}, {"a": {}}, "9" * 300)


def places(plain, path=()):
    yield path
    if isinstance(plain, dict | list):
        items = plain.items() if isinstance(plain, dict) else enumerate(plain[:3])
        for key, value in items:
            yield from places(value, (*path, key))


def spoil(plain, drawn):
    """Replace or delete a value anywhere in plain data, or all of it."""
    path = drawn.choice(list(places(plain)))
    if not path:
        return drawn.choice(ODD)
    inner = plain
    for key in path[:-1]:
        inner = inner[key]
    if drawn.random() < 0.2 and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = drawn.choice(ODD)
    return plain


def spoil_file(run, name, drawn):
    path = run / name
    if name == "scores.jsonl":
        first, *others = path.read_text().splitlines()
        lines = [json.dumps(spoil(json.loads(first), drawn)), *others]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(json.dumps(spoil(json.loads(path.read_text()), drawn)))
    plain = json.loads((run / "checksums.json").read_text())
    plain["files"] = {one: checksums._current_hash(run / one) for one in plain["files"]}
    (run / "checksums.json").write_text(json.dumps(plain))


@pytest.mark.parametrize("name", ["results.json", "manifest.json", "scores.jsonl", "timing.json"])
def test_a_record_with_anything_in_it_is_shown_or_refused_beside_the_others(make_run, name):
    good, odd = make_run("good"), make_run("odd", shift=2)
    whole = {path: path.read_bytes() for path in odd.iterdir() if path.is_file()}
    for seed in range(12):
        spoil_file(odd, name, random.Random(f"{name} {seed}"))
        site = LiveSite([good, odd])
        assert site.refresh() == []
        index = site.file("data/index.js")[0]
        assert b"good" in index and site.file("board.md") and site.file("board.json")
        shown = {entry.row.run for table in site.board.tables for entry in table.entries}
        assert shown | {one.run for one in site.board.refused} == {"good", "odd"}
        for path, content in whole.items():
            path.write_bytes(content)
    assert build([good, odd]).refused == ()


def test_an_odd_unfinished_run_is_named_and_does_not_end_the_watcher(make_run, monkeypatch):
    good, odd = make_run("good"), make_run("odd", shift=2)
    hidden = odd.with_name(".hidden")
    odd.rename(hidden)
    monkeypatch.setattr(site_server, "INTERVAL", 0.02)
    site = LiveSite([good.parent])
    server = SiteServer(site)
    try:
        for seed in range(6):
            shutil.copytree(hidden, odd)
            for name in ("results.json", "scores.jsonl", "checksums.json"):
                (odd / name).unlink()
            plain = json.loads((odd / "manifest.json").read_text())
            (odd / "manifest.json").write_text(json.dumps(spoil(plain, random.Random(seed))))
            time.sleep(0.1)
            shutil.rmtree(odd)
        make_run("another", shift=3)
        deadline = time.monotonic() + 20
        while "another" not in str(site.board.tables) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server._watcher.is_alive() and "another" in str(site.board.tables)
    finally:
        server.server_close()


@pytest.fixture
def served(world, monkeypatch):
    monkeypatch.setattr(site_server, "IDLE", 0.3)
    monkeypatch.setattr(site_server, "MAX_CONNECTIONS", 8)
    server = SiteServer(LiveSite([world.runs]))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def silent(server, begin=b"GET / HT"):
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=10)
    connection.sendall(begin)
    return connection


def status(server, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("begin", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nA: b\r\n"])
def test_a_connection_without_a_request_is_closed(served, begin):
    with silent(served, begin) as connection:
        assert connection.recv(100) == b""


def test_header_lines_that_drip_are_no_request(served):
    with silent(served, b"GET / HTTP/1.1\r\n") as connection, pytest.raises(OSError):
        for _ in range(100):
            connection.sendall(b"A: b\r\n")
            time.sleep(0.05)


def test_silent_connections_keep_nobody_out(served, monkeypatch):
    monkeypatch.setattr(site_server, "IDLE", 60)
    start = urlsplit(served.url).path
    held = [silent(served) for _ in range(20)]
    try:
        assert status(served, start) == 200
        # A connection that was hung up leaves the set once its thread has seen it.
        until = time.monotonic() + 30
        while len(served._connections) > 9 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(served._connections) <= 9
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("name", ["data/t{}/samples.js", "data/t0/r{}-0.js", "media/t0-{}.webp"])
def test_a_number_of_any_length_is_no_page(served, name, capfd):
    root = urlsplit(served.url).path.rpartition("/")[0]
    for number in ("9" * 5_000, "0" * 60_000, "1e9"):
        assert status(served, f"{root}/{name.format(number)}") == 404
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_that_fails_is_an_error_of_the_server_and_says_why(served, monkeypatch):
    root = urlsplit(served.url).path.rpartition("/")[0]
    monkeypatch.setattr(LiveSite, "_content", lambda *_: {}["an odd\nkey"])
    assert status(served, f"{root}/index.html") == 500
