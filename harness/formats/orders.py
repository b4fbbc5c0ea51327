"""Test against the ground truth whether a file's answers belong to other samples than its ids say.

Ids can be shifted, reversed, sorted as text, reversed within a video, or shuffled. The agreement of
each answer with the ground truth of every sample shows which order fits, and how well answers fit
by chance. `harness.formats.agreement` asks here if no other meaning of the answers fits.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.formats.evidence import (
    CHANCE,
    HALF,
    LEAST,
    MARGIN,
    PRIOR,
    TIMES,
    TRIED,
    Finding,
    tail,
)
from harness.formats.pairs import Kind
from harness.formats.readings import SHARE, Pair, Rows

Places: TypeAlias = NDArray[np.int64]
"""Numbers of samples or columns, from 0."""

NOBODY = -1
"""Target of an answer that has no sample in an order."""
FITS = 0.75
"""Share of hits among an image's or a video's answers from which an order fits it."""
LEVELS = (HALF, 0.75, 0.9)
"""Agreements from which an answer is a hit, tried in turn: among many samples, any answer is
somewhat close to one of them."""
FAR = 0.4
"""Share of hits by which an assignment must exceed that of similar answers that fit no sample."""
OTHERS = "those of other samples (are the ids shuffled?)"
REVERSED = "those of the samples in the opposite order"
BACKWARDS = "those of the objects of an image or video in the opposite order (are labels reversed?)"
NEXT, BEFORE = (
    f"those of the {which} object of the image or video (are object numbers off by one?)"
    for which in ("next", "preceding")
)
AS_TEXT = "those of other samples (are ids 0, 1, 10, 2 sorted as text on one side?)"


class Order(NamedTuple):
    """An assignment of answers to samples, and the evidence that it needs."""

    name: str
    targets: Places
    """Number of the sample that each answer is for, by the number of the sample whose id it has."""
    chance: float = CHANCE
    """Largest probability of its hits by chance for which it is reported."""
    step: int = 0
    """Number of samples by which ids are shifted; 0 for other orders."""


class Table(NamedTuple):
    """The agreement of each answer with the ground truth of each compared sample (a column)."""

    agreement: Rows
    """Agreement from 0 to 1, of shape (answers, samples)."""
    places: Places
    """Number of the sample under whose id each answer stands."""
    columns: Places
    """Column of each of the benchmark's samples; -1 if it is not compared."""
    groups: Places
    """Number of each column's image or video."""
    objects: Places
    """Number of different ground truths in each group."""
    same: Places
    """Number of each column's ground truth; equal ground truths have the same number."""

    @property
    def own(self) -> Places:
        """Return the column of each answer's own sample."""
        return self.columns[self.places]

    def columns_of(self, order: Order) -> Places:
        """Return the column of each answer in an order; -1 if it has no sample there."""
        targets = order.targets[self.places]
        return np.where(targets >= 0, self.columns[targets], -1)

    def after(self, columns: Places) -> Rows:
        """Return the agreement of each answer with the ground truth of its column; 0 for -1."""
        values = self.agreement[np.arange(len(columns)), columns]
        return np.where(columns >= 0, values, 0.0)


def compare_all(pairs: Sequence[Pair], kind: Kind, count: int) -> Table:
    """Compare all answers with all ground truths of a benchmark with `count` samples."""
    answered = [pair for pair in pairs if pair.predicted.size]
    columns = np.full(count, -1)
    columns[[pair.sample_index for pair in pairs]] = np.arange(len(pairs))
    names = [pair.group or str(pair.sample_index) for pair in pairs]
    groups = np.unique(names, return_inverse=True)[1]
    truths, sizes = [pair.truth for pair in pairs], [pair.size for pair in pairs]
    different = {(group, truth.tobytes()) for group, truth in zip(groups, truths, strict=True)}
    objects = np.bincount([group for group, _ in different])
    texts = {truth.tobytes(): number for number, truth in enumerate(truths)}
    return Table(
        kind.agreements([pair.predicted for pair in answered], truths, sizes),
        np.array([pair.sample_index for pair in answered]),
        columns,
        groups,
        objects,
        np.array([texts[truth.tobytes()] for truth in truths]),
    )


