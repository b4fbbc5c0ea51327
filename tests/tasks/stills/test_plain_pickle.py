"""Pickles of benchmarks are read as plain data, and what could do anything else is refused."""

import ast
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError
from harness.tasks import refer
from harness.tasks.refer.pickle_machine import MAX_MARKS, REFUSED
from harness.tasks.refer.pickle_writer import dumps
from harness.tasks.refer.plain_pickle import loads, read_plain_pickle

NAMES = (
    "reason_seg",
    "refcoco",
    "refcoco_plus",
    "refcocog",
    "grefcoco",
    "llm_seg40k",
    "coco_detection",
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary(max_size=9)
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(TEXTS | st.integers(-9, 9), inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=20,
)
REFERENTS = [
    {
        "sent_ids": [0, 1],
        "file_name": "COCO_1.jpg",
        "ann_id": 1719310,
        "ref_id": 0,
        "split": "val",
        "sentences": [{"tokens": ["lady", "in", "black"], "raw": "lady in black", "sent_id": 0}],
    },
    {"sent_ids": [], "ann_id": -1, "ref_id": 1, "split": "testA", "sentences": []},
]


@given(PLAIN, st.integers(3, 5))  # earlier protocols call a function to make bytes
def test_plain_data_is_read_as_python_reads_it(value, protocol):
    raw = pickle.dumps(value, protocol)
    assert loads(raw) == pickle.loads(raw)


@pytest.mark.parametrize("protocol", range(6))
def test_referents_are_read_in_every_protocol(protocol):
    assert loads(pickle.dumps(REFERENTS, protocol)) == REFERENTS


@given(PLAIN)
def test_what_is_written_is_read_by_python_and_by_us(value):
    try:
        raw = dumps(value)
    except DataError as error:
        assert str(error).endswith("bytes")  # bytes, which Python 2 does not have
        return
    assert pickle.loads(raw, encoding="latin-1") == _lists(value) == loads(raw)


def _lists(value):
    """Tuples are written as lists."""
    if isinstance(value, (list, tuple)):
        return [_lists(item) for item in value]
    return {key: _lists(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"S'plain'", "plain"),
        (b'S"it\'s"', "it's"),
        (b"S'it\\'s'", "it's"),
        (b"S'caf\\xe9'", "café"),
        (b"S'a\\tb\\\\n'", "a\tb\\n"),
        (b"S'\\u0041'", "\\u0041"),
        (b"Vcaf\\u00e9", "café"),
        (b"Vdos\r", "dos"),
        (b"S'dos'\r", "dos"),
        (b"U\x03abc", "abc"),
        (b"U\x01\xe9", "é"),
        (b"X\x02\x00\x00\x00\xc3\xa9", "é"),
    ],
)
def test_texts_of_python_2(line, text):
    ends = b"" if line[:1] in b"UX" else b"\n"
    assert loads(line + ends + b".") == text


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"K\xff.", 255),
        (b"M\xff\xff.", 65_535),
        (b"J\xff\xff\xff\xff.", -1),
        (b"I01\n.", True),
        (b"I00\n.", False),
        (b"](K\x01K\x020e.", [1]),  # POP of one value, with a mark below
        (b"](K\x01K\x021.", []),  # POP_MARK
    ],
)
def test_single_instructions_do_what_python_s_do(raw, value):
    found = loads(raw)
    assert found == value == pickle.loads(raw) and type(found) is type(value)


def test_a_mark_that_is_left_is_refused():
    with pytest.raises(DataError):
        loads(b"(N.")


# Attacks


