"""What runs with rights when a version is published: nothing that was not named by its content."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(
    r"(?:[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d[\w.]*|docker://\S+@sha256:[0-9a-f]{64})"
)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_commit_with_their_version_beside(path):
    used = re.findall(r"uses: (.+)", path.read_text())
    foreign = [one for one in used if one != "./"]
    assert foreign and all(PINNED.fullmatch(one) for one in foreign)


def test_a_job_with_rights_runs_nothing_that_it_installed():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    rights = {name: job["permissions"] for name, job in jobs.items()}
    may_write = {name for name, given in rights.items() if "write" in given.values()}
    assert may_write == {"publish", "publish-pages"}
    for name, job in jobs.items():
        commands = "\n".join(step.get("run", "") for step in job["steps"])
        runs = re.search(r"pip|build|make|python|mike", commands) is not None
        assert runs == (name not in may_write)
        checkouts = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
        if name not in may_write:
            assert [one["with"]["persist-credentials"] for one in checkouts] == [False]


def test_what_names_our_address_says_that_it_is_not_public_yet():
    """Else a reader types a command that cannot work. All go when the address is public."""
    listed = subprocess.run(
        ["git", "grep", "-lF", "github.com/visual-reasoning-harness"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split() if not name.startswith("tests/")]
    assert "docs/ci.md" in names
    texts = {name: (ROOT / name).read_text("utf-8") for name in names}
    assert [name for name, text in texts.items() if "not public yet" not in text] == []


def test_images_are_named_by_digest():
    text = (ROOT / "Dockerfile").read_text()
    python = re.search(r"^ARG PYTHON=(.*)$", text, re.MULTILINE)[1]
    images = [
        one.replace("${PYTHON}", python) for one in re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    ]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    images += [one["image"] for one in compose.values() if one["image"] != "harness:core"]
    assert len(images) == 4 and all(re.search(r"@sha256:[0-9a-f]{64}$", one) for one in images)


def test_what_builds_is_pinned_as_what_tests():
    pins = dict(
        line.split("==")
        for line in (ROOT / "build-constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    tested = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    assert {"build", "hatchling"} <= pins.keys()
    assert all(tested.get(name, pins[name]) == pins[name] for name in pins)