def likeliest_order(
    pairs: Sequence[Pair], kind: Kind, ids: Sequence[str], min_mean: float
) -> Finding | None:
    """Return the order of ids that makes most answers right, if that is more than chance.

    Args:
        pairs: The predictions with their ground truths; at least two are answered.
        kind: Their kind of answer.
        ids: All ids of the benchmark, in its order.
        min_mean: Mean agreement that an order needs.
    """
    before = kind.paired([pair for pair in pairs if pair.predicted.size])
    right = (before >= HALF).mean() >= HALF
    groups = [pair.group for pair in pairs if pair.group]
    if right and len(groups) == len(set(groups)):
        return None
    compared = compare_all(pairs, kind, len(ids))
    orders = [*_within(compared, len(ids)), *(() if right else _orders_of_all(ids, len(pairs)))]
    means = [compared.after(compared.columns_of(order)).mean() for order in orders]
    for number in sorted(range(len(orders)), key=lambda number: -means[number])[:TRIED]:
        order = orders[number]
        neighbour_means = [
            mean
            for neighbour, mean in zip(orders, means, strict=True)
            if abs(neighbour.step - order.step) == 1
        ]
        if order.step and means[number] < max(neighbour_means, default=0.0) + MARGIN:
            continue  # sorted values agree with those of any sample nearby
        after = compared.after(compared.columns_of(order))
        if means[number] >= min_mean and _fits(compared, order, before, after):
            hits = [int((agreement >= HALF).sum()) for agreement in (after, before)]
            return Finding(hits[0], hits[1], len(before), order.name)
    return (
        _shuffled(pairs, kind, compared, before, min_mean) if kind.controls and not right else None
    )


def _within(compared: Table, count: int) -> Iterator[Order]:
    """Yield orders within each image or video: reversed, and shifted by one object."""
    if not (compared.objects > 1).any():
        return
    targets = np.arange(count)
    shifted = {NEXT: np.arange(count), BEFORE: np.arange(count)}
    places = np.flatnonzero(compared.columns >= 0)
    groups = compared.groups[compared.columns[places]]
    for group in np.flatnonzero(compared.objects > 1):
        members = places[groups == group]
        targets[members] = members[::-1]
        # Several expressions may mean one object: the first of them stands for it.
        truths = compared.same[compared.columns[members]]
        firsts = list(dict.fromkeys(truths.tolist()))
        for name, step in ((NEXT, 1), (BEFORE, -1)):
            for member, truth in zip(members, truths, strict=True):
                number = firsts.index(truth) + step
                is_there = 0 <= number < len(firsts)
                shifted[name][member] = members[truths == firsts[number]][0] if is_there else NOBODY
    yield Order(BACKWARDS, targets)
    yield from (Order(name, moved) for name, moved in shifted.items())


def _orders_of_all(ids: Sequence[str], compared: int) -> Iterator[Order]:
    """Yield orders of all samples; all shifts together share one probability of chance."""
    count = len(ids)
    as_text = sorted(range(count), key=lambda index: ids[index])
    by_number = sorted(range(count), key=lambda index: _parts(ids[index]))
    for file_order, meant_order in permutations(([*range(count)], as_text, by_number), 2):
        targets = np.empty(count, int)
        targets[file_order] = meant_order
        yield Order(AS_TEXT, targets)
    places = np.arange(count)
    yield Order(REVERSED, places[::-1])
    furthest = min(compared, count) // 2
    for step in (step for size in range(1, furthest + 1) for step in (-size, size)):
        side, size = "before" if step < 0 else "after", abs(step)
        samples = f"the sample {side}" if size == 1 else f"{size} samples {side}"
        name = f"those of {samples} (are ids shifted?)"
        chance = CHANCE if size == 1 else CHANCE / (2 * furthest)
        yield Order(name, (places + step) % count, chance, step)


def _parts(sample_id: str) -> list[tuple[int, str]]:
    """Return a sort key for ids that compares the numbers in them as numbers."""
    texts = re.split("([0-9]+)", sample_id)
    return [(int(text), "") if number % 2 else (0, text) for number, text in enumerate(texts)]


