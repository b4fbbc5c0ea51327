import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.errors import UsageError
from harness.models import questions
from harness.models.grammar import Item
from harness.models.qwen_vl import locate
from harness.models.qwen_vl.model import qwen_vl
from harness.spec import parse as parse_spec
from harness.types import Answer, AnswerForm, Box, FailureKind, Interval

FORM = AnswerForm
CLASSICAL = {"segmenter": parse_spec("grabcut"), "propagator": parse_spec("flow")}
FENCED = '```json\n[\n\t{"bbox_2d": [10, 20, 30, 40], "label": "dog"}\n]\n```'


@pytest.fixture(scope="module")
def reader():
    """Reads responses without a network."""
    return qwen_vl(**CLASSICAL, backend=parse_spec("stored"))


corners = st.integers(0, 499), st.integers(0, 499), st.integers(500, 999), st.integers(500, 999)


@given(*corners, st.sampled_from(["", "a dog", "羊"]))
def test_two_corners_are_a_box_as_qwen_vl_writes_it(left, top, right, bottom, name):
    box = f"({left},{top}),({right},{bottom})"
    old, new = f"<box>{box}</box>", f"<|box_start|>{box}<|box_end|>"
    if name:
        old = f"<ref>{name}</ref>{old}"
        new = f"<|object_ref_start|>{name}<|object_ref_end|>{new}"
    for text in (old, new, f"{new}<|im_end|>", f"{name}{box}", f"<answer>{new}</answer>"):
        (item,) = locate.parse(text).items
        assert item.box == Box(left, top, right, bottom) and item.label == name
        assert locate.parse(text, strict=True).error is not None
    assert len(locate.parse(new + new).items) == 2


def test_two_corners_are_in_the_coordinates_of_the_network(ask):
    text, boxes = "<|box_start|>(100,200),(500,1000)<|box_end|>", {}
    for meaning in ("pixels", "normalized_1000"):
        spec = f"qwen_vl(backend=stored(coordinates={meaning}),prompt=locate,segmenter=box)"
        model = plugins.build("models", parse_spec(spec))
        query = ask(FORM.BOXES)
        answer = model.read(query, [text]).answer
        boxes[meaning] = answer and answer.boxes[0]
    width, height = query.media[0].size
    assert boxes["normalized_1000"] == pytest.approx(
        Box(width / 10, height / 5, width / 2, height), abs=0.5
    )
    assert boxes["pixels"] != boxes["normalized_1000"]


def test_the_request_to_locate_is_the_official_one():
    assert locate.Locate().render("the LEFT dog?") == (
        'Locate "the LEFT dog?", report the bboxes coordinates in JSON format.'
    )


@pytest.mark.parametrize(
    ("response", "count"),
    [
        (FENCED, 1),
        (f"Here it is:\n{FENCED}\nAnything else?", 1),
        (FENCED.replace("bbox_2d", "bbox"), 1),
        ('[{"bbox_2d": [10, 20, 30, 40]}, {"bbox_2d": [10, 20, 31, 41]}]', 2),
        ('Boxes: [{"bbox_2d": [10, 20, 30, 40]}] .', 1),
        ("```json\n[]\n```", 0),
        ("```\n[]\n```", 0),
        (f"<think>[1]</think>{FENCED}", 1),
    ],
)
def test_boxes_are_read_from_the_fence_or_the_first_list(response, count):
    result = locate.parse(response)
    assert result.error is None
    assert len(result.items) == count
    assert all(item.point is None for item in result.items)


