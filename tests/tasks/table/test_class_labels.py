"""Classes in a Parquet file of the `datasets` library are their names, not their numbers."""

import json

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import harness
from harness.errors import DataError
from harness.tasks.table.draft import draft
from harness.tasks.table.rows import table_records
from harness.types import Answer

ANIMALS = {"_type": "ClassLabel", "names": ["cat", "dog", "horse"]}
TEXT = {"_type": "Value", "dtype": "string"}


def saved(folder, columns, features):
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    count = len(next(iter(columns.values())))
    columns = {"image": ["a.png"] * count, "question": ["Which animal?"] * count, **columns}
    info = {"info": {"features": {"image": TEXT, "question": TEXT, **features}}}
    table = pa.table(columns).replace_schema_metadata({b"huggingface": json.dumps(info).encode()})
    path = folder / "mine.parquet"
    parquet.write_table(table, path)
    (folder / "mine.toml").write_text(draft(path).toml("mine"))
    return path


def answers(path):
    return [sample.target.answer for sample in harness.load_task(f"table(file={path})").samples()]


def test_the_number_of_a_class_is_its_name(tmp_path):
    path = saved(tmp_path, {"label": [1, 0, 2]}, {"label": ANIMALS})
    assert answers(path) == [Answer(text=name) for name in ("dog", "cat", "horse")]


def test_a_class_is_found_among_options_in_any_order(tmp_path):
    options = [["horse", "cat", "dog"], ["cat", "dog", "horse"]]
    features = {"options": {"_type": "List", "feature": TEXT}, "label": ANIMALS}
    path = saved(tmp_path, {"options": options, "label": [1, 2]}, features)
    assert answers(path) == [Answer(choice="C"), Answer(choice="C")]


def test_yes_may_be_class_0(tmp_path):
    yes = {"_type": "ClassLabel", "names": ["yes", "no"]}
    path = saved(tmp_path, {"answer": [0, 1, 1]}, {"answer": yes})
    assert answers(path) == [Answer(text="yes"), Answer(text="no"), Answer(text="no")]


@pytest.mark.parametrize(
    ("cells", "kind", "names"),
    [
        ([[1]], [ANIMALS], [["dog"]]),
        ([{"label": 1, "box": [2]}], {"label": ANIMALS}, [{"label": "dog", "box": [2]}]),
        ([{"feature": 1}], {"feature": ANIMALS}, [{"feature": "dog"}]),
        ([[{"label": 1}]], [{"label": ANIMALS}], [[{"label": "dog"}]]),
        (
            [{"label": [1, -1], "box": [[2], [3]]}],
            {"_type": "Sequence", "feature": {"label": ANIMALS, "box": TEXT}},
            [{"label": ["dog", None], "box": [[2], [3]]}],
        ),
    ],
)
def test_classes_in_lists_and_objects_are_their_names(cells, kind, names, tmp_path):
    path = saved(tmp_path, {"answer": cells}, {"answer": kind})
    assert [record()["answer"] for _, record in table_records(path, ("answer",))] == names


def test_a_number_without_a_name_is_refused(tmp_path):
    path = saved(tmp_path, {"label": [1, 0, 2]}, {"label": ANIMALS})
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(2, "label", pa.array([1, 0, 3])), path)
    with pytest.raises(DataError, match=r"row 2, field 'label'.*0 to 2.*found 3"):
        answers(path)


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"info": {"features": {"label": 3}}}'])
def test_metadata_of_something_else_is_not_read(tmp_path, metadata):
    path = saved(tmp_path, {"label": [10, 20, 30]}, {})
    table = parquet.read_table(path).replace_schema_metadata({b"huggingface": metadata})
    parquet.write_table(table, path)
    assert answers(path) == [Answer(number=value) for value in (10.0, 20.0, 30.0)]
