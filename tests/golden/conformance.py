"""Writes docs/conformance.md: every protocol against its official tool, on the golden files.

python tests/golden/conformance.py            # writes the page
python tests/golden/conformance.py --check    # exit code 1 if the page is out of date
"""

import importlib.util
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from harness.errors import MissingDependency

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # as it is where this file is run

from comparison import Comparison  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "conformance.md"
LIMIT = 1e-6  # float32 sums of some official tools; everything else is equal to the last bit
HEAD = """# Conformance

Our numbers against the official tools', on inputs of ours under `tests/golden/`. A line has the
tool, its commit, and what is compared with the number of cases; all is equal to the last bit, but
for the largest deviations, which are named. `python tests/golden/conformance.py` writes the page; a
test keeps it up to date.
"""
PINS = """
## Versions that a number depends on

| number | depends on | here |
| --- | --- | --- |"""
DEPENDENCIES = (
    (
        "ReasonSeg's ground truth (`seg/lisa`, `seg/visionreasoner`, `seg/segzero`)",
        "OpenCV: `fillPoly` changed in 4.11",
        "LISA's pin, 4.8.0.74, drawn by our own code; `seg/lisa@cv4.11` is the other",
    ),
    (
        "the order of equally large shapes in it",
        "numpy: `argsort` is another from 1.25 on, where the processor has AVX-512",
        "LISA's pin, 1.24.2, whatever is installed",
    ),
    (
        "masks of the RefCOCO family and of COCO from polygons",
        "pycocotools: the rasteriser of `frPyObjects`",
        "the one that is installed; LISA pins 2.0.6",
    ),
    (
        "COCO AP and AR",
        "pycocotools: `COCOeval`",
        "2.0.11, by our own code",
    ),
    (
        "`res/rela`: masks in 480 × 480",
        "pycocotools (polygons), detectron2 (their resizing; run at 02b5c4e)",
        "our own resizing, the rasteriser that is installed",
    ),
    (
        "`seg/llmseg`: predictions of another size",
        "torch: `interpolate`, nearest",
        "our own code",
    ),
    (
        "sums that a tool keeps in float32 (LISA, LLMSeg)",
        "torch: the order of adding up, on its device",
        "exact sums; the deviations above",
    ),
    (
        "captions",
        "pycocoevalcap 1.2: Stanford's tokenizer 3.4.1, METEOR 1.5",
        "our own code",
    ),
    (
        "BERTScore",
        "bert-score 0.3.13, transformers, the weights and the layer, both in the metric's name",
        "what is installed",
    ),
)
"""What a number depends on beside its inputs: (number, library, what is taken here)."""


def families() -> Iterator[ModuleType]:
    """Yield the modules `compare_<family>.py` beside this file."""
    for path in sorted(HERE.glob("compare_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def comparisons() -> Iterator[list[Comparison]]:
    """Yield each family's comparisons of our numbers with official ones.

    A family whose tools are not installed here is passed over, with a word on standard error.
    """
    for module in families():
        try:
            yield list(module.comparisons())
        except (MissingDependency, ModuleNotFoundError) as error:
            print(f"{module.__name__} is passed over: {error}", file=sys.stderr)


def rows(found: Iterable[Comparison]) -> Iterator[tuple[str, list[Comparison]]]:
    """Yield each line of a family's list up to its deviations, and what it compares.

    A line holds all that is compared with one tool; a protocol is named once.
    """
    of_tool: dict[tuple[str, str], list[Comparison]] = {}
    for one in found:
        of_tool.setdefault((one.tool, one.commit[:10]), []).append(one)
    for (tool, commit), compared in of_tool.items():
        of_protocol: dict[str, list[str]] = {}
        for one in compared:
            protocol, colon, part = one.protocol.partition(": ")
            of_protocol.setdefault(protocol + colon, []).append(f"{part} {one.cases}".strip())
        cell = "; ".join(f"{name.strip()} {', '.join(of)}" for name, of in of_protocol.items())
        yield f"- {tool} `{commit}`: {cell}.", compared


def deviations(compared: Iterable[Comparison]) -> str:
    """The comparisons that are not equal to the last bit, with their deviations."""
    off = "; ".join(f"{_part(one)} {shown(one.deviation)}" for one in compared if one.deviation)
    return f" Not equal: {off}." if off else ""


def _part(one: Comparison) -> str:
    """What is compared of a protocol, without what stands in brackets."""
    return (one.protocol.partition(": ")[2] or one.protocol).partition(" (")[0]


def shown(deviation: float) -> str:
    """The power of ten that a deviation does not exceed."""
    return f"≤ 1e{math.ceil(math.log10(deviation)):+03d}"


def dependencies() -> Iterator[str]:
    """Each line of the table of versions that a number depends on."""
    for row in DEPENDENCIES:
        yield f"| {' | '.join(row)} |"


def check(compared: Iterable[Comparison]) -> list[str]:
    """Return a family's lines that the page lacks, and deviations above LIMIT."""
    text = PAGE.read_text(encoding="utf-8")
    found = list(compared)
    lacking = [
        line for line in (*(line for line, _ in rows(found)), *dependencies()) if line not in text
    ]
    far = [f"{one.protocol} {one.deviation}" for one in found if not one.deviation <= LIMIT]
    return lacking + far


def main() -> int:
    if "--check" in sys.argv:
        wrong = [line for family in comparisons() for line in check(family)]
        print("\n".join(wrong))
        return int(bool(wrong))
    listed = [
        f"{line}{deviations(compared)}"
        for family in comparisons()
        for line, compared in rows(family)
    ]
    lines = [HEAD, *listed, PINS, *dependencies()]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
