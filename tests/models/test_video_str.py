"""Video-STR, SpaceR, Video-R1, VideoChat-R1: prompts, frames, responses, and a tiny network."""

import doctest
import importlib
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.errors import ParseError, UsageError
from harness.model import ResponseReader
from harness.models.grammar import Item, well_formed
from harness.models.questions import answer_part
from harness.models.spacer.grammar import grid_map
from harness.models.video_str.answer_prompts import AnswerPrompts, boxes_3d, digits
from harness.models.video_str.boxes import named_resolution, parse
from harness.models.video_str.composed import policy_of
from harness.models.video_str.grammar import graph
from harness.models.video_str.objects import named_in
from harness.run.verify import verify
from harness.spec import parse as spec
from harness.stated.intervals import stated_interval
from harness.types import Answer, AnswerForm, Box, Box3D, Interval

REPOSITORY = Path(__file__).resolve().parents[2]
METHODS = ("video_str", "spacer", "video_r1", "videochat_r1")
SHORT = ("video_str(prompt=short)", "spacer(prompt=short)", "video_r1(prompt=short)")
FORM = AnswerForm


def built(text):
    name, _, rest = text.partition("(")
    inside = rest.removesuffix(")")
    return plugins.build("models", spec(f"{name}(backend=stored{',' if inside else ''}{inside})"))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for name in ("vsi_bench", "sti_bench", "shapes_qa", "video_mme"):
        shutil.copytree(REPOSITORY / "tasks" / name / "example" / name, root / name)
    return root


# -- prompts


def test_video_str_asks_in_the_words_of_figure_8(ask):
    query = ask(FORM.CHOICE, text="Which?", options=("a cat", "a dog"), frames=3)
    (request,) = built("video_str(graph=off)").requests(query)
    assert request.text == (
        "Which?Options:\nA. a cat\nB. a dog\n\n\nPlease think about this question as if you were a "
        "human pondering deeply. Engage in an internal dialogue using expressions such as 'let me "
        "think', 'wait', 'Hmm', 'oh, I see', 'let's break it down', etc. or other natural language "
        "thought expressions. It's encouraged to include self-reflection or verification in the "
        "reasoning process. Provide your detailed reasoning between the <think> </think> tags, and "
        "then give your final answer between the <answer> </answer> tags. Please provide only the "
        "single option letter (e.g., A, B, C, D, etc.) within the <answer> </answer> tags."
    )


def test_spacer_asks_in_the_official_words(ask):
    query = ask(FORM.NUMBER, text="How far is it?", objects=("table", "tv"), frames=3)
    (request,) = built("spacer").requests(query)
    assert request.text.startswith("Question: How far is it?\nPlease think about this question")
    assert (
        "thought expressions It's encouraged to include self-reflection or verification in the "
        "reasoning process.\nIf generating a cognitive map for the video can help you"
    ) in request.text
    assert "We provide the categories to care about in this scene: ['table', 'tv']. Focus" in (
        request.text
    )
    assert "<map>{'table': [[0, 3], [5, 7]], 'chair': [[9, 3]], 'window': [[6, 5]]}</map>" in (
        request.text
    )
    assert request.text.endswith(
        "tags. Please provide the numerical value (e.g., 42 or 3.1) within the <answer> </answer> "
        "tags."
    )
    assert "ceiling light" in built("spacer(map=vsi)").requests(query)[0].text
    assert "<map>" not in built("spacer(map=off)").requests(query)[0].text


def test_videochat_lists_options_as_its_evaluation_does(ask):
    query = ask(FORM.CHOICE, text="Which?", options=("a cat", "a dog"), frames=3)
    text = built("videochat_r1").requests(query)[0].text
    assert text.startswith(
        'Answer the question: "Which?" according to the content of the video. Select the answer '
        "from :['A. a cat', 'B. a dog'].\n\nOutput your thought process"
    )
    inside = built("videochat_r1").requests(ask(FORM.CHOICE, text="A cat (A) or a dog (B)?"))
    assert "Select" not in inside[0].text


@pytest.mark.parametrize("method", [*METHODS, *SHORT])
@pytest.mark.parametrize(
    "form", [FORM.CHOICE, FORM.NUMBER, FORM.TEXT, FORM.INTERVAL, FORM.BOX_3D, FORM.BOXES]
)
def test_every_form_of_answer_has_its_wording(method, form, ask):
    options = ("x", "y") if form is FORM.CHOICE else ()
    (request,) = built(method).requests(ask(form, text="{Options} {Objects} {0}?", options=options))
    assert "{Options} {Objects} {0}?" in request.text
    assert "<answer>" in request.text
    for place in ("{Prompt}", "{Question}", "{Example}", "{Wanted}"):
        assert place not in request.text


