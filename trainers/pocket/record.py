"""`training.json`: a checkpoint's record of its training, and the check that it is true."""

from collections.abc import Mapping

from harness.trainer import Curve
from harness.trainers.pocket.settings import PocketSettings

RECORD = "training.json"
FIRST = 50  # steps whose losses are kept one by one; a repetition has to find them again
KEPT = ("loss", "stills/error", "clips/error", "stills/right", "clips/right")


def record(
    *,
    settings: PocketSettings,
    seed: int,
    seconds: float,
    cpu_seconds: float,
    curve: Curve,
    before: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Settings, seed, seconds, the first losses one by one, and the curve in short.

    Args:
        settings: Of the training.
        seed: Of weights and lessons.
        seconds: Of steps, by the clock.
        cpu_seconds: Of each process's core: what the steps take where nothing else runs.
        curve: The logged rows.
        before: The record of the training that it went on from.
    """
    rows = curve.read()
    return {
        "method": settings.name,
        "settings": dict(settings.describe()),
        "processes": settings.processes,
        "seed": seed,
        "seconds": round(seconds),
        "cpu_seconds": round(cpu_seconds),
        "first_losses": [row["loss"] for row in rows if row["step"] <= FIRST],
        "curve": [_short_row(row) for row in rows if row["step"] % 100 == 0],
        **({} if before is None else {"before": dict(before)}),
    }


def _short_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return the numbers that show the progress, with all results on unseen scenes."""
    return {
        name: value
        for name, value in row.items()
        if name == "step" or name in KEPT or name.startswith("unseen/")
    }
