import json

import pytest

from harness import plugins
from harness.errors import DataError, UsageError
from harness.masks import Rle
from harness.spec import parse as parse_spec
from harness.types import Answer, AnswerForm, Box, FailureKind

FORM = AnswerForm
RESPONSE = (
    '<think>a</think><answer>[{"bbox_2d": [70, 70, 140, 140], "point_2d": [80, 80]}]</answer>'
)


@pytest.fixture
def replayed(tmp_path):
    """Builds the model over rows of predictions."""

    def build(*rows, model="none"):
        file = tmp_path / "theirs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return plugins.build("models", parse_spec(f'replay(file="{file}",model={model})'))

    return build


def test_each_query_gets_the_row_of_its_official_id(replayed, ask):
    mask = Rle.full(90, 120)
    made = replayed(
        {"id": "one", "masks": [mask.to_json()]},
        {"id": "two", "boxes": [[1, 2, 3, 4]], "box_scores": [0.5]},
        {"id": "three", "answer": 4},
        {"id": "four", "no_target": True},
    )
    requested = [
        ask(FORM.COUNT, name="three"),
        ask(FORM.MASK, name="one"),
        ask(FORM.BOXES, name="two"),
        ask(FORM.MASK, name="four"),
        ask(FORM.MASK, name="five"),
    ]
    output = made.predict(requested)
    assert [one.query_id for one in output] == [query.id for query in requested]
    assert [one.answer for one in output] == [
        Answer(count=4),
        Answer(masks=(mask,)),
        Answer(boxes=(Box(1, 2, 3, 4),), box_scores=(0.5,)),
        Answer(no_target=True),
        None,
    ]
    assert output[4].failure.kind is FailureKind.INFRASTRUCTURE
    assert "theirs.jsonl" in output[4].failure.message


def test_responses_are_read_by_the_model_that_is_named(replayed, ask):
    made = replayed(
        {"id": "one", "response": RESPONSE},
        {"id": "two", "response": ["nonsense"]},
        model="qwen_vl(backend=stored,segmenter=box)",
    )
    good, bad = made.predict([ask(FORM.MASK, name="one"), ask(FORM.MASK, name="two")])
    assert good.answer.boxes == (Box(10, 8, 20, 15),)
    assert good.answer.masks[0].area == 10 * 7
    assert good.responses == (RESPONSE,)
    assert bad.failure.kind is FailureKind.PARSE


def test_responses_without_a_reader_are_refused_before_anything_is_scored(replayed):
    with pytest.raises(UsageError, match="qwen_vl"):
        replayed({"id": "one", "answer": 3}, {"id": "two", "response": RESPONSE})


def test_a_model_that_reads_nothing_cannot_be_the_reader(replayed, tmp_path):
    (tmp_path / "other.jsonl").write_text('{"id": "one", "answer": 3}\n')
    with pytest.raises(UsageError, match=r"qwen_vl\(backend=stored\), found replay/other"):
        replayed({"id": "one", "answer": 3}, model=f'replay(file="{tmp_path}/other.jsonl")')


@pytest.mark.parametrize(
    "row",
    [
        {"id": "one"},
        {"id": 1, "answer": 3},
        {"id": "one", "answer": 3, "boxes": []},
        {"id": "one", "anwser": 3},
        [],
    ],
)
def test_a_line_that_is_no_prediction_is_named(replayed, row):
    with pytest.raises(DataError, match="line 2"):
        replayed({"id": "zero", "answer": 3}, row)


def test_a_mask_of_another_size_is_a_mistake_of_the_file(replayed, ask):
    made = replayed({"id": "one", "masks": [Rle.full(9, 9).to_json()]})
    with pytest.raises(DataError, match=r"90, 120"):
        made.predict([ask(FORM.MASK, name="one")])


def test_the_record_names_the_files_content(replayed):
    made = replayed({"id": "one", "answer": 3})
    assert made.name == "replay/theirs"
    output = made.describe()
    assert output["predictions"] == 1
    assert output["content"] != replayed({"id": "one", "answer": 4}).describe()["content"]


def test_numbers_of_another_unit_are_refused_until_it_is_stated(tmp_path, ask):
    file = tmp_path / "gemini.jsonl"
    file.write_text('{"id": "one", "boxes": [[500, 250, 1000, 750]]}\n')
    query = ask(FORM.BOXES, name="one")
    with pytest.raises(DataError, match="normalized_1000_yx"):
        plugins.build("models", parse_spec(f'replay(file="{file}")')).predict([query])
    stated = f'replay(file="{file}",coordinates=normalized_1000_yx)'
    (found,) = plugins.build("models", parse_spec(stated)).predict([query])
    width, height = query.size
    assert found.answer.boxes == (Box(width / 4, height / 2, width * 3 / 4, height),)
