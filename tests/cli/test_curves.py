"""`harness board curves`: trainings and seeds in one figure; what cannot be drawn is named."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from harness.cli.main import main
from harness.leaderboards.figure import Panel, figure
from harness.run.training_record import MANIFEST, VERSION

SVG = "{http://www.w3.org/2000/svg}"


def training(folder, rows, *, method="dr2seg", seed=0, **settings):
    """A training folder as `harness train` leaves it, as far as its curve and manifest go."""
    folder.mkdir()
    (folder / MANIFEST).write_text(
        json.dumps(
            {
                "version": VERSION,
                "method": {"name": method, "spec": method, "settings": settings},
                "model": {"spec": "pocket"},
                "tasks": [{"spec": "reason_seg(split=train)"}],
                "seed": seed,
                "config_hash": "0",
                "provenance": {},
            }
        )
    )
    lines = "".join(json.dumps({"step": step, **row}) + "\n" for step, row in rows)
    (folder / "curve.jsonl").write_text(lines)
    return str(folder)


def counted(start, steps=4, **more):
    return [(step, {"think_length": start - step, **more}) for step in range(1, steps + 1)]


def texts(path):
    return [one.text for one in ElementTree.parse(path).iter(f"{SVG}text")]


def lines(path):
    return [one for one in ElementTree.parse(path).iter(f"{SVG}path") if one.get("stroke-width")]


@pytest.fixture
def three(tmp_path):
    """Two seeds of one recipe and one of another; the second evaluated itself at step 2."""
    own = [*counted(40), (2, {"eval/reason_seg(split=val,asks=a)/gIoU": 0.5})]
    return [
        training(tmp_path / "a0", counted(30, answer_entropy=0.5), n0=45),
        training(tmp_path / "a1", counted(32, answer_entropy=0.4), n0=45, seed=1),
        training(tmp_path / "b0", own, n0=25),
    ]


def test_seeds_are_one_line_and_recipes_are_named_by_what_differs(three, tmp_path, capsys):
    out = tmp_path / "figure.svg"
    requested = [
        "board",
        "curves",
        *three,
        "--y",
        "think_length,answer_entropy",
        "--out",
        str(out),
        "--json",
    ]
    assert main(requested) == 0
    info = capsys.readouterr()
    assert json.loads(info.out)["recipes"] == {
        "dr2seg(n0=45)": three[:2],
        "dr2seg(n0=25)": three[2:],
    }
    assert "dr2seg(n0=25)" in info.err and "answer_entropy" in info.err
    assert "dr2seg(n0=45)" not in info.err
    assert {"dr2seg(n0=45)", "dr2seg(n0=25)", "think_length", "answer_entropy"} <= set(texts(out))
    drawn = lines(out)  # two in the key, two of think_length, one of answer_entropy
    assert len(drawn) == 5


def test_a_held_out_number_is_drawn_by_the_step_it_was_measured_at(three, tmp_path):
    out = tmp_path / "figure.svg"
    name = "eval/reason_seg(split=val,asks=a)/gIoU"
    assert main(["board", "curves", three[2], "--y", name, "--out", str(out)]) == 0
    root = ElementTree.parse(out)
    assert name in texts(out) and len(list(root.iter(f"{SVG}circle"))) == 1


def test_fifteen_lines_can_be_told_apart_and_axes_have_names(tmp_path):
    out = tmp_path / "figure.svg"
    drawn = {f"line {number}": [{1: 0.0, 2: float(number)}] for number in range(15)}
    out.write_text(figure([Panel("score", drawn, across="updates <n>")]))
    pens = {(one.get("stroke"), one.get("stroke-dasharray")) for one in lines(out)}
    assert len(pens) == 15 and len(lines(out)) == 30, "in the key and in the panel"
    assert "updates <n>" in texts(out)


def test_more_panels_than_fit_side_by_side_go_below(tmp_path):
    names = [f"rewards/term{number}" for number in range(5)]
    one = training(tmp_path / "a", [(1, dict.fromkeys(names, 1.0)), (2, dict.fromkeys(names, 2.0))])
    assert (
        main(["board", "curves", one, "--y", ",".join(names), "--out", str(tmp_path / "f.svg")])
        == 0
    )
    places = {
        group.get("transform")
        for group in ElementTree.parse(tmp_path / "f.svg").iter(f"{SVG}g")
        if group.find(f"{SVG}text") is not None
    }
    assert len(places) == 6  # five panels and the name in the key, no two at one place


@pytest.mark.parametrize(
    ("rows", "y", "code", "named"),
    [
        ([], "think_length", 5, "curve.jsonl"),
        (counted(9), "think_lenght", 2, "Did you mean think_length?"),
        (counted(9), None, 2, "think_length"),
        ([(1, {"kl": float("nan")})], "kl", 5, "kl"),
        ([(1, {"kl": "much"})], "kl", 5, "'much'"),
        ([(1, {"kl": 1e308}), (2, {"kl": -1e308})], "kl", 5, "kl"),
    ],
)
def test_what_cannot_be_drawn_is_named(rows, y, code, named, tmp_path, capsys):
    folder = training(tmp_path / "a", rows)
    requested = [
        "board",
        "curves",
        folder,
        *(("--y", y) if y else ()),
        "--out",
        str(tmp_path / "f.svg"),
    ]
    assert main(requested) == code
    assert named in capsys.readouterr().err and not (tmp_path / "f.svg").exists()


def test_a_damaged_curve_is_named_with_its_line(three, tmp_path, capsys):
    with (tmp_path / "a1" / "curve.jsonl").open("a") as file:
        file.write("{]\n")
    assert main(["board", "curves", *three, "--y", "kl", "--out", str(tmp_path / "f.svg")]) == 5
    assert f"{tmp_path / 'a1' / 'curve.jsonl'}, line 5" in capsys.readouterr().err


@pytest.mark.parametrize("field", ["method", "model", "tasks"])
def test_a_damaged_manifest_is_named(field, tmp_path, capsys):
    folder = training(tmp_path / "a", counted(9))
    path = tmp_path / "a" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), field: ["x"]}))
    requested = ["board", "curves", folder, "--y", "think_length", "--out", str(tmp_path / "f.svg")]
    assert main(requested) == 5
    assert folder in capsys.readouterr().err and not (tmp_path / "f.svg").exists()


def test_seeds_without_a_common_step_are_refused(tmp_path, capsys):
    several = [
        training(tmp_path / "a", [(1, {"kl": 0.1})]),
        training(tmp_path / "b", [(2, {"kl": 0.1})], seed=1),
    ]
    assert main(["board", "curves", *several, "--y", "kl", "--out", str(tmp_path / "f.svg")]) == 5
    assert "kl of dr2seg" in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--out", "f.png"), ("--out", "f.svg", "--smooth", "0"), ()])
def test_a_figure_that_cannot_be_written_is_refused(more, three, capsys):
    assert main(["board", "curves", *three, "--y", "think_length", *more]) == 2
    assert (more or ("--out", ""))[-2] in capsys.readouterr().err


def test_the_logged_numbers_are_listed_without_a_figure(three, capsys):
    assert main(["board", "curves", three[0]]) == 0
    assert capsys.readouterr().out.split() == sorted(counted(1, answer_entropy=0.5)[0][1])
    assert main(["board", "curves", *three, "--json"]) == 0
    logged = json.loads(capsys.readouterr().out)["logged"]
    assert "answer_entropy" in logged and "eval/reason_seg(split=val,asks=a)/gIoU" in logged


def test_a_folder_that_is_no_training_is_refused(tmp_path):
    assert (
        main(["board", "curves", str(tmp_path), "--y", "kl", "--out", str(tmp_path / "f.svg")]) == 5
    )