@pytest.mark.parametrize("model", SHORT)
def test_short_wordings_are_the_words_that_pocket_was_taught(model, ask):
    objects = ("table", "tv")
    query = ask(FORM.CHOICE, text="Which?", options=("a cat", "a dog"), objects=objects, frames=3)
    tag = {"video_str": "graph", "spacer": "map"}.get(model.partition("(")[0])
    aid = f"<{tag}> ['table', 'tv']\n" if tag else ""
    assert built(model).requests(query)[0].text == (
        f"Which?\nA. a cat\nB. a dog\n\n{aid}Output the thinking process in <think> </think> and "
        "the option's letter in <answer> </answer> tags."
    )


def test_a_form_without_wording_is_refused():
    with pytest.raises(UsageError, match="count"):
        AnswerPrompts().templates.render("?", form=FORM.COUNT)


def test_a_graph_is_asked_for_where_objects_are_named(ask):
    model = built("video_str")
    named = ask(FORM.NUMBER, text="How far?", objects=("sofa", "tv"))
    read_off = ask(FORM.NUMBER, text="How far is the chair from the table?")
    neither = ask(FORM.NUMBER, text="How large is this room?")
    texts = [model.requests(query)[0].text for query in (named, read_off, neither)]
    assert "in this scene: ['sofa', 'tv']. Focus" in texts[0]
    assert "in this scene: ['chair', 'table']. Focus" in texts[1]
    assert "<graph>" not in texts[2]
    response = "<think></think><answer>3</answer>"
    notes = [model.read(query, [response]).notes for query in (named, read_off, neither)]
    assert notes == [
        ("graph of sofa, tv (named in the query)",),
        ("graph of chair, table (named in the question)",),
        (),
    ]
    assert model.describe()["words"]["objects"] == "named"
    assert built("video_r1").describe()["words"]["objects"] == "off"


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("How many chair(s) are in this room?", (), ("chair",)),
        (
            "Is the red circle to the left or to the right of the blue square?",
            ("left", "right"),
            ("red circle", "blue square"),
        ),
        (
            "Which of these is nearest to the star?",
            ("red circle", "cross"),
            ("star", "red circle", "cross"),
        ),
        (
            "The appearance order of the following categories: basket, stove, table, sofa?",
            (),
            ("basket", "stove", "table", "sofa"),
        ),
        ("What is the longest dimension (length, width, or height) of the sofa?", (), ("sofa",)),
        (
            "At 3 s the car's boundingbox is [118, 97, 393, 319] in a 640x480 resolution video",
            (),
            ("car",),
        ),
        ("What is the size of this room (in square meters)?", (), ()),
        ("", (), ()),
    ],
)
def test_objects_are_read_off_a_question_by_rule(text, options, names):
    assert named_in(text, options) == names


@given(st.text(max_size=300))
def test_any_question_can_be_asked(text):
    assert isinstance(named_in(text, (text, text)), tuple)


# -- frames


@pytest.mark.parametrize(
    ("method", "frames", "size"),
    [
        ("video_str", 32, (784, 420)),
        ("spacer", 32, (588, 336)),
        ("video_r1", 32, (588, 336)),
        ("videochat_r1", 32, (532, 308)),
        ("video_str(frames=video_str_train)", 16, (420, 224)),
        ("video_str(frames=4,pixels=28224)", 4, (224, 112)),
    ],
)
def test_frames_and_pixels_are_those_of_the_paper(method, frames, size, ask):
    query = ask(FORM.TEXT, text="What happens?", frames=40, size=(192, 108))
    model = built(method)
    (request,) = model.requests(query)
    assert len(request.frames[0]) == frames
    assert model.frames.budget.size((1920, 1080)) == size


def test_a_budget_of_pixels_keeps_the_rule_for_frames():
    assert str(policy_of("video_str", frames=None, pixels=200704)) == (
        "qwen(n=32,max_pixels=200704,min_pixels=100352,image_min_pixels=3136)"
    )
    other = policy_of("video_str", frames=spec("fps(rate=1)"), pixels=None)
    assert str(other) == "fps(rate=1)"


# -- responses


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (FORM.CHOICE, Answer(choice="B")),
        (FORM.NUMBER, Answer(number=1.25e-7)),
        (FORM.NUMBER, Answer(number=-3.0)),
        (FORM.TEXT, Answer(text="a red car")),
        (FORM.INTERVAL, Answer(interval=Interval(1.5, 4.0))),
        (FORM.BOX_3D, Answer(boxes_3d=(Box3D(0.5, -0.2, 3.1, 0.4, 0.8, 0.4),))),
        (FORM.BOX_3D, Answer(boxes_3d=(Box3D(0, 0, 3, 1, 1, 1), Box3D(1, 0, 3, 1, 1, 1)))),
    ],
)
def test_what_is_written_is_read_again(method, form, answer, ask):
    model = built(method)
    query = ask(form, options=("x", "y") if form is FORM.CHOICE else ())
    (response,) = model.write(query, answer)
    assert well_formed(response)
    output = model.read(query, [response])
    assert output.answer == answer


