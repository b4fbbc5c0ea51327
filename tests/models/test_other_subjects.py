"""A value of another subject, quantity, action or likeness than the question's is a failure."""

from contextlib import nullcontext
from time import process_time

import pytest

from harness.errors import ParseError
from harness.models.around_places import refuse_other_subject
from harness.models.grammar import Item
from harness.models.places import refuse_other_objects
from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
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
        ("How many bears?", "3 teddy bears.", 3),
        ("How many bears are there?", "There are 3 teddy bears.", 3),
        ("How many children are there?", "2 children wearing toy hats.", 2),
        ("How many cups are there?", "Cups: 3\nCups: 4", None),
        ("How many objects are not cups?", "Cups: 3\nPlates: 4", None),
        ("How many more cups than plates are there?", "Cups: 5\nPlates: 3", None),
        ("How many cups and plates are there?", "Cups: 5\nPlates: 3", None),
        ("How many chairs are in each row?", "12 chairs, in 3 rows of 4.", None),
        ("How many rows of chairs are there?", "12 chairs, in 3 rows of 4.", None),
        ("What is the weight in pounds?", "7 pounds 8 ounces", None),
        ("What is the weight in pounds?", "The baby weighs 7 pounds 8 ounces.", None),
        ("What is the weight in kg?", "5 kg and 300 g", None),
        ("What is the weight in kg?", "It is 5 kg, or about 11 lbs.", 5),
        ("At what second does the man start running?", "He starts running at 5 seconds.", 5),
        ("At what second does the glass break?", "The man falls at 9 seconds.", 9),
        ("At what second does the cat lie down?", "The cat lies down at 9 seconds.", 9),
        ("What time does the store open?", "The sign reads 9.", 9),
        ("How many people can ride per car?", "The maximum is 8 people.", 8),
        ("What is the maximum temperature in the chart?", "The peak is 30.", 30),
        ("What is the low temperature?", "The minimum is 3.", 3),
        ("What is the width in cm?", "It covers most of the area and is 30 cm.", 30),
        ("How tall is the tower?", "The tower is 30 m high.", 30),
        ("How long is the path?", "The path measures 30 m.", 30),
        (
            "What is the height of the table in cm?",
            "The width-to-height ratio aside, the table is 70 cm tall.",
            70,
        ),
        (
            "How many children are in the picture?",
            "There are 3 children, most of them in the background of the picture.",
            3,
        ),
        ("How many dogs can you see?", "I can see 4 dogs, some of which are running.", 4),
        ("How far is it to Berlin in km?", "According to the sign in Germany, it is 85 km.", 85),
        ("How old is Anna?", "Ben is 12.", None),
        ("How old is Anna?", "Ben is 12 years old.", None),
        ("What is the revenue of Apple?", "Revenue was 5.", 5),
        (
            "Answer in English. How many dogs are there?",
            "The French sign aside, there are 3 dogs.",
            3,
        ),
        ("What was the revenue in Q2?", "The revenue in Q3 was 5.", None),
        ("What was the revenue in Q2?", "The revenue was 5.", 5),
        ("How many dogs are there?", "There are a total of 4 black dogs and no white dogs.", 4),
        (
            "How many black dogs are there?",
            "There are a total of 4 black dogs and no white dogs.",
            4,
        ),
        ("How many layers does the cake have?", "It is a three-tier cake.", 3),
        ("How many people can sit on the sofa?", "It is a three-seater sofa.", 3),
        ("How many candles are on the cake?", "It is a three-tier cake.", None),
        ("How many men are there?", "4 adults, all of them male.", 4),
        ("How many men are there?", "There are 4 adults, all of them male.", 4),
        ("How many children are with the woman?", "Besides the woman, there are 3 children.", 3),
        (
            "How many people are wearing a helmet?",
            "None of the people in the picture is wearing a helmet.",
            0,
        ),
        (
            "How many people are wearing a hat?",
            "None of the people in the picture is wearing a helmet.",
            None,
        ),
        ("How many giraffes are there?", "A single giraffe is standing next to three zebras.", 1),
        (
            "How many giraffes are in the picture?",
            "Not a single giraffe is there, but three zebras.",
            None,
        ),
        ("How many cars are parked?", "There are 6 cars, some of them parked.", None),
        ("How many cars are there?", "There are 6 cars, some of them parked.", 6),
        ("How many books are there in total?", "24 books, 2 shelves with 12 books each", 24),
        ("How much does Anna weigh?", "She weighs 50.", 50),
        ("What is the total length?", "The length is 30 m.", 30),
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
        (COFFEE, "She pours the coffee from 3 to 5 s (she drinks it afterwards).", True),
        ("When does the light go on?", "The man uses the switch from 3 to 5 s.", True),
        ("When does the man run?", "The man runs from 3 to 5 s.", True),
        ("When does the man stumble?", "He falls from 3 to 5 s.", True),
        ("When does the dog rest?", "The dog lies on the floor from 3 to 5 s.", True),
        ("When does the man eat?", "The man eats a pizza from 3 to 5 s.", True),
        ("When does the woman clean?", "She sweeps the floor from 3 to 5 s.", True),
        ("When does the man open the door?", "The man closes the door from 3 to 5 s.", False),
        ("When does the man stand up?", "The man sits down from 3 to 5 s.", False),
    ],
)
def test_intervals(question, text, is_read):
    assert value_of(stated_interval, text, question) == ((3, 5) if is_read else None)


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
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
        ("Is the dog brown?", "The cat is white.", None),
        ("Is the dog brown?", "The dog is white.", "no"),
        ("Is the man sleeping?", "She is sleeping.", None),
        ("Is the man sleeping?", "He is sleeping.", "yes"),
        ("Are the dogs sleeping?", "It is sleeping.", None),
        ("Are the dogs sleeping?", "They are sleeping.", "yes"),
        ("Is the doctor sitting?", "He is sitting.", None),
        ("Is the doctor sitting?", "It is sitting.", None),
        ("Is there a dog?", "A dog is missing.", None),
        ("Is there a dog?", "A dog is lacking in the picture.", None),
        ("Is there a dog?", "A dog is lying on the sofa.", "yes"),
        ("Is there a dog?", "A dog is sitting on the poster.", None),
        ("Is there a dog?", "Yes, there is a dog statue on the shelf.", None),
        ("Is there a bear?", "Yes, there is a teddy bear on the bed.", "yes"),
        ("Is the statement true?", "No, the statement is false.", "no"),
        ("Is the statement true?", "Yes, the statement is true.", "yes"),
        ("Is this a kitchen?", "Yes, there is an oven in the corner.", "yes"),
        (
            "Is there a dog?",
            "There doesn't appear to be a dog in this image. The animal on the sofa is a cat.",
            "no",
        ),
        (
            "Is he carrying an umbrella?",
            "Not in this picture - he is carrying a folded newspaper.",
            "no",
        ),
        ("Is the dog asleep?", "A dog is nothing but trouble.", None),
    ],
)
def test_yes_and_no(question, text, said):
    assert yes_or_no(text, question) == said


