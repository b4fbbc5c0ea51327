"""The golden files are sharp: every plausible mistake in the metrics makes them differ.

Each mutation changes one place in the source of one module. All modules are then executed anew, so
that those above the changed one use it, and one comparison with the golden files has to differ.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import harness.metrics

pytestmark = pytest.mark.slow
ORDER = (
    "bits",
    "overlap",
    "boundary",
    "polygons",
    "boxes",
    "counting",
)
FOLDER = Path(harness.metrics.__file__).parent

MUTATIONS = {
    "outline: edge of the last column": (
        "bits",
        "strips[:, columns] = strips[:, columns - 1]",
        "pass",
    ),
    "outline: edge of the last row": ("bits", "strips[row] &=", "unused ="),
    "outline: rows beside the last one": ("bits", " | (0xFF ^ 0b11 << 2 * strip)", ""),
    "outline: which row is the last": ("bits", "divmod(len(first) - 1,", "divmod(len(first) - 2,"),
    "outline: strip of the last row": ("bits", "0b11 << 2 * strip", "0b11 << 2 * strip // 2"),
    "outline: beyond the last column": ("bits", "strips[:, columns:] = 0", "pass"),
    "outline: which column is the last": (
        "bits",
        "strips[:, columns:] = 0",
        "strips[:, columns + 1 :] = 0",
    ),
    "outline: right neighbour unset": ("bits", "every[:-1] & every[1:]", "every[:-1]"),
    "outline: right neighbour set": ("bits", "some[:-1] | some[1:]", "some[:-1]"),
    "outline: lower neighbour unset": (
        "bits",
        "pixels[:-width] & pixels[width:]",
        "pixels[:-width]",
    ),
    "outline: lower neighbour set": ("bits", "pixels[:-width] | pixels[width:]", "pixels[:-width]"),
    "outline: from one strip to the next": ("bits", "strips[:1] >> 2", "strips[:1] * 0"),
    "outline: no column on the left": ("bits", "max(used[0] - 1, 0)", "used[0]"),
    "outline: left of the frame": ("bits", "max(used[0] - 1, 0)", "used[0] - 1"),
    "outline: no column on the right": ("bits", "used[-1] + 2", "used[-1] + 1"),
    "outline: columns of one image": (
        "bits",
        "np.bitwise_or.reduce(folded, axis=0)",
        "np.bitwise_or.reduce(folded & 0x55, axis=0)",
    ),
    "disk: radius": ("bits", "<= radius * radius", "<= radius * radius + radius"),
    "disk: without its edge": ("bits", "<= radius * radius", "< radius * radius"),
    "disk: a diamond": ("bits", "x * x + y * y <= radius * radius", "abs(x) + abs(y) <= radius"),
    "disk: pairs that are no part of it": (
        "bits",
        "while np.array_equal(rest, both | np.roll(both, (down, right), (0, 1))):",
        "while both.any():",
    ),
    "disk: a pair too few": (
        "bits",
        "return pairs, sorted(rows)",
        "return pairs[1:], sorted(rows)",
    ),
    "disk: pairs in a mirror": ("bits", "move = y * width + x", "move = y * width - x"),
    "disk: pairs without a pixel": (
        "bits",
        "wide[:-move] | wide[move:]",
        "wide[move:]",
    ),
    "disk: the longest row of the rest": ("bits", "sorted(rows)", "sorted(rows)[:-1]"),
    "disk: the shortest row of the rest": ("bits", "sorted(rows)", "sorted(rows)[1:]"),
    "disk: rows in another order": ("bits", "sorted(rows)", "sorted(rows)[::-1]"),
    "disk: rows without their place": ("bits", "start = y * width + x", "start = y * width"),
    "disk: holes in wide rows": ("bits", "wide[:-step] | wide[step:]", "wide[step:]"),
    "disk: steps too wide": ("bits", "min(length, target - length)", "length"),
    "disk: only downwards": ("bits", "strips[:radius] >> 2", "strips[:radius] * 0"),
    "disk: only upwards": (
        "bits",
        "strips[height - radius :] * 4",
        "strips[height - radius :] * 0",
    ),
    "disk: into the other image": ("bits", "strips[:radius] >> 2", "strips[:radius] >> 1"),
    "disk: out of the other image": ("bits", "radius :] * 4", "radius :] * 2"),
    "bits: no gap of columns": ("bits", "(columns + gap) / 8", "(columns + 1) / 8"),
    "bits: strips of few rows": (
        "bits",
        "max(math.ceil(rows / STRIPS), gap)",
        "math.ceil(rows / STRIPS)",
    ),
    "bits: rows that are left over": ("bits", "math.ceil(rows / STRIPS)", "rows // STRIPS + 1 - 1"),
    "bits: beyond the last row": ("bits", "pixels[rows:] = 0", "pixels[rows:] = 1"),
    "bits: one image twice": ("bits", "|= first.view", "|= second.view"),
    "bits: the other image": ("bits", "np.multiply(second.view", "np.multiply(first.view"),
    "bits: the lower half": ("bits", "pixels[2 * height :] * 16", "pixels[2 * height :] * 4"),
    "bits: the second strip": ("bits", "2 * height] * 4", "2 * height] * 2"),
    "bits: their order": ("bits", 'bitorder="little"', 'bitorder="big"'),
    "bits: of both images": ("bits", "return words & FIRST,", "return words,"),
    "bits: of the first image": ("bits", "words >> np.uint64(1) & FIRST", "words & FIRST"),
    "bits: not counted": ("bits", "cv2.NORM_HAMMING", "cv2.NORM_L1"),
    "F: tolerance": ("boundary", "TOLERANCE = 0.008", "TOLERANCE = 0.0079"),
    "F: radius rounded down": ("boundary", "math.ceil(", "math.floor("),
    "F: radius from the height": ("boundary", "+ width * width", "+ height * height"),
    "F: radius from the crop": (
        "boundary",
        "radius = boundary_radius(height, width)",
        "radius = boundary_radius(*cropped[0].shape)",
    ),
    "F: no margin": ("boundary", "MARGIN = 1", "MARGIN = 0"),
    "F: no margin below": ("boundary", "last + 1 + MARGIN", "last + MARGIN"),
    "F: margin outside of the frame": ("boundary", "max(first - MARGIN, 0)", "first - MARGIN"),
    "F: no margin above": ("boundary", "max(first - MARGIN, 0)", "first"),
    "F: first block of rows": ("boundary", "int(used[0]) * block", "int(used[0] + 1) * block"),
    "F: last block of rows": ("boundary", "int(used[-1] + 1) * block", "int(used[-1]) * block"),
    "F: rows of the ground_truth": ("boundary", "(first | second).nonzero", "first.nonzero"),
    "F: rows of the prediction": ("boundary", "(first | second).nonzero", "second.nonzero"),
    "F: rows of both": ("boundary", "(first | second).nonzero", "(first & second).nonzero"),
    "F: columns for rows": ("boundary", "block * width)", "block * height)"),
    "F: background of run-lengths": ("boundary", "foreground[1::2]", "foreground[::2]"),
    "F: last run of run-lengths": ("boundary", "end[1::2][-1]", "end[1::2][0]"),
    "F: first run of run-lengths": ("boundary", "end[0])", "end[1])"),
    "F: first columns of run-lengths": ("boundary", "min(int(", "max(int("),
    "F: last columns of run-lengths": ("boundary", "max(int(", "min(int("),
    "F: run-lengths of other columns": (
        "boundary",
        "np.minimum(np.maximum(ends, start), stop)",
        "np.minimum(ends, stop)",
    ),
    "F: both empty": (
        "boundary",
        "if cropped is None:\n        return 1.0",
        "if cropped is None:\n        return 0.0",
    ),
    "F: both outlines empty": ("boundary", "1.0 if n_shown == n_predicted else 0.0", "0.0"),
    "F: one outline empty": ("boundary", "1.0 if n_shown == n_predicted else 0.0", "1.0"),
    "F: empty only together": (
        "boundary",
        "n_shown == 0 or n_predicted == 0",
        "n_shown == 0 and n_predicted == 0",
    ),
    "F: arithmetic mean": ("boundary", "2 * precision * recall / total", "total / 2"),
    "F: nothing near": ("boundary", "if total else 0.0", "if total else 1.0"),
    "F: the prediction with itself": ("boundary", "drawn & near_shown", "drawn & near_drawn"),
    "F: the ground_truth with itself": ("boundary", "shown & near_drawn", "shown & near_shown"),
    "F: denominators": (
        "boundary",
        "n_right / n_predicted, n_found / n_shown",
        "n_right / n_shown, n_found / n_predicted",
    ),
    "F: only void counts": ("boundary", "crop & ~crops[2]", "crop & crops[2]"),
    "F: void of the prediction": (
        "boundary",
        "[crop & ~crops[2] for crop in crops[:2]]",
        "[crops[0] & ~crops[2], crops[1]]",
    ),
    "F: void of the ground_truth": (
        "boundary",
        "[crop & ~crops[2] for crop in crops[:2]]",
        "[crops[0], crops[1] & ~crops[2]]",
    ),
    "J: both empty": ("overlap", "if union else 1.0", "if union else 0.0"),
    "J: union over intersection": (
        "overlap",
        "intersection / union if union else",
        "union / (intersection + 1) if union else",
    ),
    "overlap: only ignored counts": ("overlap", "valid = ~ignore", "valid = ignore"),
    "overlap: all foreground differs": (
        "overlap",
        "cv2.norm(first, second, cv2.NORM_L1)",
        "cv2.norm(first, cv2.NORM_L1)",
    ),
    "overlap: L2 for L1": ("overlap", "first, second, cv2.NORM_L1", "first, second, cv2.NORM_L2"),
    "overlap: one area": ("overlap", " + cv2.sumElems(second)[0]", ""),
    "overlap: sum for union": ("overlap", "int(area_sum + differing) // 2)", "int(area_sum))"),
    "overlap: union for intersection": (
        "overlap",
        "Overlap(int(area_sum - ",
        "Overlap(int(area_sum + ",
    ),
    "overlap of runs: sum for union": (
        "overlap",
        "first + second - intersection",
        "first + second",
    ),
    "overlap of runs: union for intersection": (
        "overlap",
        "shared = coco.merge(masks, intersect=True)",
        "shared = coco.merge(masks, intersect=False)",
    ),
    "overlap of runs: ignored pixels": (
        "overlap",
        "astype(np.int64) - coco.area(ignored)",
        "astype(np.int64)",
    ),
    "overlap of runs: ignored intersection": (
        "overlap",
        "in (shared, union)]",
        "in (union, union)]",
    ),
    "overlap of runs: ignored union": (
        "overlap",
        "in (shared, union)]",
        "in (shared, shared)]",
    ),
    "LISA: no epsilon": ("overlap", "+ LISA_EPSILON)", "+ 0 * LISA_EPSILON)"),
    "LISA: another epsilon": ("overlap", "np.float32(1e-5)", "np.float32(1e-6)"),
    "LISA: double precision": (
        "overlap",
        "np.float32(intersection) /",
        "np.float64(intersection) /",
    ),
    "LISA: empty union": ("overlap", "float(value + np.float32(1.0)) if union == 0 else", ""),
    "VisionReasoner: empty union": ("overlap", "if union > 0 else 0.0", "if union > 0 else 1.0"),
    "VisionReasoner: one pixel": ("overlap", "if union > 0 else 0.0", "if union > 1 else 0.0"),
    "P@t: above": ("overlap", "values >= np.asarray", "values > np.asarray"),
    "P@t: sum for mean": ("overlap", "reached / max(len(values), 1)", "reached"),
    "polygons: smallest first": ("polygons", 'kind="stable")[::-1]', 'kind="stable")'),
    "polygons: order of twins": (
        "polygons",
        'np.argsort(areas, kind="stable")[::-1]',
        'np.argsort([-area for area in areas], kind="stable")',
    ),
    "polygons: order of the file": (
        "polygons",
        'np.argsort(areas, kind="stable")[::-1]',
        "range(len(areas))",
    ),
    "polygons: area of corners": (
        "polygons",
        "np.count_nonzero(fill_poly(polygon, height, width, version=opencv))",
        "np.ptp(polygon, axis=0).prod()",
    ),
    "polygons: value of ignored pixels": (
        "polygons",
        "TARGET, IGNORE = 1, 255",
        "TARGET, IGNORE = 1, 1",
    ),
    "polygons: ignore as the whole label": ("polygons", '"ignore" in label', '"ignore" == label'),
    "polygons: flag as a part of the label": ("polygons", 'label != "flag"', '"flag" not in label'),
    "polygons: capital letters": ("polygons", "return label.lower()", "return label"),
    "polygons: another OpenCV": ("polygons", "= value\n", "= value; opencv = '4.11'\n"),
    "filling: none": (
        "polygons",
        "|= np.cumsum(change, axis=1, dtype=np.int32)[:, :-1] > 0",
        "|= False",
    ),
    "filling: outermost pixels": ("polygons", "shift[~crossing] = HALF", "ceiling = BELOW_ONE"),
    "filling: rounded edges out of the frame": ("polygons", "shift[~crossing]", "shift[:]"),
    "filling: half a pixel": ("polygons", "1 << (BITS - 1)", "1 << (BITS - 2)"),
    "filling: columns of edges that leave": (
        "polygons",
        "known[..., 0] = clipped[..., 0]\n",
        "pass\n",
    ),
    "filling: edges as they are": ("polygons", "known[cut] = clipped[cut]", "pass"),
    "filling: slopes rounded down": (
        "polygons",
        "np.sign(run[:, 0]) * np.sign(run[:, 1]) * (abs(run[:, 0]) // abs(run[:, 1]))",
        "run[:, 0] // run[:, 1]",
    ),
    "filling: lowest row": (
        "polygons",
        "np.clip(bottom, first, last)",
        "np.clip(bottom, 0, last)",
    ),
    "lines: none": ("polygons", "inside[y, x] = True", "pass"),
    "lines: from right to left": (
        "polygons",
        "lines[:, 0, 0] > lines[:, 1, 0]",
        "lines[:, 0, 0] < lines[:, 1, 0]",
    ),
    "lines: halves": ("polygons", "* k + span - 1)", "* k + span)"),
    "lines: steep ones": ("polygons", "size[:, 1] > size[:, 0]", "size[:, 1] >= 2 * size[:, 0]"),
    "clipping: first by columns": (
        "polygons",
        "if first & 12:",
        "if first & 12 and not first & 3:",
    ),
    "clipping: rounded down": ("polygons", "-size\n", "-size - 1\n"),
    "clipping: bottom": ("polygons", "width - 1, height - 1\n", "width - 1, height\n"),
    "polygons: rounded points": (
        "polygons",
        "np.array(points, dtype=np.float64).astype",
        "np.rint(points).astype",
    ),
    "polygons: points rounded down": (
        "polygons",
        "np.array(points, dtype=np.float64).astype",
        "np.floor(points).astype",
    ),
    "boxes: rim": ("boxes", "rim=1.0", "rim=0.0"),
    "boxes: no rim": ("boxes", "rim=0.0", "rim=1.0"),
    "boxes: hull": ("boxes", "low = np.maximum(", "low = np.minimum("),
    "boxes: sum for union": ("boxes", "[None, :] - shared", "[None, :]"),
    "boxes: negative sides": ("boxes", "np.maximum(0.0, high - low + rim)", "(high - low + rim)"),
    "boxes: IoU at the threshold": ("boxes", "predicted) > MIN_IOU", "predicted) >= MIN_IOU"),
    "boxes: all for any": ("boxes", "> MIN_IOU).any()", "> MIN_IOU).all()"),
    "counts: at least": (
        "counting",
        "int(ground_truth == predicted)",
        "int(ground_truth >= predicted)",
    ),
    "counts: signed error": (
        "counting",
        "abs(ground_truth - predicted)",
        "(ground_truth - predicted)",
    ),
    "counts: sum": ("counting", "abs(ground_truth - predicted)", "abs(ground_truth + predicted)"),
    "counts: no square": (
        "counting",
        "(ground_truth - predicted) ** 2",
        "(ground_truth - predicted) ** 4",
    ),
}

ASKED = {
    "bits": ("davis_boundary", "disks"),
    "boundary": ("davis_radius", "davis_boundary", "mevis_tracks"),
    "overlap": ("davis_region", "lisa_samples", "visionreasoner_samples", "thresholds"),
    "polygons": ("lisa_polygons",),
    "boxes": ("boxes_exclusive", "boxes_inclusive", "visionreasoner_samples", "thresholds"),
    "counting": ("counts",),
}


def executed(changed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """All metric modules executed anew, some of them from another source."""
    fresh: dict[str, ModuleType] = {}
    for name in ORDER:
        module = ModuleType(f"harness.metrics.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        source = changed.get(name) or (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def test_unchanged_modules_executed_anew_differ_nowhere(comparisons, monkeypatch):
    modules = executed({}, monkeypatch)
    assert {name: list(compare(modules)) for name, compare in comparisons.items()} == {
        name: [] for name in comparisons
    }


def test_every_module_that_has_golden_files_is_mutated():
    assert {name for name, _, _ in MUTATIONS.values()} == {*ORDER} == {*ASKED}


@pytest.mark.parametrize(("name", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_makes_the_golden_files_differ(name, old, new, comparisons, monkeypatch):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} is not a place in {name}.py, or is several"
    changed = source.replace(old, new)
    modules = executed({name: changed}, monkeypatch)
    assert any(found_by(comparisons[requested], modules) for requested in ASKED[name])


def found_by(comparison, modules) -> bool:
    """Whether a comparison differs, or cannot even be made with wrong arithmetic."""
    try:
        return next(comparison(modules), None) is not None
    except (ArithmeticError, ValueError, IndexError, RuntimeWarning):
        return True
