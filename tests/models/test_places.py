"""Places that do not mean what they seem to: by hand, beside the table of spellings."""

import pytest

from harness.errors import ParseError
from harness.models.canvas import Canvas
from harness.models.grammar import Item
from harness.models.places import refuse_other_meaning, refuse_other_objects, refuse_other_scale
from harness.types import Box, Point

SHARES = Canvas((1000, 1000), (640, 480), is_shares=True)
PERCENT = Canvas((1000, 1000), (640, 480), parts=10, is_shares=True)
PIXELS = Canvas((840, 600), (640, 480))
Y_FIRST = Canvas((840, 600), (640, 480), y_first=True)
ONE = Canvas((1000, 1000), (640, 480), parts=1000, is_shares=True)


def refuses(check, *given):
    try:
        check(*given)
    except ParseError:
        return True
    return False


@pytest.mark.parametrize(
    ("place", "canvas", "refused"),
    [
        (Item(Box(0.1, 0.2, 0.3, 0.4)), SHARES, True),
        (Item(Box(0.1, 0.2, 0.3, 0.4)), ONE, False),
        (Item(Box(0, 0, 1, 1)), PIXELS, True),
        (Item(Box(0, 0, 2, 1)), PIXELS, False),
        (Item(Box(10, 20, 1050, 40)), SHARES, False),
        (Item(Box(10, 20, 1051, 40)), SHARES, True),
        (Item(Box(10, 20, 102, 40)), PERCENT, False),
        (Item(Box(10, 20, 120, 40)), PERCENT, True),
        (Item(Box(10, 20, 840, 631)), PIXELS, True),
        (Item(Box(10, 20, 600, 840)), Y_FIRST, False),
        (Item(Box(10, 20, 840, 600)), Y_FIRST, True),
        (Item(point=Point(0, 1)), PIXELS, False),
        (Item(point=Point(0.5, 1)), PIXELS, True),
        (Item(point=Point(10, 20), negative=Point(9000, 20)), PIXELS, True),
        (Item(phrase="a dog"), PIXELS, False),
    ],
)
def test_numbers_of_another_scale_are_refused(place, canvas, refused):
    assert refuses(refuse_other_scale, [place], canvas) == refused


@pytest.mark.parametrize(
    ("said", "canvas", "refused"),
    [
        ("[10, 20, 30, 40] %", PERCENT, False),
        ("[10, 20, 30, 40] %", SHARES, True),
        ("normalized to 0-1000: [10, 20, 30, 40]", SHARES, False),
        ("normalized to 0-1: [10, 20, 30, 40]", SHARES, True),
        ("in pixels: [10, 20, 30, 40]", PIXELS, False),
        ("in pixels: [10, 20, 30, 40]", SHARES, True),
        ("of 840 x 600: [10, 20, 30, 40]", PIXELS, False),
        ("of 1920x1080: [10, 20, 30, 40]", PIXELS, True),
        ("[y1, x1, y2, x2] = [10, 20, 30, 40]", Y_FIRST, False),
        ("[y1, x1, y2, x2] = [10, 20, 30, 40]", PIXELS, True),
        ('[{"bbox_2d": [10, 20, 30, 40], "label": "50% off, 1920x1080"}]', SHARES, False),
        ('[{"bbox_2d": [10, 20, 30, 40], "unit": "cm"}]', SHARES, True),
        ('30% sure <answer>[{"bbox_2d": [10, 20, 30, 40]}]</answer>', SHARES, False),
    ],
)
def test_numbers_that_are_said_to_be_others_are_refused(said, canvas, refused):
    assert refuses(refuse_other_meaning, said, canvas) == refused


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        (["dog", "dog"], False),
        (["a dog", "the dogs"], False),
        (["dog 1", "dog 2"], False),
        (["brown dog", "black dog"], False),
        (["puppy", "poodle"], False),
        (["target", ""], False),
        (["dog", ""], False),
        (["dog", "cat"], True),
        (["dog", "dog leash"], True),
        (["not a dog"], True),
        (["none"], True),
        (["dog (not visible)"], True),
        (["No. 5"], False),
    ],
)
def test_labels_of_other_objects_are_refused(labels, refused):
    items = [Item(Box(1, 2, 3, 4), label=label) for label in labels]
    assert refuses(refuse_other_objects, "Where is the dog?", items) == refused
