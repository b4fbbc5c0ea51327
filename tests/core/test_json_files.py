"""Large JSON files are read one entry at a time, and equal what the json module reads."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError
from harness.layout import JsonFile, JsonIndex, LazyFileList, field, json_scanner

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=4
        )
    ),
    max_leaves=10,
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
FORMS = st.sampled_from([{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}])


@pytest.fixture
def chunked(monkeypatch):
    """Read so many bytes at once."""
    return lambda chunk: monkeypatch.setattr(json_scanner, "CHUNK_BYTES", chunk)


def written(tmp_path, plain, **form):
    path = tmp_path / "x.json"
    text = plain if isinstance(plain, str) else json.dumps(plain, **form)
    path.write_bytes(text.encode("utf-8"))
    return path


def entries(file):
    return {one.key: one.parse() for one in file.entries()}


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=5), JSON, FORMS, st.sampled_from([1, 3, 17, 2**20]))
def test_entries_are_those_of_the_whole_file(tmp_path_factory, plain, other, form, chunk):
    path = written(
        tmp_path_factory.mktemp("json"), {"a": other, "videos": plain, "z": other}, **form
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scanner, "CHUNK_BYTES", chunk)
        file = JsonFile(path, ("videos",))
        assert entries(file) == plain and [one.key for one in file.entries()] == list(plain)
        index = JsonIndex(file)
        assert dict(index.items()) == plain and len(index) == len(plain)
        assert {key: index[key] for key in reversed(list(index))} == plain
        assert "no such key" not in index


@settings(max_examples=40, deadline=None)
@given(st.lists(JSON, max_size=6), FORMS, st.sampled_from([1, 5, 2**20]))
def test_items_are_those_of_the_whole_list(tmp_path_factory, plain, form, chunk):
    path = written(tmp_path_factory.mktemp("json"), plain, **form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scanner, "CHUNK_BYTES", chunk)
        assert [one.parse() for one in JsonFile(path).items()] == plain


WHOLE = {"info": [{"é": -1.5e-3}], "videos": {"v1": {"frames": ["0"]}, "vé": [12, True]}, "n": 7}


@pytest.mark.parametrize("chunk", [1, 2**20])
def test_a_file_that_is_cut_anywhere_is_refused_with_the_byte(tmp_path, chunked, chunk):
    chunked(chunk)
    text = json.dumps(WHOLE)
    for length in range(len(text)):
        path = written(tmp_path, text[:length])
        for read in (lambda file: list(file.entries()), lambda file: JsonIndex(file).walk()):
            with pytest.raises(DataError, match=rf"x\.json.*complete JSON.*of {length}\b"):
                read(JsonFile(path, ("videos",)))
    assert entries(JsonFile(written(tmp_path, text), ("videos",))) == WHOLE["videos"]


def test_bytes_are_counted_from_the_beginning_of_the_file(tmp_path, chunked):
    chunked(4)
    path = written(tmp_path, '{"videos": {"ü": 1, "b": nul}}')
    with pytest.raises(DataError, match="byte 26 of 31"):
        list(JsonFile(path, ("videos",)).entries())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"videos": []}', "'videos': .*JSON.*list"),
        ('{"videos": 3}', "'videos': .*JSON.*number"),
        ("[1]", r"x\.json: expected .*JSON.*list"),
        ('{"v": {}}', "'videos': .*none"),
        ('{"videos": {"a": 1, "b": 2, "a": 3}}', "'a' twice.*byte 28"),
        ('{"videos": {}, "videos": {}}', "'videos' twice.*byte 15"),
        ('{"videos": {"a": 1,}}', "'}'.*byte 19 of 21"),
        ('{"videos": {"a": 1}} x', "'x'.*byte 21 of 22"),
        ('{"videos": {a: 1}}', "'a'.*byte 12 of 18"),
        ('{"videos": {"a": ' + "[" * 200_000 + "]" * 200_000 + "}}", "byte 17 of 400019"),
        ('{"videos": {"a": ' + "9" * 5000 + "}}", "digits"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, text, message):
    file = JsonFile(written(tmp_path, text), ("videos",))
    with pytest.raises(DataError, match=message):
        list(file.entries())
    with pytest.raises(DataError, match=message):
        dict(JsonIndex(file).items())


@pytest.mark.parametrize("text", ["", "  ", "[1, 2", "[1 2]", "[1,]", "[,1]", "{}", '"x"'])
def test_what_is_no_list_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="complete JSON"):
        list(JsonFile(written(tmp_path, text)).items())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json.*readable"):
        list(JsonFile(tmp_path / "gone.json").items())
    with pytest.raises(DataError, match=r"gone\.json.*readable"):
        JsonIndex(JsonFile(tmp_path / "gone.json")).get("a")


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"k": 1, "k": 2}', "twice"), ('"\\ud800"', "surrogate"), ('{"\\udfff": 0}', "surrogate")],
)
def test_an_entry_that_cannot_be_decoded_is_named_and_leaves_the_others(tmp_path, text, message):
    file = JsonFile(written(tmp_path, f'{{"a": {text}, "b": [{text}], "c": 5}}'))
    *wrong, last = file.entries()
    assert last.parse() == 5
    for one in wrong:
        with pytest.raises(DataError, match=rf"entry '{one.key}' .*byte \d+: .*{message}"):
            one.parse()
    index = JsonIndex(file)
    assert index["c"] == 5
    with pytest.raises(DataError, match="entry 'a'"):
        index["a"]


def test_text_that_is_no_utf8_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'["\xff", "ok"]')
    first, second = JsonFile(path).items()
    assert second.parse() == "ok"
    with pytest.raises(DataError, match=r"entry 0.*utf-8"):
        first.parse()


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf[1]")
    assert [one.parse() for one in JsonFile(path).items()] == [1]


def test_a_list_is_found_by_a_field_of_its_objects(tmp_path):
    things = [{"id": number, "name": f"n{number}"} for number in (70, 3, 10**12, -4)]
    file = JsonFile(written(tmp_path, {"images": [], "things": things}), ("things",))
    index = JsonIndex(file, by="id")
    assert [index[str(one["id"])] for one in things] == things and index.get("7") is None
    assert list(index) == ["70", "3", str(10**12), "-4"] and len(index) == 4


@pytest.mark.parametrize(
    ("things", "message"),
    [
        ([{"id": 1}, {"id": 2}, {"id": 1}], "'things', entry 2: 'id' 1: "),
        ([{"id": 1}, {"id": True}], "entry 1: 'id'.*int"),
        ([{}], "entry 0: 'id'.*none"),
        ([5], "entry 0: .*'id', found 5"),
    ],
)
def test_a_number_that_is_missing_or_comes_twice_is_named(tmp_path, things, message):
    index = JsonIndex(JsonFile(written(tmp_path, {"things": things}), ("things",)), by="id")
    for _ in range(2):  # the second time it is known
        with pytest.raises(DataError, match=message):
            index.get("9")


def test_keys_whose_digests_are_equal_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.layout.json_index._digest", lambda key: len(key))
    plain = {"ab": 1, "cd": 2, "e": 3, "fg": 4}
    index = JsonIndex(JsonFile(written(tmp_path, plain)))
    assert {key: index[key] for key in plain} == plain and "zz" not in index
    twice = JsonIndex(JsonFile(written(tmp_path, '{"ab": 1, "cd": 2, "ab": 3}')))
    with pytest.raises(DataError, match="'ab' twice"):
        twice.walk()


def test_an_index_is_a_mapping_for_whoever_needs_a_field(tmp_path):
    index = JsonIndex(JsonFile(written(tmp_path, {"a": {}, "b": 3})))
    assert field(index, "a", dict, "x") == {}
    for key, message in (("b", "'b': .*dict.*3"), ("c", "'c': .*none")):
        with pytest.raises(DataError, match=message):
            field(index, key, dict, "x")


def test_memory_does_not_grow_with_the_file(tmp_path, chunked):
    chunked(2**16)

    def peak(size):
        entry = {"frames": [f"{number:05d}" for number in range(40)]}
        path = tmp_path / f"{size}.json"
        with path.open("w") as file:
            file.write('{"before": [' + ",".join(["[1, 2, 3]"] * size) + '], "videos": {')
            file.write(",".join(f'"v{number}": {json.dumps(entry)}' for number in range(size)))
            file.write("}}")
        index = JsonIndex(JsonFile(path, ("videos",)))
        tracemalloc.start()
        index.walk()
        assert index["v7"] == entry
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found, path.stat().st_size

    peak(10)
    (small, _), (large, size) = peak(2_000), peak(20_000)
    assert large < size / 6 and large - small < 200 * 18_000, "some bytes an entry"


def test_listed_files_are_found_anew_in_each_pass(tmp_path):
    names = ["a", "b", "c"]
    listed = LazyFileList(lambda: (tmp_path / name for name in names))
    assert [path.name for path in listed] == names and len(listed) == 3
    assert listed[1].name == "b" and listed[-1].name == "c" and len(listed[:2]) == 2
    with pytest.raises(IndexError):
        listed[3]
