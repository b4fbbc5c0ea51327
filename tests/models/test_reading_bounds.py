"""A number, an interval, a yes or a box that its own words leave open or reject is a failure."""

import pytest

from harness.errors import ParseError
from harness.stated.intervals import refuse_beyond, stated_interval
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.tasks.table.protocols import yes_or_no
from harness.types import AnswerForm
from tests.models.test_reading_laws import LOCATORS, READING

OPTIONS = ("the left chair", "the right chair", "the sofa", "the table")
DOG = "Is there a dog in the image?"


def value_of(read, *given):
    """What a reader gives; None for a failure."""
    try:
        return read(*given)
    except ParseError:
        return None


@pytest.mark.parametrize(
    "rest",
    [
        *("-odd people", "-some people", " something people", " and counting", " people minimum"),
        *(" people, possibly more", " people, and that's only the front row", " people or so"),
        *(" people short of a full house", " people at the very least", " people, give or take"),
        *(" people in the foreground alone", " people, if not more", " people and then some"),
        *(" people visible, more are hidden", " people, plus several in the back", " people max"),
        *(" people, rounded up", " people (lower bound)", " people, ignoring the children"),
        *(" people; there may be more behind", " people, hard to tell", " people, sadly"),
    ],
)
def test_a_count_that_its_words_leave_open_is_a_failure(rest):
    assert value_of(stated_number, f"20{rest}") is None
    assert value_of(stated_number, f"There are 20{rest}.") is None


@pytest.mark.parametrize(
    "rest",
    [
        *("", " people", " people in the image", " people wearing hats", " people, all seated"),
        *(" people, including a child", " people, some of whom are seated", " odd functions"),
        *(" items that sold less than one unit in at least one store", " brightly painted doors"),
        *(" people, twice as many as before", " people, some with umbrellas", " min"),
    ],
)
def test_a_count_with_words_for_what_is_counted_is_read(rest):
    assert stated_number(f"There are 20{rest}.") == 20


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B... just kidding, C.", "C"),
        ("B. Strike that, C.", "C"),
        ("B... nah, C.", "C"),
        ("B, said no one.", None),
        ("B, as if!", None),
        ("B, not!", None),
        ("B, just kidding.", None),
        ("It looks as if B is closer, so B.", "B"),
        (r"Answer: \(C\)", "C"),
        (r"Answer: \( \text{(C) } \$9 \)", "C"),
        ("c. the sofa", "C"),
        ("c. the table", None),
    ],
)
def test_a_letter_that_is_taken_back_or_mocked(text, letter):
    assert value_of(stated_letter, text, "ABCD", OPTIONS) == letter


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, the image lacks a dog.", None),
        ("Yes, I see what you mean, but the image is blank.", None),
        ("Yes, the dog is absent.", None),
        ("Yes, there is no dog, as you see.", None),
        ("Yes, no doubt, it is there.", "yes"),
        ("Yes, a dog sits there.", "yes"),
        ("No, that's not true that there's none.", None),
        ("No, there is a dog in the image.", None),
        ("No, you can see a dog on the left.", None),
        ("No, a dog is clearly visible.", None),
        ("No, there is a cat.", "no"),
        ("No, a cat is clearly visible.", "no"),
        ("No, there is no dog.", "no"),
    ],
)
def test_a_yes_or_no_whose_sentence_says_the_opposite_is_a_failure(text, said):
    assert yes_or_no(text, DOG) == said


def test_words_of_the_question_tell_nothing_of_the_answer():
    assert yes_or_no("Yes, the dog is missing.", "Is the dog missing?") == "yes"
    assert yes_or_no("No, the cat is left of the dog.", "Is the dog left of the cat?") == "no"