def test_boxes_are_written_on_the_canvas_and_read_in_the_image(ask):
    model = built("video_str")
    query = ask(FORM.BOXES, size=(280, 140))
    for boxes in ((Box(10, 20, 100, 90),), (Box(10, 20, 100, 90), Box(0, 0, 9, 9)), ()):
        answer = Answer(boxes=boxes, no_target=not boxes)
        assert model.read(query, model.write(query, answer)).answer == answer


def test_a_question_for_a_box_shows_the_video_and_may_name_its_resolution(ask):
    model = built("video_str(frames=4)")
    text = "The car's boundingbox is [1, 2, 3, 4] in a 640x480 resolution video, and at 2 s?"
    query = ask(FORM.BOXES, text=text, frames=9, size=(320, 120))
    (request,) = model.requests(query)
    assert len(request.frames[0]) == 4
    assert request.resize == model.frames.budget.size((320, 120))
    assert "in this scene: ['car']" in request.text
    (response,) = model.write(query, Answer(boxes=(Box(10, 20, 100, 90),)))
    assert response.endswith("<answer>[20, 80, 200, 360]</answer>")
    assert model.read(query, [response]).answer.boxes == (Box(10, 20, 100, 90),)
    assert model.read(query, [response]).usage.frames == 4


@pytest.mark.parametrize("method", METHODS)
def test_no_frame_is_to_be_named_for_a_box(method, ask):
    model = built(f"{method}(keyframe=named,frames=4)")
    query = ask(FORM.BOXES, frames=9, size=(280, 140))
    (request,) = model.requests(query)
    assert len(request.frames[0]) == 4
    assert "<frame>" not in request.text
    ground_truth = Answer(boxes=(Box(10, 20, 100, 90),))
    (response,) = model.write(query, ground_truth)
    assert "<frame>" not in response
    assert model.read(query, [response]).answer == ground_truth
    assert model.read(query, [f"<frame>2</frame>{response}"]).answer == ground_truth
    assert "0 to 8" in model.read(query, [f"<frame>9</frame>{response}"]).failure.message


@pytest.mark.parametrize("form", [FORM.MASK_TRACK, FORM.POINTS])
def test_a_frame_is_to_be_named_where_the_prompt_asks_for_it(form, ask):
    model = built("video_str(keyframe=named,frames=4,segmenter=box,propagator=still)")
    query = ask((FORM.BOXES, form), frames=9)
    boxes, other = model.requests(query)
    assert "<frame>" not in boxes.text
    assert "<frame>k</frame>" in other.text
    response = "<think></think><answer>[10, 20, 60, 70]</answer>"
    output = model.read(query, [response, response])
    assert output.answer.boxes
    assert any("<frame>k</frame>" in note for note in output.notes)
    named = model.read(query, [response, f"<frame>2</frame>{response}"])
    assert not any("<frame>" in note for note in named.notes)


def test_a_question_for_masks_marks_the_key_frame(ask):
    query = ask(FORM.MASK_TRACK, frames=9)
    (request,) = built("video_str").requests(query)
    assert request.frames == ((4,),)
    assert "<graph>" not in request.text


@pytest.mark.parametrize(
    ("response", "boxes"),
    [
        ("<think>[1, 2, 3, 4]</think><answer>[5, 6, 7, 8]</answer>", [Box(5, 6, 7, 8)]),
        ("<answer>[[5, 6, 7, 8], [1, 1, 2, 2]]</answer>", [Box(5, 6, 7, 8), Box(1, 1, 2, 2)]),
        ("<answer>```json\n[{'bbox_2d': [5, 6, 7, 8]}]\n```</answer>", [Box(5, 6, 7, 8)]),
        ("<answer>[]</answer>", []),
    ],
)
def test_boxes_are_read_in_every_usual_form(response, boxes):
    assert [item.box for item in parse(response).items] == boxes


@pytest.mark.parametrize(
    "response",
    [
        "",
        "<answer>left</answer>",
        "<answer>[1, 2, 3]</answer>",
        "<answer>5</answer>",
        "<answer>[5, 6, 5, 8]</answer>",
    ],
)
def test_what_is_no_box_is_an_error(response):
    assert parse(response).error is not None


def test_a_graph_is_never_taken_for_the_answer(ask):
    cut = "<think>so</think><graph>{'sofa': [1, 2, 3]}</graph>"
    output = built("video_str").read(ask(FORM.NUMBER), [cut])
    assert output.failure is not None
    assert answer_part(cut + " 7", aid="graph") == "7"
    mapped = "<think>so</think><map>{'sofa': [[1, 2]]}</map> B"
    query = ask(FORM.CHOICE, options=("x", "y"))
    assert built("spacer").read(query, [mapped]).answer == Answer(choice="B")


