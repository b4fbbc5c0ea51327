"""A response has one score, whatever the model is called that gave it."""

import pytest

from harness import plugins
from harness.spec import parse
from harness.types import Answer, Failure, FailureKind, Point, Prediction

MODELS = (
    "qwen_vl(backend=stored)",
    "qwen_vl(backend=stored,prompt=locate)",
    "vlm(backend=stored,dialect=molmo2)",
    "vlm(backend=stored,dialect=gemma)",
    "seg_zero(backend=stored)",
    "video_r1(backend=stored)",
    "one_thinker(backend=stored)",
    "video_str(backend=stored)",
)


@pytest.fixture
def world(shapes):
    """The generated world, which has these benchmarks too."""
    return shapes


@pytest.fixture(scope="module")
def models():
    return [plugins.build("models", parse(spec)) for spec in MODELS]


def scores(task, sample, models, text):
    """The scores of a response by every grammar that answers the question's form."""
    answering = [one for one in models if sample.query.form in one.forms]
    assert len(answering) > 2
    predictions = [one.read(sample.query, (text,)) for one in answering]
    return {value(task, sample, one) for one in predictions}


def value(task, sample, prediction):
    return task.protocol.score([sample], [prediction])[task.protocol.headline].value


@pytest.mark.parametrize(
    "form",
    [
        "{a} - {b}",
        "From {a} to {b}.",
        "<think>1 - 2</think>{b} to {a}",
        "<answer>[{a}, {b}]</answer>",
        '```json\n{{"start": {a}, "end": {b}}}\n```',
        '{{"time": [{a}, {b}]}}',
        "It starts at {a}.\nIt ends at {b}.",
    ],
)
def test_an_interval_is_read_alike_from_every_model(build, world, models, form):
    task = build("charades_sta", world)
    sample = next(iter(task.samples()))
    a, b = sample.target.answer.interval
    assert scores(task, sample, models, form.format(a=a, b=b)) == {1.0}


@pytest.mark.parametrize("name", ["refspatial", "where2place", "robospatial(split=context)"])
def test_a_tuple_of_shares_is_read_alike_from_every_model(build, world, models, name):
    task = build(name, world)
    sample = next(iter(task.samples()))
    (point, *_), (width, height) = sample.target.answer.points, sample.query.size
    text = f"[({(point.x + 0.5) / width:.4f}, {(point.y + 0.5) / height:.4f})]"
    assert scores(task, sample, models, text) == {1.0}
    assert scores(task, sample, models, f"<think>(0.1, 0.1)</think>{text}") == {1.0}
    assert scores(task, sample, models, "nothing") == {0.0}


def test_whole_numbers_of_a_tuple_are_pixels_officially_and_shares_to_lmms_eval(build, world):
    sample = next(iter(build("refspatial", world).samples()))
    point = sample.target.answer.points[0]
    text = f"[({point.x:.0f}, {point.y:.0f})]"
    for protocol, right in (("official", 1.0), ("white", 0.0)):
        task = build(f"refspatial(protocol=refspatial/{protocol})", world)
        assert value(task, sample, unread(sample, text)) == right


def unread(sample, text):
    """A response that the model's own grammar could not read."""
    failure = Failure(FailureKind.PARSE, "not in the grammar")
    return Prediction(query_id=sample.query.id, responses=(text,), failure=failure)


def test_the_models_own_points_count_where_there_is_no_tuple(build, world):
    task = build("refspatial", world)
    sample = next(iter(task.samples()))
    point, away = sample.target.answer.points[0], Point(-5.0, -5.0)
    own = {"query_id": sample.query.id, "answer": Answer(points=(point,))}
    tuple_text = f"({away.x}, {away.y})"
    assert value(task, sample, Prediction(responses=('[{"point": [1, 2]}]',), **own)) == 1
    assert value(task, sample, Prediction(responses=(tuple_text,), **own)) == 0
    assert value(task, sample, Prediction(**own)) == 1


def test_tags_are_read_and_published_code_that_does_not_cut_them_off_stands_beside(build, world):
    for name, text in (("blink", "<answer>({})</answer>"), ("revsi", "<think>A</think>{}")):
        first = build(name, world).protocol.name
        right = {}
        for protocol in (first, f"{first}@whole"):
            task = build(f"{name}(protocol={protocol})", world)
            sample = next(one for one in task.samples() if one.query.options)
            said = unread(sample, text.format(sample.target.answer.choice))
            (score, *_) = task.protocol.score([sample], [said]).values()
            right[protocol] = score.value, task.protocol.reads(sample, said) is not None
        assert list(right.values()) == [(1.0, True), (0.0, False)]
