"""A conclusion that counts other things than the question is no answer."""

import pytest

from harness.errors import ParseError
from harness.stated.numbers import stated_number

CHAIRS = "How many chairs are in the room?"


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        (CHAIRS, "There are 7 chairs. Therefore, the room has 16 legs.", None),
        (CHAIRS, "There are seven wooden chairs. So there are 28 legs in total.", None),
        ("How many legs do the chairs have?", "There are 7 chairs. So there are 28 legs.", 28),
        (CHAIRS, "There are 2 rows of 4 chairs. So there are 8 chairs.", 8),
        (CHAIRS, "The left has 2 chairs, the right 3. Therefore, the total is **5**.", 5),
        (CHAIRS, "I see 4 chairs here and 2 chairs there. So there are 6 in total.", 6),
        (CHAIRS, "There are 28 legs. So there are 7 chairs.", 7),
        ("How many apples are left?", "He had 12 apples. So there are 8 left.", 8),
        ("How many apples are left?", "He had 12 apples and ate 4. So 8 remain.", 8),
        ("How many units long is it?", "It spans 7 squares. Thus, it is 14 cm.", 14),
        ("How many animals?", "There are 2 dogs and 1 cat, so the number of animals is 3.", 3),
        ("How many dogs?", "There are 2 dogs and 1 cat, so the number of animals is 3.", None),
        ("How many animals?", "There are 2 dogs and 1 cat, so there are 4 animals.", None),
        ("How many sheep?", "I see 7. Wait, one more hides, so that makes 8.", 8),
        ("How many sheep?", "I see 7. Wait, one more hides, so that makes 8 legs.", None),
        ("", "The answer is 1. There are 3 balls and 2 blocks, so there are 5 objects left.", 1),
        ("", "There are 7 chairs. Therefore, the room has 16 legs.", 16),
    ],
)
def test_a_conclusion_about_other_things_is_a_failure(question, response, value):
    if value is None:
        with pytest.raises(ParseError):
            stated_number(response, question)
    else:
        assert stated_number(response, question) == value