def test_graphs_are_read_from_json_and_from_python():
    expected = {"sofa": (1.0, 2.0, 3.5), "tv": (0.0, 0.0, 1.0)}
    assert graph('<graph>{"Sofa": [1, 2, 3.5], "tv": [[0, 0, 1]]}</graph>') == expected
    assert graph("<graph>\n{'sofa ': (1, 2, 3.5), 'tv': [0, 0, 1],}</graph>") == expected


def test_the_first_graph_and_the_first_answer_count(ask):
    assert graph("<graph>{'a': [1, 1, 1]}</graph><graph>{}</graph>") == {"a": (1.0, 1.0, 1.0)}
    response = "<think></think><answer>1</answer><answer>2</answer>"
    assert built("video_r1").read(ask(FORM.NUMBER), [response]).answer == Answer(number=1.0)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("12.54 to 17.83", (12.54, 17.83)),
        ("[1, 2]", (1, 2)),
        ("from 3s to 5s", (3, 5)),
        ('{"start": 1, "end": 4}', (1, 4)),
        ("between 2 and 4.5 seconds", (2, 4.5)),
    ],
)
def test_times_are_read_in_every_usual_form(said, expected):
    assert stated_interval(said) == expected


@pytest.mark.parametrize("said", ["", "5", "9 to 3", "[3]", "soon"])
def test_what_is_no_time_is_an_error(said):
    with pytest.raises(ParseError):
        stated_interval(said)


def test_a_long_row_of_digits_is_no_interval_and_is_read_at_once():
    with pytest.raises(ParseError):
        stated_interval("7" * 50_000)  # half an hour, if digits could be shared out in every way


def test_a_resolution_of_nothing_is_none():
    assert named_resolution("in a 00x00 resolution video") is None
    assert named_resolution("in a 640x480 resolution video") == (640, 480)


def test_a_centre_alone_is_a_box_without_extent():
    assert boxes_3d("[1, 2, 3]") == (Box3D(1, 2, 3, 0, 0, 0),)
    assert boxes_3d("it is at [1, 2, 3, 4, 5, 6, 0.5]") == (Box3D(1, 2, 3, 4, 5, 6),)
    for output in ("", "near", "[1, 2]", "[1, 2, nan]"):
        with pytest.raises(ParseError):
            boxes_3d(output)


def test_an_answer_that_ends_its_own_tag_cannot_be_written(ask):
    with pytest.raises(ParseError, match="tag"):
        built("video_str").write(ask(FORM.TEXT), Answer(text="x</answer>y"))
    with pytest.raises(ParseError, match="finite"):
        digits(float("nan"))


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_maps_are_read_from_anything(text):
    found = grid_map(f"<map>{text}</map>", ["table", "chair"])
    assert set(found) <= {"table", "chair"}


# -- whole models


@pytest.mark.parametrize("method", METHODS)
def test_every_method_reads_responses(method):
    assert isinstance(built(method), ResponseReader)


@pytest.mark.parametrize(
    ("task", "method"),
    [
        ("shapes_qa", "video_str"),
        ("vsi_bench", "spacer"),
        ("sti_bench", "video_r1"),
        ("video_mme", "videochat_r1"),
        ("vsi_bench", "video_str"),
        ("sti_bench", "video_str"),
    ],
)
def test_perfect_answers_reach_the_ceiling_through_text(task, method, examples):
    for verdict in verify(plugins.build("tasks", task, examples), built(method)):
        assert verdict.is_passed, verdict


@pytest.mark.parametrize("method", METHODS)
def test_a_tiny_network_is_asked_end_to_end(method, tiny_qwen, ask):
    pytest.importorskip("torch")
    model = plugins.build(
        "models", spec(f"{method}(checkpoint={tiny_qwen},frames=2,pixels=6272,max_new_tokens=4)")
    )
    query = ask(FORM.NUMBER, text="How far is the disc from the ring?", frames=5)
    (output,) = model.predict([query])
    assert output.usage.frames == 2
    assert output.usage.completion_tokens > 0
    assert len(output.responses) == 1


def test_items_of_a_response_keep_their_box():
    assert parse("<answer>[1, 2, 3, 4]</answer>").items == (Item(Box(1, 2, 3, 4)),)


@pytest.mark.parametrize(
    "name",
    [
        "video_str.grammar",
        "video_str.objects",
        "video_str.answer_prompts",
        "video_str.composed",
        "video_str.boxes",
        "spacer.grammar",
    ],
)
def test_examples_in_docstrings_are_right(name):
    found = doctest.testmod(importlib.import_module(f"harness.models.{name}"))
    assert found.attempted
    assert not found.failed
