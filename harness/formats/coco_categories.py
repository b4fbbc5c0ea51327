"""Categories of COCO's results that are numbered otherwise than the benchmark's."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.errors import DataError

MIN_RECORDS = 10
"""Records of several categories that are evidence of another order."""
MIN_ORDER = 3
"""Categories that have an order."""
FITTING = 0.95
"""Share of records that fit in another order, from which on that order is the file's."""
MAX_DIGITS = 10
"""Digits of a category that is compared as a number."""


def check_categories(
    others: Mapping[str, int], known: Collection[str], path: Path, notes: Counter[str]
) -> None:
    """Count records whose category no question has; refuse those that are numbered from 0."""
    asked = {name.rpartition("/")[2] for name in known if "/" in name}
    strange = [name for name in others if name and name not in asked]
    if not asked or not strange:
        return
    if "0" in strange:
        raise DataError(
            f"predictions {path}: 'category_id'",
            expected=f"the benchmark's numbers, such as {', '.join(sorted(asked, key=_order)[:5])}",
            found="0: the classes are numbered from 0",
            fix="Give each class the `id` that `categories` of the annotations has for its name.",
        )
    shown = ", ".join(sorted(strange, key=_order)[:5])
    what = f"records of categories that no question has, such as {shown}: numbered otherwise?"
    notes[what] += sum(others[name] for name in strange)


def refuse_other_order(
    placed: Mapping[tuple[str, str], int], known: Collection[str], path: Path
) -> None:
    """Refuse records that fit their images' questions far better under other category numbers.

    Raises:
        DataError: most records are of categories that their images have no question about, and
            nearly none would be if the same categories were numbered in another order.
    """
    asked: dict[str, set[str]] = defaultdict(set)
    """Categories by the image that has questions about them."""
    for name in known:
        image, slash, category = name.rpartition("/")
        asked[image] |= {category} if slash else set()
    counted = {key: count for key, count in placed.items() if asked.get(key[0]) and key[1]}
    said = sorted({category for _, category in counted}, key=_order)
    right = sorted(set().union(*asked.values()), key=_order)
    total = sum(counted.values())
    fits = np.zeros((len(said), len(right)))
    for (image, category), count in counted.items():
        for known_category in asked[image]:
            fits[said.index(category), right.index(known_category)] += count
    rows, columns = linear_sum_assignment(-fits)
    best = fits[rows, columns].sum()
    own = sum(count for (image, category), count in counted.items() if category in asked[image])
    if (
        total < max(MIN_RECORDS, 3 * len(said))
        or len(said) < MIN_ORDER
        or best < FITTING * total
        or own > total / 2
    ):
        return
    raise DataError(
        f"predictions {path}: 'category_id'",
        expected="the benchmark's numbers of categories",
        found=f"{total - own:g} of {total} records of categories that their images have no "
        f"question about; in another order of the same numbers it would be {total - best:g}",
        fix="Detectron2 and others number classes in an order of their own: give each record the "
        "`id` that `categories` of the annotations has for its class's name.",
    )


def _order(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() and len(name) < MAX_DIGITS else 0), name