class Runs:
    """What a pickle that runs code is made from."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path, protocol):
    canary = tmp_path / "ran"
    raw = pickle.dumps([REFERENTS, Runs(canary)], protocol)
    with pytest.raises(DataError, match=r"byte \d+: .*GLOBAL"):
        loads(raw)
    assert not canary.exists()
    pickle.loads(raw)
    assert canary.exists(), "the attack is one"


@pytest.mark.parametrize(("code", "name"), REFUSED.items())
def test_every_instruction_that_builds_more_than_plain_data_is_refused_by_name(code, name):
    with pytest.raises(DataError, match=rf"byte 2.*{name}"):
        loads(b"](" + code + b"\n\x01" * 9)


BOMBS = {
    "memo index": (b"]r" + struct.pack("<I", 2**32 - 1) + b".", None),
    "memo index as text": (b"]p99999999999999999\n.", None),
    "memo index without end": (b"]p" + b"9" * 5000 + b"\n.", "byte 1: "),
    "memo entry that is none": (b"h\x07.", r"byte 0: .*entry 7\b"),
    "huge number": (b"\x8b" + struct.pack("<I", 2**20) + b"\xff" * 2**20 + b".", "1048576 bytes"),
    "huge number announced": (b"\x8b" + struct.pack("<I", 2**31 - 1) + b"1.", "cut"),
    "number of nine bytes": (b"\x8a\x09" + b"\x01" * 9 + b".", "9 bytes"),
    "digits": (b"I" + b"1" * 100_000 + b"\n.", "100000 digits"),
    "long digits": (b"L" + b"1" * 100_000 + b"L\n.", "digits"),
    "float digits": (b"F" + b"1" * 100_000 + b"\n.", "digits"),
    "text announced": (b"\x8d" + struct.pack("<Q", 2**62) + b"a.", "cut"),
    "no number": (b"G\x7f\xf8\x00\x00\x00\x00\x00\x00.", "nan"),
    "infinity": (b"Finf\n.", "inf"),
    "marks": (b"(" * (MAX_MARKS + 1) + b".", "marks"),
    "depth": (b"]" * 99 + b"a" * 98 + b".", "levels"),
    "itself": (b"]q\x00h\x00a.", "levels"),
    "dictionary in itself": (b"}q\x00K\x01h\x00s.", "levels"),
    "key that is a list": (b"}]K\x01s.", "byte 4: .*list"),
    "value without key": (b"(K\x01d.", "byte 3: "),
    "list that is none": (b"K\x01K\x02a.", r"byte 4: .*\bint$"),
    "nothing there": (b"a.", "cut"),
    "empty": (b"", "cut"),
    "no stop": (b"]", "cut"),
    "two values": (b"]].", "byte 2: "),
    "more behind": (b"].]", "byte 1: "),
    "open mark": (b"](.", "byte 2: "),
    "unknown": (b"\xff.", r"byte 0: .*b'\\xff'"),
    "half a character": (b"V\\ud800\n.", "surrogate"),
    "text without quotes": (b"Sabc\n.", "quotes"),
    "bad text": (b"X\x01\x00\x00\x00\xff.", "utf-8"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_and_nonsense_are_refused_or_harmless(name):
    raw, message = BOMBS[name]
    if message is None:
        assert loads(raw) == []
    else:
        with pytest.raises(DataError, match=message):
            loads(raw)


def test_a_short_file_cannot_stand_for_a_huge_tree():
    """Each list holds the one before ten times: 10¹⁴ values in 350 bytes."""
    raw = b"](" + b"K\x01" * 10 + b"eq\x00"
    for index in range(13):
        raw += (
            b"](" + b"h" + bytes([index]) + (b"h" + bytes([index])) * 9 + b"eq" + bytes([index + 1])
        )
    with pytest.raises(DataError, match=r"16 levels.*\d values"):
        loads(b"(" + raw + b"l.")


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_plain_data_or_an_error_that_is_ours(raw):
    try:
        loads(raw)
    except DataError as error:
        assert str(error).startswith("pickle")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_file_cut_anywhere_is_refused(tmp_path, protocol):
    raw = pickle.dumps(REFERENTS, protocol)
    for end in range(len(raw)):
        with pytest.raises(DataError):
            loads(raw[:end])
    path = tmp_path / "refs(unc).p"
    path.write_bytes(raw[:40])
    with pytest.raises(DataError, match=r"refs\(unc\)\.p.*byte"):
        read_plain_pickle(path)
    with pytest.raises(DataError, match=r"none\.p.*readable"):
        read_plain_pickle(tmp_path / "none.p")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "large.p"
    with path.open("wb") as file:
        file.truncate(2**28 + 1)
    with pytest.raises(DataError, match=rf"large\.p: .*{2**28} .*{2**28 + 1}"):
        read_plain_pickle(path)


def test_nothing_of_these_benchmarks_imports_pickle():
    (folder,) = map(Path, refer.__path__)
    for path in [
        path for name in ("refer", *NAMES) for path in folder.with_name(name).glob("*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "_pickle", "cPickle", "dill", "joblib"} & set(names), path
