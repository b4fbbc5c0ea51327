"""How many samples of vendors' evaluations our models show to a network as the vendor's code does.

    python benchmarks/vendor.py [--only NAME …] [--samples 200]

A row an evaluation: samples, and how many of them have the token ids, the pixels and the frames
(with times beside the tokens) that the vendor's own code gave (`tests/golden/make_vendors.py`).
Networks are tiny random ones with processors of the real classes. A sample takes about 0.3 s.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.models.backends.torchvision_cpu import ensure_torchvision

ensure_torchvision()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "golden"))

import vendor_networks  # noqa: E402
from vendor_cases import CASES, Case  # noqa: E402


def main() -> int:
    """Print the table; return 1 if a sample differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--samples", type=int, default=200)
    given = parser.parse_args()
    print("| settings | samples | equal token ids | equal pixels | equal frames |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    differs = False
    for case in CASES:
        if not given.only or case.name in given.only:
            equal = equal_samples(case, given.samples)
            print(
                f"| `{case.name}` | {given.samples} | {' | '.join(map(str, equal))} |", flush=True
            )
            differs |= set(equal) != {given.samples}
    return int(differs)


def equal_samples(case: Case, count: int) -> list[int]:
    """Return the numbers of samples with the vendor's token ids, pixels and frames."""
    equal = [0, 0, 0]
    with TemporaryDirectory() as folder:
        model = case.built(getattr(vendor_networks, case.network)(Path(folder) / "network"))
        for sample, golden in zip(case.samples(count), case.golden(), strict=False):
            tokens, pixels, *frames = case.seen(model, sample).row(case)
            parts = (tokens == golden[0], pixels == golden[1], frames == golden[2:])
            equal = [number + part for number, part in zip(equal, parts, strict=True)]
    return equal


if __name__ == "__main__":
    sys.exit(main())
