"""Kinds of responses that are read, each with responses nearby that say something else, or nothing.

All have to be read; what must not be read as the same is a failure.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.errors import ParseError
from harness.metrics.choices import strict_choice
from harness.spec import parse
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.types import AnswerForm

YES_NO = ("Yes", "No")
ANIMALS = ("the cat", "the dog", "the cow", "the pig")


def letter(text, options=ANIMALS):
    """The letter that a text states; None for a failure."""
    try:
        return stated_letter(text, "ABCD"[: len(options) or 4], options)
    except ParseError:
        return None


def number(text):
    """The number that a text states; None for a failure."""
    try:
        return stated_number(text)
    except ParseError:
        return None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, it is safe.", "A"),
        ("No, there is no dog.", "B"),
        ("No. The man is not running; he sits.", "B"),
        ("(B) no. The dog is far from it.", "B"),
        ("Yes. It runs.\n\nIs it a dog? Please say yes or no:", "A"),
        ("Yes, but actually no.", "B"),
        ("No, the answer is yes.", None),
        ("Yes, the man is not running.", None),
        ("Yes. No, that is wrong.", None),
        ("No. Then, yes.", None),
        ("Yes, if it rains.", None),
        ("No, I cannot tell.", None),
        ("No doubt, yes.", None),
        ("(A) yes (B) no", None),
        ("No. The answer is unclear.", None),
        ("No. I cannot tell.", None),
        ("No. The turn cannot be seen.", "B"),
    ],
)
def test_yes_and_no_open_a_response(text, said):
    assert letter(text, YES_NO) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The dog, because it barks.", "B"),
        ("The dog. It stands on the left.", "B"),
        ("The dog, not the cat.", "B"),
        ("The one that barks is the dog (B).", "B"),
        ("The dog, or the cat.", None),
        ("The dog, but the cat is nearer.", None),
        ("The dog, which is not visible.", None),
        ("The dog, I think. Answer: A", None),
        ("The dog? The cat.", None),
        ("The least likely is the dog (B).", None),
        ("It is not the dog (B).", None),
        ("It is the cat (A) or the dog (B).", None),
    ],
)
def test_the_text_of_an_option_opens_or_ends_a_response(text, said):
    assert letter(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, None) for text in ("C. The cow is a decoy.", "Option A is the runner-up.")),
        *((text, None) for text in ("The best distractor is B.", "B, eliminated", "B. is a trap")),
        *((text, None) for text in ("At first sight the answer is B.", "There is no way it is B.")),
        *((f"{who} the answer is B.", None) for who in ("The user thinks", "Nobody would say")),
        *((text, None) for text in ("B is correct and so is C.", "I'd guess B but I can't tell.")),
        *((text, None) for text in ("答案是B吗？", "错误的选项是B。", "备选答案是B")),
        ("The answer is ~~B~~ C.", "C"),
        ("The answer is <s>B</s>.", None),
        ("C is a decoy. The answer is B.", "B"),
        *((text, "B") for text in ("<s>B</s>", "<s> The answer is B.</s>", "这次答案是B")),
        ("As nobody is in the picture the answer is B.", "B"),
        ("Based on the previous analysis the answer is B.", "B"),
        ("My previous answer is B.", None),
        ("The caption suggests that it is a dog and therefore the answer is B.", "B"),
        ("The caption suggests that the answer is B.", None),
        ("Without a doubt, B.", "B"),
        ("Only option B fits.", "B"),
        ("The animal in front is the dog. This matches option B.", "B"),
    ],
)
def test_a_letter_that_is_only_said_of(text, said):
    assert letter(text) == said


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        (("1. the cat", "2. the dog"), "2", "B"),
        (("1. the cat", "2. the dog"), "The answer is 2.", "B"),
        (("1. 2", "2. 1", "3. 5"), "2", None),
        (("1. 2", "2. 1", "3. 5"), "The answer is 2.", None),
        (("1. 2", "2. 1", "3. 5"), "Option 2", "B"),
        (("1. 10 cats", "2. 20 cats"), "2", "B"),
        (("1. 2", "2. 1", "3. 5"), "2. 1", "B"),
        (("1. two cats", "2. one cat"), "1", None),
    ],
)
def test_the_number_of_an_option_is_not_one_that_it_says(options, text, said):
    assert letter(text, options) == said


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("A. If the ears are pointed, it must be the other.", ANIMALS, None),
        ("B. If the picture is dark, I would say the last one.", ANIMALS, None),
        ("B. If the second window is open, it barks.", ANIMALS, "B"),
        ("B. If I look closely, the first thing that I see is a tail.", ANIMALS, "B"),
        ("There is another window.\nAssistant: B", ANIMALS, "B"),
        ("I believe the second is right.\nAssistant: A", ANIMALS, None),
        ("It barks.\nAssistant: B", ANIMALS, "B"),
        ("Assistant: B\nAssistant: C", (), None),
        ("Assistant: B\nAssistant: B", ANIMALS, "B"),
    ],
)
def test_a_letter_beside_another_choice_is_a_failure(text, options, said):
    assert letter(text, options) == said


def test_the_longer_of_two_texts_is_the_option():
    options = ("left", "left, then right", "right")
    assert letter("Left, then right, because it turns.", options) == "B"
    assert letter("Left, because it turns.", options) == "A"
    assert letter("Left, right, left.", options) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The matching image is:\n\n(B) the dog", "B"),
        ("The best choice to complete the image would be (B).", "B"),
        ("B is right because it barks.", "B"),
        ("If I look closely, the answer is B.", "B"),
        ("The matching image is not (B).", None),
        ("The left one is (A), and the right one is (B).", None),
        ("A is on the right, and B is nearer.", None),
        ("A is the right ear, B the left.", None),
        ("If it barks, then the answer is B.", None),
        ("If it barked, the answer would be B.", None),
        ("The answer is (B) the dog or (C) the cow.", None),
        ("I look at each option:\n\n(A) the cat is small.\n(B) the dog is larger", None),
        ("Each option:\n(A) the cat is small.\n\n(B", None),
        ("(A) is small.\n(B) is not it.\n(C)", None),
        ("The one on the left is image (B). It barks.", "B"),
        ('The animal labelled "A" is option (B).', "B"),
        ("Option (D) Point D is incorrect because it is far.", None),
        ("If B barks more than A, then B would be the correct choice.", None),
        ('The animal is best described by option B, "a dog."', "B"),
        ("It can be most accurately captured as (B) the dog.", "B"),
        ("It is not best described by option B.", None),
        ("It cannot be best described by option B.", None),
        ("It is best described as a dog.", None),
        ("It is best described by options A and B.", None),
        ("None of them is best described by option B.", None),
        ("No animal here is best described by option B.", None),
        ("It is hardly best described by option B.", None),
        ("None of the animals is (B).", None),
        ("No other animal fits, so it is (B).", "B"),
        ("None of the others barks, so the answer is B.", "B"),
        ("If it barks, it is best described by (B). Otherwise, (A).", None),
        ("If it barks, the answer is B. Otherwise A.", None),
        ("If it barks, the answer is B. Otherwise, the answer is A.", None),
        ("If it barks, the answer is B; otherwise, A is correct.", None),
        ("The answer is B if it barks; otherwise, the answer is A.", None),
        ("If I look closely, the answer is B. Otherwise it would not bark.", "B"),
    ],
)
def test_a_letter_that_a_sentence_names(text, said):
    assert letter(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("There are 2 rows of 4. So there are 8 chairs.", 8),
        ("I count:\n\n1, 2, 3, 4\n\nTherefore, the total number of chairs is 4.", 4),
        ("10 - 3 - 2 = 5\n\nThus, 5 are left. The final number is 5.", 5),
        ("There are 3. So it is not 3.", None),
        ("There are 3. So the 2 tables are free.", None),
        ("So there are 3 or 4.", None),
        ("So there are 3 chairs. And there are 4 tables.", None),
        ("So there are 3 chairs. The total number is 4.", None),
        ("The answer is 3. Therefore, there are 4.", None),
        ("3 + 2 = 6. So there are 6.", None),
        ("Therefore, I cannot count the 3 chairs.", None),
        ("For example, if there are 5 and 2 go, the answer is 3.", None),
        ("There are 9 dots total, in 3 groups of 3.\nThe blank has to be 3.", None),
        ("There are 9 dots in total, in 3 groups of 3. The number of dots in a group is 3.", None),
    ],
)
def test_a_conclusion_states_the_number(text, said):
    assert number(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The number of chairs above 2 m is 3.", 3),
        ("The distance between chair 1 and chair 2 is 3.5 m.", 3.5),
        ("The difference of the tallest (15) and the shortest (4) is 11.", 11),
        ("There are two chairs that are taller than 3 m.", 2),
        ("The sum of 2 and 3 is not 6.", None),
        ("The number of chairs is 3, and of tables 4.", None),
        ("The number of chairs above 2 m is 3 or 4.", None),
        ("There are more than 2 chairs that are taller than 3 m.", None),
        ("There are 3 chairs with 4 legs.", None),
        ("10 people, and 3 of them sit.", None),
        ("Set x equal to 0.", None),
        ("Here is how I found the answer:\n\n1. I looked for chairs.", None),
    ],
)
def test_numbers_that_only_say_what_is_measured(text, said):
    assert number(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Option (B) also does not match, as it barks. The only remaining option is (A).", "A"),
        ("Option B lacks the tail, so it is A.", "A"),
        ("Option B fails to match. The answer is C.", "C"),
        ("The answer is B. Option C hardly matches.", "B"),
        ("Option B still does not match.", None),
        ("(B) also does not match.", None),
        ("Option (B) also cannot be it.", None),
        ("Option B fails.", None),
        ("Option B contradicts the image.", None),
        ("Option B seems less likely.", None),
        ("Option (B) matches neither.", None),
        ("Option B shows no tail.", None),
        ("Option B, however, would not fit.", None),
        ("Option B the dog does not match.", None),
        ("Therefore, B also does not match.", None),
        ("Option B has a tail.", None),
        ("Is the answer (B) the dog?", None),
        ("Option (B) also matches the tail.", "B"),
        ("Option B is the most similar one.", "B"),
        ("Option B is the only one that does not bark.", "B"),
        ("Option B, because A does not match.", "B"),
    ],
)
def test_a_letter_whose_sentence_rejects_it(text, said):
    assert letter(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The one is (A) the cat. However, it is small. Instead, it is like (B) the dog.", None),
        ("It is (A) the cat, but rather it looks like (B) the dog.", None),
        ("The answer is B. However, (C) barks as well.", None),
        ("It is (B). However, it is not (C).", "B"),
        ("It is (B), instead of (C).", "B"),
        ("The answer is B. However, it does not bark.", "B"),
        ("It is best described by option C, but option B fits as well.", None),
        ("It corresponds to option C, but option B fits as well.", None),
        ("I see option C. Option B is right, too.", None),
        ("Option B fits as well.", "B"),
    ],
)
def test_a_choice_against_which_another_is_named_is_a_failure(text, said):
    assert letter(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"We have $D = \{x \in C\}$. Hence $D = \{1\}$.", None),
        ("Thus A ∈ B.", None),
        ("so $D$ is compact.", None),
        (r"thus \(D\) has measure 0", None),
        ("Therefore $C(x) = 3$.", None),
        ("Therefore C(x) is 3.", None),
        ("The answer is $D = 3$.", None),
        (r"$D \in C$. The answer is (C).", "C"),
        ("hence $B$.", "B"),
        ("Therefore, $B$ is correct.", "B"),
        ("So B (13).", "B"),
        (r"We have $D = 3$, so $\boxed{D}$", "D"),
    ],
)
def test_a_letter_of_a_formula_is_no_option(text, said):
    assert letter(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("So, the answer is B (13) and C (26).", None),
        ("The answer is (B) 40 and (C) 50.", None),
        ("The answer is B (13), C (26).", None),
        ("The answer is B because A and C are small.", "B"),
        ("The answer is (B) the line between A and C.", "B"),
        ("The answer is B (13) and not C (26).", "B"),
    ],
)
def test_several_letters_with_their_texts(text, said):
    assert letter(text, ("1", "2", "3", "4")) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("More information is needed to determine the value of y at x=-2.5.", None),
        ("We need the value of y when x is equal to 0.", None),
        ("I look at the distance at 5 seconds.", None),
        ("The value will depend on the 3 curves.", None),
        ("The maximum of f is at x = 4.", 4),
        ("It appears at 5 seconds.", 5),
        ("The distance at 5 seconds is 4 m.", 4),
        ("In the figure, two lines meet at a point, what is the value of y?", None),
        ("If Alex measures $v=-78 km/h$, what does Barbara measure?", None),
        ("Is the answer 3 chairs?", None),
        ("There are 3, aren't there?", None),
        ("How many are there? There are 3.", 3),
        ("There are 3. Do you want more?", 3),
        ("The ratio $r$ is $ 0.067 $. Therefore, the increase is $0.0", None),
        ("$x = 3$, and so $y = 1", None),
        ("\\boxed{12", None),
        ("The value $x$ is $7$", 7),
        ("The total is $7", 7),
        ("The missing item is 7. Therefore, the square has 16 dots.", None),
        ("The missing item is 16. Therefore, the square has 16 dots.", 16),
        ("There are two cats. One is in the mirror, and the other is in front.", 2),
        ("One is visible.", 1),
        ("According to the table, Wilkins is earning $2,500.", 2500),
        ("The brand has an awareness of 75%. This indicates much.", 75),
        ("The force has a magnitude of 10 N. To find its part, it is split.", None),
        ("The difference is **652**: 1000 - 348 = **652**", 652),
        ("The difference is **652**: 1000 - 340 = **652**", None),
        ("It costs 3 dollars more than the other.", None),
        ("The cheapest non-stop flight is $611.", 611),
        ("The number of chairs is non 3.", None),
    ],
)
def test_conditions_questions_and_cuts_state_no_number(text, said):
    assert number(text) == said


def test_of_rounds_that_a_network_makes_up_the_first_counts():
    round_ = "Hint: Choose one.\nQuestion: Which barks?\nChoices:\n(A) the cat\n(B) the dog\n"
    assert letter(f"{round_}Correct answer: B\n\n{round_}Correct answer: A") == "B"
    assert letter(f"{round_}Correct answer: B") == "B"
    assert letter(f"{round_}\n{round_}Correct answer: A") == "A"
    assert letter(f"Answer: B\n\n{round_}Correct answer: A") == "B"
    assert letter("Answer: B\n\nQuestion: Which?\nCorrect answer: A") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("**Final Answer**: **No**, the man cannot swim.", "B"),
        ("Final answer: Yes, he swims.", "A"),
        ("Final answer: No, I cannot tell.", None),
        ("Final answer: No, the place cannot be determined.", None),
        ("Final answer: No, then yes.", None),
    ],
)
def test_an_answer_line_that_opens_with_an_options_text(text, said):
    assert letter(text, YES_NO) == said


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("There are 9 green dogs in the image.", 9),
        ("seven", 7),
        ("There are 2 or 3.", None),
        ("1.5 dogs", None),
        ("There are 2 boxes.", None),
        ('[{"bbox_2d": [10, 20, 30, 40]}, {"bbox_2d": [10, 20', None),
        ("9% of them", None),
    ],
)
def test_a_count_in_words_is_read_where_no_places_are(ask, text, count):
    query = ask(AnswerForm.COUNT)
    for name in ("qwen_vl", "vlm"):
        how = ",dialect=gemma" if name == "vlm" else ",prompt=locate"
        prediction = plugins.build("models", parse(f"{name}(backend=stored{how})")).read(
            query, [text]
        )
        assert (prediction.answer and prediction.answer.count) == count
        assert ("the count is read from words" in prediction.notes) == (count is not None)
    for boxes in ("visionreasoner(backend=stored)", "qwen_vl(backend=stored)"):
        prediction = plugins.build("models", parse(boxes)).read(query, [text])
        assert prediction.answer is None and prediction.failure is not None


def test_of_several_lines_the_last_counts_and_a_note_says_so(ask):
    model = plugins.build("models", parse("qwen_vl(backend=stored)"))
    choice, count = ask(AnswerForm.CHOICE, options=ANIMALS), ask(AnswerForm.NUMBER)
    for query, text, said in (
        (choice, "Answer: A\nI look again.\n**Final answer:** B", "B"),
        (count, "Answer: 3\nAnswer: 4", 4),
    ):
        prediction = model.read(query, [text])
        assert said in (prediction.answer.choice, prediction.answer.number)
        assert "2 answers: the last counts" in prediction.notes
    assert model.read(choice, ["Answer: A is wrong; Answer: B"]).answer.choice == "B"
    assert model.read(choice, ["Answer: A\nAnswer: not A"]).answer is None
    assert model.read(count, ["Answer: 3 or Answer: 4"]).answer is None
    assert not model.read(choice, ["Answer: B\nUser: And now?\nAnswer: A"]).notes


small = st.integers(0, 40)
words = st.lists(
    st.sampled_from(["it", "is", "left", "the", "mat", "here", "and", "small"]), max_size=8
)


@given(st.sampled_from(ANIMALS), words.map(" ".join))
def test_what_follows_an_options_text_makes_it_no_other(option, rest):
    said = "ABCD"[ANIMALS.index(option)]
    for text in (f"{option.capitalize()}, {rest}.", f"{option}. {rest}", f"{option}: {rest}"):
        assert letter(text) in (None, said), text
        assert letter(f"Not {text}") is None
        for other in ANIMALS:
            if other != option:
                assert letter(f"{text} {other}") in (None, said), text


@given(small, small, small)
def test_a_conclusion_is_read_or_a_failure(left, right, other):
    total = left + right
    text = f"There are {left} red and {right} blue chairs."
    assert stated_number(f"{text} So there are {total} chairs.") == total
    for end in (
        f"So there are {total} or {other} chairs.",
        f"So there are {total} chairs and {other} tables.",
        f"So it is not {total}.",
        f"So there are more than {total} chairs.",
        f"So there are {total} chairs. There are {other} tables.",
    ):
        assert number(f"{text} {end}") is None, end


@given(st.sampled_from("AB"), st.sampled_from(["", " It runs.", " The dog is left of it."]))
def test_a_strict_reader_without_options_takes_no_text(said, rest):
    text = f"{YES_NO['AB'.index(said)]}.{rest}"
    assert strict_choice(text, letters="AB") is None
    assert strict_choice(text, letters="AB", options=YES_NO) == said


MILLIONS = "What is the revenue, in million dollars?"


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (MILLIONS, "61 million dollars", 61),
        (MILLIONS, "The total revenue is **14.2** million dollars.", 14.2),
        (MILLIONS, "1.5 billion dollars", 1500),
        (MILLIONS, "sixty-one million dollars", 61),
        (MILLIONS, "61", 61),
        (MILLIONS, "It rose from 12 million to 14.2 million dollars.", None),
        (MILLIONS, "61-62 million dollars", None),
        (MILLIONS, "More than 60 million. Of it, 5 are profit.", None),
        (MILLIONS, "61 million - 58 million", None),
        (MILLIONS, "61.3 million - 58.1 million = 3.2 million", 3.2),
        (MILLIONS, "61 millions", 61),
        ("What is it, in thousand dollars?", "two hundred thousand dollars", 200),
        ("How many millions of people live there?", "About 61 million.", 61),
        ("What is the revenue (in billions of U.S. dollars)?", "$61 billion", 61),
        ("Sales, US$ thousand (in thousands)?", "61 thousand", 61),
        ("What is the revenue?", "61 million dollars", 61e6),
        ("What is it (of 3 million)?", "61 million", 61e6),
        ("How many people live in million-dollar homes?", "61 million", 61e6),
        ("Is it more in thousands or in millions?", "61 million", 61e6),
    ],
)
def test_a_number_is_in_the_scale_that_the_question_asks_for(question, text, said):
    try:
        value = stated_number(text, question)
    except ParseError:
        value = None
    assert value == said
