"""Writes docs/conformance.md: every protocol against its official tool, on the golden files.

python tests/golden/conformance.py            # writes the page
python tests/golden/conformance.py --check    # exit code 1 if the page is out of date
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
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


def page() -> str:
    """The page's text."""
    lines = [
        f"| {one.protocol} | {one.tool} | `{one.commit[:10]}` | {one.cases} "
        f"| {shown(one.deviation)} |"
        for module in families()
        for one in module.comparisons()
    ]
    return HEAD + "\n".join(lines) + "\n"


def shown(deviation: float) -> str:
    """Zero exactly, or the size of the deviation."""
    return "0" if deviation == 0 else f"{deviation:.0e}"


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
