"""Pickles of benchmarks are read as plain data, and what could do anything else is refused."""

import ast
import io
import pickle
import pickletools
import re
import struct
import tracemalloc
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError
from harness.tasks import refer
from harness.tasks.refer import plain_pickle
from harness.tasks.refer.pickle_writer import dumps
from harness.tasks.refer.plain_pickle import MAX_MARKS, loads, read_plain_pickle

NAMES = (
    "reason_seg",
    "refcoco",
    "refcoco_plus",
    "refcocog",
    "grefcoco",
    "llm_seg40k",
    "coco_detection",
)
CODES = {one.name: one.code.encode("latin-1") for one in pickletools.opcodes}
CARRIED_OUT = """
    NONE NEWTRUE NEWFALSE INT LONG BININT BININT1 BININT2 LONG1 LONG4 FLOAT BINFLOAT STRING
    BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES
    SHORT_BINBYTES BINBYTES8 EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    EMPTY_DICT SETITEM SETITEMS DICT PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET POP
    POP_MARK DUP MARK PROTO FRAME STOP
"""
"""Instructions that make plain data; it takes a change here to allow another one."""
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


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
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


@pytest.mark.parametrize("name", sorted(CODES.keys() - set(CARRIED_OUT.split())))
def test_every_instruction_that_builds_more_than_plain_data_is_refused_by_name(name):
    for ends in (b"\n\x01" * 9, b""):
        with pytest.raises(DataError, match=rf"byte 2: .*instruction {name}\."):
            loads(b"](" + CODES[name] + ends)


def test_no_other_byte_is_an_instruction():
    for code in {bytes([byte]) for byte in range(256)} - set(CODES.values()):
        with pytest.raises(DataError, match=r"byte 1: .*instruction of a pickle"):
            loads(b"]" + code + b".")


@pytest.mark.parametrize(
    "program",
    [b"cos\ngetcwd\n.", b"\x8c\x02os\x8c\x06getcwd\x93.", b"(ios\ngetcwd\n.", b"Pid\n.", b"NQ."],
)
def test_even_with_every_instruction_nothing_is_imported(program, monkeypatch):
    every = {bytes([code]): step for code, step in pickle._Unpickler.dispatch.items()}
    monkeypatch.setattr(plain_pickle, "STEPS", every)
    with pytest.raises(DataError, match=r"os\.getcwd|persistent"):
        loads(program)


