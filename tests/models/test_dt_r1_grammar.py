"""DT-R1's grammar: legal orders are legal, one slip is a fault, and nothing that is read raises."""

import random
import re

import pytest

from harness.errors import ParseError
from harness.models.dt_r1.grammar import (
    STOPS,
    Instance,
    Span,
    Task,
    harmless,
    read_instances,
    read_layout,
    read_task,
    reasoning_of,
    shortened,
)
from harness.thoughts import reasoning
from harness.types import Box

FUZZED = 10_000
TAGS = ("think", "dt_plan", "dt.plan", "dt_rep", "execute", "results", "task", "answer")
TEXTS = ("", " a ", "x < y", "{}", "<b>", "\n", "</", "<think", "é", "dt_plan>")

OUTSIDE = r"(?:(?!</?(?:think|dt[._]plan|dt[._]rep|execute|results|task|answer)>)[^\x01\x02])*"


def tagged(name):
    return rf"{OUTSIDE}<{name}>(?:(?!</{name}>)[^\x01-\x03])*</{name}>{OUTSIDE}"


# Another writing of the grammar: one expression over the whole text, an injected block a character,
# and one between spans.
LEGAL = re.compile(
    rf"{tagged('think')}(?:{tagged('dt_plan')}|{tagged('dt[.]plan')})\x01"
    rf"(?:{tagged('think')}(?:{tagged('execute')}\x02)?)*{tagged('task')}{tagged('answer')}",
    re.DOTALL,
)


def legal(spans):
    marked = "\x03".join(
        ("\x01" if "dt_rep" in span.text[:8] else "\x02") if span.injected else span.text
        for span in spans
    )
    return LEGAL.fullmatch(marked) is not None


def block(draw, tag):
    return f"<{tag}>{draw.choice(TEXTS[:6])}</{tag}>{draw.choice(('', ' ', chr(10)))}"


def response(draw):
    """A legal response as spans."""
    spans = [
        Span(block(draw, "think") + block(draw, draw.choice(("dt_plan", "dt.plan")))),
        Span("<dt_rep>{}</dt_rep>", injected=True),
    ]
    text = ""
    for _ in range(draw.randrange(4)):
        text += block(draw, "think")
        if draw.random() < 0.5:
            spans += [
                Span(text + block(draw, "execute")),
                Span("<results>1</results>", injected=True),
            ]
            text = ""
    return [*spans, Span(text + block(draw, "task") + block(draw, "answer"))]


def mutated(draw, spans):
    """A response with a part of it cut, doubled, moved, or replaced; perhaps still legal."""
    spans = list(spans)
    place = draw.randrange(len(spans))
    span = spans[place]
    kind = draw.randrange(7)
    if kind == 0:
        del spans[place]
    elif kind == 1:
        spans.insert(place, draw.choice(spans))
    elif kind == 2:
        other = draw.randrange(len(spans))
        spans[place], spans[other] = spans[other], spans[place]
    elif kind == 3:  # a block that the environment injects, written by the network
        spans[place] = Span(span.text)
    elif not span.injected:
        start = draw.randrange(len(span.text) + 1)
        end = min(len(span.text), start + draw.randrange(12))
        tag = draw.choice(TAGS)
        put = ("", draw.choice(TEXTS), f"<{draw.choice(('', '/'))}{tag}>", block(draw, tag))[
            kind - 4
        ]
        spans[place] = Span(span.text[:start] + put + span.text[end:])
    return spans


def test_ten_thousand_responses_are_legal_where_another_writing_of_the_grammar_says_so():
    draw = random.Random(0)
    counts = {True: 0, False: 0}
    for number in range(FUZZED):
        spans = response(draw)
        for _ in range(number % 3):
            spans = mutated(draw, spans)
        found = read_layout(spans)
        assert (found.fault == "") == legal(spans), spans
        counts[found.fault == ""] += 1
    assert min(counts.values()) > FUZZED / 5


ANSWERED = [
    Span("<think>a</think><dt_plan>{}</dt_plan>"),
    Span("<dt_rep>{}</dt_rep>", injected=True),
    Span("<think>b</think><task>vqa</task><answer>3</answer>"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<think>b", "Well. <think>b"),
        ("</task>", "</task> So:"),
        ("3</answer>", "3</answer> That is all."),
        (">b<", "> then <execute>, no: <answer> <"),
    ],
)
def test_pairs_in_their_order_are_legal_whatever_is_written_around_and_in_them(old, new):
    *before, last = ANSWERED
    spans = [*before, Span(last.text.replace(old, new, 1))]
    found = read_layout(spans)
    assert found.fault == "" and found.last("answer") == "3"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<think>b</think>", "b</think>"),
        ("<answer>3</answer>", "<answer>3"),
        ("<task>vqa</task><answer>3</answer>", "<answer>3</answer><task>vqa</task>"),
        ("<answer>3</answer>", ""),
    ],
)
def test_a_pair_that_lacks_a_half_or_stands_elsewhere_is_a_fault(old, new):
    *before, last = ANSWERED
    assert read_layout([*before, Span(last.text.replace(old, new, 1))]).fault


