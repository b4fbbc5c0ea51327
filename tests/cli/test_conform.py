"""`harness conform`: scorers with planted faults, each found on its smallest case."""

import json
import shlex
import sys

import pytest

from harness.cli.main import main
from harness.leaderboards.differences import conform

SCORER = """
import json, sys

FAULT = sys.argv[3]

def read(path):
    return {row["id"]: row for row in map(json.loads, open(path))}

def decode(row, key="masks"):
    if FAULT != "none":
        return [plain(one["counts"]) for one in row[key]]
    from pycocotools import mask as coco
    masks = [coco.decode({**one, "counts": one["counts"].encode()}) for one in row[key]]
    return [one.ravel(order="F").tolist() for one in masks]

def plain(text):
    # As pycocotools, whose import takes five times as long as everything here.
    counts, value, shift = [], 0, 0
    for bits in (byte - 48 for byte in text.encode()):
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            value -= (1 << shift) if bits & 16 else 0
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value, shift = 0, 0
    return [place % 2 for place, count in enumerate(counts) for _ in range(count)]

truth, said = read(sys.argv[1]), read(sys.argv[2])
scores, above, below = [], 0.0, 0.0
for name, row in truth.items():
    if name not in said and FAULT == "drops":
        continue
    (real,) = decode(row)
    found = decode(said[name])[0] if name in said else [0] * len(real)
    if "ignore" in row and FAULT != "ignores":
        (ignored,) = decode(row, "ignore")
        real = [a * (1 - b) for a, b in zip(real, ignored)]
        found = [a * (1 - b) for a, b in zip(found, ignored)]
    if FAULT == "bytes":
        found = [255 * one for one in found]
    both = sum(a * b for a, b in zip(real, found))
    union = sum((a + b) % 256 > 0 for a, b in zip(real, found))
    score = both / (union + 1e-5)
    if union == 0 and FAULT != "empty":
        score += 1
        both, union = 0.0, 0.0
    scores.append(score)
    above, below = above + both, below + union
if FAULT == "raises" and len(scores) > 1:
    raise KeyError("second")
print("some log")
percent = 100 if FAULT == "percent" else 1
print(json.dumps({"gIoU": percent * sum(scores) / (len(scores) + 1e-5) if scores else None}))
"""

FIRST = {  # the smallest case that shows the fault
    "drops": "no answer",
    "empty": "both empty",
    "bytes": "right",
    "ignores": "a region to ignore under a false positive",
    "raises": "beside",
}


@pytest.fixture
def scorer(tmp_path, monkeypatch):
    """The command of a scorer of seg/lisa with a fault; a part of the corpus, for time's sake."""
    path = tmp_path / "their eval.py"
    path.write_text(SCORER)
    whole = conform.corpus

    def part(form):
        names = (
            "right, 1 × 1",
            "both empty, 1 × 1",
            "no answer, 1 × 1, beside right, 1 × 1",
            "a region to ignore under a false positive, 1 × 7",
        )
        return [one for one in whole(form) if one.name in names]

    monkeypatch.setattr(conform, "corpus", part)
    start = f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"
    return lambda fault: f"{start} {{truth}} {{pred}} {fault}"


def held(capsys, command, *given, protocol="seg/lisa"):
    capsys.readouterr()
    code = main(["conform", "--scorer", command, "--protocol", protocol, *given, "--json"])
    made = json.loads(capsys.readouterr().out)
    assert code == int(bool(made["deviations"])) and made["cases"] == 4
    return made


def test_a_right_scorer_deviates_nowhere(capsys, scorer):
    assert held(capsys, scorer("none"))["deviations"] == []