BOMBS = {
    "memo index": (b"]r" + struct.pack("<I", 2**32 - 1) + b".", None),
    "memo index as text": (b"]p99999999999999999\n.", None),
    "memo index without end": (b"]p" + b"9" * 5000 + b"\n.", "byte 1: "),
    "memo entry that is none": (b"h\x07.", r"byte 0: .*index 7\b"),
    "huge number": (b"\x8b" + struct.pack("<I", 2**20) + b"\xff" * 2**20 + b".", "1048576 bytes"),
    "huge number announced": (b"\x8b" + struct.pack("<I", 2**31 - 1) + b"1.", "cut"),
    "number of nine bytes": (b"\x8a\x09" + b"\x01" * 9 + b".", "9 bytes"),
    "digits": (b"I" + b"1" * 100_000 + b"\n.", "100000 digits"),
    "long digits": (b"L" + b"1" * 100_000 + b"L\n.", "digits"),
    "float digits": (b"F" + b"1" * 100_000 + b"\n.", "digits"),
    "text announced": (b"N\x8d" + struct.pack("<Q", 2**62) + b"a.", "byte 1: .*cut"),
    "text beyond sizes": (b"\x8d" + struct.pack("<Q", 2**63) + b"a.", "size"),
    "line without end": (b"NVabc", "byte 1: .*cut"),
    "no number": (b"G\x7f\xf8\x00\x00\x00\x00\x00\x00.", "nan"),
    "infinity": (b"Finf\n.", "inf"),
    "infinite exponent": (b"F1e999\n.", "inf"),
    "underscore": (b"F1_0\n.", "1_0"),
    "octal": (b"I010\n.", "010"),
    "marks": (b"(" * (MAX_MARKS + 1) + b".", "marks"),
    "depth": (b"]" * 99 + b"a" * 98 + b".", "levels"),
    "itself": (b"]q\x00h\x00a.", "levels"),
    "dictionary in itself": (b"}q\x00K\x01h\x00s.", "levels"),
    "key that is a list": (b"}]K\x01s.", "byte 4: .*list"),
    "key that stands for many": (b"})" + b"2\x86" * 24 + b"Ns.", "byte 51: .*tuple"),
    "key of several": (b"}(K\x01NG" + struct.pack(">d", 0.5) + b"Nu.", "byte 15: .*float"),
    "key that is a truth value": (b"}\x88Ns.", "byte 3: .*bool"),
    "key in a list": (b"]NaK\x00Ns.", "byte 6: .*into a list"),
    "value without key": (b"(K\x01d.", "byte 3: .*without a value"),
    "list that is none": (b"K\x01K\x02a.", r"byte 4: .*\bint$"),
    "nothing there": (b"a.", "cut"),
    "empty": (b"", "cut"),
    "no stop": (b"]", "cut"),
    "two values": (b"]].", "byte 2: "),
    "more behind": (b"].]", "byte 1: "),
    "open mark": (b"](.", "byte 2: "),
    "unknown": (b"\xff.", r"byte 0: .*b'\\xff'"),
    "half a character": (b"V\\ud800\n.", "surrogate"),
    "text without quotes": (b"Sabc\n.", "quoted"),
    "one quote": (b"S'\n.", "quoted"),
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


FLOODS = {
    "lists": b"(" + b"]" * 20_000 + b"l.",
    "dictionaries": b"(" + b"}" * 20_000 + b"l.",
    "tuples in tuples": b")" + b"\x85" * 20_000 + b".",
    "memo entries": b"]" + b"\x94" * 20_000 + b".",
    "marks": b"(" * 20_000,
    "frames": b"\x95" + struct.pack("<Q", 2**63) + b"].",
    "bytes announced": b"B" + struct.pack("<I", 2**32 - 1) + b".",
}


@pytest.mark.parametrize("name", [*BOMBS, *FLOODS])
def test_memory_is_bounded_by_the_length_of_the_file(name):
    raw = FLOODS[name] if name in FLOODS else BOMBS[name][0]
    tracemalloc.start()
    try:
        loads(raw)
    except DataError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2**17 + 128 * len(raw)


def test_a_warning_about_a_text_is_an_error_where_warnings_are():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="escape"):
            loads(b"S'\\d'\n.")


def _line(code, text):
    return CODES[code] + text.encode("ascii") + b"\n"


def _counted(code, form, raw):
    return CODES[code] + struct.pack(form, len(raw)) + raw


