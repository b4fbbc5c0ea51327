"""Several servers of one network: work is shared, and what one of them drops another one takes."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from harness import evaluate, load_task
from harness.errors import MissingDependency, UsageError
from harness.models.backends.openai import openai
from harness.models.backends.openai_http import Endpoint
from harness.models.backends.openai_pool import FIRST_REST, EndpointPool
from harness.models.backends.openai_session import MAX_AHEAD

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract
from chat_server import Scripted, serving

REPOSITORY = Path(__file__).resolve().parents[2]
SERVER = REPOSITORY / "tests" / "serving" / "chat_server.py"
CHECKPOINT = REPOSITORY / "models" / "pocket" / "checkpoint"
FIRST = contract.requests()["first"]
REQUESTS = [replace(FIRST, key=str(n), text=f"{FIRST.text} {n}") for n in range(24)]


def reached(*urls, **settings):
    given = {"model": "served", "coordinates": "pixels", "wait": 0.01, "retries": 1}
    return openai(base_url=",".join(urls), **(given | settings))


def test_servers_share_the_requests():
    with ExitStack() as stack:
        slow = Scripted(slowly=lambda: time.sleep(0.02))
        both = [stack.enter_context(serving(slow)) for _ in range(2)]
        chat = reached(*(one.url for one in both))
        chat.prepare()
        assert chat.generate(REQUESTS) == Scripted().generate(REQUESTS)
        assert min(len(one.asked) for one in both) >= 8
        assert sum(len(one.asked) for one in both) == len(REQUESTS)
    assert chat.describe()["address"] == f"{both[0].url},{both[1].url}"


@pytest.mark.parametrize("fault", ["500", "429", "closes", "closes_half_way", "garbage"])
def test_what_one_server_drops_another_takes_at_once(fault):
    with serving(Scripted(), faults=repeat(fault)) as bad, serving(Scripted()) as good:
        chat = reached(bad.url, good.url, retries=0)
        assert chat.generate(REQUESTS) == Scripted().generate(REQUESTS)
        assert len(good.asked) == 24 and chat.usage.retries == 0
        assert len(bad.moments) <= 8, "those that were under way when it began to fail"


@pytest.mark.parametrize("fault", ["401", "403", "404"])
def test_a_key_or_an_address_that_one_server_refuses_ends_the_run(fault):
    """No other server is asked in its place: the record would not tell that one does no work."""
    with (
        serving(Scripted(), faults=repeat(fault)) as bad,
        serving(Scripted()) as good,
        pytest.raises(UsageError, match=f"{bad.url}.*{fault}"),
    ):
        reached(bad.url, good.url).generate(REQUESTS)


def test_a_server_that_is_back_is_asked_again(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("harness.models.backends.openai_pool.monotonic", lambda: now[0])
    faults = chain(["500"], repeat(""))
    with serving(Scripted(), faults=faults) as ill, serving(Scripted()) as good:
        chat = reached(ill.url, good.url, concurrency=1)
        chat.generate(REQUESTS[:4])
        assert len(ill.moments) == 1
        now[0] = FIRST_REST + 1.0
        chat.generate(REQUESTS[4:])
        assert len(ill.moments) > 1


def test_a_later_fault_does_not_shorten_the_rest_that_a_server_asked_for(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("harness.models.backends.openai_pool.monotonic", lambda: now[0])
    monkeypatch.setattr(Endpoint, "post", lambda *_: {})
    pool = EndpointPool([Endpoint(url=url, timeout=1.0) for url in ("http://a", "http://b")])
    ill, good = pool.members
    pool.rest(ill, wait=60.0)
    pool.rest(ill)  # a second request, which was under way
    now[0] = 59.0
    assert pool.post("", b"")[0] is good
    now[0] = 61.0
    assert pool.post("", b"")[0] is ill


def test_a_server_that_never_comes_back_is_spared_for_days(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("harness.models.backends.openai_pool.monotonic", lambda: now[0])
    pool = EndpointPool([Endpoint(url="http://a", timeout=1.0)])
    for _ in range(1100):
        now[0] += 121.0
        pool.rest(pool.members[0])


def test_a_dead_server_at_the_start_is_done_without_and_all_dead_are_none():
    with serving(Scripted()) as gone:
        pass
    with serving(Scripted()) as good:
        chat = reached(gone.url, good.url)
        chat.prepare()
        assert chat.generate(REQUESTS) == Scripted().generate(REQUESTS)
    with pytest.raises(MissingDependency, match=r"127.*,.*127"):
        reached(gone.url, good.url, retries=0).prepare()


def test_a_server_of_another_network_is_refused():
    with (
        serving(Scripted()) as right,
        serving(Scripted(), model="other") as wrong,
        pytest.raises(UsageError, match=wrong.url),
    ):
        reached(right.url, wrong.url).prepare()


def begin_server():
    """A server process of its own; gives it, and its address."""
    process = subprocess.Popen(
        [sys.executable, SERVER, "--checkpoint", CHECKPOINT, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    return process, process.stdout.readline().split()[-1]


@pytest.mark.slow
def test_two_servers_of_which_one_is_killed_end_with_the_results_of_one(shapes, tmp_path):
    """Real processes with the network that ships; the run goes on without a second command."""
    pytest.importorskip("transformers")
    task = load_task("counting", data=shapes)

    def run(urls, name):
        backend = (
            f"openai(model=served,base_url='{urls}',coordinates=pixels,concurrency=2,wait=0.1)"
        )
        model = f"pocket(segmenter=box,propagator=still,batch_size=1,backend={backend})"
        return evaluate(task, model, out=tmp_path, name=name)

    servers = [begin_server() for _ in range(2)]
    try:
        (first, first_url), (_, second_url) = servers
        folder, killed = tmp_path / "two" / "counting", list[bool]()

        def kill():
            while not any("prediction" in path.read_text() for path in folder.rglob("*.jsonl")):
                time.sleep(0.01)
            first.send_signal(signal.SIGKILL)
            killed.append((folder / "results.json").exists())

        killer = threading.Thread(target=kill)
        killer.start()
        two = run(f"{first_url},{second_url}", "two")
        killer.join()
        assert first.wait(10) == -signal.SIGKILL and killed == [False], "before the end"
        one = run(second_url, "one")
    finally:
        for process, _ in servers:
            process.kill()
            process.wait()
            process.stdout.close()
    assert two.results["metrics"] == one.results["metrics"]
    assert two.results["n_failed"] == one.results["n_failed"]
    ids = [name for unit in two.units() for name in unit.samples]
    assert [two.prediction(name) for name in ids] == [one.prediction(name) for name in ids]


def test_the_requests_of_an_older_call_are_sent_first():
    """Else calls side by side end at the same time, and a server is idle until the next begin."""
    session = openai(
        model="m", base_url="http://127.0.0.1:9/v1", coordinates="pixels", concurrency=2
    ).session
    older, newer = (
        [replace(FIRST, key=f"{call}{number}") for number in range(24)]
        for call in ("older", "newer")
    )
    sent, full, let = [], threading.Event(), threading.Event()

    def ask(request):
        sent.append(request.key)
        full.set()
        assert let.wait(30)
        return Scripted().generate([request])[0]

    session.prepare = lambda request: lambda: ask(request)
    with ThreadPoolExecutor(2) as calls:
        first = calls.submit(session.responses, older)
        assert full.wait(30)
        while session._threads._work_queue.qsize() < len(older) - 2 - MAX_AHEAD:
            time.sleep(0.001)
        second = calls.submit(session.responses, newer)
        while session._threads._work_queue.qsize() < 2 * len(older) - 2 - MAX_AHEAD:
            time.sleep(0.001)
        let.set()
        assert len(first.result()) == len(second.result()) == 24
    first_of_newer = min(sent.index(request.key) for request in newer)
    assert first_of_newer >= len(older) - 2 - MAX_AHEAD, "all but those that wait in a thread"
