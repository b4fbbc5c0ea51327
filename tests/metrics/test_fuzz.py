"""The command that compares our scorers with official ones on new cases."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
OTHERWISE = """
import re

ANSWER_PATTERNS = []


def extract_answer(text):
    return text.strip()[:1]


rule = lambda row: row["model_out"] == row["ans"]
"""
"""A script like STI-Bench's that takes the first character."""


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    return importlib.import_module("fuzz")


def run(*arguments):
    command = [sys.executable, str(GOLDEN / "fuzz.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_every_comparison_of_the_conformance_page_is_fuzzed(fuzz):
    for path in sorted(GOLDEN.glob("compare_*.py")):
        module = importlib.import_module(path.stem)
        named = {
            name for one in fuzz.FAMILIES.values() if one.compare == path.stem for name in one.names
        }
        yielding = {
            name
            for name, one in vars(module).items()
            if name != "comparisons"
            and str(getattr(one, "__annotations__", {}).get("return")).startswith(
                "collections.abc.Iterator[comparison.Comparison"
            )
        }
        checks = set(getattr(module, "CHECKS", yielding))
        lost = checks - named - set(fuzz.FAMILIES)
        assert not lost, f"{path.stem}: {lost} in no family of fuzz.py"
        assert all(name in checks or callable(getattr(module, name)) for name in named)


def test_every_family_names_its_generator_and_known_checkouts(fuzz):
    for name, family in fuzz.FAMILIES.items():
        assert set(family.checkouts) <= set(fuzz.REPOSITORIES), name
        place, _, function = family.make.rpartition(".")
        assert f"def {function}(" in (GOLDEN / f"{place}.py").read_text("utf-8"), name
    used = {one for family in fuzz.FAMILIES.values() for one in family.checkouts}
    assert used == set(fuzz.REPOSITORIES)


def test_what_is_not_there_is_skipped_by_name(tmp_path):
    done = run("--official", tmp_path, "--seed", 3, "--only", "rela", "--only", "vsi_bench")
    assert done.returncode == 0, done.stderr
    rela, vsi = done.stdout.splitlines()
    assert "SKIPPED" in rela and "henghuiding/ReLA" in rela
    assert "thinking-in-space" in vsi and "lmms-eval" in vsi
    assert run("--official", tmp_path / "none", "--seed", 3).returncode == 2


def test_a_difference_is_shown_by_its_smallest_case_and_ends_with_1(tmp_path):
    (tmp_path / "STI-Bench").mkdir()
    (tmp_path / "STI-Bench" / "opensource_test.py").write_text(OTHERWISE)
    done = run("--official", tmp_path, "--seed", 3, "--only", "sti_bench")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DIFFERS" in done.stdout and "seed 3" in done.stdout
    case = done.stdout.partition("smallest case: ")[2]
    assert case.startswith("[") and len(case) < 30


def test_official_code_that_cannot_be_run_is_no_success(tmp_path):
    (tmp_path / "STI-Bench").mkdir()
    (tmp_path / "STI-Bench" / "opensource_test.py").write_text("raise ValueError")
    done = run("--official", tmp_path, "--seed", 3, "--only", "sti_bench")
    assert done.returncode == 1 and "COULD NOT BE RUN" in done.stdout