WITHOUT_ARGUMENT = [one.name for one in pickletools.opcodes if one.arg is None]
RAW = st.binary(max_size=5)
UTF_8 = TEXTS.map(str.encode)
INSTRUCTIONS = st.one_of(
    st.sampled_from(sorted(set(CARRIED_OUT.split()).intersection(WITHOUT_ARGUMENT))).map(CODES.get),
    st.sampled_from([b"I01\n", b"I00\n", b"I010\n", b"L5\n", b"F5\n", b"F1_0\n", b"\x80\x05"]),
    st.sampled_from([b"\x95" + bytes(8), b"p1\n", b"q\x01", b"r\x02\0\0\0", b"j\x01\0\0\0"]),
    st.integers(0, 3).map(lambda index: _line("GET", str(index))),
    st.integers(0, 3).map(lambda index: CODES["BINGET"] + bytes([index])),
    st.integers(-9, 2**63).map(lambda number: _line("INT", str(number))),
    st.integers(-9, 2**63).map(lambda number: _line("LONG", f"{number}L")),
    st.floats().map(lambda number: _line("FLOAT", repr(number))),
    st.floats().map(lambda number: CODES["BINFLOAT"] + struct.pack(">d", number)),
    st.binary(min_size=4, max_size=4).map(CODES["BININT"].__add__),
    st.binary(min_size=2, max_size=2).map(CODES["BININT2"].__add__),
    st.binary(min_size=1, max_size=1).map(CODES["BININT1"].__add__),
    st.binary(max_size=9).map(lambda raw: _counted("LONG1", "<B", raw)),
    st.binary(max_size=9).map(lambda raw: _counted("LONG4", "<I", raw)),
    RAW.map(lambda raw: _line("STRING", repr(raw)[1:])),  # as Python 2 wrote it
    RAW.map(lambda raw: _counted("BINSTRING", "<I", raw)),
    RAW.map(lambda raw: _counted("SHORT_BINSTRING", "<B", raw)),
    RAW.map(lambda raw: _counted("BINBYTES", "<I", raw)),
    RAW.map(lambda raw: _counted("SHORT_BINBYTES", "<B", raw)),
    RAW.map(lambda raw: _counted("BINBYTES8", "<Q", raw)),
    RAW.map(lambda raw: _counted("BINUNICODE", "<I", raw)),
    UTF_8.map(lambda raw: _counted("BINUNICODE", "<I", raw)),
    UTF_8.map(lambda raw: _counted("SHORT_BINUNICODE", "<B", raw)),
    UTF_8.map(lambda raw: _counted("BINUNICODE8", "<Q", raw)),
    st.sampled_from([b"V\\u00e9 \\ud800\n", b"V\xe9\\x41\n", b"V\\u1\n"]),
    # Never part of an instruction that is carried out: C would make a memo of gigabytes.
    st.sampled_from(sorted(CODES[name] for name in CODES.keys() - set(CARRIED_OUT.split()))),
)


class Reference(pickle.Unpickler):
    """Python's machine in C."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


ERRORS_OF_PYTHON = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
)
OUR_LIMITS = (
    "instruction|marks|a key that is|one value and the end|levels|surrogate|not a number"
    "|as a number|whole number of|into a list"
)


def _instructions(raw):
    """The instructions of a pickle, without frames."""
    starts = [at for _, _, at in pickletools.genops(raw)]
    parts = [raw[start:end] for start, end in zip(starts, [*starts[1:], len(raw)], strict=True)]
    return [part for part in parts if not part.startswith(CODES["FRAME"])]


@settings(max_examples=400)
@given(
    PLAIN,
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2), INSTRUCTIONS), max_size=4),
)
def test_programs_give_what_python_gives_or_are_refused(value, protocol, edits):
    program = _instructions(pickle.dumps(value, protocol))
    for at, dropped, instruction in edits:
        place = at % len(program)
        program[place : place + dropped] = [instruction]
    raw = b"".join(program)
    try:
        found = loads(raw)
    except DataError as error:
        if not re.search(OUR_LIMITS, str(error)):
            with pytest.raises(ERRORS_OF_PYTHON):
                Reference(io.BytesIO(raw), encoding="latin-1").load()
        return
    assert repr(found) == repr(Reference(io.BytesIO(raw), encoding="latin-1").load())
    assert _is_plain(found)


def _is_plain(value):
    if type(value) is dict:
        return all(type(key) in (str, int) for key in value) and _is_plain([*value.values()])
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in (type(None), bool, int, float, str, bytes)


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


def test_nothing_of_these_benchmarks_but_the_reader_imports_pickle():
    (folder,) = map(Path, refer.__path__)
    for path in [
        path for name in ("refer", *NAMES) for path in folder.with_name(name).glob("*.py")
    ]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            allowed = {"pickle"} if path.stem == "plain_pickle" else set()
            assert {"pickle", "_pickle", "cPickle", "dill", "joblib"} & set(names) <= allowed, path


def test_the_reader_uses_no_unpickler_but_the_one_that_it_restricts():
    tree = ast.parse(Path(plain_pickle.__file__).read_text(encoding="utf-8"))
    of_pickle = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "pickle"
    ]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "pickle"]
    assert set(of_pickle) == {"_Unpickler", "UnpicklingError"} and len(names) == len(of_pickle)
