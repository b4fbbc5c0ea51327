"""The golden files and worked examples are sharp: plausible mistakes in the modules are found.

Each mutation changes one place in the source of one module. All modules are executed anew, and one
comparison with the golden files, or one example worked out by hand, has to differ.
"""

import contextlib
import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import harness
from harness.errors import HarnessError
from harness.types import Box, Box3D, Interval

pytestmark = pytest.mark.slow
FOLDER = Path(harness.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"
ORDER = (
    "averages",
    "boxes",
    "letters",
    "numerals",
    "sums",
    "numbers",
    "choices",
    "numeric",
    "intervals",
    "tracks",
    "boxes3d",
    "vsi",
    "spar",
    "tempcompass",
    "vstar",
    "detection",
    "scoring",
)
ROOMS = {
    "scoring": "models.visionreasoner",
    **dict.fromkeys(("letters", "numerals", "sums", "numbers"), "stated"),
}
"""Packages of modules that are not metrics."""
ASKED = {
    "averages": ("vsi official totals", "spar totals", "worked"),
    "letters": ("worked",),
    "numerals": ("worked",),
    "sums": ("worked",),
    "numbers": ("worked",),
    "choices": ("video_mme", "longvideobench", "longvideobench totals", "sti_bench", "worked"),
    "numeric": ("vsi official", "vsi lmms2026", "vsi numbers", "spar", "worked"),
    "intervals": ("vstar intervals", "worked"),
    "tracks": ("worked",),
    "boxes3d": ("worked",),
    "vsi": ("vsi official", "vsi official totals", "worked"),
    "spar": ("spar", "spar totals", "worked"),
    "tempcompass": (
        "tempcompass multi-choice",
        "tempcompass yes_no",
        "tempcompass caption_matching",
        "tempcompass captioning",
    ),
    "vstar": ("vstar", "vstar totals", "vstar intervals", "vstar responses", "worked"),
    "detection": ("area scores", "worked", "coco"),
    "scoring": ("seg_zero", "worked"),
}

CANNOT = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    HarnessError,
)
"""Raised where a changed module cannot even compute; that is found as well."""

