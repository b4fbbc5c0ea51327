"""The journal loses nothing that was appended, and notices what was damaged."""

import errno
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Locked, StoreError
from harness.store import checksums
from harness.store.atomic import read_json, write_json
from harness.store.journal import (
    Journal,
    Writer,
    line,
    parse_line,
    references,
    with_references,
    with_texts,
)
from harness.store.lease import lease


def record(name, text="x"):
    return {
        "sample": name,
        "batch": 0,
        "prediction": {"query_id": name, "responses": [text], "usage": [0, 0, 0, 0]},
    }


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=40) | st.integers(), max_size=4))
def test_a_line_is_json_and_holds_its_record(plain):
    raw = line(plain)
    assert parse_line(raw) == plain
    assert json.loads(raw)["record"] == plain


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_is_noticed(place, change):
    raw = bytearray(line(record("a", "some text")))
    raw[place % (len(raw) - 1)] ^= change
    assert parse_line(bytes(raw)) is None


def test_the_last_valid_prediction_of_a_sample_counts(tmp_path):
    for attempt in (1, 2):
        with Writer(tmp_path, 0, attempt) as writer:
            writer.append([{"begin": 0}, record("a", f"attempt {attempt}"), record(f"b{attempt}")])
    journal = Journal(tmp_path)
    assert journal.record("a")["prediction"]["responses"] == ["attempt 2"]
    assert set(journal.places) == {"a", "b1", "b2"} and journal.begun == [0, 0]
    assert journal.next_attempt == 3


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_tail_is_quarantined_and_cut_off(tmp_path, cut):
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([record("a"), record("b")])
    path = tmp_path / "samples.0.1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    journal = Journal(tmp_path)
    assert set(journal.places) == {"a"}
    (output,) = journal.repair()
    assert "torn" in output and path.name in output
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert path.read_bytes() + kept.read_bytes() == whole[:-cut]
    assert not Journal(tmp_path).damaged


def test_a_tail_whose_copy_was_kept_before_a_kill_is_cut_off_all_the_same(tmp_path):
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([record("a"), record("b")])
    path = tmp_path / "samples.0.1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    kept = tmp_path / "quarantine" / f"{path.name}.{len(line(record('a')))}"
    kept.parent.mkdir()
    kept.write_bytes(b"half")  # killed in the middle of mending
    assert path.name in Journal(tmp_path).repair()[0]
    assert path.read_bytes() == line(record("a"))
    assert path.read_bytes() + kept.read_bytes() == whole[:-5]


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path):
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([record("a"), record("b"), record("c")])
    path = tmp_path / "samples.0.1.jsonl"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    journal = Journal(tmp_path)
    assert set(journal.places) == {"a", "c"}
    assert path.name in journal.repair()[0]
    with pytest.raises(StoreError, match="harness eval"):
        journal.record("b")
    assert set(Journal(tmp_path).places) == {"a", "c"}


def test_a_journal_can_be_read_while_it_grows(tmp_path):
    with Writer(tmp_path, 0, 1) as writer:
        journal = Journal(tmp_path)
        for name in "abc":
            writer.append([record(name)])
            journal.refresh()
            assert name in journal.places and not journal.damaged


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path):
    whole = line(record("a", "y" * 100_000))
    path = tmp_path / "samples.0.1.jsonl"
    for end in (1, 5_000, 50_000, len(whole) - 1):
        path.write_bytes(whole[:end])
        journal = Journal(tmp_path)
        assert not journal.places and not journal.damaged
        path.write_bytes(whole)
        journal.refresh()
        assert set(journal.places) == {"a"} and not journal.damaged
        path.unlink()


def write_large(folder, worker):
    with Writer(folder, worker, 1) as writer:
        for number in range(150):
            writer.append([record(f"{worker}/{number}", "z" * 60_000)])


def test_reading_beside_two_writers_of_long_lines_misses_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_large, args=(tmp_path, k)) for k in range(2)]
    for process in writers:
        process.start()
    journal = Journal(tmp_path)
    while any(process.is_alive() for process in writers):
        journal.refresh()
    journal.refresh()
    assert len(journal.places) == 300 and not journal.damaged


