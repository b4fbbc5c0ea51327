"""Spellings of models that a reader takes, each kind with texts nearby that are no such answer."""

import pytest

from harness.errors import ParseError
from harness.models.vlm.dialect import dialect
from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
from harness.stated.markup import without_envelope
from harness.stated.numbers import stated_number
from harness.tasks.table.protocols import yes_or_no
from harness.types import Box, Point

BIRDS = "How many birds are in the image?"
METERS = "What is the distance between the two chairs in meters?"
AREA = "What is the size of the room in square meters?"
SHARE = "What share is red?"
IN_2016 = "What percentage of respondents in 2016 were satisfied?"
BUILT = "In which year was it built?"
ANIMALS = ("the cat", "the dog", "the cow", "the pig")
COLORS = ("white", "black", "red", "blue")
SHIRT = "What color is the shirt?"
DOG = "Is there a dog in the image?"
LEFT = "Is the cup to the left of the plate?"


def value_of(read, *given):
    """What a reader gives; None for a failure."""
    try:
        return read(*given)
    except ParseError:
        return None


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (BIRDS, "I count 7 birds in the image: 4 on the fence and 3 on the ground", 7),
        (BIRDS, "There are 7 birds in the image: 4 on the fence and 2 on the ground", None),
        (BIRDS, "There are **seven birds** in total — four on the wire, three in flight.", 7),
        (BIRDS, "**7**\n\nThere are 4 birds on the fence and 3 on the ground.", 7),
        (BIRDS, "**7**\n\nThere are 4 birds on the fence and 4 on the ground.", None),
        (BIRDS, "Left group: 3\nRight group: 2\nTotal: 5", 5),
        (BIRDS, "Left group: 3\nRight group: 2\nTotal: 6", None),
        (BIRDS, "- 3 birds on the wire\n- 2 birds on the ground\n\n**Total: 5 birds**", 5),
        (BIRDS, "- 3 birds\n- 2 cats", 3),
        (BIRDS, "- 3", None),
        (BIRDS, "3 adults plus 4 chicks gives 7.", 7),
        (BIRDS, "3 plus 4 is 8", None),
        (AREA, "3 m x 4 m, so 13", None),
        (BIRDS, "Let me count: 1, 2, 3, 4. There are 4 birds.", 4),
        (BIRDS, "1, 2, 3, 4. There are 5 birds.", None),
        (BIRDS, "1, 2, 3. There are 3 birds on the left and 2 on the right.", None),
        (BIRDS, "See image: 4", None),
        ("How many birds per tree are there?", "7 birds per tree", 7),
        ("How many flocks of birds are there?", "7 flocks of birds", 7),
        ("How many more birds than cats are there?", "7 birds more than cats", 7),
    ],
)
def test_a_count_with_its_parts(question, text, said):
    assert value_of(stated_number, text, question) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("half a dozen birds", 6),
        ("two dozen", 24),
        ("more than a dozen", None),
        ("a dozen or so", None),
        ("two or three dozen", None),
        ("a baker's dozen", None),
        ("dozens of birds", None),
        ("图片中有七只鸟。", 7),
        ("二十一只鸟", 21),
        ("一共有12只鸟，其中5只在树上。", 12),
        ("图片中可见4只鸟。", 4),
        ("没看到4只鸟", None),
        ("图中有三四只鸟。", None),
        ("图中有十几只鸟。", None),
        ("第三只鸟在左边。", None),
        ("图中有三只鸟，还有一只在天上。", None),
        ("不止三只鸟。", None),
        ("三个半小时", None),
        ("画像には7羽の鳥がいます。", 7),
        ("4台のうち2台が赤です", None),
        ("4台の車がありません。", None),
        ("이미지에는 7마리의 새가 있습니다.", 7),
        ("이미지에는 7마리의 새가 없습니다.", None),
        ("I don't see any birds in this image.", 0),
        ("I don't see any birds or cats in this image.", None),
        ("I don't see any more birds.", None),
        ("I can identify four birds.", 4),
        ("There are 7 birds more than cats.", None),
        ("7 birds per tree", None),
        ("7 birds on each tree", None),
        ("7 flocks of birds", None),
        ("7 birds flew away", None),
        ("7 times", None),
        ("It features more than 4 birds", None),
    ],
)
def test_other_words_for_a_count(text, said):
    assert value_of(stated_number, text, BIRDS) == said


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("How far apart are they?", "They are 3.53 feet apart from each other.", 3.53),
        (BIRDS, "7 birds, apart from one on the roof", None),
        ("How far apart are they?", r"\scalar{3.5} \distance_unit{m}", 3.5),
        (METERS, r"\scalar{350} \distance_unit{centimeters}", 3.5),
        (METERS, r"\scalar{3.5} \distance_unit{paces}", None),
        ("What is the pressure in bar?", "It shows 620 kPa.", None),
        ("What is the pressure in bar?", "It shows 6.2 bar (620 kPa).", 6.2),
        ("What is the pressure in bar?", "6.2 bars", 6.2),
        ("What is the temperature in degrees Celsius?", "98.6 °F", None),
        ("What is the temperature in degrees Celsius?", "37 degrees", 37),
        ("What is its weight in kg?", "2000g", None),
        ("What is its weight in kg?", "The scale shows 5000 g.\nAnswer: 5", 5),
        ("What is the pressure in bar?", r"It reads 90 psi. Final answer: \boxed{6.2}", 6.2),
        ("How fast is it in km/h?", "about 50 mph", None),
        *(("How fast is it in km/h?", f"90 {unit}", None) for unit in ("knots", "ft/s", "warp")),
        *(
            ("What is its weight in kg?", f"9 {unit}", None)
            for unit in ("stone", "grammes", "tons")
        ),
        ("What is the power in kW?", "The plant has 1.2 MW.", None),
        ("What is the capacity in GB?", "2 TB", None),
        ("What is the pressure in kPa?", "It reads 101325 Pa.", None),
        ("What is the temperature in Celsius?", "It is 72 F.", None),
        ("What is the temperature in Celsius?", "It is 22 C.", 22),
        ("What is the price in dollars?", "€20", None),
        ("What is the price in dollars?", "The price is $20.", 20),
        ("How long does it take, in minutes?", "It takes 1 hour and 30 minutes.", 90),
        ("How fast is it in km/h?", "80 kilometers per hour", 80),
        ("How many cups are on the table?", "There are 3 cups.", 3),
        (METERS, "Approximately 2 meters and 40 centimeters", 2.4),
        (METERS, "The sides are 2 m and 40 cm", None),
        (METERS, "2 m and 40 cm respectively", None),
        (METERS, "two and a half meters", 2.5),
        (METERS, "half a meter", 0.5),
        (METERS, "a meter and a half", 1.5),
        (METERS, "two and half a meter", None),
        (METERS, "The chairs are separated by roughly 240 centimeters.", 2.4),
        (METERS, "1.80m (5'11\")", 1.8),
        (METERS, "Assuming a chair is 0.5 m wide, the distance is about 2.4 m.", 2.4),
        (METERS, "Assuming the distance is 2 m, the height is 1 m.", None),
        (AREA, "20 sq m", 20),
        (AREA, "20 sq. m", 20),
        (AREA, "20 sq km", 2e7),
        (SHARE, "45%, compared to 38% in the other", 45),
        (SHARE, "45% versus 38%", None),
        ("How much higher is red?", "45%, compared to 38% in the other", None),
        (IN_2016, "In 2016, 45% of respondents were satisfied.", 45),
        (IN_2016, "In 2016, 45% were satisfied, compared to 38% in 2015.", 45),
        (IN_2016, "In 2016 it was 45%, and in 2017 38%.", None),
        (IN_2016, "It was 45% in 2017.", None),
        ("What is the highest value?", "The highest value is 89, in 2015.", 89),
        ("What is it now?", "89 in 2015", None),
        ("How many years?", "6 years (from 2010 to 2016)", 6),
        ("How many years?", "7 years (from 2010 to 2016)", None),
        (BUILT, "It was built in 1923.", 1923),
        (BUILT, "It was not built in 1923.", None),
        (BUILT, "It was built in the 1920s.", None),
        (BUILT, "It was built in 1923-1925.", None),
    ],
)
def test_measures_shares_and_years(question, text, said):
    assert value_of(stated_number, text, question) == (
        said if said is None else pytest.approx(said)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Of the options provided, **C. the cow** is the best answer.", "C"),
        ("Of the options provided, C. the dog is the best answer.", None),
        ("C. the cow is the worst answer.", None),
        ("C. the cow could be the best answer", None),
        ("The action is C. the cow.", "C"),
        ("It moos, which corresponds to option (C)", "C"),
        ("This corresponds to option C: the cow.", "C"),
        ("This does not correspond to option C", None),
        ("The cat, which corresponds to option A, does not bark.", None),
        ("The one that meows corresponds to option A. That one corresponds to option B.", None),
        ("Nothing points to option C", None),
        ("This is option C.", "C"),
        ("The only one that fails is option C", None),
        ("最可能的诊断是 D", "D"),
        ("最不可能的诊断是 D", None),
        ("最可能的诊断是 A型流感", None),
        ("最可能的诊断不是 D", None),
        ("The most likely option is B.", "B"),
        ("The second most likely option is B.", None),
        ("The most likely distractor is B.", None),
        ("It should be B.", "B"),
        ("It should be B or C", None),
        ("I'm not sure, but I think B.", "B"),
        ("I'm not sure, but not B", None),
        ("Answer - B", "B"),
        ("Answer - B - C", None),
        ("Answer: C, no", None),
        ("La respuesta correcta es la B.", "B"),
        ("La respuesta es la B o la C.", None),
        ("Richtig ist B.", "B"),
        ("Richtig ist nicht B.", None),
        ("Bが正解です。", "B"),
        ("Bが正解ではない", None),
        ("C选项", "C"),
        ("C选项不正确", None),
        ("正确的是C", "C"),
        ("答：C", "C"),
        ("答：不是C", None),
        ("👉 C", "C"),
        ("👎 C", None),
        ('{"best_answer": "C"}', "C"),
        ('{"wrong_answer": "C"}', None),
        ("C fits best.", "C"),
        ("C fits best with cows, but B barks", None),
        ("C is the opposite answer.", None),
        ("C is rarely correct.", None),
        ("C is only partly correct.", None),
        ("C is indeed correct.", "C"),
        ("C is the only correct answer.", "C"),
        ("C is anything but correct.", None),
        ("C is the answer to avoid.", None),
        ("C is correct?", None),
        ("The second best answer is C", None),
        ("A tempting answer is C.", None),
        ("My first answer was C", None),
        ("I first chose C.", None),
        ("The cow, on the left, is not barking.", None),
        ("B seems right, but it isn't.", None),
        ("B is right, but A is close.", "B"),
        ("Option B implies barking", None),
        ("Option B accurately describes the animal.", "B"),
        ("Option B: a dog? No", None),
        ("Answer: B. C", None),
        ("Answer: B C", None),
        ("It is closer to A.\n\nB", "B"),
        ("B: let me see", None),
        ("A, then B", None),
    ],
)
def test_letters_that_are_stated_and_those_that_are_not(text, said):
    assert value_of(stated_letter, text, "ABCD", ANIMALS) == said


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (SHIRT, "The shirt is white.", "A"),
        (SHIRT, "The color of the shirt is red.", "C"),
        (SHIRT, "In the image, the shirt is blue", "D"),
        (SHIRT, "The wall is white.", None),
        (SHIRT, "The shirt is not white.", None),
        (SHIRT, "The shirt is dark red.", None),
        (SHIRT, "The shirt is white and black.", None),
        ("", "The shirt is white.", None),
        ("Which color does the shirt lack?", "The shirt is white.", None),
        ("What color is the shirt next to the plate?", "The plate is white.", None),
        (SHIRT, "A: white", "A"),
        (SHIRT, "A: black", None),
    ],
)
def test_a_sentence_with_the_words_of_the_question(question, text, said):
    assert value_of(stated_letter, text, "ABCD", COLORS, question) == said


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (DOG, "There is no evidence of a dog.", "no"),
        (DOG, "There is no evidence of a cat.", None),
        (DOG, "There is no sign that the dog is leaving.", None),
        (DOG, "I don't see a dog in the image.", "no"),
        (DOG, "I don't see a dog on the left.", None),
        (DOG, "I can see a dog.", "yes"),
        (DOG, "I can see a toy dog.", None),
        (DOG, "No dog is visible in the image.", "no"),
        (DOG, "No dog food is visible.", None),
        ("Are there two dogs?", "I see three dogs.", None),
        ("Are there 2 dogs?", "I see 3 dogs.", None),
        (DOG, "Nope.", "no"),
        (DOG, "Yep, there's a dog.", "yes"),
        (DOG, "Yeah, right.", None),
        (DOG, "Yeah, no.", None),
        (DOG, "Based on the image, yes, there is a dog.", "yes"),
        (DOG, "Based on the image, yes, there is no dog.", None),
        (DOG, "I think no.", "no"),
        (DOG, "I would not say yes.", None),
        (DOG, "No, but there is a cat.", "no"),
        (DOG, "No, but there is a dog.", None),
        (DOG, "No, but there may be one.", None),
        (DOG, "It is not the case that there is a dog.", "no"),
        (DOG, "It is not true that there is no dog.", None),
        (DOG, "是", "yes"),
        (DOG, "否。", "no"),
        (DOG, "是，但不是狗", None),
        (LEFT, "Yes, the cup is to the right of the plate.", None),
        (LEFT, "The cup is to the right of the plate.", "no"),
        (LEFT, "No, the plate is to the right of the cup.", None),
        (LEFT, "Yes, the plate is to the right of the cup.", "yes"),
        (LEFT, "Yes, the plate is to the left of the cup.", None),
        ("Is the lamp on?", "Yes, the lamp is off.", None),
        ("Is the man wearing a hat?", "No, he is wearing a hat.", None),
        *(
            (DOG, f"{said}.", None)
            for said in (
                *("Yes, a cat", "Yes, I can see a cat sleeping on it", "Yes, the animal is a cat"),
                *("No, it's a dog", "No, the dog is on the left", "Yes. There is no dog here"),
                *("No, hay un perro", "No, il y a un chien"),
            )
        ),
        (DOG, "Yes, it's a puppy.", "yes"),
        (DOG, "No animal is visible.", "no"),
        (DOG, "No plant is visible.", None),
        (DOG, "No dogs can be seen.", "no"),
        (DOG, "A dog is visible.", "yes"),
        ("Is there an animal?", "No, there is a dog.", None),
        ("¿Hay un perro en la imagen?", "No, hay un perro.", None),
        ("¿Hay un perro en la imagen?", "No, hay un gato.", "no"),
        ("¿Hay un perro en la imagen?", "Sí, hay un gato.", None),
        ("图中有狗吗？", "是的，图中有一只猫。", None),
        ("图中有狗吗？", "是的，图中有一只狗。", "yes"),
        ("Is the car red?", "Yes, the car is blue.", None),
        ("Is there a red car?", "Yes, there is a red car by a blue van.", "yes"),
        ("Is there a red car?", "Yes, there is a car by a blue van.", "yes"),
        ("Are there two cats?", "Yes, there are three cats.", None),
        ("Are there at least two cats?", "Yes, there are three cats.", "yes"),
        ("Is this a train?", "Yes, this is a bus.", None),
        ("Is this a school?", "Yes, it is a hospital.", None),
        ("Is she riding a bike?", "Yes, she is riding a bicycle.", "yes"),
        ("Is she riding a bike?", "Yes, she is riding a horse.", None),
        ("Is he at work?", "Yes, he works with no gloves on.", "yes"),
        ("Does he wear gloves?", "Yes, he works with no gloves on.", None),
    ],
)
def test_yes_and_no_in_other_words(question, text, said):
    assert yes_or_no(text, question) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("12.0s-18.5s, with a duration of 6.5 seconds.", (12, 18.5)),
        ("12.0s-18.5s, with a duration of 4 seconds", None),
        ("from 12 s, lasting 18 s", None),
        ("from 1:05 (65s) to 1:20 (80s)", (65, 80)),
        ("1:05 (66s) to 1:20 (81s)", None),
        ("He sits from the 12th second to the 18th second.", (12, 18)),
        ("from the 12th to the 18th frame", None),
        ("from the 12-second mark to the 18-second mark", (12, 18)),
        ("It spans from 12 to 18 seconds.", (12, 18)),
        ("It spans 12 to 18 seconds", None),
        ("It takes from 12 to 18 seconds", None),
        ("Desde el segundo 12 hasta el 18", (12, 18)),
        ("desde el minuto 12 hasta el 18", None),
        ("During 12-18 seconds", (12, 18)),
        ("not during 12-18 seconds", None),
        ("视频的第12秒到第18秒", (12, 18)),
    ],
)
def test_times_in_other_words(text, said):
    assert value_of(stated_interval, text, "When does he sit?") == said


