"""Writes docs/conformance.md: every protocol against its official tool, on the golden files.

python tests/golden/conformance.py            # writes the page
python tests/golden/conformance.py --check    # exit code 1 if the page is out of date
"""

import importlib.util
import json
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

Our numbers against the official tools' on the same inputs, which are ours and lie under
`tests/golden/`. "0" is equality to the last bit. The page is written by
`python tests/golden/conformance.py`, and a test fails when it is out of date.

| protocol | official tool | commit | cases | largest deviation |
| --- | --- | --- | --: | --: |"""
PINS = """
## Versions that a number depends on

| number | depends on | here |
| --- | --- | --- |"""
MADE_WITH = """
The libraries that the golden files were made with:

| golden file | made by | with |
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
LIBRARIES = {"numpy": "numpy", "opencv": "OpenCV", "torch": "torch", "detectron2": "detectron2"}


def families() -> Iterator[ModuleType]:
    """Yield the modules `compare_<family>.py` beside this file."""
    for path in sorted(HERE.glob("compare_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def comparisons() -> Iterator[Comparison]:
    """Yield our numbers against official ones.

    A family whose tools are not installed here is passed over, with a word on standard error.
    """
    for module in families():
        try:
            yield from module.comparisons()
        except (MissingDependency, ModuleNotFoundError) as error:
            print(f"{module.__name__} is passed over: {error}", file=sys.stderr)


def rows(found: Iterable[Comparison]) -> Iterator[tuple[str, float]]:
    """Yield each line of the table up to its deviation, and the deviation."""
    for one in found:
        info = (one.protocol, one.tool, f"`{one.commit[:10]}`", str(one.cases))
        yield "| " + " | ".join(info) + " |", one.deviation


def shown(deviation: float) -> str:
    """Zero exactly, or the power of ten that the deviation does not exceed."""
    return "0" if deviation == 0 else f"≤ 1e{math.ceil(math.log10(deviation)):+03d}"


def dependencies() -> Iterator[str]:
    """Each line of the table of versions that a number depends on."""
    for row in DEPENDENCIES:
        yield f"| {' | '.join(row)} |"


def versions() -> Iterator[str]:
    """Each line of the table of golden files: what made it, and with which libraries."""
    for path in sorted(HERE.glob("*/*.json")):
        plain = json.loads(path.read_text(encoding="utf-8"))
        head = plain if isinstance(plain, dict) else {}
        tools = dict(head.get("tools", {}))
        if "tool" in head:
            tools[head["tool"]] = head.get("commit", "")
        made = (name if of == name else f"{name} `{of[:10]}`" for name, of in tools.items())
        used = (f"{shown} {head[key][:10]}" for key, shown in LIBRARIES.items() if key in head)
        yield f"| `{path.parent.name}/{path.name}` | {', '.join(made)} | {', '.join(used)} |"


def check(compared: Iterable[Comparison]) -> list[str]:
    """Return what is wrong with the page: lines that it lacks, and deviations above LIMIT."""
    text = PAGE.read_text(encoding="utf-8")
    found = list(rows(compared))
    lacking = [
        line
        for line in (*(line for line, _ in found), *dependencies(), *versions())
        if line not in text
    ]
    far = [f"{line} {deviation}" for line, deviation in found if not deviation <= LIMIT]
    return lacking + far


def main() -> int:
    if "--check" in sys.argv:
        wrong = check(comparisons())
        print("\n".join(wrong))
        return int(bool(wrong))
    table = [f"{line} {shown(deviation)} |" for line, deviation in rows(comparisons())]
    lines = [HEAD, *table, PINS, *dependencies(), MADE_WITH, *versions()]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
