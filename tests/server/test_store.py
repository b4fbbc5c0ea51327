"""Accounts, the queue and the daily limit, in SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa

from harness.errors import UsageError
from harness.leaderboards.server.store import DAY, DailyLimit, Store, Upload
from tests.leaderboards import postgresql

NOON = 20_000 * DAY + DAY / 2


server, url = postgresql.server, postgresql.url  # fixtures of this module


@pytest.fixture
def store(url):
    return Store(url)


def upload(number, account="a", **changed):
    return Upload(
        account=account,
        task="counting",
        method="m",
        settings="{}",
        file=f"file{number}",
        sha256=f"{account}{number}",
        content="c",
        size=1,
        received_at=NOON,
        **changed,
    )


def test_a_token_is_valid_until_the_next_and_only_its_hash_is_kept(store):
    first, second = store.renew_token("a"), store.renew_token("a")
    assert store.account_of(first) is None and store.account_of(second) == "a"
    for wrong in (
        "",
        ".",
        "a",
        "a.",
        second[:-1],
        f"b{second[1:]}",
        "a.\x00",
        "\ud800",
        "%",
        "A" * 99,
    ):
        assert store.account_of(wrong) is None
    store.revoke("a")
    assert store.account_of(second) is None and store.account_of("a.") is None
    for name in ("A", "", "a b", "a" * 41, "../x", "a\n"):
        with pytest.raises(UsageError, match="account"):
            store.renew_token(name)


def test_the_queue_keeps_its_order_and_what_it_has(store, hosted):
    store.renew_token("a")
    accepted = [store.accept(upload(number), 9) for number in range(3)]
    assert store.next_queued() == accepted[0]
    store.fail(accepted[0])
    shown = []
    for value in (0.5, 0.9):
        done = store.finish(store.next_queued(), value, hosted["counting"])
        shown.append(done.shown)
    assert shown == pytest.approx([0.5, 5 / 6]) and store.next_queued() is None
    store.retry_failed()
    late = store.finish(store.next_queued(), 0.4, hosted["counting"])
    assert late.shown == pytest.approx(5 / 6) and late.moved == 0
    assert [one.state for one in store.uploads("a")] == ["scored"] * 3
    assert store.uploads("b") == []


def test_the_limit_is_of_an_account_a_task_and_a_day_of_utc(store):
    store.renew_token("a")
    store.renew_token("b")
    for number in range(2):
        store.accept(upload(number), 2)
    with pytest.raises(DailyLimit, match=r"at most 2 uploads a day.* in 12\.0 h"):
        store.accept(upload(2), 2)
    assert store.accept(upload(1), 2).number == store.uploads("a")[1].number  # again
    store.accept(upload(2, account="b"), 2)
    store.accept(replace(upload(2), task="other"), 2)
    store.accept(replace(upload(3), received_at=NOON + DAY / 2), 2)


def test_accepts_at_once_keep_to_the_limit_and_to_one_row_for_the_same_bytes(store):
    store.renew_token("a")

    def accept(number):
        try:
            return store.accept(replace(upload(number % 8), file=str(number)), 5).number
        except DailyLimit:
            return None

    with ThreadPoolExecutor(16) as threads:
        numbers = [*threads.map(accept, range(32))]
    kept = {one.number for one in store.uploads("a")}
    assert len(kept) == 5 and {*numbers} - {None} == kept


def test_texts_of_sql_are_texts(store):
    store.renew_token("a")
    evil = "x'); DROP TABLE uploads; --"
    store.accept(replace(upload(1), method=evil), 5)
    assert store.find("a", "counting' OR '1'='1", "a1", "m", "{}") is None
    assert [one.method for one in store.uploads("a")] == [evil]
    assert sa.inspect(store._engine).has_table("uploads")


def test_a_name_stands_for_the_same_labels_and_protocol_for_ever(store, hosted):
    counting = hosted["counting"]
    assert store.claim(counting) == counting == store.claim(counting)
    assert store.claim(replace(counting, key="counting-split=x")).key == "counting"
    for changed in ({"split": "test"}, {"protocol": "p2"}, {"headline": "MAE"}, {"data": "0"}):
        with pytest.raises(UsageError, match="another --state"):
            store.claim(replace(counting, **changed))
    assert store.claim(replace(counting, key="counting-split=y", split="y")).split == "y"


def test_another_statement_about_a_file_is_another_upload(store):
    store.renew_token("a")
    first = store.accept(upload(1), 5)
    assert store.accept(upload(1), 5) == first
    corrected = store.accept(replace(upload(1), settings='{"coordinates": "relative"}'), 5)
    assert corrected.number != first.number
