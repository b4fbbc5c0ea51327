"""Responses good and bad, drawn from a seed: what the official rewards and ours are both asked
about.

Only numbers of `random.Random` are used whose values are the same in every version of Python.
"""

import json
from random import Random

SEED, COUNT = 20250517, 10_000
SIDE = 840
WORDS = ("the cup", "left of", "it is red", "so", "a dog", "I compare", "bbox", "1.5", "larger", "")


def cases():
    """(response in VisionReasoner's form, its ground truth, response in Seg-Zero's form, its ground
    truth).
    """
    random = Random(SEED)
    for _ in range(COUNT):
        target = [thing(random) for _ in range(1 + below(random, 4))]
        many = spoilt(random, thought(random), listed(random, target))
        one = thing(random)
        alone = (one["bbox_2d"], one["point_2d"], place(random, one["bbox_2d"]))
        single = spoilt(random, thought(random), keyed(random, alone))
        yield many, target, single, alone


def below(random, count):
    return int(random.random() * count)


def chance(random, part):
    return random.random() < part


def thing(random):
    left, top = below(random, SIDE - 60), below(random, SIDE - 60)
    right = left + 5 + below(random, SIDE - left - 5)
    box = [left, top, right, top + 5 + below(random, SIDE - top - 5)]
    return {"bbox_2d": box, "point_2d": place(random, box)}


def place(random, box):
    x = box[0] + below(random, box[2] - box[0] + 1)
    return [x, box[1] + below(random, box[3] - box[1] + 1)]


def near(random, numbers):
    """The numbers, or others close by: at, below and above every threshold."""
    reach = (0, 0, 1, 3, 9, 10, 11, 20, 29, 31, 60, 150)[below(random, 12)]
    moved = [number + below(random, 2 * reach + 1) - reach for number in numbers]
    if chance(random, 0.1):
        moved = [number + reach for number in numbers]
    return moved


def value(random, numbers):
    """Numbers as a network may write them."""
    moved = near(random, numbers)
    kind = below(random, 60)
    odd = {
        0: [str(number) for number in moved],
        1: moved[:-1],
        2: [*moved, 7],
        3: None,
        4: "abcd"[: len(moved)],
        5: [moved],
        6: [True, *moved[1:]],
        7: [None, *moved[1:]],
        8: moved[::-1],
        9: {},
        10: 3,
        11: [float("nan"), *moved[1:]],
        12: [float("inf"), *moved[1:]],
        13: [True] * len(moved),
        14: [number + 0.5 for number in moved],
        15: [str(moved[0]), *moved[1:]],
        16: [],
        17: [10**30, *moved[1:]],
        18: [-number for number in moved],
        19: "12"[: len(moved)],
    }
    return odd.get(kind, moved)


def listed(random, meant):
    """A VisionReasoner answer."""
    output = []
    for entry in meant:
        if chance(random, 0.08):
            continue
        one = {key: value(random, entry[key]) for key in ("bbox_2d", "point_2d")}
        kind = below(random, 40)
        if kind == 0:
            del one["point_2d"]
        elif kind == 1:
            del one["bbox_2d"]
        elif kind == 2:
            one = ["bbox_2d", one["bbox_2d"]]
        elif kind == 3:
            one = "bbox_2d"
        elif kind == 4:
            one = (7, None, "x", [], {})[below(random, 5)]
        output.append(one)
    if chance(random, 0.5):
        output = output[::-1]
    while chance(random, 0.12):
        output.append(thing(random))
    if output and chance(random, 0.05):
        output.append(output[0])
    if chance(random, 0.005):
        output = [thing(random) for _ in range(130)]
    kind = below(random, 60)
    whole = {
        0: output[0] if output else {},
        1: {"bbox_2d": output},
        2: len(output),
        3: "bbox_2d",
        4: None,
    }
    return json.dumps(whole.get(kind, output))


def keyed(random, alone):
    """A Seg-Zero answer."""
    box, *places = alone
    names = [
        ["bbox", "points_1", "points_2"],
        ["Bbox_2d", "Points1", "points_b"],
        ["bbox", "point_1", "point_2"],
        ["points_1", "bbox", "points_2"],
        ["box", "points_1", "points_2"],
        ["bbox", "points_1", "other"],
        ["bbox_points", "points_1", "points_2"],
    ][max(0, below(random, 12) - 5)]
    if chance(random, 0.5):
        places = places[::-1]
    numbers = {"x": places.pop, "b": lambda: box}
    output = {}
    for name in names:
        which = "b" if "box" in name.lower() else "x"
        output[name] = value(random, numbers[which]())
    if chance(random, 0.05):
        output["more"] = 1
    text = json.dumps(output)
    if chance(random, 0.05):
        text = text.replace('"', "'")
    if chance(random, 0.05):
        text = "[" + text + ", " + text + "]"
    return text


def thought(random):
    """Reasoning, with sentences that come again."""
    sentences = [WORDS[below(random, len(WORDS))] for _ in range(below(random, 7))]
    joined = (". " if chance(random, 0.5) else ".").join(sentences)
    return joined + (". " if chance(random, 0.5) else "")


def spoilt(random, think, answer):
    """A whole response; three of ten are not as they should be."""
    good = f"<think>{think}</think>{('', ' ', chr(10))[below(random, 3)]}<answer>{answer}</answer>"
    if chance(random, 0.7):
        return good
    cut = below(random, len(good))
    bad = (
        good + "\n",
        " " + good,
        good[:cut],
        good[cut:],
        good.replace("</think>", ""),
        answer,
        think,
        "",
        good.replace("<answer>", "<answer> \n", 1),
        good + good,
        good.replace("<think>", "<Think>"),
        good.replace("</think>", "</think> so "),
        good.replace("<answer>", "<answer>{} "),
        f"<think>{think}</think><answer>```json{answer}```</answer>",
        good[:cut] + "}" + good[cut:],
        good[:cut] + "<answer>" + good[cut:],
        good[:cut] + "</answer>" + good[cut:],
        good.replace(",", ",,", 1),
        f"<think>{{}}{think}</think></think>\t<answer> {answer}\n</answer>",
        good.replace("[", "[[", 1),
        "<answer>" + answer,
        "<think>" * 40 + good,
        good.replace("]", "],", 1),
        chr(0x1F600) + good,
    )
    return bad[below(random, len(bad))]
