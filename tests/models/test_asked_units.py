"""A quantity counts in the unit that its question asks for, whatever unit the response has."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ParseError
from harness.stated.numbers import stated_number

METERS = "What is the distance between the sofa and the TV (in meters)?"
CENTIMETERS = "What is the height of the table in centimeters?"
AREA = "What is the size of this room (in square meters)?"
SECONDS = "How many seconds does the man wait?"


@pytest.mark.parametrize(
    ("question", "response", "value"),
    [
        (METERS, "The distance is about 240 cm.", 2.4),
        (METERS, "The distance is approximately 2.4 meters (about 7.9 feet).", 2.4),
        (METERS, "7.9 feet, or 2.4 meters", 2.4),
        (METERS, "7.9 ft (2.4 m)", 2.4),
        (METERS, "2.4 m = 240 cm", 2.4),
        (METERS, "**240** cm", 2.4),
        (METERS, "$240\\text{ cm}$", 2.4),
        (METERS, "\\boxed{240 \\text{ cm}}", 2.4),
        (METERS, '{"answer": "2400mm"}', 2.4),
        (METERS, "two hundred centimeters", 2.0),
        (METERS, "0.0024 km", 2.4),
        (METERS, "240", 240.0),
        (METERS, "It is 2.4 m (24 cm).", None),
        (METERS, "The sofa is 240 cm long and the gap is 1.2 m.", None),
        (METERS, "5 feet 6 inches", 1.6764),
        (METERS, "5 ft 6 in (about 1.68 m)", 1.68),
        (METERS, "5 feet 14 inches", None),
        (METERS, "5 feet, 6 inches of it hidden", None),
        (METERS, "5 feet 6 in the hall", None),
        (CENTIMETERS, "The height of the table is around 75 cm (0.75 m).", 75.0),
        (CENTIMETERS, "0.75 m", 75.0),
        (CENTIMETERS, "There are 3 in the corner.", 3.0),
        (AREA, "20 m²", 20.0),
        (AREA, "20 m^2", 20.0),
        (AREA, "100 square feet", 9.290304),
        (AREA, "It is 4 m by 5 m.", None),
        (SECONDS, "About 2 minutes.", 120.0),
        (SECONDS, "1 minute 30 seconds", 90.0),
        (SECONDS, "1 minute 30 seconds, or 90 seconds", 90.0),
        (SECONDS, "1 minute and 30 seconds", 90.0),
        (CENTIMETERS, "It is 1 m 60 cm high.", 160.0),
        (SECONDS, "1 h 5 min 30 s", 3930),
        ("How far is it?", "It is 240 cm.", 240.0),
        ("Is it in meters or in feet?", "It is 240 cm.", 240.0),
        ("How fast is it, in meters per second?", "It is 240 cm.", None),
        (METERS, "It moves at 3 m/s.", None),
        (METERS, "3 paces", None),
        (METERS, "2.4 pixels", None),
        (METERS, "1.5 sofa lengths", None),
        (METERS, "2.4 arbitrary units", None),
        (METERS, "2.4 kilograms", None),
        (METERS, "2.4 meters away", 2.4),
        (METERS, "The gap is 2.4 from edge to edge.", 2.4),
        (METERS, "2,4 Meter", 2.4),
        (
            "The widths, in centimeters, at intervals of 2 are 5 and 6. What is its area?",
            "The area is 22 cm^2.",
            22.0,
        ),
    ],
)
def test_a_quantity_is_read_in_the_unit_that_is_asked(question, response, value):
    if value is None:
        with pytest.raises(ParseError):
            stated_number(response, question)
    else:
        assert math.isclose(stated_number(response, question), value)


def test_a_quantity_in_two_units_is_a_whole_number_of_the_smaller():
    assert stated_number("1 min 35 s", SECONDS) == 95
    assert stated_number("1 h 5 min", "How many minutes does he wait?") == 65


UNITS = {"mm": 0.001, "cm": 0.01, "meters": 1, "km": 1000, "inches": 0.0254, "feet": 0.3048}


@given(
    st.decimals(min_value="0.1", max_value=900, places=1),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(["{} {}", "The height is about {} {}.", "{} {}, as the image shows."]),
)
def test_a_length_is_the_same_in_every_unit(number, said, asked, wording):
    value = stated_number(wording.format(number, said), f"How high is it, in {asked}?")
    assert math.isclose(value, float(number) * UNITS[said] / UNITS[asked], rel_tol=1e-9)