MUTATIONS = {
    "average: sum": ("averages", "return total / len(parts)", "return total"),
    "average: without the last": ("averages", "for part in parts[1:]:", "for part in parts[1:-1]:"),
    "average: median": ("averages", "np.mean(np.asarray(parts)", "np.median(np.asarray(parts)"),
    "choices: Video-MME with E": ("choices", 'VIDEO_MME_PHRASES, "ABCD")', "VIDEO_MME_PHRASES)"),
    "choices: phrases as meant": (
        "choices",
        '"Best answer:Best option:"',
        '"Best answer:", "Best option:"',
    ),
    "choices: phrase left": ("choices", '    "Best answer:Best option:",\n    "Answer:",\n', ""),
    "choices: not stripped": ("choices", "last = response.strip()[-1:]", "last = response[-1:]"),
    "choices: first character": ("choices", "response.strip()[-1:]", "response.strip()[:1]"),
    "choices: last match": ("choices", "found = re.search(", "found = re.match("),
    "choices: case of forms": ("choices", "re.IGNORECASE | re.MULTILINE", "re.MULTILINE"),
    "choices: end of the text": ("choices", "re.IGNORECASE | re.MULTILINE", "re.IGNORECASE"),
    "choices: lower case kept": ("choices", "return found[1].upper()", "return found[1]"),
    "choices: order of forms": (
        "choices",
        "for form in STI_BENCH_FORMS:",
        "for form in STI_BENCH_FORMS[::-1]:",
    ),
    "choices: draw of the whole alphabet": ("choices", "% len(letters)]", "% 2]"),
    "strict: two answers": ("letters", "if len(found) != 1 or", "if not found or"),
    "strict: word with a letter": ("letters", "(?!{_WORD}|['’]\\w)", ""),
    "strict: case of a bare letter": ("letters", "return {bare.upper()} if", "return {bare} if"),
    "strict: what is rejected": ("letters", 'by.rejected.sub(" ", text)', "text"),
    "MRA: below the threshold": ("numeric", "error <= tolerance", "error < tolerance"),
    "MRA: nine thresholds": ("numeric", "np.linspace(0.5, 0.95, 10)", "np.linspace(0.5, 0.9, 9)"),
    "MRA: relative to the prediction": (
        "numeric",
        "abs((predicted - ground_truth) / ground_truth)\n",
        "abs((predicted - ground_truth) / (predicted or 1))\n",
    ),
    "MRA: signed": (
        "numeric",
        "else abs((predicted - ground_truth) / ground_truth)",
        "else (predicted - ground_truth) / ground_truth",
    ),
    "MRA: sum": ("numeric", "TOLERANCES) / len(TOLERANCES)", "TOLERANCES) / 1"),
    "MRA: zero ground truth": (
        "numeric",
        "abs(predicted - ground_truth)\n        if ground_truth == 0",
        "1.0\n        if ground_truth == 0",
    ),
    "relative: not clamped": (
        "numeric",
        "return max(0.0, 1 - abs(predicted - ground_truth)",
        "return (1 - abs(predicted - ground_truth)",
    ),
    "relative: squared": (
        "numeric",
        "abs(predicted - ground_truth) / abs(ground_truth))",
        "abs(predicted - ground_truth) ** 2 / abs(ground_truth))",
    ),
    "numbers: no sign": ("numeric", 'r"-?\\d+', 'r"\\d+'),
    "numbers: words first": ("numeric", "digits.start() < place", "digits.start() > place"),
    "numbers: stop at and": ("numeric", 'elif run and word[0] != "and":', "elif run:"),
    "numbers: no hundreds": ("numeric", "below = max(below, 1) * 100", "below += 100"),
    "numbers: no thousands": (
        "numeric",
        "total + max(below, 1) * 1000, 0",
        "total + max(below, 1) * 1000, below",
    ),
    "only number: several": ("numbers", "len(totals) != 1:", "len(totals) > 1:"),
    "only number: any total": ("numbers", "if math.isclose(sum(parts), total)", "if True"),
    "only number: any sum": ("sums", "if is_right else WRONG", ""),
    "only number: exponent": ("numerals", r"|\^\{?\Z", ""),
    "interval: union for hull": (
        "intervals",
        "hull = max(ground_truth.end, predicted.end) - min(",
        "hull = max(ground_truth.end, predicted.end) - max(",
    ),
    "interval: one end": (
        "intervals",
        "shared = max(0, min(ground_truth.end, predicted.end)",
        "shared = max(0, max(ground_truth.end, predicted.end)",
    ),
    "interval: gap counts": ("intervals", "shared = max(0, min", "shared = abs(min"),
    "interval: sum for union": ("intervals", "predicted.start) - shared", "predicted.start)"),
    "interval: reversed": (
        "intervals",
        "if predicted.end < predicted.start:\n        return 0.0",
        "if predicted.end < predicted.start:\n        return 1.0",
    ),
    "track: both absent": ("tracks", "float(shown is predicted)", "0.0"),
    "track: union of frames": (
        "tracks",
        "shown is not None or predicted is not None",
        "shown is not None and predicted is not None",
    ),
    "track: sum": ("tracks", "ious[counts].mean()", "ious[counts].sum()"),
    "track: nothing anywhere": ("tracks", "if counts.any() else 1.0", "if counts.any() else 0.0"),
    "track: sum for union": (
        "tracks",
        "united + (first + second - common)",
        "united + (first + second)",
    ),
    "track: last frame only": ("tracks", "shared + common, united", "common, united"),
    "track: one side": ("tracks", "min(first.bottom, second.bottom)", "first.bottom"),
    "boxes in space: half extent": (
        "boxes3d",
        "_corner(first, 0.5)[:, None]",
        "_corner(first, 1.0)[:, None]",
    ),
    "boxes in space: two axes": (
        "boxes3d",
        "np.maximum(0.0, high - low).prod(axis=2)",
        "np.maximum(0.0, high - low)[..., :2].prod(axis=2)",
    ),
    "boxes in space: negative": ("boxes3d", "np.maximum(0.0, high - low)", "(high - low)"),
    "boxes in space: sum": ("boxes3d", "_volume(second)[None] - shared", "_volume(second)[None]"),
    "VSI: any blank": ("vsi", 'response.split(" ")[0]', "(response.split() or [''])[0]"),
    "VSI: full stop kept": ("vsi", '.rstrip(".").strip()', ".strip()"),
    "VSI: case": (
        "vsi",
        "first_word(response).lower() == ground_truth.lower()",
        "first_word(response) == ground_truth",
    ),
    "VSI: direction thrice": (
        "vsi",
        "sorted({*CHOICE_TYPES, *NUMBER_TYPES} - {*DIRECTIONS})",
        "sorted({*CHOICE_TYPES, *NUMBER_TYPES})",
    ),
    "VSI: no direction": ("vsi", ', "object_rel_direction")', ",)"),
    "SPAR: no substring": (
        "spar",
        "predicted in true or predicted[0] == true",
        "predicted == true or predicted[:1] == true",
    ),
    "SPAR: substring of the response": (
        "spar",
        "predicted in true or",
        "true in predicted or not predicted or",
    ),
    "SPAR: first letter": ("spar", "or predicted[0] == true", ""),
    "SPAR: last number": ("spar", "float(numbers[0]) if", "float(numbers[-1]) if"),
    "SPAR: first of several views": ("spar", "float(numbers[-1]) if", "float(numbers[0]) if"),
    "SPAR: exponents": ("spar", "|(?<!\\^)\\d+", "|\\d+"),
    "SPAR: arguments as meant": (
        "spar",
        "mean_relative_accuracy(true, predicted) if",
        "mean_relative_accuracy(predicted, true) if",
    ),
    "SPAR strict: arguments slipped": (
        "spar",
        "[mean_relative_accuracy(*axis) for axis in zip(predicted, true",
        "[mean_relative_accuracy(*axis) for axis in zip(true, predicted",
    ),
    "SPAR: axes without sign": ("spar", "get(plus, 0.0) - moves", "get(plus, 0.0) + moves"),
    "SPAR: four axes": ("spar", '    ("rotate_up", "rotate_down"),\n', ""),
    "SPAR: middle": ("spar", "- {VIEW_CHANGE}", ""),
    "TempCompass: mark kept": ("tempcompass", 'replace("</s>", "")', 'replace("<s>", "")'),
    "TempCompass: no bracket": ("tempcompass", 'for y in ".)"', 'for y in "."'),
    "TempCompass: colon": ("tempcompass", 'for y in ".)"', 'for y in ".):"'),
    "TempCompass: whole answer": (
        "tempcompass",
        "if predicted == answer:\n        return True",
        "if predicted == answer:\n        return None",
    ),
    "TempCompass: letter only": ("tempcompass", 'predicted in ("A", "B", "C", "D") or', ""),
    "TempCompass: no": ("tempcompass", 'for word in ("yes", "no")', 'for word in ("yes",)'),
    "TempCompass: yes anywhere": ("tempcompass", "predicted.startswith(word)", "word in predicted"),
    "TempCompass: case of yes": (
        "tempcompass",
        "strip_marks(response).lower()",
        "strip_marks(response)",
    ),
    "TempCompass: question as option": (
        "tempcompass",
        'question.split("\\n")[1:]',
        'question.split("\\n")[2:]',
    ),
    "TempCompass: full stop in names": (
        "tempcompass",
        '(predicted, predicted.replace(".", ""))',
        "(predicted,)",
    ),
    "TempCompass: behind a bracket": ("tempcompass", 'predicted.split(") ")[1:2]', "[]"),
    "TempCompass: several options named": ("tempcompass", "return named == 1 and", "return"),
    "TempCompass: first answer": ("tempcompass", "answers[-1] if", "answers[0] if"),
    "matching: IoU at the threshold": ("scoring", "> thresholds.iou", ">= thresholds.iou"),
    "matching: box at the distance": (
        "scoring",
        "moved < thresholds.box",
        "moved <= thresholds.box",
    ),
    "matching: point at the distance": ("scoring", "< thresholds.point", "<= thresholds.point"),
    "matching: sum of differences": (
        "scoring",
        "differences.mean(axis=2)",
        "differences.sum(axis=2)",
    ),
    "matching: no own box": ("scoring", "near &= inside", "near &= True | inside"),
    "matching: the other's box": (
        "scoring",
        "(points >= boxes[:, :2]) & (points <= boxes[:, 2:])",
        "(points >= (of := np.resize(true_boxes, boxes.shape))[:, :2]) & (points <= of[:, 2:])",
    ),
    "matching: edges excluded": ("scoring", "points <= boxes[:, 2:]", "points < boxes[:, 2:]"),
    "matching: left edge excluded": ("scoring", "points >= boxes[:, :2]", "points > boxes[:, :2]"),
    "matching: inside on either axis": ("scoring", ".all(axis=1)", ".any(axis=1)"),
    "matching: L1 of points": (
        "scoring",
        "np.sqrt(((points[:, None] - true_points[None]) ** 2).sum(axis=2))",
        "abs(points[:, None] - true_points[None]).sum(axis=2)",
    ),
    "matching: mean over x and y": ("scoring", "** 2).sum(axis=2)", "** 2).mean(axis=2)"),
    "matching: worst assignment": ("scoring", "3.0 - (bits.overlap", "(bits.overlap"),
    "matching: each bit alone": ("scoring", 'jointly=semantics == "official"', "jointly=False"),
    "matching: over pairs": ("scoring", "max(bits.overlap.shape)", "min(bits.overlap.shape)"),
    "matching: sum": ("scoring", "bit[pairs].sum() / limit", "bit[pairs].sum()"),
    "matching: more objects": (
        "scoring",
        "import MAX_OBJECTS, Item, well_formed",
        "import Item, well_formed\n\nMAX_OBJECTS = 130",
    ),
    "matching: not finite": ("scoring", "moved < thresholds.box", "~(moved >= thresholds.box)"),
    "matching: exclusive sides": ("scoring", "- boxes[:, :2] + 1).prod", "- boxes[:, :2]).prod"),
    "matching: exclusive": (
        "scoring",
        "np.maximum(0, high - low + 1)",
        "np.maximum(0, high - low)",
    ),
    "V-STaR: three numbers": ("vstar", "if len(found) == 2 else", "if len(found) >= 2 else"),
    "V-STaR: numbers in words": ("vstar", 'r"\\b\\d+(?:\\.\\d+)?\\b"', 'r"\\d+(?:\\.\\d+)?"'),
    "V-STaR: rating of -1": ("vstar", "None if rating == -1 else rating", "rating"),
    "V-STaR: times as numbers": ("vstar", 'str if times == "text" else', ""),
    "V-STaR: first box": (
        "vstar",
        "([ground_truth], finite).max()",
        "([ground_truth], finite)[0, 0]",
    ),
    "V-STaR: one bad box": (
        "vstar",
        "for box in boxes for side in box):",
        "for box in boxes[1:] for side in box):",
    ),
    "V-STaR: rating above": ("vstar", "rating >= MIN_RATING", "rating > MIN_RATING"),
    "V-STaR: AP above": ("vstar", "ious >= threshold)", "ious > threshold)"),
    "V-STaR: joint threshold": (
        "vstar",
        "MIN_TEMPORAL, MIN_SPATIAL = 2, 0.3, 0.1",
        "MIN_TEMPORAL, MIN_SPATIAL = 2, 0.5, 0.1",
    ),
    "V-STaR: joint threshold in space": (
        "vstar",
        "MIN_SPATIAL = 2, 0.3, 0.1",
        "MIN_SPATIAL = 2, 0.3, 0.3",
    ),
    "V-STaR: R1 above": ("vstar", "= when >= threshold", "= when > threshold"),
    "V-STaR: either for both": ("vstar", "= timed and placed", "= timed or placed"),
    "V-STaR: unanswered counts": ("vstar", 'if name == "Acc" or "&" in name', "if True"),
    "V-STaR: unanswered is left out": ("vstar", 'if name == "Acc" or "&" in name', "if False"),
    "V-STaR: LGM of the fraction": ("vstar", "rest = 1 - np.minimum", "rest = 0 + np.minimum"),
    "V-STaR: LGM not averaged": ("vstar", "_log_of_rest(where)) / 3", "_log_of_rest(where))"),
    "V-STaR: not clamped": ("vstar", "1 - 2**-53", "2 - 2**-52"),
    "detection: corners of the ground_truth": (
        "detection",
        "bottom - top] for left",
        "bottom] for left",
    ),
    "detection: corners of predictions": (
        "detection",
        'bottom - top],\n                "score"',
        'bottom],\n                "score"',
    ),
    "detection: area of the box": ("detection", '"area": area', '"area": 1'),
    "detection: no crowd": ("detection", '"iscrowd": crowd', '"iscrowd": 0'),
    "detection: order of images": (
        "detection",
        "enumerate(sorted({item[key] for item in items}), 1)",
        "enumerate(sorted({item[key] for item in items})[::-1], 1)",
    ),
    "detection: ids from 0": ("detection", "len(annotations) + 1", "len(annotations)"),
    "detection: area score of nothing": ("detection", "if has_ground_truth else 0.0", ""),
    "detection: area in pixels": ("detection", "area / (width * height)", "area"),
}