@pytest.mark.parametrize(
    ("question", "label", "refused"),
    [
        ("Where is the dog?", "cat", True),
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("B, although A might seem right, the object is blue.", "B"),
        ("B. While A is possible, B is better.", "B"),
        ("B. Although A also shows a dog, only B has two.", "B"),
        ("B, although A would also fit.", None),
        (
            "**Correct option: C**\n\n**Why not the others?**\nA - it is red.",
            "C",
        ),
        ("**Correct option: C** **Why not the others?** A - it is red. B - it is green.", "C"),
        (
            "A and D both describe the scene, but A leaves out the child, so D is more complete.",
            "D",
        ),
    ],
)
def test_letters(text, said):
    assert value_of(stated_letter, text) == said


@pytest.mark.parametrize(
    ("question", "text", "refused"),
    [
        ("the man", "The man is sitting in the car: [1, 2, 3, 4]", False),
        ("the man", "The car is next to the man: [1, 2, 3, 4]", True),
        ("the dog", "The bounding box of the cat is [1, 2, 3, 4]", True),
        ("the dog", "The cat is at [1, 2, 3, 4]", True),
        ("the dog", "The dog is at [1, 2, 3, 4]", False),
    ],
)
def test_words_around_places(question, text, refused):
    assert refuses(refuse_other_subject, question, text) == refused


def test_long_responses_are_read_in_two_seconds():
    start = process_time()
    assert yes_or_no("I can see a dog, only " * 45_000, "Is there a dog?") is None
    assert process_time() - start < 2


@pytest.mark.parametrize(
    ("question", "text", "value"),
    [
        ("How many people are not wearing hats?", "2 people are wearing hats.", None),
        ("How many people are not wearing hats?", "Two of the five people are wearing hats.", None),
        ("How many workers are without a helmet?", "3 workers are wearing a helmet.", None),
        ("How many lights are off?", "4 lights are on.", None),
        ("How many cars are parked?", "2 cars are moving.", None),
        ("How many people leave the room?", "3 people enter the room.", None),
        ("How many unripe bananas are there?", "2 bananas are ripe.", None),
        ("How many people are not wearing hats?", "There are 3 people not wearing hats.", 3),
        ("How many people are not wearing hats?", "There are 3 people.", 3),
        ("How many workers are without a helmet?", "There are two workers without helmets.", 2),
        ("How many lights are on?", "4 lights are on.", 4),
        ("How many unripe bananas are there?", "There are 3 green bananas.", 3),
        ("How many books are on the shelf?", "There are 4 books on the shelf.", 4),
    ],
)
def test_the_group_that_a_question_leaves_out_is_not_counted(question, text, value):
    with nullcontext() if value else pytest.raises(ParseError):
        assert stated_number(text, question) == value
