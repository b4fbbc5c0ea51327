"""Writes docs/conformance.md: every protocol against its official tool, on the golden files.

python tests/golden/conformance.py            # writes the page
python tests/golden/conformance.py --check    # exit code 1 if the page is out of date
"""

import importlib.util
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from harness.errors import MissingDependency

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
LIMIT = 1e-6  # float32 sums of some official tools; everything else is equal to the last bit
HEAD = """# Conformance

Our numbers against the official tools' on the same inputs, which are ours and lie under
`tests/golden/`. "0" is equality to the last bit. The page is written by
`python tests/golden/conformance.py`, and a test fails when it is out of date.

| protocol | official tool | commit | cases | largest deviation |
| --- | --- | --- | --: | --: |
"""


def families() -> Iterator[ModuleType]:
    """The modules `compare_<family>.py` beside this file."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))  # so that they find `comparison`
    for path in sorted(HERE.glob("compare_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def rows() -> Iterator[tuple[str, float]]:
    """Each line of the table up to its deviation, and the deviation.

    A family whose tools are not installed here is passed over, with a word on standard error.
    """
    for module in families():
        try:
            for one in module.comparisons():
                told = (one.protocol, one.tool, f"`{one.commit[:10]}`", str(one.cases))
                yield "| " + " | ".join(told) + " |", one.deviation
        except (MissingDependency, ModuleNotFoundError) as error:
            print(f"{module.__name__} is passed over: {error}", file=sys.stderr)


def shown(deviation: float) -> str:
    """Zero exactly, or the power of ten that the deviation does not exceed."""
    return "0" if deviation == 0 else f"≤ 1e{math.ceil(math.log10(deviation)):+03d}"


def check() -> list[str]:
    """What is wrong with the page: lines that it lacks, and deviations above LIMIT."""
    text = PAGE.read_text(encoding="utf-8")
    found = list(rows())
    lacking = [line for line, _ in found if line not in text]
    far = [f"{line} {deviation}" for line, deviation in found if not deviation <= LIMIT]
    return lacking + far


def main() -> int:
    if "--check" in sys.argv:
        wrong = check()
        print("\n".join(wrong))
        return int(bool(wrong))
    table = [f"{line} {shown(deviation)} |" for line, deviation in rows()]
    PAGE.write_text(HEAD + "\n".join(table) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
