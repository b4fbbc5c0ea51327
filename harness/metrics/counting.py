"""Scores of one predicted number of objects: equality, absolute error, squared error.

All equal `evaluation/calculate_counting.py` of VisionReasoner (commit a455092), whose
`correct_count`, `mae` and `rmse` are the mean of `exact`, the mean of `absolute_error` and the root
of the mean of `squared_error` over samples. A task decides which number stands for a response that
cannot be read. A count that is not a whole number of at least 0 is a DataError.
"""

from harness.errors import DataError


def exact(ground_truth: int, predicted: int) -> int:
    """1 if two whole numbers of objects are equal, otherwise 0.

    >>> exact(5, 5), exact(5, 2)
    (1, 0)
    """
    check_counts(ground_truth, predicted)
    return int(ground_truth == predicted)


def absolute_error(ground_truth: int, predicted: int) -> int:
    """Return the number of objects too many or too few.

    >>> absolute_error(5, 2), absolute_error(5, 8), absolute_error(5, 5)
    (3, 3, 0)
    """
    check_counts(ground_truth, predicted)
    return abs(ground_truth - predicted)


def squared_error(ground_truth: int, predicted: int) -> int:
    """The square of the absolute error; the root of its mean is the RMSE.

    >>> squared_error(5, 2), squared_error(5, 8), squared_error(5, 5)
    (9, 9, 0)
    """
    check_counts(ground_truth, predicted)
    return (ground_truth - predicted) ** 2


def check_counts(ground_truth: int, predicted: int) -> None:
    """Raise DataError unless both counts are whole numbers of at least 0."""
    for name, count in (("true", ground_truth), ("predicted", predicted)):
        if type(count) is not int or count < 0:
            raise DataError(
                f"{name} count", expected="a whole number of at least 0", found=repr(count)[:40]
            )