def _fits(compared: Table, order: Order, before: Rows, after: Rows) -> bool:
    """Return True if an order explains the misses, and its hits are more than chance.

    All answers about an image or video count as one trial: a model that takes one object for
    another often takes the second for the first, too.
    """
    columns, own = compared.columns_of(order), compared.own
    moved = columns != own
    if not moved.any():
        return False
    groups, inside = compared.groups[own], compared.groups[columns] == compared.groups[own]
    trials, number = np.unique(groups[moved], return_inverse=True)
    sizes = np.bincount(number)
    was_hit = np.bincount(number, before[moved] >= HALF) / sizes >= HALF
    is_hit = np.bincount(number, after[moved] >= HALF) / sizes >= FITS
    n_gained, n_lost = int((is_hit & ~was_hit).sum()), int((was_hit & ~is_hit).sum())
    is_better = after[moved].mean() >= before[moved].mean() + MARGIN
    if n_gained < max(LEAST, TIMES * n_lost) or is_hit.mean() < SHARE or not is_better:
        return False
    others = compared.groups[own][:, None] != compared.groups
    rows = np.flatnonzero(columns >= 0)
    others[rows, columns[rows]] = False
    hits = int((compared.agreement[others] >= HALF).sum())
    chance = np.full(len(trials), (hits + 2) / (int(others.sum()) + PRIOR))
    of_group = np.bincount(number, inside[moved]) > 0
    chance[of_group] = np.maximum(chance, 1 / compared.objects[trials])[of_group]
    return tail(int(is_hit.sum()), len(trials), float(chance.mean())) <= order.chance


def _shuffled(
    pairs: Sequence[Pair], kind: Kind, compared: Table, before: Rows, min_mean: float
) -> Finding | None:
    """Return the best assignment of wrong answers to samples, if control answers fit far fewer."""
    missed = before < HALF
    rows, is_free = np.flatnonzero(missed), np.ones(len(pairs), bool)
    is_free[compared.own[~missed]] = False
    same = compared.groups[compared.own][:, None] == compared.groups
    block = np.ix_(rows, np.flatnonzero(is_free))
    after = _assigned(np.where(same, 0.0, compared.agreement)[block])
    hits = int((after > 0).sum())
    is_better = after.mean() >= max(before[rows].mean() + MARGIN, min_mean)
    if hits < max(LEAST, HALF * len(rows)) or not is_better:
        return None
    answered = [pair for pair in pairs if pair.predicted.size]
    truths, sizes = [pair.truth for pair in pairs], [pair.size for pair in pairs]
    controls = []
    for turn in kind.controls:
        turned = [turn(pair.predicted, pair.size) for pair in answered]
        agreement = kind.agreements(turned, truths, sizes)
        controls.append(_assigned(np.where(same, 0.0, agreement)[block]))
    # A model that takes one object of an image for another has answers that are right for some.
    controls.append(np.where(same, compared.agreement, 0.0)[rows].max(1))
    independent = len(np.unique(compared.groups[compared.own[rows]]))
    for level in LEVELS:
        share = (after >= level).mean()
        shares = [(control >= level).mean() for control in controls]
        by_chance = max(shares)
        # Of few answers the highest share is mostly luck: the mean of all counts as `PRIOR` more.
        mean = (sum(shares) * independent + 1) / (len(shares) * independent + 1)
        chance = (by_chance * independent + mean * PRIOR) / (independent + PRIOR)
        is_sure = tail(int(share * independent), independent, chance) <= CHANCE / len(LEVELS)
        if is_sure and share >= by_chance + FAR:
            n_right = int((before >= HALF).sum())
            return Finding(hits + n_right, n_right, len(before), OTHERS)
    return None


def _assigned(agreement: Rows) -> Rows:
    """Return each answer's agreement with its assigned sample, shape (answers,); 0 without one.

    The assignment is greedy, the closest pair first. The optimal one has few more hits, and its
    solver takes longer to load than most files take to score.
    """
    closest = np.zeros(len(agreement))
    rows, columns = np.nonzero(agreement >= HALF)
    is_taken = np.zeros(agreement.shape[1], bool)
    for number in np.argsort(-agreement[rows, columns], kind="stable"):
        row, column = rows[number], columns[number]
        if not closest[row] and not is_taken[column]:
            closest[row], is_taken[column] = agreement[row, column], True
    return closest
