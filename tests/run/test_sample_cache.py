"""Annotation files are parsed once a run; samples are kept on disk, within bounds."""

import os
import threading
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from harness import plugins
from harness.errors import DataError
from harness.files import ReadHashes, content_hash, open_regular
from harness.layout import json_file
from harness.masks import Rle
from harness.run.batching import select
from harness.run.evaluate import evaluate
from harness.run.options import NullProgress, Options
from harness.run.preflight import preflight
from harness.run.sample_cache import SampleCache, read_once
from harness.run.survey import survey
from harness.spec import parse
from harness.task import Problem
from harness.tasks.reason_seg import task as reason_seg
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

ONCE = ("reason_seg", "mevis", "revos", "ref_youtube_vos", "vsi_bench", "video_mme")


class Walks:
    """Samples that count how often they are read, each time from the first."""

    def __init__(self, samples):
        self.samples, self.begun, self.given = samples, 0, 0

    def __call__(self):
        self.begun += 1
        for sample in self.samples():
            self.given += 1
            yield sample


def sample(number, *, extra=None, side=4):
    mask = Rle.from_array(np.eye(side, dtype=bool))
    return Sample(
        id=str(number),
        query=Query(id=query_id(str(number)), text="?", media=(), forms=(AnswerForm.MASK,)),
        target=Target(answer=Answer(masks=(mask,)), extra=extra or {}),
    )


def ten():
    return map(sample, range(10))


def refuse():
    raise AssertionError("the files are sound")


@pytest.mark.parametrize("spec", ONCE)
def test_a_run_reads_each_sample_once(spec, shapes, tmp_path):
    task = plugins.build("tasks", parse(spec), shapes)
    total = sum(1 for _ in task.samples())
    walks = Walks(task.samples)
    counted = replace(task, samples=walks, check=refuse)
    evaluate(counted, parse("whole_frame"), tmp_path / "run", Options(batch_size=3))
    assert (walks.begun, walks.given) == (1, total)


def test_each_annotation_of_reason_seg_is_parsed_once_a_run(shapes, tmp_path, monkeypatch):
    parsed, read = Counter(), reason_seg.read_annotation

    def counted(path):
        parsed[path] += 1
        return read(path)

    monkeypatch.setattr(reason_seg, "read_annotation", counted)
    task = plugins.build("tasks", parse("reason_seg"), shapes)
    evaluate(task, parse("whole_frame"), tmp_path / "run", Options(subset="first2"))
    assert set(parsed.values()) == {1} and len(parsed) == len(task.annotations)


@pytest.mark.parametrize("spec", ["reason_seg", "mmvu", "mvbench", "vsi_bench", "robospatial"])
def test_each_annotation_file_is_opened_once_a_run(spec, shapes, tmp_path, monkeypatch):
    opened, real = Counter(), os.open

    def counted(path, *arguments, **named):
        opened[str(path)] += 1
        return real(path, *arguments, **named)

    task = plugins.build("tasks", parse(spec), shapes)
    monkeypatch.setattr(os, "open", counted)
    run = evaluate(task, parse("random"), tmp_path / "run", Options())
    assert {opened[str(path)] for path in task.annotations} == {1}
    monkeypatch.undo()
    anew = survey(task, select(task, None))
    assert run.manifest["data"]["fingerprint"] == anew.fingerprint, "hashed apart from reading"


@pytest.mark.parametrize("how", ["whole", "lines", "chunks", "from its middle", "not to its end"])
def test_a_hash_is_that_of_the_file_however_it_is_read(how, tmp_path):
    path, hashes = tmp_path / "a.json", ReadHashes()
    path.write_bytes(b"0123456789abcde\n" * 10_000)
    with hashes.recorded(), open_regular(path) as file:
        if how == "whole":
            file.read()
        elif how == "lines":
            assert sum(1 for _ in file) == 10_000
        elif how == "chunks":
            while file.read(70_000):
                pass
        elif how == "from its middle":
            file.seek(80_000)
            file.read()
            file.seek(0)
            file.read(80_000)
        else:
            file.read(100_000)
    assert hashes.content_hash(path) == content_hash(path)
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, (1, 1))  # the clock of some file systems is coarse
    assert hashes.content_hash(path) == content_hash(path), "it has changed since"


@pytest.mark.parametrize(
    "fault", [DataError("c.json", expected="JSON", found="something else"), SystemExit("c.json")]
)
def test_an_error_of_the_reader_is_raised_by_the_survey(fault, shapes):
    task = plugins.build("tasks", parse("reason_seg"), shapes)

    def torn():
        yield from islice(task.samples(), 1)
        raise fault

    cut = read_once(replace(task, samples=torn))
    with pytest.raises(DataError, match=r"c\.json"):
        survey(cut, select(cut, None))