SMALLER = "Look. Is the right grey box smaller than the left grey box? Answer yes or no."


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (SMALLER, "No, the grey box on the right is smaller than the grey box on the left.", None),
        (SMALLER, "(B) No. The right grey box is smaller than the left grey box.", None),
        (SMALLER, "No, it is.", None),
        (SMALLER, "No, the left grey box is smaller than the right grey box.", "no"),
        (SMALLER, "No, the right grey box is larger, while the left one is smaller.", "no"),
        (SMALLER, "No, both lines are of the same length.", "no"),
        (SMALLER, "Yes, the box on the right is not smaller.", None),
        (SMALLER, "Yes, the grey box on the right is smaller.", "yes"),
        (SMALLER, "Yes, the left grey box is larger than the right one.", "yes"),
        ("Are the two lines of the same length?", "No, the left line is longer.", "no"),
        ("Are both lines blue?", "No, one line is blue.", "no"),
        ("Are there 2 dogs?", "No, there are 2 dogs.", None),
        ("Are there 2 dogs?", "No, there are 3 dogs.", "no"),
        ("Are there more dogs than cats?", "No, there are more cats than dogs.", "no"),
        ("Are there more dogs than cats?", "No, there are more dogs than cats.", None),
        ("Does the red car pass the blue car?", "No, the blue car passes the red car.", "no"),
        ("Is the man wearing a red hat?", "No, the man in the red shirt has a blue hat.", "no"),
        ("Is the traffic light green?", "No, the traffic light is red.", "no"),
        ("Does the man behind the woman wear a hat?", "No, the woman wears a hat.", "no"),
        ("Can you see a cat?", "No, I can see a dog.", "no"),
        ("Does the red car pass the blue car?", "No, the red car passes the blue car.", None),
        ("Is the traffic light green?", "No, the traffic light is green.", None),
        ("Did he turn left and then right?", "No, he turned right and then left.", "no"),
        ("Is the shirt red and the hat blue?", "No, the shirt is blue and the hat red.", "no"),
        ("Is the man taller than the woman?", "No, she is taller than him.", "no"),
        ("Is the man taller than the woman?", "Yes, she is shorter.", "yes"),
        ("Is A closer to B than C?", "No, A is farther from B than C.", "no"),
        ("Is there one dog?", "No, there are two dogs.", "no"),
        ("Are there two dogs?", "No, there is a dog.", "no"),
        ("Is the door open?", "No, the door is being opened.", "no"),
        ("Is the door closed?", "No, the door closes at the end.", "no"),
        ("Is this a painting?", "No, this is a photo.", "no"),
        ("Is the cup in the box?", "No, the cup is on the box.", "no"),
        ("Is the dog not running?", "No, the dog is running.", "no"),
    ],
)
def test_a_yes_or_no_beside_the_question_as_a_statement(question, text, said):
    assert yes_or_no(text, question) == said


@pytest.mark.parametrize("text", ["It takes between 3 and 7 s.", "He spends 3 to 7 seconds on it."])
def test_a_duration_is_no_interval(text):
    assert value_of(stated_interval, text) is None
    assert stated_interval("It takes place from 3 to 7 s.") == (3, 7)


def test_an_interval_beyond_its_video_is_a_failure():
    quarters = [frame / 4 for frame in range(120)]
    refuse_beyond(20, 31, quarters)
    for start, end in ((20, 40), (31, 31.5)):
        with pytest.raises(ParseError, match=r"ends at 30\.00 s"):
            refuse_beyond(start, end, quarters)
    refuse_beyond(500, 600, range(30))  # frames whose rate is not known


@pytest.mark.parametrize(
    ("question", "is_read"),
    [
        ("During which frames can we see the man begin?", False),
        ("Give the start and end frame of the event.", False),
        ("When does it happen, in percent of the video's length?", False),
        ("Between what frames, and at which seconds, is the door open?", True),
        ("When does the man of the first frame leave?", True),
        ("Give frame numbers; the video has 30 frames per second.", False),
        ("Which of the frames of this video of 60 seconds show the man?", False),
        ("男人在第几帧出现？", False),
        ("When is he there? Give the times in minutes.", False),
        ("In which minute does he enter and leave?", False),
        ("When is he there in the first two minutes?", True),
        ("When in minute 2 does the man of the film jump?", True),
        ("When does it say that the dish is done in minutes?", True),
        ("When is the battery at 100%?", True),
        ("When does the percentage on the screen change?", True),
    ],
)
def test_numbers_without_a_unit_are_not_seconds_where_frames_are_asked_for(question, is_read):
    assert (value_of(stated_interval, "The man begins from 28 to 71.", question) is not None) == (
        is_read
    )
    assert stated_interval("The man begins from 28 s to 71 s.", question) == (28, 71)
    are_frames = "frame" in question or "帧" in question
    counted = value_of(stated_interval, "From 28 to 71.", question, range(90))
    assert (counted == (28, 71)) == (is_read or are_frames), "times that are frame numbers"


