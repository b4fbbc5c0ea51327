"""Predictions files whose ids are names of files: `harness score --predictions`."""

import json
import re
import shlex
import subprocess

import pytest

case = pytest.mark.case
COMMAND = re.compile(r"`(jq -c .*?) > NEW`")


@case("ids that are names of files, with folders", "refused with the command to type", code=3)
@pytest.mark.parametrize("arguments", [(), ("--allow-extra",)])
def test_ids_as_paths_are_refused_with_a_command(harness, reason_seg, arguments):
    stems = sorted(path.stem for path in reason_seg.glob("*.jpg"))
    rows = [{"id": f"ReasonSeg/val/{stem}.jpg", "no_target": True} for stem in stems]
    done = harness.score(rows, *arguments).says(f"{len(stems)} others", "split val")
    (command,) = COMMAND.findall(done.err)
    converted = subprocess.run(
        shlex.split(command), cwd=harness.folder, capture_output=True, check=True
    ).stdout
    ids = [json.loads(line)["id"] for line in converted.splitlines()]
    assert ids == stems
    assert harness.score(converted, code=0).task("reason_seg")["n_scored"] == len(stems)


@case("a file about no sample, with --allow-extra", "refused; it would score nothing", code=3)
def test_a_file_of_which_nothing_is_left_is_refused(harness, reason_seg):
    rows = [{"id": f"other_{number}", "no_target": True} for number in range(8)]
    done = harness.score(rows, "--allow-extra").says("8 others", "No line belongs to a sample")
    assert not done.out