def test_an_attempt_in_which_nothing_happened_leaves_no_file(tmp_path):
    with Writer(tmp_path, 0, 1):
        pass
    assert list(tmp_path.iterdir()) == []


def test_of_attempts_the_latest_counts_and_each_has_files_of_its_own(tmp_path):
    for attempt in (2, 10):
        with Writer(tmp_path, 0, attempt) as writer:
            writer.append([record("a", f"attempt {attempt}")])
    assert Journal(tmp_path).record("a")["prediction"]["responses"] == ["attempt 10"]
    with pytest.raises(StoreError):
        Writer(tmp_path, 0, 10)


def test_what_a_disk_takes_in_parts_is_written_whole(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([record("a"), record("b")])
    assert set(Journal(tmp_path).places) == {"a", "b"}


def test_predictions_of_another_configuration_are_refused(tmp_path):
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([{"begin": 0, "run": "this"}, record("a")])
    Journal(tmp_path).check("this")
    with pytest.raises(StoreError):
        Journal(tmp_path).check("other")


def test_changed_missing_and_added_files_are_named(tmp_path):
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([record("a")])
    contents = {"results.json": b"1", "scores.jsonl": b"2"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    checksums.write(tmp_path, contents)
    assert checksums.changed_files(tmp_path) == {}
    (tmp_path / "results.json").write_bytes(b"3")
    (tmp_path / "scores.jsonl").unlink()
    with Writer(tmp_path, 0, 2) as writer:
        writer.append([record("b")])
    found = checksums.changed_files(tmp_path)
    assert found == {
        "results.json": "changed",
        "scores.jsonl": "missing",
        "samples.0.2.jsonl": "added",
    }


def test_a_full_disk_is_an_error_and_earlier_records_stay(tmp_path):
    """/dev/full fails like a full disk; the journal file is put in its place."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([record("a")])
        full = os.open("/dev/full", os.O_WRONLY)
        kept, writer._handle = writer._handle, full
        with pytest.raises(StoreError, match=os.strerror(errno.ENOSPC)):
            writer.append([record("b")])
        writer._handle = kept
        os.close(full)
    assert set(Journal(tmp_path).places) == {"a"}


def write_forever(folder, pipe):
    with Writer(folder, 0, 1) as writer:
        for number in range(10**6):
            writer.append([record(f"s{number}", "y" * 2000)])
            pipe.send(number)


@pytest.mark.parametrize("moment", [0.02, 0.1, 0.23])
def test_kill_loses_nothing_that_was_appended(tmp_path, moment):
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=write_forever, args=(tmp_path, theirs))
    process.start()
    theirs.close()
    last = ours.recv()
    end = time.monotonic() + moment
    while time.monotonic() < end:
        last = ours.recv()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while ours.poll():
        try:
            last = ours.recv()
        except EOFError:
            break
    journal = Journal(tmp_path)
    assert {f"s{number}" for number in range(last + 1)} <= set(journal.places)
    journal.repair()
    assert not Journal(tmp_path).damaged


def test_json_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 0})
    with path.open("rb") as before:
        write_json(path, {"a": 1})
        assert json.loads(before.read()) == {"a": 0}, "it is another file"
    with pytest.raises(ValueError):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]
    with pytest.raises(StoreError, match=r"/y\.json: .*none"):
        read_json(tmp_path / "y.json")
    path.write_text('{"a": ')
    with pytest.raises(StoreError, match=r"x\.json"):
        read_json(path)


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(StoreError):
        write_json(tmp_path / "x.json", {"a": 1})
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_a_read_only_disk_is_named_where_even_removing_a_file_is_refused(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreError, match=r"file .*a\.json: .*Read-only file system"):
        write_json(tmp_path / "a.json", {})


HOLD = """
import sys, time, pathlib
from harness.store.lease import lease
with lease(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_dies(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Locked, match=f"process {holder.pid}"), lease(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with lease(tmp_path):
        assert (tmp_path / "lease.json").exists()
    assert not (tmp_path / "lease.json").exists()


@pytest.mark.parametrize(("age", "refused"), [(1, True), (1000, False)])
def test_a_lease_of_another_machine_counts_while_it_shows_signs_of_life(tmp_path, age, refused):
    other = {"host": socket.gethostname() + "x", "pid": 1, "beat": time.time() - age}
    (tmp_path / "lease.json").write_text(json.dumps(other))
    if refused:
        with pytest.raises(Locked, match="process 1 on"), lease(tmp_path):
            pass
    else:
        with lease(tmp_path):
            pass


TEMPLATE = "Output the thinking process in <think> </think>, the answer in <answer> </answer>."


def asked(name, question, *, system=None, options=()):
    """A sample's record whose request has a question and a template."""
    listed = "".join(f"{letter}. {one}\n" for letter, one in zip("ABC", options, strict=False))
    request = {"text": f"Please find {question.lower()}\n{listed}{TEMPLATE}"}
    if system is not None:
        request["system"] = system
    plain = {**record(name), "batch": 0}
    plain["prediction"]["calls"] = [{"request": request, "response": "x"}, {"request": 0}]
    return with_references(plain, question=question, options=options)


def test_a_text_that_requests_have_in_common_is_written_once_a_file(tmp_path):
    for worker in range(2):
        with Writer(tmp_path, worker, 1) as writer:
            for number in range(worker, 6, 2):
                given = asked(f"{number}", f"Where is number {number}?", system=TEMPLATE * 2)
                writer.append([given])
    for path in tmp_path.iterdir():
        assert path.read_bytes().count(TEMPLATE.encode()) == 3, "the template, and the system's"
    journal = Journal(tmp_path)
    for number in range(6):
        request = journal.record(f"{number}")["prediction"]["calls"][0]["request"]
        assert request["text"] == f"Please find where is number {number}?\n{TEMPLATE}"
        assert request["system"] == TEMPLATE * 2


def test_a_question_is_no_part_of_what_is_shared():
    question = "Where is the one that stands between the others and looks to the left?"
    assert list(asked("a", question)["texts"].values()) == [f"?\n{TEMPLATE}"]


def test_options_are_no_part_of_what_is_shared(tmp_path):
    options = ("the large red one beside the door", "the small one")
    texts = [asked(name, "Which is it?", options=options)["texts"] for name in "ab"]
    assert texts[0] == texts[1] and list(texts[0].values()) == [TEMPLATE]


def test_a_record_does_not_depend_on_the_samples_before_it(tmp_path):
    for attempt, names in ((1, "ab"), (2, "b")):
        with Writer(tmp_path, 0, attempt) as writer:
            for name in names:
                writer.append([asked(name, f"Where is {name}?")])
    lines = [path.read_bytes().splitlines()[-1] for path in sorted(tmp_path.iterdir())]
    assert lines[0] == lines[1]


def test_a_sample_whose_text_is_damaged_is_none(tmp_path):
    with Writer(tmp_path, 0, 1) as writer:
        writer.append([asked("a", "Where is it?"), record("b")])
    path = tmp_path / "samples.0.1.jsonl"
    path.write_bytes(path.read_bytes().replace(b"thinking", b"blinking"))
    journal = Journal(tmp_path)
    assert set(journal.places) == {"b"} and len(journal.damaged) == 1
    with Writer(tmp_path, 0, 2) as writer:
        writer.append([asked("a", "Where is it?")])
    request = Journal(tmp_path).record("a")["prediction"]["calls"][0]["request"]
    assert request["text"] == f"Please find where is it?\n{TEMPLATE}"


@given(st.text(max_size=200), st.text(max_size=8), st.lists(st.text(max_size=4), max_size=2))
def test_any_text_is_put_together_again(text, question, options):
    plain = record("a")
    plain["prediction"]["calls"] = [{"request": {"text": text, "system": text * 3}}]
    given = with_references(plain, question=question, options=options)
    texts = given.pop("texts", {})
    assert references(given) == texts.keys()
    request = with_texts(json.loads(json.dumps(given)), texts)["prediction"]["calls"][0]["request"]
    assert request == {"text": text, "system": text * 3}
