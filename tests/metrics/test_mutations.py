"""The golden files are sharp: every plausible mistake in the metrics makes them differ.

Each mutation changes one place in the source of one module. All modules are then executed anew, so
that those above the changed one use it, and one comparison with the golden files has to differ.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import harness.metrics

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
        "padded[:, :, columns] = padded[:, :, columns - 1]",
        "pass",
    ),
    "outline: edge of the last row": ("bits", "padded[:, rows] = padded[:, rows - 1]", "pass"),
    "outline: beyond the last row": ("bits", "images[:, rows:] = 0", "pass"),
    "outline: beyond the last column": (
        "bits",
        "images[:, :, columns // 64] &= np.uint64((1 << columns % 64) - 1)",
        "pass",
    ),
    "outline: words beyond the last column": (
        "bits",
        "images[:, :, columns // 64 + 1 :] = 0",
        "pass",
    ),
    "outline: which column is the last": ("bits", "(1 << columns % 64) - 1", "1 << columns % 64"),
    "outline: diagonal neighbour": ("bits", "^ right[below:]", "^ here[below:]"),
    "outline: lower neighbour": (
        "bits",
        "drawn[:-below] |= here[:-below] ^ here[below:]",
        "pass",
    ),
    "outline: from one word to the next": (
        "bits",
        "right[:-1] |= here[1:] << np.uint64(63)",
        "pass",
    ),
    "disk: radius": ("bits", "radius * radius - y * y", "radius * radius + radius - y * y"),
    "disk: a diamond": ("bits", "math.isqrt(radius * radius - y * y)", "radius - y"),
    "disk: its widest row": ("bits", "in sorted(set(reach)):", "in sorted(set(reach))[:-1]:"),
    "disk: its highest row": (
        "bits",
        "y in range(radius + 1) if reach",
        "y in range(radius) if reach",
    ),
    "disk: only downwards": ("bits", "grown[: wide.size - moved] |= wide[moved:]", "pass"),
    "disk: only upwards": ("bits", "grown[moved:] |= wide[: wide.size - moved]", "pass"),
    "disk: rows too wide": ("bits", "reach[y] == target", "reach[y] <= target"),
    "disk: holes in wide rows": ("bits", "    wide |= row\n", ""),
    "disk: steps too wide": ("bits", "2 * width + 1)", "2 * width + 2)"),
    "disk: only to the right": ("bits", "wide |= row >> by", "pass"),
    "disk: carry to the right": ("bits", "wide[1:] |= row[:-1] >> rest", "pass"),
    "disk: carry to the left": ("bits", "wide[:-1] |= row[1:] << rest", "pass"),
    "bits: no gap of columns": ("bits", "(columns + gap) / 64", "(columns + 1) / 64"),
    "bits: no gap of rows": ("bits", "rows + gap, words", "rows + 1, words"),
    "bits: their order": (
        "bits",
        'pixels.ravel(), bitorder="little"',
        'pixels.ravel(), bitorder="big"',
    ),
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
    "F: rows of the window": (
        "boundary",
        "first + int(rows[-1]), height",
        "int(rows[-1]), height",
    ),
    "F: last row of the window": ("boundary", "-(-end // width)", "end // width"),
    "F: start of the ground_truth": ("boundary", "start = min(start, ", "start = max(start, "),
    "F: end of the ground_truth": ("boundary", " or other[other.argmax()]:", ":"),
    "F: end of the prediction": ("boundary", "if tail[tail.argmax()] or other", "if other"),
    "F: empty masks": ("boundary", "else pixels.size", "else 0 * pixels.size - 1"),
    "F: background of run-lengths": ("boundary", "foreground[1::2]", "foreground[::2]"),
    "F: last run of run-lengths": ("boundary", "2 * ones[-1] + 2]", "2 * ones[0] + 2]"),
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
    "F: each with itself": ("boundary", "near[::-1]", "near"),
    "F: denominators": (
        "boundary",
        "n_right / n_predicted, n_found / n_shown",
        "n_right / n_shown, n_found / n_predicted",
    ),
    "F: mean for sum": ("boundary", ".sum(axis=(1, 2))", ".mean(axis=(1, 2))"),
    "F: only void counts": ("boundary", "counts = ~void[window]", "counts = void[window]"),
    "F: void of the prediction": ("boundary", "predicted[window] & counts", "predicted[window]"),
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