@pytest.mark.parametrize("words", [", lasting 3 s", "It is not true that "])
def test_words_that_repeat_are_a_failure(words):
    text = words * 1_000
    assert value_of(stated_interval, text, "When does he sit?") is None
    assert yes_or_no(text, DOG) is None


def test_an_age_and_a_decade_are_no_number():
    assert value_of(stated_number, "30s", "How old is he?") is None
    assert value_of(stated_number, "the 1920s", "When was it built?") is None
    assert stated_number("30s", "How long does it take?") == 30


@pytest.mark.parametrize("text", ["yes it is", "No he isn't"])
def test_a_short_yes_or_no(text):
    assert yes_or_no(text, "Is he here?") == text.split()[0].lower()
    assert yes_or_no("Yes he isn't", "Is he here?") is None


def test_a_state_is_that_of_the_question_in_another_form():
    opened = "The door is opened from 5s to 9s."
    assert stated_interval(opened, "When does the man open the door?") == (5, 9)
    assert value_of(stated_interval, opened, "When does the man close the door?") is None


@pytest.mark.parametrize(
    "text",
    [
        "<s_answer>a cup</s_answer>",
        "<ans>a cup</ans>",
        "<CONCLUSION>a cup</CONCLUSION>",
        "'a cup'",
        "*a cup*",
        "```\na cup\n```",
    ],
)
def test_tags_and_quotes_around_a_text(text):
    assert without_envelope(text) == "a cup"


