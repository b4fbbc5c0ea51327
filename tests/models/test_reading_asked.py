"""A value is one of what is asked for: of a part, of other things or of another state it fails."""

import pytest

from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from tests.models.test_reading_bounds import value_of

PEOPLE, CHAIRS = "How many people are in the image?", "How many chairs are there?"
STÜHLE = "Wie viele Stühle gibt es im Bild?"


@pytest.mark.parametrize(
    ("text", "question", "said"),
    [
        ("Three people are standing, and part of a fourth is visible.", PEOPLE, None),
        ("Three people. Part of a fourth is visible.", PEOPLE, None),
        ("5 chairs, plus the leg of a 6th", CHAIRS, None),
        ("I see four chairs and half of another.", CHAIRS, None),
        ("There are 3 chairs; the fourth object is a table.", CHAIRS, 3),
        ("two men with a baby on the lap", PEOPLE, None),
        ("Two people holding a small child", PEOPLE, None),
        ("two men with a baby on the lap", "How many men are there?", 2),
        ("Two people with a hat", PEOPLE, 2),
    ],
)
def test_a_count_beside_one_more_that_may_count(text, question, said):
    assert value_of(stated_number, text, question) == said


@pytest.mark.parametrize(
    ("text", "question", "said"),
    [
        ("3 fehlen.", STÜHLE, None),
        ("3 fehlen.", "Wie viele Stühle fehlen?", 3),
        ("3 Stühle.", STÜHLE, 3),
        ("2 sind leer.", STÜHLE, None),
        ("3 faltan.", "¿Cuántas sillas hay en la mesa?", None),
        ("3 are missing.", CHAIRS, None),
        ("3 are empty.", CHAIRS, None),
        ("3 are empty.", "How many chairs are empty?", 3),
        ("3 are visible.", CHAIRS, 3),
        ("Il reste 3 quarts.", "Quelle part du gâteau est-ce ?", None),
        ("3 quarts", "Quelle part du gâteau est sur la table ?", None),
        ("3 quarts", "How many quarts are left?", 3),
    ],
)
def test_a_count_of_a_part_or_of_others(text, question, said):
    assert value_of(stated_number, text, question) == said


@pytest.mark.parametrize(
    ("text", "question", "is_read"),
    [
        ("from 3 s to 7 s the door is closed", "When is the door open?", False),
        ("The light is not on from 3 s to 7 s.", "When is the light on?", False),
        ("The door is open from 3 s to 7 s.", "When is the door open?", True),
        ("From 3 s to 7 s, the person is sitting.", "a person sits down", True),
        ("The door is closed from 3 s to 7 s.", "a person closes the door", True),
        ("The action is visible from 3 s to 7 s.", "a person opens the door", True),
        ("The man closes the door from 3 s to 7 s.", "When does the man open the door?", False),
        ("The man opens and closes the door from 3 s to 7 s.", "the man opens the door", True),
        *(
            (f"{said} from 3 s to 7 s.", asked, True)
            for said, asked in (
                ("a standing person takes a seat", "a person sits down"),
                ("The closest man twists off the lid", "a man is opening a bottle"),
                ("He picks the bag and then places it", "the man puts the bag on the table"),
            )
        ),
        ("He stands up from 3 s to 7 s.", "the man sits at the table and stands up", True),
        ("A man is pushing it from 3 s to 7 s.", "a man pulls the cart", False),
        ("It occurs at least once between 3 and 7 seconds.", "a person opens the door", True),
        ("It starts between 3 and 7 seconds.", "a person opens the door", False),
        ("sometime between 3 and 7 seconds", "a person opens the door", False),
        ("between 3 and 7 seconds", "a person opens the door", True),
        ("at most from 3 to 7", "a person opens the door", False),
        ("3 (7)", "a person opens the door", False),
        ("3秒到7秒之外", "a person opens the door", False),
        ("3초에서 7초까지", "a person opens the door", True),
        ("It starts at 00:03 and continues until 00:07.", "a person opens the door", True),
        ("It continues from 3 s for 7 s.", "a person opens the door", False),
    ],
)
def test_times_of_another_state_are_no_answer(text, question, is_read):
    assert value_of(stated_interval, text, question) == ((3, 7) if is_read else None)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B, although C is closer", "B"),
        ("B although C is closer", "B"),
        ("B because it is bigger.", "B"),
        ("B, although C is the better answer", None),
        ("A because of the light", "A"),
        ("I since last year", None),
    ],
)
def test_a_letter_before_its_reason(text, letter):
    assert value_of(stated_letter, text, "ABCD") == letter