@pytest.mark.parametrize("fault", FIRST)
def test_a_planted_fault_is_shown_by_its_smallest_case(capsys, scorer, fault):
    made = held(capsys, scorer(fault))
    first = made["deviations"][0]
    assert FIRST[fault] in first["case"]
    sizes = [one["size"] for one in made["deviations"]]
    assert sizes == sorted(sizes)
    if fault == "drops":
        assert first["found"] > 0.99 > 0.51 > first["expected"]
        assert all("no answer" in one["case"] for one in made["deviations"])
    if fault == "ignores":
        assert {"ignore" in one["case"] for one in made["deviations"]} == {True}
    if fault == "raises":
        assert "KeyError" in first["error"] and first["found"] is None


def test_the_smallest_case_is_drawn(capsys, scorer):
    assert main(["conform", "--scorer", scorer("ignores"), "--protocol", "seg/lisa"]) == 1
    text = capsys.readouterr().out
    assert "4 cases, 1 deviate" in text and FIRST["ignores"] in text
    assert "   ####+++" in text


def test_per_cent_is_a_scale(capsys, scorer):
    assert held(capsys, scorer("percent"))["deviations"]
    assert not held(capsys, scorer("percent"), "--scale", "100")["deviations"]


def test_masks_as_images_and_other_protocols(tmp_path, capsys):
    """Counts, and the folders of PNG: one file a frame, foreground 255."""
    script = tmp_path / "count.py"
    script.write_text(
        "import json, sys\n"
        "rows = [list(map(json.loads, open(path))) for path in sys.argv[1:3]]\n"
        "said = {one['id']: one.get('count') for one in rows[1]}\n"
        "print(sum(said.get(one['id'], 0) == one['count'] for one in rows[0]) / len(rows[0]))\n"
    )
    command = f"{shlex.quote(sys.executable)} {script} {{truth}} {{pred}}"
    assert main(["conform", "--scorer", command, "--protocol", "count/exact"]) == 0
    (case,) = [one for one, _ in conform.cases_for("rvos/mevis")[1] if "gone" in one.name][:1]
    places = conform._write(tmp_path, case)
    files = sorted(path.name for path in (tmp_path / "truth_masks" / "s").iterdir())
    assert files == ["00000.png", "00001.png", "00002.png"] and places["pred_masks"]


@pytest.mark.parametrize("name", ["seg/lysa", "coco/scores", "rec/grec", "vstar/official"])
def test_protocols_without_cases_are_refused(name):
    assert main(["conform", "--scorer", "true {pred}", "--protocol", name]) == 2


def test_protocols_of_reasonvos_have_cases():
    official, strict = (
        {case.name: numbers["J&F"] for case, numbers in conform.cases_for(f"reasonvos/{name}")[1]}
        for name in ("official", "strict")
    )
    apart = {name for name in official if official[name] != strict[name]}
    assert apart and all("no answer" in name for name in apart)


def test_a_program_that_is_not_there_is_refused(capsys):
    assert main(["conform", "--scorer", "/no/such/program", "--protocol", "count/exact"]) == 2
    assert main(["conform", "--scorer", "true", "--protocol", "count/exact"]) == 1
    assert "12 deviate" in capsys.readouterr().out
    other = """'{"score": 1}'"""  # nothing that the protocol has is no agreement
    assert main(["conform", "--scorer", f"echo {other}", "--protocol", "count/exact"]) == 1
    assert "accuracy" in capsys.readouterr().out


def test_deviations_of_a_case_are_in_the_order_of_the_protocol(monkeypatch):
    """And not in that of a set of names, which is another one in every process."""
    whole = conform.corpus
    monkeypatch.setattr(conform, "corpus", lambda form: whole(form)[:2])
    monkeypatch.setattr(conform, "_run", lambda *given: (dict.fromkeys(names, 9.0), ""))
    names = [one.name for one in conform.find_protocol("rvos/mevis")[0].metrics]
    _, found = conform.conform("theirs", "rvos/mevis")
    cases = [one.case for one in found]
    for case in set(cases):
        told = [one.metric for one in found if one.case == case]
        assert told == [name for name in names if name in told] and len(told) > 2