def boxes_in_space(m, *rows):
    return m.boxes3d.box_iou_3d([Box3D(0, 0, 0, 2, 2, 2)], [Box3D(*row) for row in rows]).tolist()


def worked(m):
    """Pairs of what is found and what was worked out by hand, where no official code exists."""
    a, b = Box(0, 0, 4, 4), Box(2, 1, 6, 5)
    strict = m.choices.strict_choice
    yield (
        [strict(x) for x in ("B. A man", "(c)", "d", "Because", "Answer: A, not B")],
        ["B", "C", "D", None, "A"],
    )
    yield [strict(x) for x in ("A. The answer is B", "The answer is Bob", "", "E")], [None] * 4
    yield strict("The answer is **E**.", letters="ABCDE"), "E"
    yield strict("Answer: Das Auto"), None
    yield strict("Option A is wrong. The answer is B."), "B"
    yield strict("So B lacks it. The answer is A."), "A"
    yield [m.choices.seeded_choice(f"video_{n}", "ABCD") for n in range(6)], [*"ABAADB"]
    yield [m.numeric.relative_accuracy(x, -4) for x in (-4, -3, -8.5, 4)], [1, 0.75, 0, 0]
    yield m.numeric.relative_accuracy(5, 4), 0.75
    yield m.numeric.relative_accuracy(7, 4), 0.25
    yield [m.numeric.only_number(x) for x in ("4 m^2", "3 or 4", "-1,250.5")], [4, None, -1250.5]
    sums = ("2 red, 3 blue, 5 in total", "2 red, 3 blue, 6 in total", "2 + 3 = 6")
    yield [m.numeric.only_number(x) for x in sums], [5, None, None]
    yield m.numeric.mean_relative_accuracy(0.3, 0), 0.5
    yield m.intervals.temporal_iou(Interval(0, 4), Interval(2, 6)), 1 / 3
    yield m.intervals.temporal_iou(Interval(0, 4), Interval(6, 2)), 0
    yield m.intervals.temporal_iou(Interval(0, 2), Interval(3, 4)), 0
    yield m.tracks.track_ious([a, None, None], [b, None, b]).tolist(), [6 / 26, 1, 0]
    yield m.tracks.video_iou([a, None, a, None], [a, None, None, a]), 1 / 3
    yield m.tracks.video_iou([None], [None]), 1
    yield m.tracks.track_overlap([a, a, None], [b, b, a]), (12, 26 + 26 + 16)
    yield m.tracks.track_overlap([a], [Box(0, 0, 4, 2)]), (8, 16)
    yield (
        boxes_in_space(m, (1, 0, 0, 2, 2, 2), (3, 0, 0, 2, 2, 2), (0, 0, 1, 2, 2, 4)),
        [[1 / 3, 0, 1 / 2]],
    )
    yield boxes_in_space(m, (3, 3, 0, 2, 2, 2), (0, 0, 1, 2, 2, 2)), [[0, 1 / 3]]
    yield m.spar.strict_view_change_score("move_up:2", "move_up:3"), np.mean([0.4, 1, 1, 1, 1])
    yield m.vstar.frame_ious([(3, a)], {"3.0": a}).tolist(), [0]
    yield m.vstar.frame_ious([(3, a)], {"3.0": a}, times="number").tolist(), [1]
    yield m.vstar.read_rating("-1"), None
    yield round(m.vstar.logarithmic_geometric_mean(1.0, 1.0, 1.0), 6), 36.736801
    small = [
        m.detection.detection_item(i, 1, ground_truth=[a], predicted=[a], scores=[0.5], areas=[s])
        for i, s in enumerate((9, 5000, 99999))
    ]
    yield [round(m.detection.coco_statistics(small[:n])["APl"], 9) for n in (1, 2, 3)], [-1, -1, 1]
    yield m.vsi.choice_score("B.\nnot C", "B"), 0
    dot, lost = (
        (np.array([[left, 0, 0, 0]]), np.array([[x, 0]]))
        for left, x in ((0, 500), (float("nan"), 0))
    )
    yield m.scoring.object_accuracy(lost, dot), (0, 0, 0)