@pytest.mark.parametrize(
    "response",
    [
        "",
        "none",
        "There are no dogs.",
        "```json\n[\n\t{",
        "]3[",
        '[{"bbox_2d": [1, 2, 3, NaN]}]',
        '[{"label": "dog"}]',
        "```json" + " " * 190_000,
        "[" * 150_000 + "]",
        "```" * 60_000,
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_malformed_list_is_an_error_and_never_raises(response, strict):
    begin = time.perf_counter()
    assert locate.parse(response, strict=strict).error
    assert time.perf_counter() - begin < 2


def test_an_inverted_box_is_wrong_for_predictions_and_only_a_miss_for_rewards():
    response = '[{"bbox_2d": [30, 20, 10, 40]}]'
    assert not locate.parse(response).ok
    assert locate.parse(response, strict=True).ok


def test_repairs_are_reported():
    result = locate.parse(FENCED.replace("}", "},"))
    assert result.items == (Item(Box(10.0, 20.0, 30.0, 40.0), label="dog"),)
    assert result.notes == ("trailing comma",)


@given(st.lists(st.tuples(*[st.integers(0, 900)] * 4), max_size=5), st.none() | st.integers(0, 99))
def test_a_list_that_is_written_is_read_back(corners, frame):
    items = tuple(Item(Box(x, y, x + w + 1, y + h + 1)) for x, y, w, h in corners)
    result = locate.parse(locate.write(items, frame=frame), strict=True)
    assert (result.items, result.frame, result.error) == (items, frame, None)


@given(st.text())
def test_any_text_is_read_or_refused_without_raising(text):
    assert locate.parse(text).ok != bool(locate.parse(text).error)


OPTIONS = ("the cat", "the dog", "none of them")


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("B", "B"),
        (" b. ", "B"),
        ("B.", "B"),
        ("(B) the dog", "B"),
        ("**B**", "B"),
        ("B: because it barks", "B"),
        ("B\nIt barks.", "B"),
        ("The answer is C.", "C"),
        ("The correct option: B", "B"),
        ("the answer is a dog", None),
        ("the dog", "B"),
        ("The Dog.", "B"),
        ("<think>A or B?</think>B", "B"),
        ("<think>A</think><answer>C</answer>", "C"),
        ("A cat", None),
        ("D", None),
        ("", None),
        ("It barks", None),
    ],
)
def test_a_choice_is_the_letter_that_the_response_names(ask, reader, response, letter):
    query = ask(FORM.CHOICE, options=OPTIONS)
    output = reader.read(query, [response])
    if letter is None:
        assert output.failure.kind is FailureKind.PARSE
    else:
        assert output.answer == Answer(choice=letter)


def test_a_choice_is_asked_for_with_lettered_lines(ask):
    query = ask(FORM.CHOICE, text="Which {Options}?", options=OPTIONS)
    assert questions.Questions().render(query, FORM.CHOICE) == (
        "Which {Options}?\nA. the cat\nB. the dog\nC. none of them\n"
        "Answer with the option's letter from the given choices directly."
    )


@pytest.mark.parametrize(
    ("response", "number"),
    [
        ("3", 3),
        ("-1.5 m", -1.5),
        ("About 1,234.5 of them", 1234.5),
        ("<answer> 4 </answer> 5", 4),
        ("1/2", None),
        ("none", None),
        ("9" * 100_000, None),
        ("", None),
    ],
)
def test_a_number_is_the_one_that_the_response_states(ask, reader, response, number):
    output = reader.read(ask(FORM.NUMBER), [response])
    assert (None if output.answer is None else output.answer.number) == number


@given(
    st.sampled_from([FORM.CHOICE, FORM.NUMBER, FORM.INTERVAL, FORM.TEXT]),
    st.sampled_from("ABC"),
    st.floats(-1e6, 1e6).filter(lambda number: number == 0 or abs(number) > 1e-3),
    st.text(st.characters(codec="ascii", exclude_characters="<"), min_size=1),
)
def test_answers_in_words_that_are_written_are_read_back(ask, reader, form, choice, number, text):
    query = ask(form, options=OPTIONS)
    if not text.strip() or "\0" in text:
        return
    ground_truth = Answer(
        choice=choice, number=number, interval=Interval(abs(number), abs(number) + 1), text=text
    )
    output = reader.read(query, reader.write(query, ground_truth)).answer
    field = str(form)
    want = text.strip() if form is FORM.TEXT else getattr(ground_truth, field)
    assert getattr(output, field) == want


def test_the_specification_decides_prompt_backend_and_perception():
    made = plugins.build(
        "models",
        parse_spec(
            "qwen_vl(backend=stored(coordinates=normalized_1000),prompt=locate,segmenter=box,"
            "propagator=still,keyframe=first,batch_size=3)"
        ),
    )
    assert made.name == "qwen_vl/locate"
    assert made.describe() | {"chat": None, "words_text": None} == {
        "name": "qwen_vl/locate",
        "chat": None,
        "prompt": "locate",
        "prompt_text": 'Locate "QUESTION", report the bboxes coordinates in JSON format.',
        "resize": None,
        "system": None,
        "coordinates": "normalized_1000",
        "segmenter": {"name": "box"},
        "propagator": {"name": "still"},
        "keyframe": "first",
        "frames": 8,
        "max_new_tokens": 1024,
        "batch_size": 3,
        "words_resize": None,
        "words_text": None,
    }
    assert made.chat.batch_size == 3


def test_a_network_needs_a_checkpoint():
    with pytest.raises(UsageError, match="checkpoint"):
        plugins.build("models", "qwen_vl")