def box(name, text):
    """The one box that a grammar reads, in pixels of the page's image; None for a failure."""
    places = READING.places(LOCATORS[name], text, AnswerForm.BOXES)
    return None if places is None else places[0]


@pytest.mark.parametrize(
    ("field", "is_read"),
    [
        ('"status": "rejected"', False),
        ('"valid": "no"', False),
        ('"keep": false', False),
        ('"verdict": "discard"', False),
        ('"discarded": true', False),
        ('"coordinates": "normalized_1000"', False),
        ('"coord_type": "relative"', False),
        ('"space": "0-1000"', False),
        ('"normalized_to": 1000', False),
        ('"note": "this is not the dog"', False),
        ('"occluded": false', True),
        ('"discarded": false', True),
        ('"verified": true', True),
        ('"color": "red"', True),
    ],
)
def test_a_field_that_rejects_its_box_or_has_another_scale(field, is_read):
    text = f'{{"bbox_2d": [100, 120, 300, 400], "label": "dog", {field}}}'
    assert (box("qwen_vl:locate", text) is not None) == is_read


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("{} (wrong) {}", False),
        ("{} nope {}", False),
        ("<ref>the area without the dog</ref>{}", False),
        ("<ref>the cat next to the dog</ref>{}", False),
        ("<ref>the dog next to the cat</ref>{}", True),
        ("<ref>leash of the dog</ref>{}", False),
        ("<ref>group of dogs</ref>{}", True),
        ("<ref>the dog</ref>{}, <ref>the dog</ref>{}", True),
    ],
)
def test_words_that_reject_a_box_or_name_another_object(text, is_read):
    places = ("<box>[[112, 179, 335, 595]]</box>", "<box>[[500, 100, 600, 200]]</box>")
    assert (box("vlm:internvl3_5", text.format(*places)) is not None) == is_read


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        *(
            (DOG, f"Yes, {rest}", None)
            for rest in ("there is a cat.", "it is a cat.", "only a cat.")
        ),
        *((DOG, f"Yes, {rest}", "yes") for rest in ("a man holds a dog.", "it is on the sofa.")),
        *((DOG, f"No, {rest}", None) for rest in ("a dog is in the image.", "there's a dog.")),
        (DOG, "No, I do not see a dog. There is a cat on the sofa.", "no"),
        *((DOG, text, "no") for text in ("There are no dogs.", "The image does not show a dog.")),
        (DOG, "I don't think there is a dog.", "no"),
        *(
            (DOG, f"Yes, {rest}", "yes")
            for rest in (
                "there is one on the chair.",
                "there are two people with a pet.",
                "there is a chair, and a dog is on it.",
            )
        ),
        ("Is the man riding a horse?", "Yes, the boy is riding.", "yes"),
        ("Is the chair next to the table?", "Yes, the table is next to the chair.", "yes"),
        ("Is the dog on the chair?", "Yes, the cat is on the chair.", None),
        ("Are there more cats than dogs?", "Yes, there are fewer dogs.", "yes"),
        ("Are there more cats than dogs?", "Yes, there are fewer cats.", None),
        ("Gibt es einen Hund?", "Nein, da ist eine Katze.", "no"),
        ("Gibt es einen Hund?", "Nein, da ist ein Hund.", None),
        ("犬はいますか？", "いいえ、猫がいます。", "no"),
        (DOG, "There is no hot dog.", None),
        (DOG, "Nein, da ist ein Hund.", None),
        (DOG, "Nein, da ist kein Hund.", "no"),
        ("Is the door open?", "Yes, it is closed.", None),
        ("Is the door open?", "Yes, the window is open.", None),
        ("Is the door open?", "No, it's open.", None),
        ("Is the door open?", "No, it is not closed.", None),
        ("Is the door open?", "No, it's closed.", "no"),
        ("Is the cup larger than the plate?", "No, the cup is larger.", None),
        ("Is the cup larger than the plate?", "Yes, they are the same size.", None),
        ("Is the cup larger than the plate?", "No, the plate is larger.", "no"),
        (
            "Is there direct contact between the arm and the cup?",
            "There is no direct contact between the arm and the cup.",
            "no",
        ),
    ],
)
def test_a_yes_or_no_whose_sentence_says_otherwise_is_a_failure(question, text, said):
    assert yes_or_no(text, question) == said
