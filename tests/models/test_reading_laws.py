"""Laws of every registered reader: a value or a failure, and a thought changes nothing."""

import importlib.util
import re
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import ParseError
from harness.judging import rubric
from harness.metrics.choices import strict_choice
from harness.metrics.numeric import only_number
from harness.models.dt_r1.grammar import ANSWER, TASK, Span, read_layout
from harness.models.grammar import Item
from harness.models.jit.model import plan_of
from harness.models.prompted_requests import LOCATED
from harness.models.questions import answer_part
from harness.models.sam3_agent.agent import read_call
from harness.models.videoseg_r1.sampler import read_interval, read_percentage
from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
from harness.stated.markup import without_envelope
from harness.stated.numbers import stated_number
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.table.protocols import yes_or_no
from harness.thoughts import after_thought, split_thought
from harness.types import Answer, AnswerForm, Box, Point, Prediction

HERE = Path(__file__).resolve()
FORM = AnswerForm
OPTIONS = ("the cat", "the dog", "the cow", "the pig")


def _reading():
    file = HERE.parents[1] / "docs" / "reading.py"
    spec = importlib.util.spec_from_file_location("reading", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


READING = _reading()
SPELLINGS = READING.spellings
FAMILIES = [form for form, _ in SPELLINGS.THOUGHTS.values()]
MODELS = dict(READING.models())
LOCATORS = READING.locators()
PROMPTS = {name: model.prompt for name, model in LOCATORS.items()}


def test_the_page_is_the_one_that_is_generated():
    assert READING.PAGE.read_text(encoding="utf-8") == READING.page(), "run `make docs`"


def test_the_models_are_those_that_are_registered():
    assert {"qwen_vl", "pocket", "visionreasoner", "seg_zero", "one_thinker"} <= set(MODELS)
    assert len(MODELS) >= 14 and len(PROMPTS) >= 16


def test_at_least_eighty_spellings():
    tables = (SPELLINGS.NUMBERS, SPELLINGS.LETTERS, SPELLINGS.TIMES, SPELLINGS.BOXES)
    assert sum(map(len, tables)) > 150 and len(SPELLINGS.THOUGHTS) >= 10


@pytest.mark.parametrize("name", MODELS)
def test_what_is_spelt_is_read_or_a_failure(ask, name):
    model = MODELS[name]
    tables = (
        (FORM.NUMBER, SPELLINGS.NUMBERS, lambda answer: answer.number),
        (FORM.CHOICE, SPELLINGS.LETTERS, lambda answer: answer.choice),
        (FORM.INTERVAL, SPELLINGS.TIMES, lambda answer: tuple(answer.interval)),
    )
    for form, table, value in tables:
        if form not in model.forms:
            continue
        query = ask(form, options=OPTIONS if form is FORM.CHOICE else ())
        for text, meant in table.items():
            answer = model.read(query, [text]).answer
            assert answer is None or value(answer) == meant, (text, answer)


POINTING = {
    f"vlm:{name}"
    for name in ("molmo", "molmo2", "qwen3_vl", "ui_tars", "ui_tars1_5", "agentcpm_gui")
}
"""Models that answer a question for a box with a point."""
SHARES = "normalized_1"
"""Frame of networks that write shares of one."""


@pytest.mark.parametrize("name", LOCATORS)
def test_places_that_are_spelt_are_read_or_a_failure(name):
    model = LOCATORS[name]
    for table, form in ((SPELLINGS.BOXES, FORM.BOXES), (SPELLINGS.POINTS, FORM.POINTS)):
        for text, meant in table.items():
            if model.chat.coordinates == SHARES and re.search(r"0\.\d|\[0, 0, 1, 1\]", text):
                continue  # shares are its own frame
            read = READING.places(model, text, form)
            assert read in (None, READING.in_image(model, meant, form)), (text, read)


@pytest.mark.parametrize("name", MODELS)
def test_yes_and_no_are_read_or_a_failure(ask, name):
    model = MODELS[name]
    if FORM.CHOICE not in model.forms:
        return
    query = ask(FORM.CHOICE, options=("Yes", "No"))
    for text, meant in SPELLINGS.YES_NO.items():
        answer = model.read(query, [text]).answer
        assert answer is None or {"A": "yes", "B": "no"}[answer.choice] == meant, text


def test_strict_readers_read_the_value_or_nothing():
    for text, meant in SPELLINGS.NUMBERS.items():
        assert only_number(text) in (None, meant), text
    for text, meant in SPELLINGS.LETTERS.items():
        assert strict_choice(text) in (None, meant), text


@pytest.mark.parametrize(
    "text",
    ["B. the cow", "Answer: B. the cow", "(B) the cow", '{"answer": "B", "text": "the cow"}'],
)
def test_a_letter_with_the_text_of_another_option_is_a_failure(text):
    with pytest.raises(ParseError):
        stated_letter(text, "ABCD", OPTIONS)
    assert stated_letter(text.replace("cow", "dog"), "ABCD", OPTIONS) == "B"


def test_a_letter_whose_text_is_denied_is_a_failure():
    with pytest.raises(ParseError):
        stated_letter("A. the cat is not in the video", "ABCD", OPTIONS)


def test_the_last_answer_counts_even_if_it_is_cut_off():
    text = "<answer>A</answer> <answer>B"
    assert answer_part(text, which="first") == "A"
    with pytest.raises(ParseError):
        answer_part(text, which="last")


MARKS = st.sampled_from(
    [
        *("<think>", "</think>", "<answer>", "</answer>", "◁think▷", "◁/think▷", "[THINK]"),
        *("<|channel|>final<|message|>", "<|channel|>analysis", "</seed:think>", "<thinking>"),
        *("[0, 1000]", '[{"bbox_2d": [1, 2, 3, 4]}]', '<answer>{"bbox": [1]}</answer>', "```json"),
        *("the answer is A", "[[1, 2, 3, 4]]", "<loc0001>", "<frame>1</frame>", "3", "{", "\n"),
    ]
)
thoughts = (
    st.lists(MARKS | st.text(max_size=8), max_size=8)
    .map("".join)  # a frame between two thoughts is the response's own
    .map(lambda text: re.sub("<frame>" if re.search("(?i)think|channel", text) else "$^", "", text))
)


@st.composite
def thinking(draw):
    """A thought of one or more families, perhaps opened by a chat template, perhaps nested."""
    parts = draw(st.lists(st.tuples(st.sampled_from(FAMILIES), thoughts), min_size=1, max_size=3))
    text = "".join(form.replace("{}", thought) for form, thought in parts)
    if draw(st.booleans()):
        form = draw(st.sampled_from([one for one in FAMILIES if not one.startswith("analysis")]))
        text = form.replace("{}", text)
    if draw(st.booleans()):  # a frame before a thought is the response's own, opened or not
        text = text.removeprefix("<think>").replace("<frame>", "")
    return text


def places(prompt):
    box = Item(box=Box(*SPELLINGS.BOX), point=Point(20, 30), negative=Point(1, 1))
    return [prompt.write([box]), prompt.write([box], frame=3), "nothing of the kind"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(thinking())
def test_a_thought_changes_no_place(thought):
    for prompt in PROMPTS.values():
        for answer in places(prompt):
            plain, after = prompt.parse(answer), prompt.parse(thought + answer)
            assert (after.items, after.phrase, after.frame, after.ok) == (
                plain.items,
                plain.phrase,
                plain.frame,
                plain.ok,
            )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(thinking(), st.sampled_from(["B", "12.5", "[1, 2.5]", "a red car", "no idea"]))
def test_a_thought_changes_no_answer_in_words(ask, thought, answer):
    for model in MODELS.values():
        for form in (FORM.CHOICE, FORM.NUMBER, FORM.INTERVAL, FORM.TEXT):
            if form in model.forms - LOCATED:
                query = ask(form, options=OPTIONS if form is FORM.CHOICE else ())
                plain, after = (model.read(query, [text]) for text in (answer, thought + answer))
                assert after.answer == plain.answer


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(thinking())
def test_a_thought_changes_nothing_for_the_other_readers(thought):
    turn = "<think></think><task>vqa</task><answer>3</answer>"
    layout = read_layout([Span(thought + turn)])
    assert (layout.last(TASK), layout.last(ANSWER)) == ("vqa", "3")
    assert plan_of(thought + '{"SAM2": []}') == '{"SAM2": []}'
    call = '<tool>{"name": "report_no_mask", "parameters": {}}</tool>'
    assert read_call(thought + call, first=True) == read_call(call, first=True)
    assert read_interval(thought + '{"start": 2, "end": 3.5}') == (2.0, 3.5)
    assert read_percentage(thought + '{"percent": 30}') == 30
    assert rubric("graded").read_grade(f"{thought}2") == 2
    assert (
        answer_text(Prediction(query_id="q", answer=Answer(choice="B"), responses=(f"{thought}B",)))
        == "B"
    )


@pytest.mark.parametrize("turn", ["\nHuman: {}\nAssistant: ", "<|im_end|>\n<|im_start|>user\n{}\n"])
def test_a_turn_that_a_network_makes_up_changes_no_answer(turn):
    read = (
        (stated_number, SPELLINGS.NUMBERS),
        (lambda text: stated_letter(text, "ABCD", OPTIONS), SPELLINGS.LETTERS),
        (stated_interval, SPELLINGS.TIMES),
    )
    for reader, table in read:
        for text, other in zip(filter(None, table), reversed(table), strict=False):
            after = value_of(reader, text + turn.format("Which one?") + other)
            assert after == value_of(reader, text), text
    tagged = "<answer>A</answer>" + turn.format("Which one?") + "<answer>B</answer>"
    assert answer_part(tagged, which="first") == answer_part(tagged, which="last") == "A"
    text = SPELLINGS.FENCED.format("10, 20, 30, 40")
    for name, model in LOCATORS.items():
        after = READING.places(model, text + turn.format("Where?") + text, FORM.BOXES)
        assert after == READING.places(model, text, FORM.BOXES), name


def value_of(read, text):
    """What a reader gives; None for a failure."""
    try:
        return read(text)
    except ParseError:
        return None


counts = st.integers(0, 60)


@given(counts, counts, counts, st.booleans())
def test_a_sum_is_its_result_if_it_is_right(left, right, total, is_right):
    total = left + right if is_right else total
    meant = float(total) if left + right == total else None
    for text in (
        f"{left} + {right} = {total}",
        f"{left} red and {right} blue chairs, {total} in total",
        f"Left: {left}, right: {right}. So {left} + {right} = {total}",
        f"There are {total} chairs: {left} red and {right} blue.",
    ):
        number = value_of(stated_number, text)
        assert number in (None, meant) or {left, right, total} == {number}, text
    if meant is not None:
        assert stated_number(f"{left} + {right} = {total}") == meant


times = st.decimals(0, 500, places=1).map(float)


@given(times, times)
def test_a_start_and_a_duration_are_never_a_start_and_an_end(start, lasts):
    for text in (
        f"{start} s, lasting {lasts} s",
        f"from {start} s for {lasts} s",
        f"starts at {start} and lasts {lasts} seconds",
        f"start: {start}, duration: {lasts}",
        f"{start} s (duration {lasts} s)",
        f"{start} + {lasts}",
        f"It starts at {start} and ends {lasts} seconds later",
    ):
        assert value_of(stated_interval, text) is None, text
    found = stated_interval(f'{{"start": {start}, "duration": {lasts}}}')
    assert found == pytest.approx((start, start + lasts))


@given(times, times, st.sampled_from(["people", "metres", "°C", "%", "frames", "times", "km/h"]))
def test_what_has_another_unit_is_no_stretch(start, end, unit):
    assert value_of(stated_interval, f"{start} to {end} {unit}") is None


shares = st.integers(1, 400).map(lambda value: value / 1000)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shares, shares, shares, shares)
def test_shares_of_one_are_no_box_of_another_scale(left, top, width, height):
    box = Box(left, top, left + width, top + height)
    whole = Item(box=Box(*SPELLINGS.BOX), point=Point(20, 30))
    for name, model in LOCATORS.items():
        if model.chat.coordinates == SHARES:
            continue
        text = model.prompt.write([whole])
        assert name in POINTING or READING.places(model, text, FORM.BOXES) is not None
        for written, share in zip(SPELLINGS.BOX, box, strict=True):
            text = text.replace(f"{written:g}", f"{share:.3f}", 1)
        assert READING.places(model, text, FORM.BOXES) is None, (name, text)


@pytest.mark.parametrize("form", FAMILIES)
def test_a_thought_without_an_answer_says_nothing(form):
    assert after_thought(form.replace("{}", "[1, 2] or B")).strip() == ""
    opening = form.partition("{}")[0]
    assert after_thought(f"{opening}[1, 2] or B").strip() == ""


def test_a_thought_that_is_not_closed_ends_where_an_answer_ends_the_response():
    text = "<think>or <answer>A</answer>, no: <answer>B</answer>\n"
    assert split_thought(text) == ("or <answer>A</answer>, no:", "<answer>B</answer>\n")
    assert after_thought("<think>or <answer>A</answer>, no: B") == ""


def test_a_response_without_a_thought_is_left_as_it_is():
    assert split_thought(" B. \n") == ("", " B. \n")
    with pytest.raises(ParseError):
        read_call("", first=True)


WRAPPED = {
    "letter": lambda text: stated_letter(text, "ABCD", OPTIONS),
    "number": lambda text: stated_number(text, "How many chairs are there?"),
    "interval": stated_interval,
    "yes or no": lambda text: yes_or_no(text, "Is there a dog?"),
    "text": without_envelope,
}
PARTS = [" ", "\n", "a ", "1 ", "(", "{", "**", "$", "Answer: ", "B ", "A. ", "<|im_end|>"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("reader", WRAPPED.values(), ids=WRAPPED)
def test_the_time_of_reading_is_linear_in_the_length(reader, part):
    """20,000 characters of `a ` took 24 s, and of blanks 65 s, while it was quadratic."""
    start = process_time()
    with suppress(ParseError):
        reader(part * (20_000 // len(part)) + "x")
    assert process_time() - start < 2


ENVELOPES = (
    "{}",
    "Answer: {}",
    "**Answer:** {}",
    "**Answer**: {}",
    "### Final answer: {}.",
    "The answer is {}.",
    "The final answer is **{}**.",
    "It is written on it.\n\nAnswer: {}",
    "Answer:\n\n{}",
    "**{}**",
    '"{}"',
    "`{}`",
    r"\boxed{{{}}}",
    r"$\boxed{{\text{{{}}}}}$",
    "<|begin_of_box|>{}<|end_of_box|>",
    '{{"answer": "{}"}}',
    '```json\n{{"answer": "{}"}}\n```',
    "答案：{}",
    "It is written on <|begin_of_box|>{}<|end_of_box|>.",
    r"It is written on $\boxed{{{}}}$.",
    "答案是{}<|im_end|>",
)


@pytest.mark.parametrize("envelope", ENVELOPES)
@given(st.from_regex(r"[a-z0-9]{1,9}( [a-z0-9-]{1,9}){0,3}", fullmatch=True))
def test_what_wraps_a_text_is_not_part_of_it(envelope, text):
    read = without_envelope(envelope.format(text))
    assert read.removesuffix(".") == text
    assert without_envelope(text) == text


@pytest.mark.parametrize(
    "text",
    [
        r"-\boxed{3}",
        r"\boxed{3}.5",
        r"\boxed{1.2} \times 10^3",
        r"It is not \boxed{B}; so C.",
        r"It isn't \boxed{B}",
        r"in \boxed{}",
        'a "red" cup',
        "a\ncup",
        "$5 and $6",
        '{"color": "red"}',
        "Answers: red",
        "the answer",
    ],
)
def test_a_text_without_an_envelope_stays_as_it_is(text):
    assert without_envelope(text) == text


@pytest.mark.parametrize("box", [r"\boxed{A}", r"\boxed{}", "<|begin_of_box|>A<|end_of_box|>"])
def test_a_labelled_answer_counts_after_a_box(box):
    assert without_envelope(f"At first I thought {box}.\nAnswer: B") == "B"
