"""Sentences of models with their question: what a human reads, or a failure for another thing."""

import pytest

from harness.stated.intervals import stated_interval
from harness.stated.numbers import stated_number
from harness.tasks.table.protocols import yes_or_no
from tests.models.test_reading_bounds import value_of


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (
            "What was the unemployment rate of women in 2015?",
            "The unemployment rate of men was 48%.",
            None,
        ),
        (
            "What was the unemployment rate of women in 2015?",
            "In 2015, the unemployment rate of women was 48%.",
            48,
        ),
        ("What was the unemployment rate of women in 2015?", "The rate was 48%.", 48),
        ("What is the value of the blue bar?", "The red bar is at 40.", None),
        ("What is the value of the blue bar?", "The blue bar reaches 40.", 40),
        ("What is the value of the blue bar?", "The bar is at 40.", 40),
        ("How many points did the home team score?", "The away team scored 21 points.", None),
        ("How many points did the home team score?", "The home team scored 21 points.", 21),
        ("How many points did the home team score?", "They scored 21 points.", 21),
        ("What was the inflation in Germany?", "In France, inflation was 3.2%.", None),
        ("How many people live in the city?", "In the countryside live 300 people.", None),
        ("How many people are inside the shop?", "There are 4 people outside the shop.", None),
        ("How many people are inside the shop?", "There are 4 people standing outside.", None),
        ("How many people are inside the shop?", "There are 4 people inside.", 4),
        ("How many people are inside the shop?", "There are 4 people in the shop.", 4),
        ("How many people are inside the shop?", "Four.", 4),
        (
            "What was the value of imports in 2010?",
            "Exports were 40 billion dollars in 2010.",
            None,
        ),
        (
            "What was the value of imports in 2010?",
            "Imports were 40 billion dollars in 2010.",
            40000000000.0,
        ),
        ("What does an adult ticket cost?", "A child ticket costs 5 dollars.", None),
        ("What does an adult ticket cost?", "An adult ticket costs 5 dollars.", 5),
        ("What does an adult ticket cost?", "It costs $5.", 5),
        ("How many apples are on the table?", "There are 8 apples on the floor.", None),
        ("How many apples are on the table?", "There are 8 apples on the table.", 8),
        ("How many apples are on the table?", "There are 8 apples.", 8),
        ("How many apples are on the table?", "There are 8 apples in the picture.", 8),
        ("How many birds are in the sky?", "There are 3 birds sitting on the wire.", None),
        ("How many birds are in the sky?", "There are 3 birds flying in the sky.", 3),
        ("How many people are in the background?", "There are 3 people in the foreground.", None),
        (
            "How many people are in the background?",
            "There are 3 people in the background of the image.",
            3,
        ),
        ("How many chairs are in the room?", "There are four chairs around the table.", 4),
        (
            "How many people are in the boat?",
            (
                "In the image, there are **four** people in the boat. Two are rowing at the "
                "front, one is seated in the middle, and one is steering at the back."
            ),
            4,
        ),
        (
            "How many chairs are empty?",
            (
                "Four of the six chairs around the table are occupied, which leaves two chairs "
                "empty."
            ),
            2,
        ),
        (
            "How many zebras are in the picture?",
            (
                "I count 6 zebras clearly visible; a seventh appears to be only a reflection "
                "in the water, so I'd go with 6."
            ),
            6,
        ),
        (
            "What speed does the radar sign show for the vehicle, in km/h?",
            (
                "The digital display reads **62**, while the posted limit is 50. Since you "
                "asked about the vehicle's speed, the answer is 62 km/h."
            ),
            62,
        ),
        (
            "By how many million did sales increase from 2018 to 2019?",
            (
                "According to the bar chart, sales rose from 1.2 million in 2018 to 1.8 "
                "million in 2019, which is an increase of **0.6 million**."
            ),
            0.6,
        ),
        (
            "How many chairs are in the room?",
            (
                "There are four chairs around the table. A fifth chair is pushed against the "
                "wall near the window."
            ),
            None,
        ),
        (
            "What is the speed limit in km/h?",
            "The sign reads 35 mph, which is roughly 56 km/h.",
            56,
        ),
        (
            "How many chairs are there in this room?",
            (
                "There are two chairs at the desk and another two by the window, giving us "
                "four chairs overall."
            ),
            4,
        ),
        ("How many people wearing hats are there?", "There are none.", 0),
        ("How many cats are in the image?", "There are none.", 0),
        ("How many cats are in the image?", "None.", 0),
        ("How many cats are in the image?", "There aren't any.", 0),
        ("How many cats are in the image?", "I don't see any cats.", 0),
        ("How many cats are in the image?", "No cats are visible in the image.", 0),
        ("How many cats are in the image?", "There are no cats in the image; only two dogs.", 0),
        (
            "How many people are not wearing helmets?",
            (
                "Out of the 8 people in the image, 5 wear helmets, which leaves 3 who are not "
                "wearing one."
            ),
            3,
        ),
        (
            "At what time in the video, in seconds, does the ball first hit the ground?",
            "The ball first hits the ground at 1:05.",
            65,
        ),
        (
            "At what time in the video, in seconds, does the ball first appear?",
            "It first appears around the 1 minute 12 second mark.",
            72,
        ),
        (
            (
                "Measuring from the closest point of each object, what is the distance between "
                "the sofa and the TV (in meters)?"
            ),
            (
                "Measuring from the closest points, the sofa and the TV are separated by "
                "roughly 2.8 m (≈9 ft 2 in)."
            ),
            2.8,
        ),
        (
            "What is the distance between the sofa and the TV in meters?",
            "The distance is about 2.1 meters (6 feet 11 inches).",
            2.1,
        ),
        (
            "What is the size of this room (in square meters)?",
            (
                "Assuming the bed is about 2 m long, the room measures roughly 4 m by 3.5 m, "
                "which gives an area of around 14 square meters."
            ),
            14,
        ),
        (
            "What is the size of this room (in square meters)?",
            (
                "The room appears to be about 4 meters by 5 meters, giving an area of "
                "approximately 20 square meters."
            ),
            20,
        ),
        ("What is the speed of the car in m/s?", "The car moves at about 36 km/h (10 m/s).", 10),
        (
            "How many people are in the image?",
            (
                "In the image, there are **four people** visible: two men seated at the table, "
                "a woman standing behind them, and a child near the window."
            ),
            4,
        ),
        (
            "How many times does the person jump in the video?",
            (
                "The person jumps twice in the video. The first jump occurs at around the "
                "3-second mark, and the second jump occurs at around the 7-second mark."
            ),
            2,
        ),
        ("How many times does the person jump?", "The person jumps twice.", 2),
        ("How many times does the person jump?", "Three times.", 3),
        ("How many times does the person jump?", "He jumps once, then sits down.", 1),
        (
            "What is the distance between the sofa and the TV (in meters)?",
            (
                "Based on the typical width of a sofa (about 2 meters), the distance between "
                "the sofa and the TV is approximately 2.5 meters."
            ),
            2.5,
        ),
        (
            "How many chairs?",
            (
                "Besides the two armchairs, there are three dining chairs around the table, "
                "making it five in total."
            ),
            5,
        ),
        ("How many lions?", "There are two adult lions and three cubs in the picture.", None),
        (
            "How many red apples are there?",
            "There are 6 apples in the bowl, 4 of which are red.",
            4,
        ),
        (
            "How many people are left at the end?",
            (
                "Initially there are 5 people, but two of them leave, leaving three people at "
                "the end."
            ),
            3,
        ),
        (
            "What is the distance between the bed and the door (in meters)?",
            "The distance between the bed and the door is roughly 180 cm.",
            1.8,
        ),
        (
            "What is the maximum number of people in the frame at the same time?",
            "At most three people appear in the frame at the same time.",
            3,
        ),
        (
            "How many people are not wearing a helmet?",
            "Of the five riders, two are wearing helmets, so three are not.",
            3,
        ),
        ("How many chairs are there?", "Across 32 frames, a total of 5 chairs can be seen.", 5),
        ("How many chairs are there?", "Across the 32 frames, I count 5 chairs.", 5),
        ("What is the price of the red dress?", "The red dress costs $45, down from $60.", 45),
        ("How many cars are behind the truck?", "There are 2 cars in front of the truck.", None),
        (
            "How many cars are left of the truck?",
            "There are 2 cars to the right of the truck.",
            None,
        ),
        ("How many cars are left of the truck?", "There are 2 cars to the left of the truck.", 2),
        ("How many books are on the top shelf?", "There are 7 books on the bottom shelf.", None),
        ("How many books are on the top shelf?", "There are 7 books on the shelf.", 7),
        ("How many students in class A passed?", "In class B, 12 students passed.", None),
        (
            "What is the population of the largest city?",
            "The smallest city has 3000 inhabitants.",
            None,
        ),
        ("What is the score of the team in white?", "The team in black has 14 points.", None),
        ("What percentage of people prefer tea?", "48% of respondents prefer tea.", 48),
        ("What percentage of people prefer tea?", "48% prefer coffee.", None),
        ("What percentage of people prefer tea?", "Coffee is preferred by 48%.", None),
        (
            "What was the revenue in the second quarter?",
            "Revenue in the first quarter was 5 million.",
            None,
        ),
        (
            "What was the revenue in the second quarter?",
            "Second-quarter revenue was 5 million.",
            5000000.0,
        ),
        (
            "How many goals did the blue team score in the first half?",
            "The blue team scored 3 goals in the first half.",
            3,
        ),
        (
            "How many goals did the blue team score in the first half?",
            "The blue team scored 3 goals in the second half.",
            None,
        ),
        ("How tall is the boy?", "The girl is 150 cm tall.", None),
        ("What is the temperature outside?", "It is 21 degrees inside.", None),
        ("What is the temperature outside?", "It is 21 degrees.", 21),
        ("How much do the shoes cost?", "The hat costs 20 dollars.", None),
        ("How much do the shoes cost?", "They cost 20 dollars.", 20),
        (
            "How many windows does the house on the left have?",
            "The house on the right has 6 windows.",
            None,
        ),
        ("How many windows does the house on the left have?", "It has 6 windows.", 6),
        ("How many windows does the left house have?", "The left house has 6 windows.", 6),
        ("What is the length of the table in cm?", "The chair is 45 cm long.", None),
        (
            "What is the distance from the door to the window in meters?",
            "The distance from the door to the bed is 3 m.",
            None,
        ),
        (
            "What is the distance from the door to the window in meters?",
            "The door is about 3 m away from the window.",
            3,
        ),
        ("What is the room number?", "The room number is 312.", 312),
        ("What is the average age of the players?", "The average age of the coaches is 51.", None),
        ("What is the vote share of the Democrats?", "Republicans got 48%.", None),
        (
            "How many cups are in the cupboard?",
            "I can see 6 cups in the cupboard behind the glass door.",
            6,
        ),
        (
            "How many people are sitting on the bench?",
            "Three people are sitting on the bench, next to a tree.",
            3,
        ),
        (
            "How many people are standing on the bench?",
            "Three people are sitting on the bench.",
            None,
        ),
        ("How many dogs are on the beach?", "Two dogs are running along the shore.", 2),
        ("How many sheep are in the field?", "There are 12 sheep grazing in the meadow.", 12),
        ("How many cars are on the road?", "I see 5 cars on the street.", 5),
        ("How many boats are on the water?", "There are 4 boats floating on the lake.", 4),
        ("How many people are at the table?", "There are 5 people around the table.", 5),
        ("How many plates are on the table?", "There are 5 plates on the dining table.", 5),
        ("How many laptops are on the desk?", "There are 2 laptops on the table.", 2),
        ("How many of the apples are green?", "Three of the apples are green.", 3),
        ("How many candles are lit?", "The cake has 6 candles, all unlit.", None),
        ("How many lights are on?", "There are 5 lights, all switched off.", None),
        ("How many seats are taken?", "The room has 12 seats, all empty.", None),
        ("How many doors are closed?", "There are 4 doors, all of them open.", None),
        ("How many doors are closed?", "There are 4 doors, all of them closed.", 4),
        (
            "How many students prefer tea?",
            "40 students were asked, and a quarter of them prefer tea.",
            None,
        ),
        (
            "What percentage of people did not vote?",
            "The chart shows that 35% of people voted.",
            None,
        ),
        ("What percentage of people voted?", "The chart shows that 35% of people voted.", 35),
        (
            "What percentage of households do not own a car?",
            "According to the chart, 82% of households own a car.",
            None,
        ),
        ("What is the percentage of people who disagree?", "62% of the people agree.", None),
        ("What is the percentage of people who disagree?", "62% of the people disagree.", 62),
        ("How many slices of pizza are left?", "3 slices have been eaten.", None),
        ("How many slices of pizza are left?", "3 slices are left.", 3),
        (
            "How many people are in the boat?",
            "There are 4 people in the water next to the boat.",
            None,
        ),
        (
            "How many cars are in the garage?",
            "There are 2 cars parked in front of the garage.",
            None,
        ),
        (
            "How many people are visible?",
            "There are 3 people in the foreground and someone walking in the back.",
            None,
        ),
        (
            "How many people are at the table?",
            "There are 3 people sitting at the table and somebody standing behind it.",
            None,
        ),
        (
            "How many people are sitting?",
            ("There are 5 people in the room; everyone except the three by the window is sitting."),
            None,
        ),
        (
            "How many elephants are in the picture?",
            "There are two adult elephants with a calf.",
            None,
        ),
        ("How many elephants are in the picture?", "There are two elephants with big ears.", 2),
        ("How many cups are left on the table?", "There are 3 cups left on the table.", 3),
        ("How many lights are on?", "4 lights are on.", 4),
        ("How many seats are free?", "5 seats are free.", 5),
        ("How many seats are free?", "There are 5 free seats and 3 taken ones.", 5),
    ],
)
def test_numbers(question, text, said):
    assert value_of(stated_number, text, question) == said


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (
            "When does the person open the door?",
            (
                "The person opens the door between <|begin_of_box|>12.4<|end_of_box|> seconds "
                "and <|begin_of_box|>19.0<|end_of_box|> seconds."
            ),
            (12.4, 19),
        ),
        (
            "When does the person open the door?",
            ("The person starts opening the door at around 0:35 and is done by 0:52 in the video."),
            (35, 52),
        ),
        (
            "When does the woman stir the soup?",
            "She stirs the soup from the 30-second mark until the end of the video.",
            None,
        ),
        (
            "When is the woman chopping?",
            "The chopping begins about 5 seconds in and wraps up at the 12-second mark.",
            (5, 12),
        ),
        (
            "When does the man pour the water?",
            (
                "The man begins pouring at around the 12-second mark and sets the kettle back "
                "down at about the 19-second mark, so the moment spans roughly **12s – 19s**."
            ),
            (12, 19),
        ),
        (
            "When does the woman lift the box?",
            (
                "**Timestamp:** 00:24 – 00:31\n\n**Reasoning:** At 00:24 the woman kneels "
                "down; by 00:31 the box has been lifted. The earlier shot (00:05–00:10) only "
                "shows the van arriving."
            ),
            (24, 31),
        ),
        (
            "When does the person open the fridge?",
            (
                "The person opens the fridge at the beginning of the video, approximately from "
                "0:00 to 0:04."
            ),
            (0, 4),
        ),
        (
            "a man pours water",
            (
                'The event "a man pours water" takes place between 00:05 and 00:12 of the '
                "00:30-long video."
            ),
            (5, 12),
        ),
        (
            "the man carries the bag",
            (
                "The event begins at 12.0s, when the man picks up the bag, and ends at 18.4s, "
                "when he leaves the room."
            ),
            (12, 18.4),
        ),
        (
            "the man waves",
            "[0:12 - 0:18]. The man waves from the 12th second until the 18th second.",
            (12, 18),
        ),
        ("the man waves", "The man waves from the 12th second until the 18th second.", (12, 18)),
        ("the man waves", "It starts at 0:05 and lasts until 0:12.", (5, 12)),
        ("the man waves", "The event lasts from 5 s to 12 s.", (5, 12)),
        ("the man waves", "The waving starts at 5.2 seconds and stops at 9.8 seconds.", (5.2, 9.8)),
        (
            "the man pours the water",
            "He is about to pour the water between 3 and 12 seconds.",
            None,
        ),
        (
            "the man pours the water",
            (
                "He pours the water right after cutting the bread, which takes place from 3 to "
                "12 seconds."
            ),
            None,
        ),
    ],
)
def test_intervals(question, text, said):
    assert value_of(stated_interval, text, question) == said


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("Is the dog brown?", "Yes, the dog is black.", None),
        ("Is the man wearing a hat?", "Yes, he is not wearing a hat.", None),
        ("Is the light red?", "Yes, the light is green.", None),
        (
            "Is the cup to the left of the laptop?",
            "Indeed, the cup is to the left of the laptop.",
            "yes",
        ),
        ("Is anyone wearing a hat?", "No one is wearing a hat.", "no"),
        ("Is the traffic light red?", "Not quite – the traffic light is yellow, not red.", "no"),
        (
            "Is there a traffic light in the image?",
            (
                "There doesn't appear to be any traffic light in this image. What hangs above "
                "the road is a street lamp. So, no."
            ),
            "no",
        ),
        (
            "Is the cup to the left of the laptop?",
            (
                "Yes — from the viewer's perspective, the cup sits on the left-hand side of "
                "the desk, with the laptop to its right."
            ),
            "yes",
        ),
        (
            "Are the two people wearing shirts of the same color?",
            (
                "No, they are not. The man on the left wears a navy shirt, whereas the woman's "
                "is bright red."
            ),
            "no",
        ),
        (
            "Is there a clock in the image?",
            "There doesn't appear to be a clock anywhere in the image.",
            "no",
        ),
        (
            "Does the ball hit the ground before the person catches it?",
            "No, the person catches the ball before it hits the ground.",
            "no",
        ),
        ("Is the traffic light red?", "The traffic light is green.", "no"),
        (
            "Is the cup to the left of the plate?",
            "The cup is positioned to the right of the plate.",
            "no",
        ),
        (
            "Is the man holding an umbrella?",
            "Not in this picture - he is carrying a folded newspaper.",
            "no",
        ),
        ("Is the cat asleep?", "Yes, the cat is awake.", None),
        ("Is the cat asleep?", "Yes, the cat is asleep.", "yes"),
    ],
)
def test_yes_and_no(question, text, said):
    assert yes_or_no(text, question) == said
