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

sys.path.insert(0, str(Path(__file__).parents[1] / "mutations"))

from place import in_memory, replaced

pytestmark = pytest.mark.slow
FOLDER = Path(harness.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"
ORDER = (
    "averages",
    "boxes",
    "letter_patterns",
    "letters",
    "numerals",
    "sums",
    "sentence_values",
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
    **dict.fromkeys(
        ("letter_patterns", "letters", "numerals", "sums", "sentence_values", "numbers"), "stated"
    ),
}
"""Packages of modules that are not metrics."""
ASKED = {
    "averages": ("vsi official totals", "spar totals", "worked"),
    **dict.fromkeys(
        ("letter_patterns", "letters", "numerals", "sums", "sentence_values", "numbers"),
        ("worked",),
    ),
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

MUTATIONS = in_memory("answers")


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
    assert {name for name, *_ in MUTATIONS.values()} == {*ORDER} - {"boxes"} == {*ASKED}


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_is_found(name, function, old, new, checks, monkeypatch):
    source = source_of(name)
    modules = executed({name: replaced(source, function, old, new)}, monkeypatch)
    with contextlib.suppress(*CANNOT):
        assert any(
            worked_differ(modules)
            if requested == "worked"
            else checks[requested](modules).deviation > 1e-15
            for requested in ASKED[name]
        )
