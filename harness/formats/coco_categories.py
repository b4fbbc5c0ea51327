"""Recognise COCO results whose category numbers are not the benchmark's.

Detectors often number categories from 0, or in an order of their own. `harness.formats.coco` counts
its records by image and category, and asks here whether another numbering fits them far better.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from harness.errors import DataError

MIN_RECORDS = 10
"""Least number of records from which another order of categories is tested."""
MIN_ORDER = 3
"""Least number of categories from which another order is tested."""
MIN_REORDERED_SHARE = 0.95
"""Least share of records that fit in another order for which the file is refused."""
MAX_DIGITS = 10
"""A name of fewer digits sorts as a number."""


def check_categories(
    others: Mapping[str, int], questions: Collection[str], path: Path, notes: Counter[str]
) -> None:
    """Note records whose category no question asks about; refuse a numbering from 0.

    Args:
        others: Number of records by each category that no question asks about.
        questions: Names of the questions, `IMAGE/CATEGORY`, or `IMAGE` of one about all.
        path: The file.
        notes: Receives the note and the number of its records.

    Raises:
        DataError: the file's categories are numbered from 0, and the questions' from 1.
    """
    categories = {name.rpartition("/")[2] for name in questions if "/" in name}
    strange = [name for name in others if name and name not in categories]
    if not categories or not strange:
        return
    if "0" in strange:
        numbers = ", ".join(sorted(categories, key=_order)[:5])
        raise DataError(
            f"predictions {path}: 'category_id'",
            expected=f"the benchmark's numbers, such as {numbers}",
            found="0: the classes are numbered from 0",
            fix="Give each class the `id` that `categories` of the annotations has for its name.",
        )
    examples = ", ".join(sorted(strange, key=_order)[:5])
    what = f"records of categories that no question has, such as {examples}: numbered otherwise?"
    notes[what] += sum(others[name] for name in strange)


def refuse_other_order(
    n_placed: Mapping[tuple[str, str], int], questions: Collection[str], path: Path
) -> None:
    """Refuse records that fit their images' questions far better under other category numbers.

    Args:
        n_placed: Number of records by (image, category).
        questions: Names of the questions, `IMAGE/CATEGORY`, or `IMAGE` of one about all.
        path: The file.

    Raises:
        DataError: most records are of categories that their images have no question about, and
            nearly none would be if the same categories were numbered in another order.
    """
    asked: dict[str, set[str]] = defaultdict(set)
    """The categories that are asked about, by image."""
    for name in questions:
        image, slash, category = name.rpartition("/")
        asked[image] |= {category} if slash else set()
    n_records = {key: count for key, count in n_placed.items() if asked.get(key[0]) and key[1]}
    file_categories = sorted({category for _, category in n_records}, key=_order)
    benchmark_categories = sorted(set().union(*asked.values()), key=_order)
    total = sum(n_records.values())
    fits = np.zeros((len(file_categories), len(benchmark_categories)))
    for (image, category), count in n_records.items():
        for asked_category in asked[image]:
            column = benchmark_categories.index(asked_category)
            fits[file_categories.index(category), column] += count
    from scipy.optimize import linear_sum_assignment  # takes a second, and every command reads this

    rows, columns = linear_sum_assignment(-fits)
    n_matching_reordered = fits[rows, columns].sum()
    n_matching = sum(
        count for (image, category), count in n_records.items() if category in asked[image]
    )
    if (
        total < max(MIN_RECORDS, 3 * len(file_categories))
        or len(file_categories) < MIN_ORDER
        or n_matching_reordered < MIN_REORDERED_SHARE * total
        or n_matching > total / 2
    ):
        return
    raise DataError(
        f"predictions {path}: 'category_id'",
        expected="the benchmark's numbers of categories",
        found=f"{total - n_matching:g} of {total} records of categories that their images have no "
        "question about; in another order of the same numbers it would be "
        f"{total - n_matching_reordered:g}",
        fix="Detectron2 and others number classes in an order of their own: give each record the "
        "`id` that `categories` of the annotations has for its class's name.",
    )


def _order(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() and len(name) < MAX_DIGITS else 0), name