def test_each_mask_of_mevis_is_parsed_once_for_each_expression(shapes, tmp_path, monkeypatch):
    parsed, parse_entry = Counter(), json_file.Entry.parse

    def counted(entry):
        parsed[entry.path.name, entry.key] += 1
        return parse_entry(entry)

    monkeypatch.setattr(json_file.Entry, "parse", counted)
    task = plugins.build("tasks", parse("mevis"), shapes)
    list(task.samples())
    one_walk = dict(parsed)
    parsed.clear()
    task = plugins.build("tasks", parse("mevis"), shapes)
    evaluate(task, parse("whole_frame"), tmp_path / "run", Options())
    assert dict(parsed) == one_walk


def test_a_run_with_wrong_files_lists_all_that_check_finds(shapes):
    task = plugins.build("tasks", parse("reason_seg"), shapes)
    several = [Problem("a.json", "is wrong"), Problem("b.json", "is wrong, too")]

    def torn():
        yield from islice(task.samples(), 1)
        raise DataError("c.json", expected="JSON", found="something else")

    with pytest.raises(DataError, match=r"2 problems\n.*a\.json.*\n.*b\.json"):
        preflight(
            replace(task, samples=torn, check=lambda: several), NullProgress(), allow_missing=False
        )
    with pytest.raises(DataError, match=r"1 problem\n.*c\.json"):
        preflight(
            replace(task, samples=torn, check=lambda: []), NullProgress(), allow_missing=False
        )
    empty = replace(task, samples=lambda: iter(()), check=lambda: several)
    with pytest.raises(DataError, match=r"2 problems\n.*a\.json"):
        preflight(empty, NullProgress(), allow_missing=False)


def test_a_task_whose_check_finds_more_is_checked_before_a_run(shapes):
    task = plugins.build("tasks", parse("reason_seg"), shapes)
    wrong = replace(task, check_samples=None, check=lambda: [Problem("a.txt", "is wrong")])
    with pytest.raises(DataError, match=r"a\.txt"):
        preflight(wrong, NullProgress(), allow_missing=False)


def test_every_walk_gives_equal_samples_in_order():
    walks = Walks(ten)
    cache = SampleCache(walks)
    assert [one.id for one in islice(cache(), 3)] == ["0", "1", "2"]
    first, second = list(cache()), list(cache())
    assert first == second == list(ten())
    assert (walks.begun, walks.given) == (1, 10)


def test_walks_may_be_interleaved_and_come_from_threads():
    walks, found = Walks(ten), []
    cache = SampleCache(walks)
    threads = [threading.Thread(target=lambda: found.append(list(cache()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    pairs = list(zip(cache(), cache(), strict=True))
    for thread in threads:
        thread.join()
    assert all(one == other for one, other in pairs) and found == [list(ten())] * 8
    assert (walks.begun, walks.given) == (1, 10)


@pytest.mark.parametrize("bound", [0, 700, 1200])
def test_above_its_bound_samples_are_read_anew(bound):
    walks = Walks(ten)
    cache = SampleCache(walks, max_bytes=bound)
    assert list(cache()) == list(cache()) == list(ten()) and walks.begun == 3


def test_a_sample_that_cannot_be_pickled_is_read_anew():
    def odd():
        yield sample(0)
        yield sample(1, extra={"rule": lambda: 1})
        yield sample(2)

    walks = Walks(odd)
    cache = SampleCache(walks)
    assert [[one.id for one in cache()] for _ in range(2)] == [["0", "1", "2"]] * 2
    assert walks.begun == 3


def test_an_error_of_the_reader_comes_in_each_walk():
    def torn():
        yield sample(0)
        raise DataError("x.json", expected="JSON", found="its end")

    cache = SampleCache(torn)
    for _ in range(2):
        walk = cache()
        assert next(walk).id == "0"
        with pytest.raises(DataError, match=r"x\.json"):
            next(walk)


def test_memory_does_not_grow_with_the_samples():
    def many():
        return (sample(number, extra={"text": "x" * 100_000}) for number in range(400))

    cache = SampleCache(many)
    tracemalloc.start()
    try:
        assert sum(1 for _ in cache()) == sum(1 for _ in cache()) == 400
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 36_000_000 < 400 * 100_000, "16 MiB are kept in memory before there is a file"


def test_a_task_is_cached_once(shapes):
    task = read_once(plugins.build("tasks", parse("reason_seg"), shapes))
    assert read_once(task) is task