@pytest.mark.parametrize("text", ["'a' and 'cup", "<b>a cup</i>", "*a* cup", "<ans>a cup"])
def test_marks_that_do_not_wrap_a_text(text):
    assert without_envelope(text) == text


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("<bbox>10 20 30 40</bbox>", [Box(10, 20, 30, 40)]),
        ("<bbox>10, 20, 30, 40</bbox> <bbox>50 60 70 80</bbox>", 2),
        ("<point>10 20</point>", [Point(10, 20)]),
        ("<bbox>10 20 30 40</bbox><bbox>50 60</bbox>", None),
        ("<bbox>10 20 30 40</bbox><bbox>50 6", None),
        ("<bbox>10 20 30 40</bbox><point>1 2</point>", None),
        ("<bbox>30 20 10 40</bbox>", None),
        ("not <bbox>10 20 30 40</bbox>", None),
        ("<bbox>10 20 30 40</bbox> or <bbox>50 60 70 80</bbox>", None),
        ("10 20 30 40", None),
    ],
)
def test_boxes_of_seed(text, places):
    result = dialect("seed1_5_vl").parse(text)
    found = None if result.error else [item.box or item.point for item in result.items]
    assert found == places or (found is not None and len(found) == places)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("about a dozen and a half eggs", "How many eggs?"),
        ("45% of men agreed, compared to 38% of women.", "What share of women agreed?"),
        ("It was 45%, up from 38% in 2015.", "What was the share in 2015?"),
        ("1, 2, 3. There are 3 dogs and no cats.", "How many cats?"),
    ],
)
def test_the_other_value_of_a_comparison_may_be_asked_for(text, question):
    with pytest.raises(ParseError):
        stated_number(text, question)


