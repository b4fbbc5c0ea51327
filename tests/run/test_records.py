"""The records of samples: the same whoever made them, and refused if of another version."""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.main import main
from harness.record import VERSION
from harness.run.batching import samples_of
from harness.store.journal import parse_line

ROOT = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"


@pytest.fixture
def command(tmp_path):
    given = ["--tasks", "reason_seg", "--data", str(ROOT), "--out", str(tmp_path / "runs")]
    return ["eval", "--model", "whole_frame", *given, "--quiet"]


def test_a_run_of_another_version_is_refused_and_left_as_it_is(command, tmp_path, capsys):
    assert main(command) == 0
    (path,) = (tmp_path / "runs").rglob("manifest.json")
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "version": VERSION - 1}))
    for journal in path.parent.glob("samples.*"):
        old = f'"v": {VERSION - 1}'.encode()
        journal.write_bytes(journal.read_bytes().replace(f'"v": {VERSION}'.encode(), old))
    before = {one: one.read_bytes() for one in path.parent.rglob("*") if one.is_file()}
    sample = json.loads((path.parent / "scores.jsonl").read_text().splitlines()[0])["samples"][0]
    for requested in (command, ["score", path.parent], ["explain", path.parent, sample]):
        capsys.readouterr()
        assert main(list(map(str, requested))) == 5
        error = capsys.readouterr().err
        assert f"version {VERSION}" in error and f"found {VERSION - 1}" in error
    after = {one: one.read_bytes() for one in path.parent.rglob("*") if one.is_file()}
    assert after == before
    assert main([*command, "--restart"]) == 0


def test_a_record_depends_neither_on_workers_nor_on_a_resume(tmp_path):
    output = tmp_path / "said.jsonl"
    rows = [
        {"id": one.id, "response": f"I see {one.query.text}"}
        for one in samples_of(plugins.build("tasks", "reason_seg", ROOT))
    ]
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = f"qwen_vl(prompt=locate,segmenter=box,backend=stored(file={output}))"

    def journalled(name, *given):
        out = tmp_path / name
        command = ["eval", "--model", model, "--tasks", "reason_seg", "--data", str(ROOT)]
        command += ["--out", str(out), "--batch-size", "1", "--quiet"]
        assert main([*command, *given]) == 1  # no response is read
        journals = sorted(out.rglob("samples.*"))
        return journals, [path.read_bytes().splitlines(keepends=True) for path in journals], command

    def samples(files):
        lines = (line for file in files for line in file if "sample" in parse_line(line))
        return sorted(lines, key=lambda line: parse_line(line)["sample"])

    (journal,), alone, command = journalled("alone")
    _, together, _ = journalled("together", "--workers", "2")
    assert samples(together) == samples(alone) and len(samples(alone)) == len(rows)
    (journal.parent / "results.json").unlink()
    journal.write_bytes(b"".join(alone[0][:3]))  # a batch, the text that it shares, and its sample
    assert main(command) == 1
    again = [
        path.read_bytes().splitlines(keepends=True) for path in journal.parent.glob("samples.*")
    ]
    assert len(again) == 2 and samples(again) == samples(alone)
