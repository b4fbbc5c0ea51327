"""A resumed run asks by its stored queries, and reads the benchmark before it writes a score."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from harness import plugins
from harness.errors import DataError, ResumeMismatch, UsageError
from harness.run import stored_queries
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.stored_queries import QUERIES
from harness.spec import parse
from harness.store.journal import Journal

ASKED = 12
"""Samples of which a killed run has the answers."""


@pytest.fixture(autouse=True)
def stores(monkeypatch):
    """Store the queries of small runs too."""
    monkeypatch.setattr(stored_queries, "MIN_SAMPLES", 1)


class Reader:
    """The samples of the task `dots`, which notes what had been asked at each reading."""

    def __init__(self, root):
        self.task = plugins.build("tasks", parse("dots"), root)
        self.read = self.task.samples
        self.asked: list[str] = []
        self.before: list[int] = []

    def __call__(self):
        for sample in self.read():
            self.before.append(len(self.asked))
            yield sample


def run(reader, folder, *, limit=None, monkeypatch, model="dot_finder", sort=True, **options):
    """Evaluate; with a limit, the process ends as if it were killed when so many were asked."""
    import toys

    answer = toys.DotFinder.answer

    def watched(self, query):
        if limit is not None and len(reader.asked) >= limit:
            raise UsageError("killed")
        reader.asked.append(query.id)
        return answer(self, query)

    with monkeypatch.context() as patched:
        patched.setattr(toys.DotFinder, "answer", watched)
        task = replace(reader.task, samples=reader)
        built = replace(plugins.build("models", parse(model)), sorts_by_length=sort)
        return evaluate(task, built, folder, Options(**options))


@pytest.fixture
def killed(dots, tmp_path, monkeypatch):
    """A data root, and the folder of a run of which 12 of 40 samples are answered."""
    folder = tmp_path / "run"
    with pytest.raises(UsageError, match="killed"):
        run(Reader(dots), folder, limit=ASKED, monkeypatch=monkeypatch)
    return dots, folder


def content(folder: Path) -> dict[str, bytes]:
    names = ("results.json", "scores.jsonl", "media.jsonl", "manifest.json")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subset": "first30"},
        {"sort": False, "batch_size": 5},
        {"model": "dot_talker"},
    ],
    ids=["sorted", "subset", "unsorted", "by-sample"],
)
def test_a_resumed_run_asks_before_it_reads_and_ends_equal(options, dots, tmp_path, monkeypatch):
    run(Reader(dots), tmp_path / "whole", monkeypatch=monkeypatch, **options)
    with pytest.raises(UsageError, match="killed"):
        run(Reader(dots), tmp_path / "a", limit=ASKED, monkeypatch=monkeypatch, **options)
    assert (tmp_path / "a" / QUERIES).is_file()
    journalled = len(Journal(tmp_path / "a").places)
    reader = Reader(dots)
    run(reader, tmp_path / "a", monkeypatch=monkeypatch, **options)
    assert reader.before[0] > 0
    assert len(reader.asked) == (30 if "subset" in options else 40) - journalled
    assert content(tmp_path / "a") == content(tmp_path / "whole")
    assert not (tmp_path / "a" / QUERIES).exists()


def test_changed_images_are_read_before_anything_is_asked(killed, monkeypatch):
    root, folder = killed
    path = root / "dots" / "0001.png"
    Image.open(path).transpose(Image.Transpose.FLIP_TOP_BOTTOM).save(path)
    reader = Reader(root)
    with pytest.raises(ResumeMismatch, match=r"0001\.png has changed"):
        run(reader, folder, monkeypatch=monkeypatch)
    assert reader.before[0] == 0 and not reader.asked


def test_new_images_are_seen_by_their_folder(killed, monkeypatch):
    root, folder = killed
    (root / "dots" / "0040.png").write_bytes((root / "dots" / "0005.png").read_bytes())
    reader = Reader(root)
    with pytest.raises(ResumeMismatch, match="n_total"):
        run(reader, folder, monkeypatch=monkeypatch)
    assert not reader.asked


def test_another_reading_of_the_same_files_gets_no_score(killed, monkeypatch):
    root, folder = killed
    reader = Reader(root)
    read = reader.read

    def reworded():
        for sample in read():
            yield replace(sample, query=replace(sample.query, text="the bright dot"))

    reader.read = reworded
    with pytest.raises(ResumeMismatch, match="fingerprint"):
        run(reader, folder, monkeypatch=monkeypatch)
    assert not (folder / "results.json").exists()


def test_a_change_while_the_run_goes_on_gets_no_score(killed, monkeypatch):
    root, folder = killed
    reader = Reader(root)
    read = reader.read

    def emptied():
        yield from read()
        (root / "dots" / "0039.png").write_bytes(b"")

    reader.read = emptied
    with pytest.raises((ResumeMismatch, DataError), match=r"0039\.png"):
        run(reader, folder, monkeypatch=monkeypatch)
    assert not (folder / "results.json").exists()


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_damaged_file_of_queries_is_not_used(place, killed, monkeypatch):
    root, folder = killed
    lines = (folder / QUERIES).read_bytes().splitlines(keepends=True)
    lines[place] = lines[place].replace(b'"', b"'", 1)
    (folder / QUERIES).write_bytes(b"".join(lines))
    reader = Reader(root)
    run(reader, folder, monkeypatch=monkeypatch)
    assert reader.before[0] == 0 and len(reader.asked) == 40 - ASKED


def test_queries_with_media_of_other_kinds_are_not_stored(dots, tmp_path, monkeypatch):
    reader = Reader(dots)
    read = reader.read

    def decoded():
        from harness.media import pixels

        for sample in read():
            media = [
                pixels(m.frames(), times=(0,), is_video=False, id=m.id) for m in sample.query.media
            ]
            yield replace(sample, query=replace(sample.query, media=tuple(media)))

    reader.read = decoded
    with pytest.raises(UsageError, match="killed"):
        run(reader, tmp_path / "run", limit=ASKED, monkeypatch=monkeypatch)
    assert not [path for path in (tmp_path / "run").iterdir() if QUERIES in path.name]
