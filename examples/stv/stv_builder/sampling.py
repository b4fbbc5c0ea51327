"""Choice of a number of questions, equally many of each type."""

from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.world.draws import Draws


def shares(available: Mapping[str, int], total: int) -> dict[str, int]:
    """Return the number of each type, such that no type has more than another without need.

    Every type gives up to a level that is the same for all; those with too few give all they have.
    What is left to share out above the level goes, one each, to the first types that have more.

    >>> shares({"a": 100, "b": 2, "c": 100}, 13)
    {'a': 6, 'b': 2, 'c': 5}
    """
    left, level = min(total, sum(available.values())), 0
    for place, number in enumerate(sorted(available.values())):
        higher = len(available) - place  # types that have at least `number`
        step = min(number - level, left // higher)
        level, left = level + step, left - step * higher
        if level < number:
            break
    taken = {name: min(number, level) for name, number in available.items()}
    for name in [name for name, number in available.items() if number > level][:left]:
        taken[name] += 1
    return taken


def uniform(ids: Mapping[str, Sequence[str]], total: int, *, seed: int) -> list[str]:
    """`total` ids, drawn without replacement, by type uniformly; in the order of the types.

    Args:
        ids: The ids of each type.
        total: How many; fewer where there are not so many.
        seed: Decides which.

    Raises:
        UsageError: `total` is below 1.
    """
    if total < 1:
        raise UsageError("sample of questions", expected="at least 1", found=str(total))
    wanted = shares({name: len(found) for name, found in ids.items()}, total)
    return [
        one
        for name, found in ids.items()
        for one in Draws(seed, "stv", "sample", name).shuffle(list(found))[: wanted[name]]
    ]
