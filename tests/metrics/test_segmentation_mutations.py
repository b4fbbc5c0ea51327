"""The golden files of segmentation are sharp: plausible mistakes in the modules are found.

Each mutation changes one place in the source of one module. The modules are executed anew, and one
comparison with the golden files has to differ.
"""

import contextlib
import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import harness.metrics
from harness.errors import HarnessError

pytestmark = pytest.mark.slow
FOLDER = Path(harness.metrics.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"
ORDER = (
    "overlap",
    "boundary",
    "boxes",
    "normalised",
    "referring",
    "generalised",
    "grec",
    "unsupervised",
    "revos",
)
ASKED = {
    "normalised": ("llmseg_samples", "llmseg_squares"),
    "referring": ("lisa_referring",),
    "generalised": ("rela_samples", "rela_totals", "nonobject_samples"),
    "grec": ("grec_pairs", "grec_samples", "grec_totals"),
    "unsupervised": ("davis_unsupervised", "referformer_argmax"),
    "revos": ("revos_visa", "revos_sa2va", "revos_foreground"),
}
CANNOT = (ArithmeticError, IndexError, KeyError, TypeError, ValueError, HarnessError)
"""Raised where a changed module cannot even compute; that is found as well."""

MUTATIONS = {
    "LLMSeg: another epsilon": ("normalised", "np.float32(1e-8)", "np.float32(1e-5)"),
    "LLMSeg: empty union": ("normalised", "np.float32(1.0)) if union", "np.float32(0.0)) if union"),
    "LLMSeg: double precision": (
        "normalised",
        "np.float32(intersection) /",
        "np.float64(intersection) /",
    ),
    "resize: rounded": ("normalised", "places.astype(np.int64)", "np.rint(places).astype(int)"),
    "resize: pixel centres": (
        "normalised",
        "dtype=np.float32) * scale",
        "dtype=np.float32) * scale + scale / 2",
    ),
    "resize: double precision": (
        "normalised",
        "np.float32(old) / np.float32(new)",
        "np.float64(old) / new",
    ),
    "resize: rows for columns": (
        "normalised",
        "_sources(mask.shape[1], width)",
        "_sources(mask.shape[0], width)",
    ),
    "squares: another side": ("normalised", "SIDE = 1024", "SIDE = 512"),
    "squares: ignored pixels": ("normalised", "resized[1], ignore)", "resized[1])"),
    "polygons: union": ("referring", "times == 1", "times >= 1"),
    "polygons: intersection": ("referring", "times == 1", "times > 1"),
    "polygons: strict": ("referring", 'form == "strict"', 'form == "compat"'),
    "ReLA: no target said": ("generalised", "Credit(1.0, 0, 0) if", "Credit(0.0, 0, 0) if"),
    "ReLA: union of a right answer": (
        "generalised",
        "Credit(1.0, 0, 0)",
        "Credit(1.0, 0, counts.union)",
    ),
    "ReLA: union of a missed no-target": (
        "generalised",
        "Credit(0.0, 0, counts.union)",
        "Credit(0.0, 0, 0)",
    ),
    "ReLA: cells exchanged": ("generalised", "    if no_target:", "    if not no_target:"),
    "ReLA: no target where one is": (
        "generalised",
        "shared = 0 if predicted_no_target else",
        "shared =",
    ),
    "ReLA: empty union": (
        "generalised",
        "if counts.union else 0.0, shared",
        "if counts.union else 1.0, shared",
    ),
    "ReLA: thresholds": ("generalised", "(0.7, 0.8, 0.9)", "(0.5, 0.6, 0.7)"),
    "no object: any box": ("generalised", "no_target and boxes == 0", "no_target"),
    "no object: any annotation": ("generalised", "no_target and boxes == 0", "boxes == 0"),
    "no object: one of both": (
        "generalised",
        "no_target and boxes == 0",
        "no_target or boxes == 0",
    ),
    "no object: empty union": (
        "generalised",
        "if counts.union else 0.0\n",
        "if counts.union else 1.0\n",
    ),
    "no object: no hull": ("generalised", "[*predicted, hull]", "predicted"),
    "no object: only the hull": ("generalised", "[*predicted, hull]", "[hull]"),
    "no object: hull of all sides": ("generalised", "sides[:, :2].min", "sides[:, :2].max"),
    "no object: hit without a box": ("generalised", "return not predicted", "return False"),
    "no object: exclusive box": (
        "generalised",
        "int(columns[-1]), int(rows[-1])",
        "int(columns[-1]) + 1, int(rows[-1]) + 1",
    ),
    "no object: box of rows": ("generalised", "for axis in (1, 0)", "for axis in (0, 1)"),
    "GIoU: plain IoU": ("grec", " - _quotient(hull - union, hull)", ""),
    "GIoU: plus": ("grec", " - _quotient(hull", " + _quotient(hull"),
    "GIoU: hull": ("grec", "hull - union, hull", "hull - shared, hull"),
    "GIoU: sum for union": ("grec", "+ areas[1] - shared", "+ areas[1]"),
    "GIoU: double precision": (
        "grec",
        "what).astype(np.float32)",
        "what).astype(np.float64)",
    ),
    "GIoU: rim": ("grec", "high - low, np", "high - low + np.float32(1), np"),
    "scores: above": ("grec", "score >= SCORE", "score > SCORE + 0.001"),
    "scores: double precision": (
        "grec",
        "np.asarray(scores, dtype=np.float32)",
        "np.asarray(scores)",
    ),
    "scores: threshold": ("grec", "SCORE = 0.7", "SCORE = 0.5"),
    "matching: above": (
        "grec",
        "quality[output, true] < OVERLAP",
        "quality[output, true] <= OVERLAP",
    ),
    "matching: threshold": ("grec", "OVERLAP = 0.5", "OVERLAP = 0.7"),
    "matching: rows stay": (
        "grec",
        "quality[output, :] = quality[:, true] = 0.0",
        "quality[:, true] = 0.0",
    ),
    "matching: columns stay": (
        "grec",
        "quality[output, :] = quality[:, true] = 0.0",
        "quality[output, :] = 0.0",
    ),
    "matching: worst first": ("grec", "quality.argmax()", "quality.argmin()"),
    "F1: Jaccard": (
        "grec",
        "2 * matched / (n_predicted + n_true)",
        "matched / (n_predicted + n_true - matched)",
    ),
    "F1: recall": ("grec", "2 * matched / (n_predicted + n_true)", "matched / n_true"),
    "F1: no target": ("grec", "float(n_predicted == 0)", "1.0"),
    "argmax: background": ("unsupervised", "np.float32(0.1)", "np.float32(0.6)"),
    "argmax: threshold": (
        "unsupervised",
        "CONFIDENT = np.float32(0.5)",
        "CONFIDENT = np.float32(0.1)",
    ),
    "argmax: above a half": ("unsupervised", "values >= CONFIDENT", "values > CONFIDENT"),
    "argmax: the last wins": ("unsupervised", "values > highest", "values >= highest"),
    "argmax: the first wins": (
        "unsupervised",
        "highest[better] = values[better]",
        "highest[better] = 1",
    ),
    "argmax: numbers from 0": ("unsupervised", "confidences, start=1)", "confidences, start=0)"),
    "objects: void is one": ("unsupervised", "first[first != VOID].max", "first.max"),
    "objects: the smallest label": ("unsupervised", "VOID].max(initial", "VOID].min(initial"),
    "objects: void": ("unsupervised", "VOID = 255", "VOID = 254"),
    "proposals: of the first frame": (
        "unsupervised",
        '"predicted labels").max()',
        '"predicted labels")[0].max()',
    ),
    "matching: by J": ("unsupervised", "-((j + f) / 2)", "-j"),
    "matching: by F": ("unsupervised", "-((j + f) / 2)", "-f"),
    "matching: the worst": ("unsupervised", "-((j + f) / 2)", "(j + f) / 2"),
    "matching: void counts": (
        "unsupervised",
        "metric(true, predicted, void)",
        "metric(true, predicted)",
    ),
    "matching: sum for mean": ("unsupervised", ".mean(axis=2)", ".sum(axis=2)"),
    "matching: no padding": ("unsupervised", "(*predicted, *padding)", "predicted"),
    "matching: missing is full": ("unsupervised", "np.zeros_like(track)", "np.ones_like(track)"),
    "A: bytes of VISA": ("revos", '255 if form == "visa255"', '1 if form == "visa255"'),
    "A: bytes of Sa2VA": ("revos", 'form == "visa255" else 1', 'form == "visa255" else 255'),
    "A: unequal": ("revos", "true[:, None] == predicted", "true[:, None] != predicted"),
    "A: sum for mean": ("revos", "float(np.mean(a))", "float(np.sum(a))"),
    "A: overlaps count once": ("revos", 'if form == "strict" else levels', "if form else levels"),
    "R: no wrap": (
        "revos",
        "(np.uint8(1) - true) * predicted[1]).astype(np.int64)",
        "1 - true.astype(int)) * predicted[1].astype(int)",
    ),
    "R: missed pixels": ("revos", "@ table[:, 1]", "@ table[:, 0]"),
    "R: below 0": ("revos", "EPSILON), 0.0)", "EPSILON), -9e9)"),
    "R: another epsilon": ("revos", "EPSILON = 1e-6", "EPSILON = 1e-5"),
    "R: without foreground": ("revos", "max(1 - wrong", "max(0 - wrong"),
    "R: mean for sum": ("revos", "float(np.mean(r))", "float(np.max(r))"),
    "table: never decoded": (
        "revos",
        "if union.area == sum(mask.area for mask in ground_truth)",
        "if True",
    ),
    "table: false alarms": ("revos", "[[background, either - union.area]", "[[background, either]"),
    "table: misses": ("revos", "[union.area - shared, shared]", "[union.area, shared]"),
    "table: columns exchanged": ("revos", "covered[~output]", "covered[output]"),
    "J: of one object": (
        "revos",
        "union = foreground_track(ground_truth)",
        "union = ground_truth[0]",
    ),
    "foreground: intersection": (
        "revos",
        "first.union(*rest) for first",
        "first.intersection(*rest) for first",
    ),
    "percent: three places": ("revos", "* score, 2)", "* score, 3)"),
    "percent: rounded down": (
        "revos",
        "np.round(np.float64(100) * score, 2)",
        "np.floor(10000 * score) / 100",
    ),
}


@pytest.fixture
def checks(monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    modules = [importlib.import_module(f"compare_{name}") for name in ("segmentation", "objects")]
    return {name: check for module in modules for name, (_, _, check) in module.CHECKS.items()}


def executed(changed, monkeypatch):
    """All modules executed anew, one of them from another source."""
    fresh = {}
    for name in ORDER:
        module = ModuleType(f"harness.metrics.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        source = changed.get(name) or (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def differ(pairs):
    return any(ours != official and abs(ours - official) > 1e-12 for ours, official in pairs)


def test_every_module_is_mutated():
    assert {name for name, _, _ in MUTATIONS.values()} == {*ASKED}


@pytest.mark.parametrize("name", ASKED)
def test_unchanged_modules_executed_anew_differ_nowhere(name, checks, monkeypatch):
    modules = executed({}, monkeypatch)
    assert not any(differ(checks[requested](modules)) for requested in ASKED[name])


@pytest.mark.parametrize(("name", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_is_found(name, old, new, checks, monkeypatch):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} is not a place in {name}.py, or is several"
    modules = executed({name: source.replace(old, new)}, monkeypatch)
    with contextlib.suppress(*CANNOT):
        assert any(differ(checks[requested](modules)) for requested in ASKED[name])
