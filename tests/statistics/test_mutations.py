"""The checks are sharp: every plausible mistake in the statistics makes one of them differ.

Each mutation changes one place in the source of one module. All modules are then executed anew, so
that those above the changed one use it, and one check has to differ.
"""

import sys
import warnings
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace

import pytest

import harness.statistics

pytestmark = pytest.mark.slow
ORDER = (
    "quantiles",
    "clusters",
    "resampling",
    "jackknife",
    "analytic",
    "shares",
    "bootstrap",
    "power",
    "swaps",
    "sequential",
    "detection",
    "paired",
    "holm",
    "repeats",
    "variance",
    "pseudo",
)
FOLDER = Path(harness.statistics.__file__).parent

MUTATIONS = {
    "answers: one order of the runs": ("detection", "pairs[second[group], right_a] += 1", "pass"),
    "answers: weights do not matter": ("detection", " or score.weight != 1", ""),
    "answers: the loss of all counts": (
        "detection",
        "< power:\n            return None",
        "< 0:\n            return None",
    ),
    "answers: a share of right ones": (
        "detection",
        "* right * self.groups / self.answers",
        "* self.groups",
    ),
    "answers: no step": (
        "detection",
        "(groups * first - 1 - critical",
        "(groups * first - critical",
    ),
    "answers: a fixed threshold": ("detection", "2 * slope * (third", "0 * slope * (third"),
    "answers: one tail": ("detection", "quantile((1 + level) / 2)", "quantile(level)"),
    "answers: kept for lost": (
        "detection",
        "(1 - lost) ** kept * lost **",
        "lost ** kept * (1 - lost) **",
    ),
    "quantile: always normal": ("quantiles", "if degrees is None:", "if True:"),
    "interval: one-sided": ("quantiles", "(1 + level) / 2", "level"),
    "p: one-sided": ("quantiles", "2 * float(stdtr", "1 * float(stdtr"),
    "p: the sign counts": ("quantiles", "-abs(statistic)", "statistic"),
    "level: not checked": ("quantiles", "if not 0 < level < 1:", "if False:"),
    "level: 1": ("quantiles", "0 < level < 1", "0 < level <= 1"),
    "exact: no low part": ("clusters", "+= sums[:, columns:]", "+= 0 * sums[:, columns:]"),
    "exact: low part twice": ("clusters", "+= sums[:, columns:]", "+= 2 * sums[:, columns:]"),
    "exact: not rounded": ("clusters", "np.rint(table / unit) * unit", "table"),
    "exact: unit too fine": ("clusters", "DIGITS = 52", "DIGITS = 62"),
    "exact: unit too coarse": ("clusters", "DIGITS = 52", "DIGITS = 26"),
    "exact: one unit for all columns": ("clusters", "max(axis=0, initial=0.0)", "max(initial=0.0)"),
    "exact: subnormal": ("clusters", "np.maximum(exponent, -1074)", "exponent"),
    "sums: unweighted": (
        "clusters",
        "numerator, denominator = quotient(statistic)",
        "numerator, denominator = quotient(statistic)[0], 1",
    ),
    "sums: the last unit": ("clusters", "place[name]] += numerator", "place[name]] = numerator"),
    "sums: denominators once": (
        "clusters",
        "place[name]] += denominator",
        "place[name]] = denominator",
    ),
    "numbers: no epsilon": ("clusters", "(divisor + metric.epsilon)", "divisor"),
    "counted: numerators": ("clusters", "count_nonzero(sums.below", "count_nonzero(1 + sums.above"),
    "counted: most frequent part": (
        "clusters",
        "found[metric.name] = min(counts)",
        "found[metric.name] = 1 + max(counts)",
    ),
    "needed: only itself": ("clusters", "for above in known[name].inputs", "for above in ()"),
    "of corpora: not derived": ("clusters", " or any(name in found for name in metric.inputs)", ""),
    "order of units": (
        "clusters",
        "key=lambda unit: (unit.group, unit.unit)",
        "key=lambda unit: (unit.unit[::-1], unit.group)",
    ),
    "draws: one fewer": (
        "resampling",
        "random.integers(groups, size=(rows, groups))",
        "random.integers(groups, size=(rows, groups - (groups > 9)))",
    ),
    "draws: rows mixed": ("resampling", "np.arange(0, rows * groups, groups)[:, None]", "0"),
    "draws: once or not": (
        "resampling",
        "counts.reshape(rows, groups).astype",
        "(counts > 0).reshape(rows, groups).astype",
    ),
    "draws: the same again": (
        "resampling",
        "    random = generator(seed)\n    for rows in blocks(resamples, max(1, CELLS // groups)):",
        "    for rows in blocks(resamples, max(1, CELLS // groups)):\n"
        "        random = generator(seed)",
    ),
    "draws: unbounded": (
        "resampling",
        "blocks(resamples, max(1, CELLS // groups))",
        "blocks(resamples, resamples)",
    ),
    "swaps: unbounded": (
        "resampling",
        "blocks(count, max(1, CELLS // groups))",
        "blocks(count, count)",
    ),
    "swaps: too few bits": ("resampling", "-(-groups // 64)", "groups // 64"),
    "swaps: signs": (
        "resampling",
        "bits[:, :groups].astype(np.float64)",
        "2.0 * bits[:, :groups] - 1",
    ),
    "all swaps: half of them": ("resampling", "np.arange(2**groups)", "np.arange(2**groups // 2)"),
    "blocks: the rest is lost": ("resampling", "min(limit, total - start)", "limit"),
    "percentiles: of other shares": (
        "bootstrap",
        "[(1 - level) / 2, (1 + level) / 2]",
        "[1 - level, level]",
    ),
    "percentiles: NaN": ("bootstrap", "values[np.isfinite(values)]", "values"),
    "bootstrap: seed": (
        "bootstrap",
        "draws(groups, resamples=resamples, seed=seed)",
        "draws(groups, resamples=resamples, seed=0)",
    ),
    "bootstrap: runs exchanged": ("bootstrap", "zip(runs, parts[::2]", "zip(runs, parts[-2::-2]"),
    "bootstrap: no resamples": ("bootstrap", "resamples < 1", "resamples < 0"),
    "bootstrap: one group": ("bootstrap", "counted[name] >= 2", "counted[name] >= 9"),
    "jackknife: blocks of one more": ("jackknife", "BLOCKS = 200", "BLOCKS = 201"),
    "jackknife: in order": (
        "jackknife",
        "np.argsort(order) % blocks",
        "np.arange(groups) % blocks",
    ),
    "jackknife: always dealt": ("jackknife", "if groups <= blocks:", "if False:"),
    "jackknife: nothing left out": (
        "jackknife",
        "1 - np.eye(len(table))",
        "np.ones((len(table), len(table)))",
    ),
    "jackknife: only one block": ("jackknife", "1 - np.eye(len(table))", "np.eye(len(table))"),
    "jackknife: variance of pseudo-values": (
        "jackknife",
        "(pseudo - centre) ** 2 / (inverse - 1)",
        "(pseudo - centre) ** 2 / inverse",
    ),
    "jackknife: no inflation": ("jackknife", "/ (inverse - 1)))", "))"),
    "jackknife: standard deviation": (
        "jackknife",
        "np.sqrt(np.mean((pseudo",
        "np.sqrt(np.sum((pseudo",
    ),
    "jackknife: centre unweighted": (
        "jackknife",
        "np.sum((1 - 1 / inverse) * without)",
        "np.sum((1 - 1 / len(sizes)) * without)",
    ),
    "jackknife: absolute": (
        "jackknife",
        "float(np.sqrt(np.mean((pseudo - centre) ** 2 / (inverse - 1))))",
        "float(np.mean(np.abs(pseudo - centre) / np.sqrt(inverse - 1)))",
    ),
    "jackknife: NaN": ("jackknife", "if not (np.isfinite(whole) and", "if not (True and"),
    "jackknife: degrees": ("jackknife", "self.counted[name]) - 1", "self.counted[name])"),
    "jackknife: degrees of all groups": (
        "jackknife",
        "min(len(self.sizes), self.counted[name]) - 1",
        "len(self.sizes) - 1",
    ),
    "jackknife: one group": ("jackknife", "if self.counted[name] < 2:", "if False:"),
    "jackknife: first item": (
        "jackknife",
        ".extend(statistic.items)",
        ".append(statistic.items[0])",
    ),
    "jackknife: one block": ("jackknife", "if blocks < 2 or not units:", "if not units:"),
    "jackknife: no units": ("jackknife", "if blocks < 2 or not units:", "if blocks < 2:"),
    "formula: no G / (G - 1)": ("analytic", "counts / (counts - 1) * np.sum", "np.sum"),
    "formula: degrees": ("analytic", "degrees=counts - 1", "degrees=counts"),
    "formula: normal": ("analytic", "half_width(level, degrees=counts - 1)", "half_width(level)"),
    "formula: all groups": ("analytic", "np.count_nonzero(below))\n    if", "len(below))\n    if"),
    "formula: level": ("analytic", "half_width(level,", "half_width(0.9,"),
    "formula: squared once": ("analytic", "np.sum(parts**2)", "np.sum(np.abs(parts))"),
    "formula: residuals": (
        "analytic",
        "above - above.sum() / total * below",
        "above - above.mean()",
    ),
    "formula: no epsilon": ("analytic", "below.sum() + epsilon)", "below.sum())"),
    "formula: no epsilon in error": (
        "analytic",
        "total = below.sum() + epsilon",
        "total = below.sum()",
    ),
    "formula: one group": ("analytic", "if counts < 2:", "if counts < 1:"),
    "formula: weights": ("analytic", "np.stack([above * below,", "np.stack([above,"),
    "formula: lengths": (
        "analytic",
        "if not above.shape == below.shape == (len(groups),):",
        "if False:",
    ),
    "formula: not finite": ("analytic", "np.isfinite(above).all() and", "True and"),
    "MDE: no power": ("power", " + quantile(power, degrees=degrees)", ""),
    "MDE: normal": (
        "power",
        "half_width(level, degrees=degrees) + quantile(power, degrees=degrees)",
        "half_width(level) + quantile(power)",
    ),
    "MDE: 90 %": ("power", "POWER = 0.8", "POWER = 0.9"),
    "swap: at least as large": ("swaps", "< abs(self.seen) - SAME", "<= abs(self.seen) + SAME"),
    "swap: one-sided": ("swaps", "near = np.abs(self.differences) <", "near = self.differences <"),
    "swap: none counts": ("swaps", "[difference(np.zeros((1, k))), *(", "[*("),
    "swap: never exact": ("swaps", "k < 63 and 2**k <= count", "False"),
    "swap: always exact": ("swaps", "k < 63 and 2**k <= count", "True"),
    "swap: half of the swaps": ("swaps", "(near))) / len(near)", "(near))) / len(near) * 2"),
    "swap: one more may be as extreme": ("swaps", "sizes[beyond]", "sizes[beyond + 1]"),
    "swap: one fewer may be as extreme": ("swaps", "sizes[beyond]", "sizes[max(beyond - 1, 0)]"),
    "swap: nothing counts": ("swaps", "max(sizes[np.isfinite(sizes)])", "0.0"),
    "swap: not studentised": ("swaps", "size * math.sqrt(variance / left)", "size"),
    "swap: around 0": ("swaps", "variance + self.seen**2 - size**2", "variance - size**2"),
    "swap: without end": ("swaps", "variance / left), limit)", "variance / left), 1e9)"),
    "swap: no wider than t": ("swaps", "limit = max(size, half", "limit = min(size, half"),
    "swap: no spread": (
        "swaps",
        "return self.seen - size, self.seen + size",
        "return self.seen, self.seen",
    ),
    "stop: half of one bet": ("sequential", "np.arange(1, 9)", "np.arange(1, 8)"),
    "stop: wealth is not averaged": ("sequential", ".mean(axis=1)", ".max(axis=1)"),
    "stop: the other direction": ("sequential", "-x / largest", "x / largest"),
    "stop: no margin": ("sequential", "x + margin * n", "x"),
    "stop: margins are not scaled": ("sequential", "largest * (1 + margin)", "largest"),
    "stop: the level's complement": ("sequential", "1 / (1 - level)", "1 / level"),
    "stop: one group early": ("sequential", "np.argmax(shown)) + 1", "np.argmax(shown))"),
    "stop: the last decision": ("sequential", "min(found", "max(found"),
    "share: the other end": (
        "shares",
        "betaincinv(right + 1, size - right,",
        "betaincinv(right, size - right + 1,",
    ),
    "share: one-sided": ("shares", "(1 - level) / 2", "1 - level"),
    "share: normal": ("shares", "size *= (half_width(level)", "size *= 1 + 0 * (half_width(level)"),
    "share: of any numbers": ("shares", "one.value in (0, 1) and one.weight", "one.weight"),
    "share: groups are answers": (
        "shares",
        "limit = min(max(found.value, 0.0), 1.0), effective(weights)",
        "limit = min(max(found.value, 0.0), 1.0), 1e9",
    ),
    "share: answers of a group": ("shares", "size = effective(below)", "size = effective(weights)"),
    "share: independent": ("shares", "min(limit, share * (1 - share) / found.error**2)", "limit"),
    "share: equal weights": ("shares", "weights.sum() ** 2 / np.sum(weights**2)", "len(weights)"),
    "share: of errors": (
        "bootstrap",
        'if ends is None or metric.better != "higher":',
        "if ends is None:",
    ),
    "share: inside": ("bootstrap", "< SAME and end in (0, 1)", "< SAME"),
    "share: no end": ("bootstrap", "< SAME and end in (0, 1)", "< SAME and end == 0"),
    "swap: only one run": ("swaps", "value(whole_b - moved)", "value(whole_b + 0 * moved)"),
    "swap: the wrong way": (
        "swaps",
        "value(whole_b - moved) - value(whole_a + moved)",
        "value(whole_b + moved) - value(whole_a - moved)",
    ),
    "swap: groups that differ alone": (
        "swaps",
        "first.sum(axis=0), second.sum(axis=0)",
        "first[differ].sum(axis=0), second[differ].sum(axis=0)",
    ),
    "pair: a + b": ("paired", "drawn_b[name] - drawn_a[name]", "drawn_a[name] + drawn_b[name]"),
    "pair: difference": ("paired", "else value_b - value_a", "else value_a - value_b"),
    "pair: loss": ("paired", "return -self.difference if", "return self.difference if"),
    "pair: worse": (
        "paired",
        'lower_side=self.better == "higher"',
        'lower_side=self.better == "lower"',
    ),
    "pair: better": (
        "paired",
        'return self._share_beyond(lower_side=self.better == "lower")',
        'return self._share_beyond(lower_side=self.better == "higher")',
    ),
    "pair: touching 0": ("paired", "self.interval[0] > SAME", "self.interval[0] >= -SAME"),
    "pair: touching 0 from below": (
        "paired",
        "self.interval[1] < -SAME",
        "self.interval[1] <= SAME",
    ),
    "pair: level": (
        "paired",
        "test.interval(plain.level,",
        "test.interval(0.5,",
    ),
    "pair: seed": (
        "paired",
        "resamples=resamples, seed=seed)\n    differences",
        "resamples=resamples, seed=0)\n    differences",
    ),
    "pair: detectable": ("paired", "float(np.std(finite))", "float(np.var(finite))"),
    "pair: detectable without noise": (
        "paired",
        "if error <= SAME:\n        return plain\n    formula",
        "if error < 0:\n        return plain\n    formula",
    ),
    "pair: unpaired jackknife": (
        "paired",
        "second.without[plain.metric] - first.without[plain.metric]",
        "second.without[plain.metric] + first.without[plain.metric]",
    ),
    "pair: jackknife degrees": (
        "paired",
        "half_width(plain.level, degrees=degrees)",
        "half_width(plain.level)",
    ),
    "pair: jackknife p of equal runs": (
        "paired",
        "p_value=1.0 if abs",
        "p_value=0.0 if abs",
    ),
    "pair: resampled corpora": ("paired", "if name in of_corpora(used):", "if False:"),
    "pair: other units": ("paired", "if any(lacking.values()):", "if False:"),
    "pair: other groups": ("paired", "    if moved:\n", "    if False:\n"),
    "pair: units twice": ("paired", "if len(groups[-1]) != len(units):", "if False:"),
    "Holm: Bonferroni": ("holm", "(len(tested) - rank) * p", "len(tested) * p"),
    "Holm: one less": ("holm", "(len(tested) - rank) * p", "(len(tested) - rank - 1) * p"),
    "Holm: not monotone": ("holm", "max(largest, min(", "max(0.0, min("),
    "Holm: above 1": ("holm", "min(1.0, (len(tested) - rank) * p)", "(len(tested) - rank) * p"),
    "Holm: untested count": ("holm", "(len(tested) - rank)", "(len(names) - rank)"),
    "Holm: largest first": ("holm", "if p is not None)", "if p is not None)[::-1]"),
    "Holm: p unchecked": ("holm", "if not 0 <= p <= 1:", "if False:"),
    "best of k: with replacement": (
        "repeats",
        "comb(rank, k - 1) / comb(n, k)",
        "((rank + 1) / n) ** k - (rank / n) ** k",
    ),
    "best of k: rank": ("repeats", "comb(rank, k - 1)", "comb(rank + 1, k - 1)"),
    "best of k: worst": ("repeats", 'if better == "lower":', 'if better == "higher":'),
    "best of k: unsorted": ("repeats", "np.sort(table, axis=1)", "table.copy()"),
    "k: 0": ("repeats", "if not 1 <= k <= n:", "if not 0 <= k <= n:"),
    "k: too many": ("repeats", "if not 1 <= k <= n:", "if not 1 <= k:"),
    "repeats: NaN": ("repeats", "or not np.isfinite(table).all():", "or False:"),
    "split: sample not reduced": (
        "variance",
        "(sample - (crossed if t > 1 else noise)) / (t * d)",
        "sample / (t * d)",
    ),
    "split: sample of one training": ("variance", "(crossed if t > 1 else noise)", "crossed"),
    "split: sample's divisor": ("variance", "noise)) / (t * d)", "noise)) / t"),
    "split: training with crossed": (
        "variance",
        "(training - crossed - (decoding - noise))",
        "(training - (decoding - noise))",
    ),
    "split: training with decoding": (
        "variance",
        "(training - crossed - (decoding - noise))",
        "(training - crossed)",
    ),
    "split: training's divisor": (
        "variance",
        "(decoding - noise)) / (g * d)",
        "(decoding - noise)) / g",
    ),
    "split: decoding's divisor": (
        "variance",
        "(decoding - noise) / g\n",
        "(decoding - noise) / d\n",
    ),
    "split: crossed's divisor": ("variance", "(crossed - noise) / d", "crossed - noise"),
    "split: negative": ("variance", "max(v, 0.0)", "v"),
    "split: clipped in silence": ("variance", "value < -rounding", "value < -9.0"),
    "split: seen with one decoding": (
        "variance",
        "    if d > 1:\n        estimates",
        "    if True:\n        estimates",
    ),
    "mean square: of training": (
        "variance",
        "square(trainings - mean, g * d, t - 1)",
        "square(trainings - mean, g, t - 1)",
    ),
    "mean square: of decoding": (
        "variance",
        "square(runs - trainings[:, None], g, t * (d - 1))",
        "square(runs - trainings[:, None], g, t * d - 1)",
    ),
    "mean square: of crossed": (
        "variance",
        "square(crossed, d, (g - 1) * (t - 1))",
        "square(crossed, d, g * t - 1)",
    ),
    "mean square: of noise": ("variance", "(g - 1) * t * (d - 1)),", "g * t * (d - 1)),"),
    "mean square: crossed not centred": (
        "variance",
        "- groups[:, None] - trainings + mean",
        "- groups[:, None] - trainings",
    ),
    "mean square: noise not centred": ("variance", "- runs + trainings[:, None]", "- runs"),
    "score: groups only": (
        "variance",
        "    if t > 1:\n        over",
        "    if False:\n        over",
    ),
    "score: crossed counted twice": ("variance", "(-1, crossed)]", "(1, crossed)]"),
    "score: not clipped": ("variance", "    if sum(sign", "    if False and sum(sign"),
    "score: error": ("variance", "np.sqrt(total / table.size)", "np.sqrt(total / len(table))"),
    "score: degrees": ("variance", "total) ** 2 / square.degrees", "total) ** 2"),
    "score: too few degrees": (
        "variance",
        "float(max(1 / spread, min(",
        "float(min(1 / spread, min(",
    ),
    "score: no variance": ("variance", "if total == 0:", "if total < 0:"),
    "sources: groups": ("variance", "self.sample / n,", "self.sample,"),
    "sources: trainings": (
        "variance",
        "(self.sample_training or 0) / n) / trainings",
        "(self.sample_training or 0) / n)",
    ),
    "sources: decodings": ("variance", "/ (trainings * decodings)", "/ decodings"),
    "table: one group": ("variance", "table.shape[0] < 2", "table.shape[0] < 1"),
    "table: NaN": ("variance", "or not np.isfinite(table).all():\n", "or False:\n"),
    "stand-ins: scale": ("pseudo", "len(above) * influence", "influence"),
    "stand-ins: not shifted": ("pseudo", "pseudo += made.whole[name] - pseudo.mean()", "pass"),
    "stand-ins: replicates": (
        "pseudo",
        "inverse * made.whole[name] - (inverse - 1) * made.without[name]",
        "made.without[name].copy()",
    ),
    "stand-ins: of nothing": ("pseudo", "if not below.any():", "if False:"),
}


