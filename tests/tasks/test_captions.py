"""A caption of CountBench never gives its number away, and loses nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks.counting.captions import NUMERALS, OTHER_WORDS, without_number

NUMBERS = range(2, 11)
QUESTION = re.compile(r'How many are there\? The picture shows: "(.*)"\Z', re.DOTALL)


def shown(caption: str, number: int) -> str:
    match = QUESTION.match(without_number(caption, number))
    assert match is not None
    return match[1]


FORMS = [
    "{w} cats",
    "{W} cats",
    "{U} CATS",
    "Set of {n} cats",
    "cats ({n})",
    "{n} cats",
    "{n}pcs",
    "pack of {n}.",
    "{w}-piece set",
    "a {w}_piece set",
    "{n}-piece",
    "No.{n}",
    "{n}x cats",
    "x{n}",
    "{n}, {w} and {W}",
    "{w}, {w}; {w}!",
    "#{n}",
    "“{w}”",
    "{w}’s",
    "0{n} cats",
    "{n}/{n}",
    "\n{w} cats\n",
    "{w}\ncats",
    "{n}.",
    "({w})",
    "all {w} of them",
    "{w}/{n}",
    "{n}th cat",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_caption_never_states_its_number(form, number):
    word = NUMERALS[number]
    caption = form.format(n=number, w=word, W=word.capitalize(), U=word.upper())
    hidden = shown(caption, number)
    assert "…" in hidden
    assert not re.search(rf"(?<![a-z]){word}(?![a-z])", hidden, re.IGNORECASE)
    assert str(number) not in hidden


@pytest.mark.parametrize(
    ("number", "word"), [(number, word) for number, words in OTHER_WORDS.items() for word in words]
)
@pytest.mark.parametrize("change", [str.lower, str.capitalize, str.upper])
def test_plurals_and_collective_words_are_left_out_too(number, word, change):
    hidden = shown(f"A {change(word)} of cats", number)
    assert hidden == "A … of cats"


@pytest.mark.parametrize(
    ("caption", "number"),
    [
        ("often seen in stone", 10),
        ("often seen in stone", 1),
        ("100 cats at 10000 m", 10),
        ("25 cats, 2020", 2),
        ("ninety-nine and nineteen cats", 9),
        ("a weightlifter", 8),
        ("four cats and 4 dogs", 5),
        ("the second, third and fifth cat", 3),
        ("the network", 2),
        ("cats, 10 m away", 1),
    ],
)
def test_other_numbers_and_longer_words_stay(caption, number):
    allowed = caption.replace("ninety-nine", "ninety-…") if number == 9 else caption
    assert shown(caption, number) == allowed


LETTERS = st.text(st.characters(categories=("L", "Nd", "P", "Zs")), max_size=20)


@given(LETTERS, LETTERS, st.sampled_from(NUMBERS), st.booleans(), st.booleans())
def test_whatever_surrounds_a_number_it_is_not_stated(before, after, number, as_digits, upper):
    stated = str(number) if as_digits else NUMERALS[number]
    hidden = shown(f"{before} {stated.upper() if upper else stated} {after}", number)
    pieces = re.split(r"[\W\d_]+", hidden.lower())
    assert NUMERALS[number] not in pieces
    assert number not in {int(digits) for digits in re.findall(r"\d+", hidden)}


@given(LETTERS, st.sampled_from(NUMBERS))
def test_a_question_without_its_number_changes_no_more(caption, number):
    hidden = shown(caption, number)
    assert shown(hidden, number) == hidden


def test_captions_of_the_generated_world_state_their_number_and_questions_do_not(build, shapes):
    for sample in build("counting(split=countbench)", shapes).samples():
        number = sample.target.answer.count
        assert "…" in sample.query.text
        assert NUMERALS[number] not in sample.query.text.lower().split()
        assert str(number) not in sample.query.text
