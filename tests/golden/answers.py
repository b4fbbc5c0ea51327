"""Inputs of the golden files of answers, made from a seed, defects included."""

import numpy as np

OPTIONS = ("A. dunking", "B. dribbling", "C. passing", "D. shooting")
CAPTIONS = (
    ("Which caption matches the video better?", "Caption", "AB"),
    ("Which description is a more suitable match?", "Option", "12"),
    ("Which sentence captures the video?", "Sentence", "AB"),
)
FORMS = (
    "",
    " ",
    "A",
    "b",
    "(C)",
    "(d)",
    "D.",
    "E",
    "A. a chair",
    "B) a table",
    "C: the lamp",
    "**D**",
    "The answer is B",
    "The answer is: (C).",
    "The best answer is D",
    "The best option is A",
    "The best option is B.",
    "The correct option is C",
    "The correct answer is D",
    "The correct answer: none",
    "Best answer: C",
    "Best option: D",
    "Answer: B",
    "Answer = d",
    "Ans='C'",
    "Option E",
    "option described above",
    "A is correct",
    "b was correct.",
    "Because of the rain",
    "A dog runs",
    "All of them",
    "none",
    "no idea at all",
    "3",
    "<answer>C",
    "I do not know which of these it is but it could be any of them",
    "it is\nB.\n",
    "B.\nnot C",
    "The answer\u00a0is B",
    "Ä",
    "ⒶⒷ",
    "B\u0000",
    "A, B",
    "\tC ",
    "(E) e",
    "Option  b",
    "D)",
    "the last one of these is right and I am sure of it because of Doubt",
    "F",
    "a",
    "ab",
    ".",
    "The best option isThe correct option is D",
    "Best answer:Best option: A",
    "Answer:Option:",
)
WORDS = (
    "The answer is",
    "Answer:",
    "Option",
    "A",
    "B",
    "C",
    "D",
    "E",
    "(b)",
    "is correct",
    "because",
    "the cat",
    "not",
    ".",
    "\n",
    "d.",
    "I think",
    "Best",
    "(E)",
    "Ans =",
    "a",
    "Both",
    ")",
    "maybe",
)
NUMBERS = (
    "",
    " ",
    "3",
    "3.",
    "3.0",
    "3 chairs",
    "There are 3",
    "3m",
    "three",
    "Three boxes.",
    "nan",
    "inf",
    "-inf",
    "-5",
    "+2",
    "1e0",
    "1_0",
    "1,000",
    "2 or 4",
    "10^2",
    "1.5^3 2",
    "4 m^2",
    "2.5.1",
    "twenty-one",
    "three hundred and twenty-one",
    "two, three",
    "one apple, room 2",
    "0",
    "٣",
    "3\n",
    "a hundred",
    "two thousand five",
    "thousand",
    "ninetynine",
    "and one",
    "one and a half",
    "-0.5",
    "5.5.",
    "12.50 m",
    ".5",
    "1/2",
    "x3",
    "3x",
    "The 1st is 2.4",
    "zero",
    "9" * 400,
    "9" * 5000,
)
AXES = (
    "move_right",
    "move_left",
    "move_up",
    "move_down",
    "move_forward",
    "move_backward",
    "rotate_right",
    "rotate_left",
    "rotate_up",
    "rotate_down",
)


SPOILT = 0.0
"""Share of the texts that are spoilt further: fuzz.py raises it, the golden files have none."""
PIECES = (
    *("", " ", "\n", "\t", "\r\n", "\u00a0", "\u2028", "\u200b", "\ufeff", "\x00", "</s>"),
    *".,:;*()[]{}'\"`_=/%\\-−0٣½²Ｃⅳİß😀",
    *("e\u0301", "**", "1e9", "inf", "nan", "no", "yes", "and", "A", "b", "a" * 300),
    *("<answer>", "</answer>", "The answer is", "Option", "Answer:"),
)


def spoilt(rng: np.random.Generator, text: str) -> str:
    """The text, or in `SPOILT` of all cases one with pieces put in, cut out, turned or doubled."""
    if not SPOILT or rng.random() >= SPOILT:
        return text
    for _ in range(int(rng.integers(1, 4))):
        start, end = sorted(int(place) for place in rng.integers(0, len(text) + 1, 2))
        piece = PIECES[int(rng.integers(len(PIECES)))]
        text = (
            text[:start] + piece + text[start:],
            text[:start] + text[end:],
            text[:start] + piece + text[end:],
            text + text[start:end],
            text[:start] + text[start:end].swapcase() + text[end:],
            piece + text,
            text + piece,
        )[int(rng.integers(7))]
    return text


def choice_responses(rng: np.random.Generator, count: int) -> list[str]:
    """Responses to a question with options, half of them awkward on purpose, half of random
    words.
    """
    found = []
    for _ in range(count):
        if rng.random() < 0.5:
            found.append(str(FORMS[int(rng.integers(len(FORMS)))]))
        else:
            words = [
                WORDS[int(place)] for place in rng.integers(len(WORDS), size=rng.integers(1, 14))
            ]
            found.append((" " if rng.random() < 0.8 else "").join(words))
    return [spoilt(rng, text) for text in found]


def number_responses(rng: np.random.Generator, ground_truth: float, count: int) -> list[str]:
    """Responses to a question for a number: awkward ones, and some near the ground truth."""
    found = []
    for _ in range(count):
        if rng.random() < 0.45:
            found.append(NUMBERS[int(rng.integers(len(NUMBERS)))])
            continue
        near = ground_truth * float(rng.choice([1, 0.5, 0.55, 0.95, 1.05, 1.2, 1.45, 1.5, 1.51, 2]))
        number = f"{near:g}" if rng.random() < 0.5 else repr(near + float(rng.normal(0, 0.1)))
        forms = ("{}", "{} m", "It is {}", "{}.", "from 2 to {}", "{}m", "{} of 10")
        found.append(str(rng.choice(forms)).format(number))
    return [spoilt(rng, text) for text in found]


def view_changes(rng: np.random.Generator) -> tuple[str, str]:
    """A response and a ground truth in SPAR-Bench's form, the response sometimes in another."""
    names = [AXES[int(place)] for place in rng.permutation(len(AXES))[: rng.integers(1, 6)]]
    ground_truth = {name: float(rng.choice([0.5, 1.0, 2.0, 30.0, 45.0])) for name in names}
    output = {
        name: value * float(rng.choice([1, 0.5, 0.9, 1.3, 2, 0]))
        for name, value in ground_truth.items()
    }
    if rng.random() < 0.3:
        output[AXES[int(rng.integers(10))]] = float(rng.integers(0, 5))
    joined = (", " if rng.random() < 0.2 else ",").join(f"{k}:{v:g}" for k, v in output.items())
    odd = ("", "move_right", "move_right:1 m", joined + ",", "move_up:nan", "move_up:inf", "a:b:c")
    response = str(rng.choice(odd)) if rng.random() < 0.25 else joined
    return spoilt(rng, response), ",".join(
        f"{name}:{value:g}" for name, value in ground_truth.items()
    )