@pytest.mark.parametrize("prompt", ["visionreasoner", "locate"])
@pytest.mark.parametrize("network", ["tiny_qwen", "tiny_qwen3", "tiny_qwen35"])
def test_a_checkpoint_answers_every_form_or_fails_to_parse(prompt, network, request, ask):
    folder = request.getfixturevalue(network)
    made = qwen_vl(
        checkpoint=str(folder),
        prompt=prompt,
        backend=parse_spec("transformers(temperature=1.0)"),
        max_new_tokens=24,
        frames=4,
    )
    images = (FORM.MASK, FORM.BOXES, FORM.POINTS, FORM.COUNT, FORM.CHOICE, FORM.TEXT)
    requested = [ask(form, options=OPTIONS, name=form) for form in images]
    requested += [ask(form, frames=5, name=form) for form in (FORM.MASK_TRACK, FORM.NUMBER)]
    output = made.predict(requested)
    assert [one.query_id for one in output] == [query.id for query in requested]
    for query, one in zip(requested, output, strict=True):
        assert len(one.responses) == 1
        assert one.usage.prompt_tokens > 50
        assert 1 <= one.usage.completion_tokens <= 24
        assert one.answer is not None or one.failure.kind is FailureKind.PARSE
        assert made.read(query, one.responses).answer == one.answer
    assert [one.usage.frames for one in output] == [1] * 7 + [4]
    text = output[5].answer
    if network == "tiny_qwen35":  # whose template opens a thought that 24 tokens do not end
        assert "only reasoning" in output[5].failure.message
    else:
        assert re.sub(r"\s", "", text.text)


def test_a_response_on_the_networks_canvas_becomes_a_mask_of_the_original(tiny_qwen, ask):
    made = qwen_vl(**CLASSICAL, checkpoint=str(tiny_qwen), prompt="locate")
    requested = ask(FORM.MASK, size=(240, 180))
    (request,) = made.requests(requested)
    assert made.chat.canvas(request) == (112, 84)
    response = locate.write([Item(Box(22, 25, 56, 59))])
    output = made.read(requested, [response])
    assert output.answer.boxes == (Box(47, 54, 120, 126),)
    disc = requested.media[0].frame(0)[:, :, 0] > 200
    mask = output.answer.masks[0].to_array()
    assert (mask & disc).sum() / (mask | disc).sum() > 0.8


def test_a_short_video_is_tracked_from_a_stored_response(ask, reader):
    requested = ask(FORM.MASK_TRACK, frames=5)
    discs = [frame[:, :, 0] > 200 for frame in requested.media[0].frames()]
    rows, columns = (discs[2].any(axis=axis).nonzero()[0] for axis in (1, 0))
    box = Box(columns[0] * 7, rows[0] * 840 / 90, columns[-1] * 7 + 7, rows[-1] * 840 / 90 + 9)
    middle = Item(box, Item(box).place)
    output = reader.read(requested, [reader.prompt.write([middle])])
    for mask, disc in zip(output.answer.masks, discs, strict=True):
        assert (mask.to_array() & disc).sum() / (mask.to_array() | disc).sum() > 0.7


def test_the_seed_of_a_run_reaches_the_network_that_samples(tiny_qwen):
    from harness.run.workers import build_model
    from harness.spec import parse

    def seed(text, given):
        return build_model(parse(text), given).describe()["chat"]["seed"]

    sampling = f"qwen_vl(checkpoint={tiny_qwen},backend=transformers(temperature=1.0))"
    assert (seed(sampling, 1), seed(sampling, 2)) == (1, 2)
    named = f"qwen_vl(checkpoint={tiny_qwen},backend=transformers(temperature=1.0,seed=9))"
    assert seed(named, 1) == 9


@pytest.mark.parametrize(
    "response",
    [
        '[{"bbox_2d": [10, 20, 30, 40], "label": "cup"}, {"bbox_2d": [50, 20, 70, 40]}]',
        '<answer>[{"point_2d": [10, 20]}, {"point_2d": [50, 20]}]</answer>',
        "[[10, 20, 30, 40], [50, 20, 70, 40]]",
    ],
)
def test_places_for_a_count_name_the_prompt_that_counts_them(response, ask, reader):
    requested = ask(FORM.COUNT)
    message = reader.read(requested, [response]).failure.message
    named = parse_spec(re.search(r"qwen_vl\(.*?\)", message)[0]).arguments
    other = qwen_vl(**CLASSICAL, **named | {"backend": parse_spec(named["backend"])})
    assert other.read(requested, [response]).answer.count == 2
    assert "locate" not in reader.read(requested, ["I cannot tell."]).failure.message