ASKED = {
    "quantiles": ("tables", "bootstrap_by_units"),
    "clusters": (
        "sums_are_exact",
        "bootstrap_by_units",
        "left_out_by_units",
        "formulas",
        "pairs_of_corpora",
        "left_out_in_blocks",
    ),
    "resampling": ("draws_are_multinomial",),
    "jackknife": ("left_out_by_units", "left_out_in_blocks"),
    "bootstrap": ("bootstrap_by_units", "swaps_of_units", "answers_right_or_wrong"),
    "analytic": ("formulas",),
    "shares": ("answers_right_or_wrong",),
    "power": ("detectable",),
    "swaps": ("swaps_of_units", "studentised", "directions"),
    "sequential": ("stopped",),
    "detection": ("answers_lost",),
    "paired": ("directions", "swaps_of_units", "pairs_of_corpora"),
    "holm": ("corrected",),
    "repeats": ("choices_of_k",),
    "variance": ("alternating", "analysis_of_variance"),
    "pseudo": ("stand_ins",),
}


@cache
def compiled(name: str) -> CodeType:
    return compile((FOLDER / f"{name}.py").read_text(encoding="utf-8"), f"{name}.py", "exec")


def executed(changed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """All modules executed anew, some of them from another source."""
    fresh: dict[str, ModuleType] = {}
    for name in ORDER:
        module = ModuleType(f"harness.statistics.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(harness.statistics, name, module)
        source = changed.get(name)
        exec(compile(source, f"{name}.py", "exec") if source else compiled(name), module.__dict__)
        fresh[name] = module
    return SimpleNamespace(**fresh)


def test_unchanged_modules_executed_anew_differ_nowhere(checks, monkeypatch):
    modules = executed({}, monkeypatch)
    assert {name: list(check(modules)) for name, check in checks.items()} == {
        name: [] for name in checks
    }


def test_every_module_is_mutated():
    assert {name for name, _, _ in MUTATIONS.values()} == {*ORDER} == {*ASKED}
    modules = {path.stem for path in FOLDER.glob("*.py")}
    assert modules == {*ORDER, "__init__", "text"}  # which computes nothing


@pytest.mark.parametrize(("name", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_makes_a_check_differ(name, old, new, checks, monkeypatch):
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert source.count(old) >= 1, f"{old!r} is no place in {name}.py"
    assert source.count(old) == 1, f"{old!r} is several places in {name}.py"
    modules = executed({name: source.replace(old, new)}, monkeypatch)
    assert any(found_by(checks[requested], modules) for requested in ASKED[name])


def found_by(check, modules) -> bool:
    """Whether a check differs, or cannot even be made with wrong arithmetic."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            return next(check(modules), None) is not None
    except (ArithmeticError, ValueError, LookupError, TypeError, RuntimeWarning, AttributeError):
        return True
