"""`python -m stv_builder --data ROOT`: build STV-205k into `ROOT/stv_205k`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args

from harness.errors import HarnessError, UsageError
from stv_builder.build import BuildSettings, build, excluded_scans
from stv_builder.clips import Source
from stv_builder.filters import Limits

NUMBERS = ("seed", "frames", "per_clip", "images", "rl", "kitti_step", "scannet_step")
LIMITS = [one.name for one in fields(Limits)]


def parser() -> argparse.ArgumentParser:
    """The arguments of the builder."""
    usual, limits = BuildSettings(), Limits()
    made = argparse.ArgumentParser(
        prog="python -m stv_builder",
        description="Build questions of space and time from TAO, KITTI tracking and ScanNet.",
    )
    made.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="ROOT",
        help="holds tao/, kitti_tracking/ and scannet/",
    )
    made.add_argument("--out", type=Path, metavar="DIR", help="default: ROOT/stv_205k")
    made.add_argument(
        "--sources",
        default=",".join(usual.sources),
        metavar="NAMES",
        help="which of tao,kitti,scannet",
    )
    made.add_argument(
        "--without",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="ScanNet scans to leave out, one a line",
    )
    for name in NUMBERS:
        made.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(usual, name))
    made.add_argument("--tao-split", default=usual.tao_split)
    for name in LIMITS:
        made.add_argument(f"--{name}", type=float, default=getattr(limits, name))
    made.add_argument("--no-synonyms", action="store_true")
    return made


def settings_of(arguments: argparse.Namespace) -> BuildSettings:
    """Return the settings of the arguments."""
    sources = arguments.sources.split(",")
    if unknown := set(sources) - set(get_args(Source)):
        raise UsageError(
            f"--sources {arguments.sources}",
            expected=", ".join(get_args(Source)),
            found=", ".join(sorted(unknown)),
        )
    return BuildSettings(
        sources=tuple(dict.fromkeys(sources)),
        synonyms=not arguments.no_synonyms,
        without=excluded_scans(arguments.without),
        limits=Limits(**{name: getattr(arguments, name) for name in LIMITS}),
        **{name: getattr(arguments, name) for name in (*NUMBERS, "tao_split")},
    )


def main(words: Sequence[str] | None = None) -> int:
    """Build a set; the exit code is that of the error, if there is one."""
    arguments = parser().parse_args(words)
    out = arguments.out or arguments.data / "stv_205k"
    try:
        report = build(arguments.data, out, settings_of(arguments))
    except HarnessError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    found = report["questions"]
    sys.stdout.write(
        f"{out}: {found['total']} questions, {found['graphs']} with a graph; see "
        f"{out / 'statistics.md'}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
