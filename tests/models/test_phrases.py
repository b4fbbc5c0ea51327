"""What a question names: by its text alone, in bounds, whatever is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.dt_r1.phrases import MAX_CHARACTERS, MAX_PHRASES, MAX_WORDS, phrases_of


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        ("segment the object used to hold hot beverages", ("hot beverages",)),
        ("Which of the zebras is nearest to the fire hydrant?", ("zebras", "fire hydrant")),
        ("the dog and the dog, again", ("dog",)),
        ("What is it?", ()),
        ("", ()),
    ],
)
def test_names_stand_between_the_words_around_them(question: str, phrases: tuple[str, ...]) -> None:
    assert phrases_of(question) == phrases


@given(st.text(max_size=300))
def test_any_text_gives_phrases_in_bounds_made_of_its_own_words(text: str) -> None:
    phrases = phrases_of(text)
    assert phrases == phrases_of(text) and len(phrases) == len(set(phrases)) <= MAX_PHRASES
    whole = text.casefold()
    for phrase in phrases:
        assert 0 < len(phrase) <= MAX_CHARACTERS and len(phrase.split()) <= MAX_WORDS
        assert all(word in whole for word in phrase.split()), "nothing is added"
