"""A value of another subject, quantity, action or likeness than the question's is a failure."""

import pytest

from harness.models.grammar import Item
from harness.models.places import refuse_other_objects
from harness.stated.intervals import stated_interval
from harness.stated.numbers import stated_number
from harness.tasks.table.protocols import yes_or_no
from harness.types import Box
from tests.models.test_places import refuses
from tests.models.test_reading_bounds import value_of

DOGS, WOMEN, WINDOWS = (f"How many {things} are there?" for things in ("dogs", "women", "windows"))
DOOR, COFFEE = "When does the man open the door?", "When does the woman pour the coffee?"


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (DOGS, "I can see 3 hot dogs.", None),
        (DOGS, "Three stuffed dogs are on the bed.", None),
        (DOGS, "The dog weighs about 30 kg.", None),
        ("How many candles?", "The cake for the 5-year-old has 6 candles.", 6),
        (WOMEN, "There are 2 people in the picture.", None),
        (WOMEN, "There are 2 people, both of them women.", 2),
        (WOMEN, "There are two women and a man.", 2),
        ("How many people are there?", "There are two women and a man.", None),
        ("How many people are there?", "Besides the driver, there are two passengers.", None),
        ("How many men wear ties?", "There are 3 men, none of whom wears a tie.", None),
        ("How many red cars?", "11 cars are red and 10 are blue, a total of 21 cars.", None),
        (WINDOWS, "There are 12 windows in total, arranged in 3 rows of 4.", 12),
        (WINDOWS, "There are 13 windows in total, arranged in 3 rows of 4.", None),
        (WINDOWS, "- Doors: 3\n- Windows: 12", 12),
        (WINDOWS, '{"doors": 3, "windows": 12}', 12),
        ("What is the pressure in bar?", "The gauge reads 2.4 bar (about 35 psi).", 2.4),
        ("What is the pressure in bar?", "The gauge reads 35 psi.", None),
        ("What is the width in cm?", "The height is 30 cm.", None),
        ("What is the speed in km/h?", "The speed limit is 30 km/h.", None),
        ("How far is it to Berlin in km?", "According to the sign, Hamburg is 85 km away.", None),
        ("At what second does the man stand up?", "He sits down at 20 seconds.", None),
    ],
)
def test_numbers(question, text, said):
    assert value_of(stated_number, text, question) == said


@pytest.mark.parametrize(
    ("question", "text", "is_read"),
    [
        (DOOR, "The dog barks from 3 to 5 s; the man opens the door later.", False),
        (DOOR, "The woman cooks from 3 to 5 s.", False),
        (DOOR, "The man does not open the door; from 3 to 5 s he looks at it.", False),
        (DOOR, '{"event": "dog barks", "start": 3, "end": 5}', False),
        (DOOR, "The event occurs from 3 to 5 s, after the dog barks.", True),
        (COFFEE, "The woman pours tea from 3 to 5 s.", False),
        (COFFEE, "She pours the coffee from 3 to 5 s (she drinks it afterwards).", True),
        ("When does the light go on?", "The man uses the switch from 3 to 5 s.", True),
    ],
)
def test_intervals(question, text, is_read):
    assert value_of(stated_interval, text, question) == ((3, 5) if is_read else None)


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("Is there a dog?", "Yes, there is a toy dog on the shelf.", None),
        ("Is there a dog?", "Yes, there is a hot dog on the plate.", None),
        ("Is there a dog?", "There doesn't appear to be a dog.", "no"),
        ("Is there a dog?", "There is no dog, only a cat.", "no"),
        ("Is there a dog?", "There is no dog, only a small dog bed.", None),
        ("Is there a cat?", "Yes, although it's partially hidden, there is a cat.", "yes"),
        ("Is there a clock?", "I can see a clock on the wall.", "yes"),
        ("Is there a car?", "I can see a car on the billboard.", None),
        ("Is the boy left of the girl?", "Yes, the girl is to the left of the boy.", None),
        ("Are there two dogs?", "Yes, there are two dogs and a cat.", "yes"),
        ("Is there any text?", "Yes, the sign reads 'NO PARKING'.", "yes"),
        ("Is the boy sitting?", "The boy is standing.", "no"),
    ],
)
def test_yes_and_no(question, text, said):
    assert yes_or_no(text, question) == said


@pytest.mark.parametrize(
    ("question", "label", "refused"),
    [
        ("Where is the dog?", "cat", True),
        ("Where is the dog?", "toy dog", True),
        ("Where is the dog?", "dog bowl", True),
        ("Where is the dog?", "group of puppies", False),
        ("the man in red", "man in blue", True),
        ("the man holding an umbrella", "umbrella", True),
        ("Point to the handle of the cup", "handle", False),
        ("What can the man sit on?", "chair", False),
    ],
)
def test_labels(question, label, refused):
    item = Item(Box(1, 2, 3, 4), label=label)
    assert refuses(refuse_other_objects, question, [item]) == refused
