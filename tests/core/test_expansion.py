"""Small files that expand hugely, or claim a size, are refused before they are held."""

import os
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

from harness import files, layout
from harness.errors import DataError
from harness.files import NoFile, content_hash, digest, read_bytes, read_text
from harness.layout.parquet_rows import rows


def repeated(value, count):
    indices = pa.array([0] * count, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([value]))


def listed(values):
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


BOMBS = {
    "a text in every row": lambda: repeated("A" * 1_000, 2**16),
    "a text often in one row": lambda: listed(repeated("A" * 1_000, 2**16)),
    "numbers in one row": lambda: listed(pa.array([7]).take(pa.array([0] * 2_000_000))),
    "fields of a record": lambda: pa.StructArray.from_arrays(
        [repeated("A" * 1_000, 2**16)], ["inner"]
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_parquet_file_that_expands_is_refused_at_once(tmp_path, monkeypatch, bomb):
    monkeypatch.setattr(layout.parquet_rows, "MAX_TEXT_BYTES", 2**20)
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"q": BOMBS[bomb]()}), path, store_schema=False)
    assert path.stat().st_size < 20_000
    began = time.perf_counter()
    with pytest.raises(DataError, match=r"a\.parquet.*times its own"):
        for _ in rows(path, ["q"]):
            pass
    assert time.perf_counter() - began < 20


def test_repeated_texts_of_a_usual_size_are_read_as_they_are(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [f"question {number % 7}" for number in range(3_000)]
    table = {
        "q": pa.array(texts),
        "o": pa.array([[text, None, "b"] for text in texts]),
        "r": pa.array([{"a": text, "b": [1, 2]} for text in texts]),
        "i": pa.array([text.encode() for text in texts]),
        "n": pa.array(range(3_000)),
    }
    parquet.write_table(pa.table(table), path)
    found = list(rows(path, list(table)))
    assert found == pa.table(table).to_pylist()


def test_a_row_group_of_too_many_values_is_refused_by_its_own_word(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"q": pa.array([[1] * 50])}), path)
    monkeypatch.setattr(layout.parquet_rows, "MAX_VALUES", 49)
    with pytest.raises(DataError, match="at most 49 values of 'q"):
        list(rows(path, ["q"]))


@pytest.fixture
def hollow(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{}")
    os.truncate(path, 10**12)
    if path.stat().st_blocks > 10_000:
        pytest.skip("this file system has no holes")
    return path


@pytest.mark.parametrize("read", [read_bytes, read_text, content_hash, digest])
def test_a_hole_of_a_terabyte_is_not_read(hollow, read):
    with pytest.raises(NoFile):
        read(hollow)
    with pytest.raises(DataError, match="a hole"):
        layout.read_json(hollow)


def test_small_holes_and_compact_files_are_read(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1000)
    os.truncate(path, 100_000)
    assert len(read_bytes(path)) == 100_000
    monkeypatch.setattr(files, "MAX_READ_BYTES", 1000)
    with pytest.raises(NoFile):
        read_bytes(path)
