"""Names, fields and small files of a benchmark's layout."""

import json

import pytest

from harness.errors import DataError
from harness.layout import field, path_inside, read_json
from harness.tasks.qa.options import texts


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "..", "../a", "a/../../b", "a\\b", "a\nb", "a\0b", 3, None]
)
def test_a_name_that_leaves_its_folder_is_refused(tmp_path, name):
    with pytest.raises(DataError):
        path_inside(tmp_path, name)


def test_a_name_inside_is_a_path(tmp_path):
    assert path_inside(tmp_path, "a/b..c.jpg") == tmp_path / "a" / "b..c.jpg"


@pytest.mark.parametrize(
    ("plain", "kind"),
    [({}, int), ([], int), ({"n": "1"}, int), ({"n": True}, int), ({"n": 1}, str)],
)
def test_a_field_of_another_type_is_refused(plain, kind):
    with pytest.raises(DataError, match="'n'"):
        field(plain, "n", kind, "record 3")


def test_a_field_is_its_value():
    assert field({"n": 0}, "n", int, "") == 0 and field({"n": False}, "n", bool, "") is False
    assert field({"n": 1}, "n", (int, float), "") == 1


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"a": 1}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"a": 1}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": "\\ud800"}', '{"a": 1', "[" * 100_000])
def test_what_would_lose_something_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=r"a\.json"):
        read_json(tmp_path / "a.json")


def test_a_pair_of_surrogates_is_a_character(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"a": "😀"}))
    assert read_json(tmp_path / "a.json") == {"a": "😀"}


@pytest.mark.parametrize("options", [["A. one"], ["B. one", "A. two"], ["A. one", "two"], []])
def test_options_that_are_not_lettered_in_order_are_refused(options):
    with pytest.raises(DataError):
        texts(options, "record 3")
