"""The notebook runs from top to bottom in a kernel of Jupyter (`make test-parts`)."""

import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_tour_runs_from_top_to_bottom(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    tour = nbformat.read(REPOSITORY / "docs" / "tour.ipynb", as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(tour, timeout=1800, resources=resources).execute()
    assert (tmp_path / "site" / "index.html").is_file()