def worked_differ(m):
    return any(found != expected for found, expected in worked(m))


@pytest.fixture
def checks(monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    modules = [importlib.import_module(f"compare_{name}") for name in ("answers", "places")]
    return {name: check for module in modules for name, check in module.CHECKS.items()}


def source_of(name):
    room = ROOMS.get(name, "metrics").replace(".", "/")
    return (FOLDER / room / f"{name}.py").read_text(encoding="utf-8")


def executed(changed, monkeypatch):
    """All modules executed anew, one of them from another source."""
    fresh = {}
    for name in ORDER:
        module = ModuleType(f"harness.{ROOMS.get(name, 'metrics')}.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        source = changed.get(name) or source_of(name)
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def test_unchanged_modules_executed_anew_differ_nowhere(checks, monkeypatch):
    modules = executed({}, monkeypatch)
    assert not worked_differ(modules)
    assert all(check(modules).deviation <= 1e-15 for check in checks.values())


def test_every_module_is_mutated():
    assert {name for name, _, _ in MUTATIONS.values()} == {*ORDER} - {"boxes"} == {*ASKED}


@pytest.mark.parametrize(("name", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_is_found(name, old, new, checks, monkeypatch):
    source = source_of(name)
    assert source.count(old) == 1, f"{old!r} is not a place in {name}.py, or is several"
    modules = executed({name: source.replace(old, new)}, monkeypatch)
    with contextlib.suppress(*CANNOT):
        assert any(
            worked_differ(modules)
            if requested == "worked"
            else checks[requested](modules).deviation > 1e-15
            for requested in ASKED[name]
        )
