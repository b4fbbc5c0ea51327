"""A conclusion or a total that counts other things than the question is no answer."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ParseError
from harness.stated.numbers import stated_number

CHAIRS = "How many chairs are in the room?"
GIRLS = "How many girls are in the image?"
GLASSES = "How many glasses are there?"
RED = "How many glasses are red?"
HATS = "How many people wear hats?"


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        (CHAIRS, "There are no chairs visible in the image.", 0),
        (CHAIRS, "I see no chairs", 0),
        (CHAIRS, "There are no chairs, only stools.", None),
        (CHAIRS, "There are no chairs on the left.", None),
        (CHAIRS, "There are no more chairs.", None),
        *(
            (f"How many {asked}?", text, count)
            for asked, text, count in (
                ("birds are on the wire", "There are no birds on the wire.", 0),
                ("birds are on the wire", "No birds are visible on the wire.", 0),
                ("chairs are in the kitchen and hall", "There are no chairs in the hall.", None),
                ("people are sitting or standing", "There are no people sitting.", None),
                ("dogs and cats are there", "There are no dogs.", None),
                ("cats on the table are red", "There are no cats on the red table.", None),
                ("chairs are there", "No chairs at the door. So there are 4 chairs.", 4),
                ("birds are on the wire", "There are no birds on the wire, but two fly by.", None),
                ("birds are on the wire", "There are no birds on the wire. Two fly above.", None),
                (
                    "birds are on the wire",
                    "There aren't any birds on the wire, but 2 are near.",
                    None,
                ),
                ("people wear hats", "None of the people wear hats, but two hold them.", None),
                ("cars are parked", "No cars are parked, but 4 are driving by.", None),
                ("people are there", "There are 3 people; no other people are visible.", 3),
                ("people are there", "No people in front, so the answer is 2.", 2),
            )
        ),
        (CHAIRS, "There are no tables.", None),
        ("How many red chairs are there?", "There are no chairs.", None),
        ("How many chairs are not there?", "There are no chairs.", None),
        ("How many chairs should be added to seat six?", "There are no chairs.", None),
        ("How many chairs are hidden?", "There are no chairs.", None),
        ("How many chairs are outside?", "There are no chairs visible.", None),
        ("How many chairs are outside?", "There are no chairs.", 0),
        (CHAIRS, "There are 7 chairs. Therefore, the room has 16 legs.", 7),
        (CHAIRS, "There are seven wooden chairs. So there are 28 legs in total.", 7),
        ("How many legs do the chairs have?", "There are 7 chairs. So there are 28 legs.", 28),
        (CHAIRS, "There are 2 rows of 4 chairs. So there are 8 chairs.", 8),
        (CHAIRS, "The left has 2 chairs, the right 3. Therefore, the total is **5**.", 5),
        (CHAIRS, "I see 4 chairs here and 2 chairs there. So there are 6 in total.", 6),
        (CHAIRS, "There are 28 legs. So there are 7 chairs.", 7),
        ("How many apples are left?", "He had 12 apples. So there are 8 left.", 8),
        ("How many apples are left?", "He had 12 apples and ate 4. So 8 remain.", 8),
        ("How many units long is it?", "It spans 7 squares. Thus, it is 14 cm.", 14),
        ("How many animals?", "There are 2 dogs and 1 cat, so the number of animals is 3.", 3),
        ("How many dogs?", "There are 2 dogs and 1 cat, so the number of animals is 3.", 2),
        ("How many animals?", "There are 2 dogs and 1 cat, so there are 4 animals.", None),
        (GIRLS, "The image shows 5 girls and 3 boys, for a total of 8 students.", 5),
        (GIRLS, "There are 8 students in total, including 5 girls and 3 boys.", None),
        (GIRLS, "There is 1 girl and 3 boys, 4 children in total.", 1),
        (GIRLS, "Five girls + 3 boys = 8 children.", 5),
        (GIRLS, "There are 2 girls on the left and 3 girls on the right, 5 children in total.", 5),
        ("How many animals?", "There are 2 dogs and 1 cat, 3 animals in total.", 3),
        ("How many children?", "5 girls and 3 boys, for a total of 8 students.", 8),
        ("How many girls and boys?", "5 girls and 3 boys, 8 children in total.", 8),
        ("How many students?", "8 students: 5 girls and 3 boys.", 8),
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


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        (GLASSES, "There are three glasses on the table. Two of them are red.", 3),
        (GLASSES, "There are three glasses, two of which are red.", 3),
        (GLASSES, "There are three glasses: two red and one clear.", 3),
        (GLASSES, "There are three glasses. Two are red and one is blue.", 3),
        (GLASSES, "I can see 3 glasses. One is on the left and two are on the right.", 3),
        (GLASSES, "There are three glasses. Two of them are wine glasses.", 3),
        ("How many glasses are on the table?", "3 glasses on the table. 2 of them are red.", 3),
        (GLASSES, "There are three glasses. Two of them are reflections.", None),
        (GLASSES, "There are three glasses. Two of them are actually cups.", None),
        (GLASSES, "There are three glasses, one of which is not a glass.", None),
        (GLASSES, "There are three glasses. Two are red and one is a cup.", None),
        (GLASSES, "There are three glasses. Two are red and two are blue.", None),
        (GLASSES, "There are three plates. Two are red and one is blue.", None),
        (GLASSES, "There are three glasses and two plates.", 3),
        ("How many wine glasses?", "There are 3 glasses. Two of them are wine glasses.", None),
        (RED, "There are three glasses. Two of them are red.", 2),
        (RED, "There are three glasses. Two are red and one is blue.", None),
        (RED, "There are three glasses (two red, one clear).", None),
        (RED, "There are 3 glasses. Two of them are red. The answer is 2.", 2),
        ("How many cups are empty?", "There are 5 cups, two of which are full.", None),
        ("How many red chairs are there?", "There are 5 chairs: 2 red and 3 blue.", None),
        (HATS, "There are four people. Three of them wear hats.", None),
        ("How many children are there?", "There are 5 people, 3 of whom are children.", 3),
        ("How many children are there?", "There are 5 people, including 3 children.", None),
        ("How many people are there?", "There are 5 people, 3 of whom are children.", 5),
    ],
)
def test_parts_of_a_count(question, response, value):
    test_a_conclusion_about_other_things_is_a_failure(question, response, value)


PEOPLE = "How many people are in the image?"
DOGS, RED_CARS = "How many dogs are in the image?", "How many red cars are parked?"
BENCH = "How many people are sitting on the bench?"


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        *(
            (DOGS, f"There are 3 {things}.", None)
            for things in ("cats", "men", "dog bowls", "legs")
        ),
        *(
            (DOGS, f"There are 3 {things}.", 3)
            for things in ("puppies", "animals", "of them", "pugs")
        ),
        (DOGS, "There are 3 cats and no dogs.", None),
        (DOGS, "Tables: 3", None),
        (DOGS, "The number of cats is 3.", None),
        (DOGS, "The dog is 3 years old.", None),
        (DOGS, "图中有三只猫。", None),
        (DOGS, "Hay 3 gatos.", None),
        (DOGS, "Hay 3 perros.", 3),
        ("图中有多少只狗？", "图中有3只猫。", None),
        ("图中有多少只狗？", "图中有3只狗。", 3),
        ("画像には犬が何匹いますか？", "画像には3匹の猫がいます。", None),
        (DOGS, "There are 2 cats and 3 dogs.", 3),
        (DOGS, "There are 5 animals: 3 dogs and 2 cats.", 3),
        (DOGS, "There are 5 animals, 2 of which are cats.", None),
        (DOGS, "3 dogs and 2 cats. So 5.", None),
        (DOGS, '{"dogs": 3, "cats": 2}', 3),
        ("How many dogs and cats are there?", "3 dogs and 2 cats", None),
        (RED_CARS, "3 blue cars", None),
        (RED_CARS, "3 red cars and 2 blue cars", 3),
        (BENCH, "Three men are sitting on the bench.", 3),
        (BENCH, "There are 3 benches.", None),
        ("How many marbles are in the jars?", "There are 3 jars.", None),
        (CHAIRS, "There is one table and four chairs.", 4),
        (CHAIRS, "There are 4 chairs around the table.", 4),
        (CHAIRS, "There are 2 tables and each has 4 chairs.", None),
        (CHAIRS, "Two tables with four chairs", None),
        (CHAIRS, "A typical room has 3 chairs.", None),
        (CHAIRS, "There used to be 3 chairs.", None),
        (CHAIRS, "3 of the chairs are red.", None),
        (CHAIRS, "3 chairs were removed.", None),
        (CHAIRS, "3 was my first guess.", None),
        (CHAIRS, "3 is the answer.", 3),
        (CHAIRS, "3 additional chairs", None),
        (CHAIRS, "a hundred", 100),
        (CHAIRS, '{"wrong_answer": 3}', None),
        ("How far is the sofa from the door?", "The sofa is 3 m long.", None),
        ("How many times does he clap?", "He claps four times.", 4),
        ("How many seconds does he run?", "He runs for 5 seconds.", 5),
        ("How many seconds does he run?", "He stops at 5 seconds.", None),
        ("In which year did sales peak?", "In 2014.", 2014),
        ("How far is it, in meters?", "five (5) meters", 5),
        ("How far is it, in meters?", "five (6) meters", None),
        ("In which year did sales peak?", "In 2014 sales were lowest.", None),
    ],
)
def test_another_kind_of_thing_is_no_count(question, response, value):
    test_a_conclusion_about_other_things_is_a_failure(question, response, value)


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        *(
            (CHAIRS, f"3 {rest}", 3)
            for rest in ("is my best estimate.", "seems to be the answer.", "of them are visible.")
        ),
        ("How many people are sitting?", "3 of them are seated.", 3),
        ("How many other people are there?", "There are 3 other people.", 3),
        ("Besides the man, how many people are there?", "There are 3 other people.", 3),
        ("How many people are behind the woman?", "There are 3 other people behind her.", 3),
        (CHAIRS, "There are 3 other chairs.", None),
        *(
            (f"{asked}\nAnswer with a number.", "3 of the chairs are red.", None)
            for asked in (
                "How many chair(s) are in this room?",
                "How many chairs can you see?",
                "Count the chairs.",
                "What is the number of chairs in the image?",
            )
        ),
        ("How many non-red cubes are there?", "4 blue cubes", 4),
        ("How many times does he jump?", "He claps 3 times.", None),
        ("How many times does he clap?", "He claps his hands 3 times.", 3),
        ("How many slices have been eaten?", "2 slices have been removed.", 2),
        ("How many people leave the room?", "3 people left the room.", 3),
        ("How many screws are there?", "the 3 screws used to fix the shelf", 3),
        ("How many players does a team have?", "Each team has 5 players.", 5),
        (CHAIRS, "Each table has 3 chairs.", None),
        (CHAIRS, "In other words, there are 3 chairs.", 3),
        (CHAIRS, "I looked at every corner: there are 3 chairs.", 3),
        ("How many seconds into the video does he jump?", "He jumps at 5 seconds.", 5),
        ("How long is the table, in meters?", "I would put it at 2 meters.", 2),
        ("How far is it, in meters?", "The path between them is 3 m long.", 3),
        ("What is the median?", "45 is the median.", 45),
        ("What number is on the bus?", "42 is written on the bus.", 42),
        ("What is the maximum value?", '{"max_value": 45}', 45),
        (CHAIRS, '{"max": 45}', None),
        ("How many women are there?", "2 women wearing glasses", 2),
        (PEOPLE, "3 cyclists riding bikes", 3),
        (DOGS, "2 cats chasing dogs", None),
        (PEOPLE, "There are 2 adults and 1 child, making a total of 3 people.", 3),
        (PEOPLE, "There are 3 people and 1 child.", None),
        ("How many gray cubes are there?", "3 grey cubes", 3),
        ("What is x?", "Substitute to get x = 3.", 3),
        (CHAIRS, "Let's count: 2 + 1 = 3.", 3),
        ("What is x?", "Let x = 3.", None),
    ],
)
def test_words_of_an_answer_that_name_no_other_thing(question, response, value):
    test_a_conclusion_about_other_things_is_a_failure(question, response, value)


WORDS = st.sampled_from("red empty full tall broken wet large left standing hidden".split())
THINGS = st.sampled_from("glasses cups chairs dogs trees".split())
PART = "two three four five six seven eight".split()


@given(st.data(), THINGS, WORDS, WORDS)
def test_a_part_is_never_read_for_the_whole_nor_the_whole_for_a_part(data, things, one, other):
    first, second = (data.draw(st.integers(2, 8)) for _ in range(2))
    total = data.draw(st.sampled_from([first + second, first + second + 1]))
    parts = data.draw(
        st.sampled_from(
            [
                f"{first} of them are {one}.",
                f"{PART[first - 2].title()} of them are {one} and {second} are {other}.",
                f"{first} are {one} and {second} are {other}.",
                f"{PART[first - 2].title()} are {one}, and {PART[second - 2]} are {other}.",
                f"Of these, {first} are {one}.",
            ]
        )
    )
    response = f"There are {total} {things}. {parts}"
    with suppress(ParseError):
        assert stated_number(response, f"How many {things} are there?") == total
    for question in (f"How many {things} are {one}?", f"How many {one} {things} are there?"):
        with suppress(ParseError):
            assert stated_number(response, question) == first


SKY, FRUIT, SOFA = "kites are in the sky", "pieces of fruit are there", "dogs are on the sofa"


@pytest.mark.parametrize(
    ("asked", "response", "value"),
    [
        *((SKY, f"There are 5 {said}.", None) for said in ("people", "trees", "strings")),
        *(
            (SKY, f"There are 5 {said}.", 5)
            for said in ("kites", "red kites", "objects", "of them")
        ),
        ("people are there", "There are 2 balls.", None),
        ("people are there", "There is one ball.", None),
        ("people are there", "There is one skier.", 1),
        ("people are there", "There are 4 people carrying 3 backpacks.", 4),
        ("fish are in the tank", "There are 7 fish, swimming above 2 coral heads", 7),
        ("cars are there", "In total, there are **29** cars", 29),
        ("people are riding bikes", "2 bikes", None),
        ("pairs of shoes are there", "There are 4 shoes.", None),
        (FRUIT, "There are 3 apples.", 3),
        (FRUIT, "There are 3 bowls.", None),
        ("surfboards are there", "There are 3 boards.", 3),
        ("times does she jump", "3 jumps", 3),
        ("times does she jump", "3 seconds", None),
        ("kites are there", "There are 3 birds of which 2 are kites.", None),
        (SOFA, "There are 2 dogs playing with 3 balls.", 2),
        (SOFA, "There are 2 dogs and 3 mutts.", None),
        (SOFA, "There are 2 flocks of birds.", None),
        (SOFA, "There were 2 dogs in the previous image.", None),
        ("cars are red", "There are 3 blue cars.", None),
        ("cars are red", "3 cars are blue.", None),
        ("cars are not red", "There are 3 blue cars.", 3),
        ("red cars are there", "There are 3 red cars and 2 blue ones.", 3),
        ("balloons are red", "There are 3 red balloons and 2 blue balloons.", 3),
        ("people are standing", "3 people are sitting on a bench.", None),
        ("people are standing", "3 people are standing by a sitting dog.", 3),
        ("people are on the left", "There are 3 people on the right.", None),
        ("metal cubes are there", "2 metallic cubes", 2),
        ("metal cubes are there", "2 rubber cubes", None),
    ],
)
def test_a_noun_that_the_question_does_not_ask_for_is_no_count(asked, response, value):
    question = f"How many {asked}?"
    test_a_conclusion_about_other_things_is_a_failure(question, response, value)


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        ("¿Cuántas sillas hay?", "Hay 4 ventanas.", None),
        ("¿Cuántas sillas hay?", "Hay 4 sillas rojas.", 4),
        ("Wie viele Stühle gibt es?", "Es gibt 4 Bälle.", None),
        ("Wie viele rote Stühle gibt es?", "Es gibt 4 rote Stühle.", 4),
        ("图中有几个苹果？", "图中有5个盒子。", None),
        ("图中有几个红色的苹果？", "图中有5个绿色的苹果。", None),
        ("图中有几个苹果？", "一共有5个。", 5),
        ("画像には犬が何匹いますか？", "画像には3個のボールがあります。", None),
        ("画像には犬が何匹いますか？", "画像には3匹の犬がいます。", 3),
    ],
)
def test_a_noun_in_another_language(question, response, value):
    test_a_conclusion_about_other_things_is_a_failure(question, response, value)


NOUNS = (
    ("people", "golfers bystanders silhouettes beachgoers monks commuters businessmen guests"),
    ("men", "businessmen surfers players"),
    ("surfers", "people men boys"),
    ("animals", "kangaroos squirrels turtles"),
    ("birds", "sparrows flamingos pelicans peacocks"),
    ("dogs", "chihuahuas dalmatians doggies"),
    ("bears", "cubs grizzlies"),
    ("vehicles", "ambulances trailers"),
    ("boats", "vessels gondolas ferries"),
    ("spheres", "balls"),
    ("cubes", "blocks"),
    ("shapes", "triangles"),
    ("monitors", "displays televisions"),
    ("lamps", "lights bulbs"),
    ("containers", "boxes jars"),
    ("vegetables", "carrots"),
    ("toys", "balls dolls"),
    ("trash bins", "cans"),
)


@pytest.mark.parametrize(
    ("asked", "said"), [(asked, said) for asked, nouns in NOUNS for said in nouns.split()]
)
def test_another_noun_for_the_asked_things_counts(asked, said):
    assert stated_number(f"There are 3 {said}.", f"How many {asked} are there?") == 3


@pytest.mark.parametrize(
    ("question", "response"),
    [
        ("¿Cuántas personas hay?", "Hay 3 hombres."),
        ("Wie viele Hunde sind zu sehen?", "Es sind 3 Tiere."),
        ("Combien de voitures ?", "Il y a 3 véhicules."),
        ("图中有几只动物？", "图中有3只狗。"),
        ("How many circles are in C?", "There are 3 circles."),
        ("What is the weight in kg?", "3 kgs"),
        ("What is the current in amps?", "3 A"),
        ("What is the price in dollars?", "3 US dollars"),
        ("What is the energy in kWh?", "3 kilowatt-hours"),
    ],
)
def test_another_word_in_another_language_or_for_a_unit_counts(question, response):
    assert stated_number(response, question) == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("cubes", "cylinders"),
        ("clocks", "towers"),
        ("women", "boys"),
        ("bananas", "bunches"),
        ("people", "signs"),
        ("carrots", "tomatoes"),
        ("pizzas", "slices"),
        ("elephants", "tusks"),
        ("suitcases", "keyboards"),
    ],
)
def test_a_known_noun_for_another_thing_is_no_count(asked, said):
    with pytest.raises(ParseError):
        stated_number(f"There are 3 {said}.", f"How many {asked} are there?")
