"""README's Python runs as it stands, and its number of benchmarks is that of the tasks."""

import re
import runpy
from pathlib import Path

import harness
from harness import plugins

PAGE = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
OURS = {"shapes_qa", "shapes_referring", "lmms", "table"}
"""Tasks that are not a published benchmark: the generated world, and adapters of other files."""


def test_the_python_of_the_readme_ends_with_a_verdict(shapes, tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len([line for line in code.splitlines() if line]) <= 10
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "data").symlink_to(shapes)
    (tmp_path / "readme.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("readme.py")
    printed = capsys.readouterr().out
    names = ("whole_frame", "pocket")
    runs = [tmp_path / "runs" / name / "reason_seg-split=test" for name in names]
    assert harness.compare(*runs).verdict() in printed
    assert "gIoU" in printed and "<answer>" in printed


def test_the_readme_counts_the_published_benchmarks():
    tasks = plugins.installed_plugins("tasks").items()
    benchmarks = {name for name, entry in tasks if ".training." not in entry.value} - OURS
    assert f"{len(benchmarks)} benchmarks in their official file layouts" in PAGE
    assert f"| benchmarks of its own | {len(benchmarks)}, " in PAGE