def test_words_in_another_order_or_place_say_something_else():
    colours = ("white", "black", "red", "blue")
    question = "What color is the dog chasing the cat?"
    with pytest.raises(ParseError):
        stated_letter("The cat chasing the dog is black.", "ABCD", colours, question)
    assert yes_or_no("I see a cup on the box.", "Is there a cup in the box?") is None
    assert yes_or_no("The photo shows a picture of a dog.", "Is there a dog?") is None


@pytest.mark.parametrize(
    ("question", "options", "text", "letter"),
    [
        (DOG, ("Yes", "No"), "Yes, it is a cat.", None),
        (DOG, ("Yes", "No"), "No, there is a dog.", None),
        (DOG, ("Yes", "No"), "No, there is a cat.", "B"),
        ("What is the state of the apple?", ("whole", "sliced"), "The apple is sliced.", "B"),
        ("What is the state of the apple?", ("whole", "sliced"), "The pear is sliced.", None),
        ("What is she doing?", ("she sits", "running"), "She is running.", "B"),
        ("What is she doing?", ("she sits", "running"), "He is running.", None),
        ("Where is the cat?", ("on the left", "on the right"), "The cat is on the left.", "A"),
    ],
)
def test_an_option_in_a_sentence(question, options, text, letter):
    assert value_of(stated_letter, text, "AB", options, question) == letter


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("Is the man wearing a hat?", "Yes, he is wearing a cap.", "yes"),
        ("Is the man holding a ball?", "Yes, he is holding a bat.", None),
        ("Is this a mammal?", "Yes, it is a dog.", "yes"),
        ("Is there food on the table?", "Yes, there is a pizza.", "yes"),
        ("Is there a plate on the table?", "Yes, there is a pizza.", None),
        ("¿Hay personas?", "Sí, hay tres hombres.", "yes"),
        ("¿Hay un perro?", "Sí, hay un gato.", None),
        ("Gibt es einen Hund?", "Ja, da ist ein Welpe.", "yes"),
        ("图中有人吗？", "是的，图中有一个男人。", "yes"),
        ("图中有狗吗？", "是的，图中有一只猫。", None),
    ],
)
def test_another_word_for_the_asked_thing_is_no_other_thing(question, text, said):
    assert yes_or_no(text, question) == said