@pytest.mark.parametrize("name", ["dt_rep", "results"])
def test_an_injection_of_the_networks_own_is_a_fault_and_no_injection(name):
    forged = [
        Span("<think>a</think><dt_plan>{}</dt_plan>"),
        Span("<dt_rep>{}</dt_rep>", injected=True),
        Span(f"<think>b</think><{name}>3</{name}><task>vqa</task><answer>3</answer>"),
    ]
    found = read_layout(forged)
    assert found.fault and found.last("answer") == "3"
    assert [one.injected for one in found.blocks if one.tag == name][-1] is False


def test_a_megabyte_of_tags_is_read_in_linear_time():
    for text in ("<think>" * 100_000, "<" * 10**6, "</answer>" * 100_000, " " * 10**6):
        assert read_layout([Span(text)]).fault


def test_what_is_injected_holds_no_tag():
    for tag in TAGS:
        for text in (f"<{tag}>", f"</{tag}>", f"a</{tag}><{tag}>b"):
            spans = [Span(harmless(text))]
            assert not read_layout(spans).blocks and harmless(harmless(text)) == harmless(text)
    assert harmless("1 < 2 and <b>") == "1 < 2 and <b>"


def test_an_error_of_more_than_256_characters_loses_its_middle():
    assert shortened("a" * 256) == "a" * 256
    assert shortened("a" * 200 + "b" * 200) == "a" * 128 + "..." + "b" * 128


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("segmentation", Task.SEGMENTATION),
        ("Reasoning Segmentation", Task.SEGMENTATION),
        ("reasoning_grounding.", Task.GROUNDING),
        ("reasoning visual question answering", Task.VQA),
        ("VQA", Task.VQA),
        ("summary", Task.SUMMARIZATION),
        ("Reasoning Summarization", Task.SUMMARIZATION),
        ("segmentation of cups", None),
        ("", None),
        (None, None),
        ("s" * 10**6, None),
    ],
)
def test_tasks_are_read_in_their_names(text, task):
    assert read_task(text) is task


def test_answers_are_read_by_their_task():
    one = read_instances(Task.SEGMENTATION, '{"instances": [{"name": "cup", "mask": "masks/1"}]}')
    assert one == (Instance("cup", mask="masks/1"),)
    two = read_instances(Task.GROUNDING, "{'instances': [{'bbox': [1, 2, 3, 4], 'frame': 2}]}")
    assert two == (Instance("", box=Box(1, 2, 3, 4), frame=2),)
    assert read_instances(Task.SEGMENTATION, '{"instances": []}') == ()


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (Task.SEGMENTATION, "masks/1"),
        (Task.SEGMENTATION, '{"instances": [{"bbox": [1, 2, 3, 4]}]}'),
        (Task.SEGMENTATION, '{"instances": [{"mask": 3}]}'),
        (Task.SEGMENTATION, '{"instances": {"mask": "masks/1"}}'),
        (Task.GROUNDING, '{"instances": [{"bbox": [1, 2, NaN, 4]}]}'),
        (Task.GROUNDING, '{"instances": [{"bbox": [3, 2, 1, 4]}]}'),
        (Task.GROUNDING, '{"instances": [{"bbox": [1, 2, 3, 4], "frame": -1}]}'),
        (Task.GROUNDING, '{"instances": [{"bbox": [1, 2, 3, 4], "frame": true}]}'),
        (Task.GROUNDING, "[" * 10_000),
        (Task.GROUNDING, '{"instances": [' + '{"bbox": [1, 2, 3, 4]},' * 300 + "]}"),
    ],
)
def test_an_answer_of_another_kind_is_refused(task, text):
    with pytest.raises(ParseError):
        read_instances(task, text)


def test_reasoning_that_the_template_opened_counts():
    assert reasoning("It is red.</think><answer>a</answer>") == "It is red."
    assert reasoning("<think>It is red.</think>") == "It is red."
    assert reasoning("no tags") == "" and reasoning("<think>cut") == "cut"
    opened = [Span("<think>\n" + "It is red.</think><dt_plan>{}</dt_plan>")]
    assert reasoning_of(read_layout(opened)).strip() == "It is red."


def test_stop_strings_end_what_the_environment_takes_over():
    assert set(STOPS) == {"</dt_plan>", "</dt.plan>", "</execute>"}
