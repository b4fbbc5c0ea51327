"""Numbers of papers: their files against counts and cells that were read by hand, the boards that
place each of them, and what a measured row says of its paper.
"""

import re
from collections import Counter
from dataclasses import replace

import pytest

from harness import plugins
from harness.errors import DataError
from harness.leaderboards import board, gate, ranked_table
from harness.leaderboards.board import build
from harness.leaderboards.definitions import definitions, methods, read
from harness.leaderboards.grid import LeftOff
from harness.leaderboards.published_results import (
    PAPERS,
    SCALES,
    _read,
    fault_of_data,
    is_benchmark,
    published_results,
    published_rows,
)
from harness.leaderboards.render import json as board_json
from harness.leaderboards.render import markdown
from harness.leaderboards.render.sections import PRINTED_MARK
from harness.leaderboards.reproduction import (
    TRAIN_OPTIONS,
    compare_with_paper,
    of_paper,
    training_differences,
)
from harness.leaderboards.row import TrainingInfo, row
from harness.leaderboards.site.index import start_page
from harness.papers import Deviation
from harness.record import Run
from harness.spec import Spec

COUNTS = {
    # Scores, and other quantities (tokens, seconds, counts, relative changes), of each table.
    "dt_r1": {
        "1": (240, 0),
        "2": (320, 0),
        "3": (323, 0),  # 26 cells more cannot be read
        "text 4": (4, 0),  # of Table 4 itself no cell can be read
        "5": (60, 0),
        "6": (60, 0),
        "7": (18, 0),
    },
    "video_str": {"1": (49, 0), "2": (24, 0), "3": (24, 0), "4": (6, 0), "5": (3, 0), "6": (12, 0)},
    "dr2seg": {
        "1": (48, 12),
        "2": (33, 0),
        "3": (6, 3),
        "4": (8, 4),
        "5": (8, 4),
        "6": (4, 2),
        "7": (6, 3),
        "10": (16, 8),
        "text D.1": (0, 2),
    },
    "videoseg_r1": {
        "1": (121, 0),
        "2": (96, 0),
        "3": (18, 0),
        "4": (12, 0),
        "5": (8, 0),
        "6": (12, 0),
        "7": (8, 8),
        "B1": (18, 0),
        "D2": (0, 12),
        "H3": (20, 8),
        "H4": (9, 0),
        "H5": (10, 10),
        "H6": (8, 8),
    },
    "vr_ttrl": {
        "1": (0, 8),
        "2": (60, 0),
        "3": (16, 0),
        "4": (0, 18),
        "5": (0, 9),
        "6": (80, 0),
        "7": (12, 3),
        "8": (12, 7),
        "9": (8, 0),
        "10": (24, 0),
        "11": (6, 0),
    },
}
SPOTS = [
    # Cells of every table, read in the paper: row, backbone, benchmark, split, part, metric,
    # number.
    (
        "dt_r1",
        "1",
        "VISA-13B",
        "",
        "JiTBench",
        "test",
        "level and category=3 spatial",
        "F",
        "0.531",
    ),
    ("dt_r1", "1", "DT-R1", "", "JiTBench", "test", "level=2", "J", "0.808"),
    ("dt_r1", "2", "JiT", "", "RVTBench-segmentation", "test", "level=4", "F", "0.431"),
    (
        *("dt_r1", "3", "GroundMore", "", "RVTBench-grounding", "test"),
        *("level and category=2 temporal", "gIoU", "0.451"),
    ),
    ("dt_r1", "text 4", "DT-R1", "", "RVTBench-VQA", "test", "level=4", "BLEU-4", "0.642"),
    ("dt_r1", "5", "VISA-7B", "", "ReVOS", "valid", "", "F reasoning", "0.467"),
    ("dt_r1", "6", "Seg-Zero", "", "ReasonSeg", "test", "length=long", "cIoU", "0.612"),
    ("dt_r1", "7", "DT-R1 [w/o DAG validation]", "", "JiTBench", "test", "level=2", "F", "0.712"),
    ("video_str", "1", "Video-R1", "7B", "TempCompass", "all", "", "avg", "73.2"),
    (
        "video_str",
        "2",
        "Video-STR [w/o spatial subset]",
        "",
        "VSI-Bench",
        "full",
        "",
        "overall",
        "36.3",
    ),
    ("video_str", "3", "Video-STR [w/o R_e]", "", "SPAR-Bench", "full", "", "overall", "37.0"),
    ("video_str", "4", "SpaceR", "", "STI-Bench", "test", "", "accuracy", "36.5"),
    (
        "video_str",
        "5",
        "Video-STR SFT baseline",
        "",
        "LongVideoBench",
        "val",
        "",
        "accuracy",
        "53.5",
    ),
    (
        "video_str",
        "6",
        "SpaceR [trained on STV-205k, no map]",
        "",
        "V-STaR",
        "test",
        "",
        "mLGM",
        "35.3",
    ),
    ("dr2seg", "1", "DR2Seg*", "", "ReasonSeg", "test", "", "cIoU", "63.6"),
    ("dr2seg", "1", "PixelThink", "", "ReasonSeg", "val", "", "reasoning tokens", "46.9"),
    ("dr2seg", "2", "PixelThink-7B", "", "RefCOCOg", "test", "", "IoU", "73.9"),
    ("dr2seg", "3", "DR2Seg [R_desc=Y,R_len=N]", "", "ReasonSeg", "val", "", "gIoU", "67.6"),
    ("dr2seg", "4", "DR2Seg [N0=25]", "", "ReasonSeg", "val", "", "reasoning tokens", "70.7"),
    ("dr2seg", "5", "DR2Seg [gamma=0.1]", "", "ReasonSeg", "val", "", "gIoU", "68.9"),
    ("dr2seg", "6", "DR2Seg-3B", "", "ReasonSeg", "val", "", "cIoU", "56.8"),
    ("dr2seg", "7", "DR2Seg + SAM3", "", "ReasonSeg", "val", "", "gIoU", "69.4"),
    ("dr2seg", "10", "DR2Seg + SAM2", "", "ReasonSeg", "test", "", "gIoU", "60.2"),
    (
        "dr2seg",
        "text D.1",
        "DR2Seg (two-stage)",
        "",
        "ReasonSeg",
        "train",
        "",
        "training time",
        "190",
    ),
    ("videoseg_r1", "1", "VideoSeg-R1", "Qwen2.5-VL-3B", "Ref-DAVIS17", "valid", "", "J&F", "77.5"),
    ("videoseg_r1", "2", "VideoSeg-R1", "Qwen2.5-VL-7B", "RefCOCOg", "test", "", "cIoU", "74.1"),
    ("videoseg_r1", "3", "ViLLa", "", "ReVOS", "valid", "", "F", "59.1"),
    ("videoseg_r1", "4", "VideoSeg-R1 [RL, CoT=N]", "", "ReasonSeg", "val", "", "gIoU", "67.2"),
    (
        *("videoseg_r1", "5", "VideoSeg-R1 [random frame of key segment]", "", "MeViS", "valid"),
        *("", "J&F", "49.2"),
    ),
    (
        *("videoseg_r1", "6", "VideoSeg-R1 [bbox=Y,P_central=N,P_neg=Y]", "", "ReVOS", "valid"),
        *("", "J&F", "58.1"),
    ),
    (
        "videoseg_r1",
        "7",
        "VideoSeg-R1 [w/ soft length penalty]",
        "",
        "MeViS",
        "valid",
        "",
        "J&F",
        "55.3",
    ),
    (
        *("videoseg_r1", "B1", "VideoSeg-R1 [Local sampling, T_ref=6]", "", "ReasonSeg", "val"),
        *("", "gIoU", "69.1"),
    ),
    (
        *("videoseg_r1", "D2", "training-set difficulty statistics", "", "MeViS", "train"),
        *("difficulty=medium", "samples", "5200"),
    ),
    (
        *("videoseg_r1", "H3", "VideoSeg-R1 [w/o soft length penalty]", "", "RefCOCO", ""),
        *("", "reasoning tokens", "63.1"),
    ),
    (
        "videoseg_r1",
        "H4",
        "VideoSeg-R1 [train: Ref-YouTube-VOS]",
        "",
        "ReVOS",
        "valid",
        "",
        "J&F",
        "54.9",
    ),
    (
        *("videoseg_r1", "H5", "VideoSeg-R1 [budget=(96, 192, 256)]", "", "ReasonSeg", "val"),
        *("", "reasoning tokens", "70.3"),
    ),
    (
        *("videoseg_r1", "H6", "VideoSeg-R1 [difficulty levels=4]", "", "ReVOS", "valid"),
        *("", "J&F", "60.5"),
    ),
    ("vr_ttrl", "1", "benchmark size", "", "ReasonSeg", "val", "", "samples", "200"),
    ("vr_ttrl", "2", "VisionReasoner-7B", "", "PixMo-Count", "pixmo_val", "", "accuracy", "78.50"),
    ("vr_ttrl", "3", "Qwen2.5-VL-7B w/ VR-TTRL (-)", "", "RefCOCOg", "test", "", "gIoU", "53.71"),
    (
        *("vr_ttrl", "4", "VisionReasoner-7B w/ VR-TTRL [updates=2]", "", "ReasonSeg", "test"),
        *("", "cIoU relative change", "-0.65"),
    ),
    (
        *("vr_ttrl", "5", "VisionReasoner-7B w/ VR-TTRL [rollouts=16]", "", "RefCOCOg", "test"),
        *("", "time", "132.4"),
    ),
    (
        *("vr_ttrl", "6", "VisionReasoner-7B w/ VR-TTRL", "", "RefCOCO+", "testA"),
        *("regression above=5%", "share of samples degraded", "3.50"),
    ),
    (
        *("vr_ttrl", "7", "VisionReasoner-7B w/ VR-TTRL [rollouts=16]", "", "RefCOCOg", "test"),
        *("", "bbox_AP", "89.50"),
    ),
    (
        *("vr_ttrl", "8", "VisionReasoner-7B w/ VR-TTRL [updates=10]", "", "ReasonSeg", "test"),
        *("", "cIoU", "54.99"),
    ),
    (
        *("vr_ttrl", "9", "VisionReasoner-7B w/ VR-TTRL [strict 0.7/5px/15px]", "", "RefCOCOg"),
        *("test", "", "gIoU", "72.72"),
    ),
    (
        *("vr_ttrl", "10", "VisionReasoner-7B + MEMO (consistency TTA)", "", "RefCOCOg", "test"),
        *("", "gIoU", "65.12"),
    ),
    (
        "vr_ttrl",
        "11",
        "Qwen2.5-VL-7B Offline (train-only)",
        "",
        "ReasonSeg",
        "val",
        "",
        "gIoU",
        "47.65",
    ),
]


def number_of(paper, table, name, backbone, benchmark, split, part, metric):
    wanted = (table, name, benchmark, split, part, metric)
    (found,) = [
        one
        for one in published_results(paper)
        if (one.table, one.row, one.benchmark, one.split, one.part, one.metric) == wanted
        and backbone in ("", one.backbone)
    ]
    return found


def test_every_table_has_the_numbers_that_can_be_read_in_it():
    found = {paper: {} for paper in PAPERS}
    for paper in PAPERS:
        for one in published_results(paper):
            scores, others = found[paper].get(one.table, (0, 0))
            found[paper][one.table] = (scores + one.is_score, others + (not one.is_score))
    assert found == COUNTS
    assert sum(pair[0] for tables in COUNTS.values() for pair in tables.values()) == 1830


def test_a_cell_of_every_table_is_as_it_was_read_by_hand():
    assert {spot[:2] for spot in SPOTS} == {
        (paper, table) for paper, tables in COUNTS.items() for table in tables
    }
    assert [(spot, number_of(*spot[:-1]).printed) for spot in SPOTS] == [
        (spot, spot[-1]) for spot in SPOTS
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_number_is_one_that_our_tasks_have_or_of_no_task(paper):
    for one in published_results(paper):
        assert one.protocol_is in ("stated", "assumed", "unknown")
        assert one.is_score is (one.unit in SCALES)
        assert not one.is_score or -1e-9 <= one.value <= 1, one
        if one.task and one.split:
            card = plugins.find_card(one.task)
            assert one.split in card.splits, one
            assert one.protocol in ("", *card.protocols), one


def test_a_cell_is_printed_once():
    for paper in PAPERS:
        places = Counter(
            (one.table, one.row, one.backbone, one.benchmark, one.split, one.part, one.metric)
            for one in published_results(paper)
        )
        assert max(places.values()) == 1, places.most_common(1)


def test_the_boards_place_every_number_of_their_tables_once():
    counts_only = {("vr_ttrl", "1"), ("videoseg_r1", "D2"), ("dr2seg", "text D.1")}
    placed = Counter()
    for made in definitions():
        for row_ in (one for one in made.rows if not one.package):  # beside the row's other SPEC
            for column in made.columns:
                if not row_.tasks or column.name in row_.tasks:
                    for part, _, word in column.heads:
                        placed.update(made.printed(row_, column, part, word))
    wanted = [
        one
        for paper in PAPERS
        for one in published_results(paper)
        if (one.paper, one.table) not in counts_only
    ]
    assert placed == Counter(wanted)


def genuine(folder):
    """A run as if it had read ReasonSeg itself: a row of its val split, scored as LISA does."""
    made = row(Run.open(folder))
    return replace(
        made,
        task="reason_seg",
        split="val",
        headline="gIoU",
        metrics={"gIoU": 0.651, "cIoU": 0.6},
        intervals={"gIoU": (0.63, 0.672)},
        better={"gIoU": "higher", "cIoU": "higher"},
        protocol="seg/visionreasoner",
        n_total=200,
    )


def test_published_rows_are_those_of_task_split_and_metric_best_first(make_run):
    found = published_rows(genuine(make_run("a")), ("gIoU", "cIoU"))
    values = [one.results[0].value for one in found]
    assert values == sorted(values, reverse=True)
    names = [one.name for one in found]
    assert "DR2Seg* (Qwen2.5VL-7B)" in names and "LISA (LLaVA1.5-7B)" in names
    assert not any("[" in name for name in names)
    (best,) = [one for one in found if one.name == "DR2Seg* (Qwen2.5VL-7B)"]
    assert best.to_json()["metrics"] == pytest.approx({"gIoU": 0.685, "cIoU": 0.658})
    assert best.is_comparable
    (lisa,) = [one for one in found if one.name == "LISA (LLaVA1.5-7B)"]
    assert not lisa.is_comparable  # its protocol is LISA's


@pytest.mark.parametrize("protocol", ["sti/official", "sti/numeric"])
def test_one_row_by_two_protocols_is_two_rows_that_say_their_table(protocol, make_run):
    """Video-STR prints 34.7 for one network in Tables 1 and 6, and 38.1 by another protocol."""
    made = replace(
        genuine(make_run("a")),
        task="sti_bench",
        split="test",
        protocol=protocol,
        better={"accuracy": "higher"},
    )
    shown = {
        row.name: (row.results[0].printed, row.is_comparable)
        for row in published_rows(made, ("accuracy",))
    }
    # How Table 4 was scored is not said.
    official = protocol == "sti/official"
    for name, first, fourth in (
        ("Qwen2.5-VL-7B-Instruct", "34.7", "38.1"),
        ("Video-STR (Qwen2.5-VL-7B-Instruct)", "39.3", "40.2"),
    ):
        assert {key: shown[key] for key in shown if key.startswith(f"{name}, ")} == {
            f"{name}, Video-STR Table 1": (first, official),
            f"{name}, Video-STR Table 4": (fourth, False),
        }


def test_no_table_of_a_board_has_two_rows_of_papers_of_one_name(make_run):
    made = genuine(make_run("a"))
    every = {
        (one.task, one.split, one.metric) for paper in PAPERS for one in published_results(paper)
    }
    for task, split, metric in every:
        here = replace(made, task=task, split=split, better={metric: "higher"})
        names = [row.name for row in published_rows(here, (metric,))]
        assert len(names) == len({*names}), task


def test_rows_of_papers_are_shown_and_change_no_rank_interval_or_measured_row(
    world, tmp_path, monkeypatch
):
    plain = board_json.to_json(build(world.runs, published=False))
    monkeypatch.setattr(board, "is_benchmark", lambda run, made: True)
    monkeypatch.setattr(
        ranked_table,
        "published_rows",
        lambda made, metrics: published_rows(genuine(source), ("gIoU",)),
    )
    source = next(world.runs.iterdir())
    made = build(world.runs)
    shown = board_json.to_json(made)
    for before, after in zip(plain["tables"], shown["tables"], strict=True):
        measured = [one for one in after["rows"] if one["kind"] == "measured"]
        published = [one for one in after["rows"] if one["kind"] == "published"]
        assert all(one.pop("of_benchmark") for one in measured) and published
        assert measured == [one for one in before["rows"] if one.pop("of_benchmark") is False]
        for one in published:
            assert one["rank"] is None and "intervals" not in one and "to_best" not in one
            assert one["source"]["printed"]["gIoU"] and one["source"]["paper"] in PAPERS
    text, page = markdown.render(made), start_page(made).decode()
    lines = [line for line in text.splitlines() if "DR2Seg" in line]
    assert lines and all(PRINTED_MARK in line and "**" not in line for line in lines)
    assert page.count("DR2Seg") == text.count("DR2Seg")
    for of_papers in re.findall(r'<details class="published" open>.*?</details>', page):
        assert PRINTED_MARK in of_papers and "<strong>" not in of_papers
        page = page.replace(of_papers, "")
    assert "DR2Seg" not in page and "<strong>" in page
    without = build(world.runs, published=False)
    assert "DR2Seg" not in markdown.render(without) + start_page(without).decode()


def test_the_gate_reads_no_published_number(world, make_run, monkeypatch):
    """It passes and fails as before where the files cannot be read at all."""
    monkeypatch.setattr("harness.leaderboards.published_results.FOLDER", world.data / "nowhere")
    _read.cache_clear()
    try:
        with pytest.raises(DataError, match="CSV in UTF-8"):
            published_results("dr2seg")
        same = make_run("same")
        assert gate.check(same, same).is_passed
        assert not gate.check(same, make_run("worse", shift=9)).is_passed
    finally:
        _read.cache_clear()


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.63, 0.672), "reproduced"),
        ((0.6635, 0.70), "reproduced"),  # 66.3 may have been 66.35
        ((0.6636, 0.70), "not reproduced"),
        ((0.50, 0.662), "not reproduced"),
        ((0.55, 0.70), "cannot tell"),  # too wide to show anything
        (None, "cannot tell"),
    ],
)
def test_a_verdict_by_hand(make_run, interval, verdict):
    made = replace(genuine(make_run("a")), intervals={"gIoU": interval})
    spot = ("dr2seg", "1", "VisionReasoner", "", "ReasonSeg", "val", "", "gIoU")
    assert compare_with_paper(made, number_of(*spot)).verdict == verdict


def test_what_is_not_known_to_be_the_same_is_not_judged(make_run):
    made = genuine(make_run("a"))
    spot = number_of("dr2seg", "1", "VisionReasoner", "", "ReasonSeg", "val", "", "gIoU")
    used = Deviation(setting="segmenter", used="grabcut", paper="SAM2-Large")
    found = compare_with_paper(replace(made, deviations=(used,)), spot)
    assert found.text == "paper 66.3 → ours 65.1 (CI 63.0 to 67.2): reproduced"
    assert str(used) in found.differences
    for other in ({"protocol": "seg/lisa"}, {"subset": "first200"}):
        found = compare_with_paper(replace(made, **other), spot)
        assert found.verdict == "cannot tell"
        assert next(iter(other)) in found.text.partition("because")[2].replace("samples", "subset")
        assert any(next(iter(other.values())) in one for one in found.differences)


SAM = "segmenter=sam2(checkpoint=facebook/sam2-hiera-large)"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (f"visionreasoner(checkpoint=Ricky06662/VisionReasoner-7B,{SAM})", "VisionReasoner"),
        ("visionreasoner(checkpoint=/x/VisionReasoner-7B,segmenter=grabcut)", "VisionReasoner"),
        ("dr2seg(checkpoint=out/trainings/dr2seg_7b,propagator=still)", "DR2Seg"),
        ("dr2seg(checkpoint=out/trainings/dr2seg_7b,form=sam2)", "DR2Seg"),  # the default
        ("dr2seg(checkpoint=out/trainings/dr2seg_7b,form=sam3)", None),
        ("dr2seg(checkpoint=out/trainings/dr2seg_7b,canvas=168)", None),
        ("dr2seg(checkpoint=mine)", None),
        ("saliency", None),
    ],
)
def test_a_measured_row_finds_its_papers_number_by_method_and_checkpoint(make_run, spec, name):
    found = of_paper(replace(genuine(make_run("a")), model_spec=spec))
    assert (found and found.row) == name
    if found is not None:
        assert (found.paper, found.metric, found.verdict)[:2] == ("dr2seg", "gIoU")
    if name == "DR2Seg":
        assert any("training" in one for one in found.differences)


def test_no_two_methods_of_a_board_are_taken_for_each_other():
    for one in methods():
        same = {
            (other.definition.paper, other.definition.table, other.row.row, other.row.backbone)
            for other in methods()
            if other.definition is one.definition and other.is_of(str(one.spec))
        }
        assert len(same) == 1, same


DEFINITION = """
paper = "dr2seg"
table = "3"
title = "rewards"
[[columns]]
task = "disc_seg(split=val,protocol=seg/lisa)"
metrics = ["giou", "time"]
published = ["gIoU", "time"]
parts = ["", "colour=red"]
[[columns]]
benchmark = "an average"
metrics = ["giou"]
[[rows]]
row = "DR2Seg [R_desc=Y,R_len=N]"
model = "steady(checkpoint={steady})"
[[rows]]
row = "elsewhere"
[[rows]]
row = "two"
model = "clumsy(checkpoint=runs/clumsy)"
tasks = ["disc_video"]
[trainings.steady]
method = "dr2seg"
config = "table3_r_desc"
"""


def test_a_papers_table_holds_the_runs_of_its_rows(world, tmp_path, monkeypatch):
    path = tmp_path / "board.toml"
    path.write_text(DEFINITION)
    definition = read(path)
    spot = number_of("dr2seg", "1", "VisionReasoner", "", "ReasonSeg", "val", "", "gIoU")
    printed = replace(spot, protocol="seg/lisa", table="3", task="disc_seg", metric="gIoU")
    printed = replace(printed, row="DR2Seg [R_desc=Y,R_len=N]", printed="99.0")
    monkeypatch.setattr("harness.leaderboards.definitions._results", lambda *_: (printed,))
    monkeypatch.setattr(board, "is_benchmark", lambda run, made: True)
    made = build(world.runs, definition=definition)
    assert [table.task for table in made.tables] == ["disc_seg"]
    ((entry,),) = [table.entries for table in made.tables]
    assert entry.row.model == "steady"  # runs of no cell are left off, with the reason
    off = {(one.model, one.task.split()[0]): one.reason for one in made.left_off}
    assert "no row" in off["clumsy", "disc_seg"] and "no column" in off["steady", "disc_video"]
    other = replace(entry.row, protocol="seg/other")
    assert "seg/lisa" in LeftOff.of(definition, other).reason
    assert {one["model"] for one in board_json.to_json(made)["left_off"]} == {
        model for model, _ in off
    }
    rows = dict(made.grid.rows)
    first, time, red, *_ = rows["DR2Seg [R_desc=Y,R_len=N]"]
    assert (first.printed, first.value, first.model) == ("99.0", entry.row.value, "steady")
    assert first.reproduction.verdict == "not reproduced"
    assert "training: not recorded (paper: dr2seg, table3_r_desc)" in first.reproduction.differences
    assert time.value == 61.5 / 40 and time.reproduction is None
    assert red.value == entry.row.breakdowns["colour"]["red"]["metrics"]["giou"]
    assert red.reproduction is None
    for name in ("elsewhere", "two"):
        assert {cell.value for cell in rows[name]} == {None}
    text = markdown.render(made)
    page = start_page(made).decode()  # where there is no JavaScript
    assert f"99.0</span> → {100 * first.value:.1f}<" in page
    assert "not reproduced" in text and f"*99.0* → {100 * first.value:.1f}" in text
    assert board_json.to_json(made)["grid"]["rows"][0][1][0]["printed"] == "99.0"


def test_a_training_with_other_settings_is_a_known_difference(make_run):
    made = genuine(make_run("a"))
    (method,) = [
        one
        for one in methods()
        if (one.definition.paper, one.definition.table) == ("dr2seg", "4")
        and "N0=35" in one.row.row
    ]
    step = method.definition.trainings["dr2seg_7b_n0_35"]
    settings = {key: value for key, value in step.read().items() if key not in TRAIN_OPTIONS}
    as_paper = TrainingInfo(method=str(Spec("dr2seg", settings)), tasks=(), seed=0, config_hash="c")
    found = list(training_differences(replace(made, training=as_paper), method))
    assert found == []
    other = str(Spec("dr2seg", {**settings, "n0": 45, "loss_type": "grpo"}))
    found = training_differences(replace(made, training=replace(as_paper, method=other)), method)
    assert list(found) == [
        "training loss_type grpo (paper: None)",
        "training n0 45 (paper: 35)",
    ]


def test_a_generated_world_and_a_part_of_a_benchmark_have_no_published_rows(make_run, tmp_path):
    run = Run.open(make_run("a"))
    made = replace(row(run), task="reason_seg", split="val", subset=None)
    assert is_benchmark(run, replace(made, n_total=200))
    assert not is_benchmark(run, replace(made, n_total=40))
    root = tmp_path / "world"
    root.mkdir()
    run = Run.open(make_run("b", changes={"data": {"root": str(root)}}))
    assert is_benchmark(run, replace(made, subset="first100", n_total=100))
    assert not is_benchmark(run, replace(made, subset="first40", n_total=40))
    (root / "shapes.json").write_text("{}")
    assert not is_benchmark(run, replace(made, n_total=200))
    assert "generated world" in fault_of_data(run, replace(made, n_total=200))


def test_a_board_says_which_published_rows_it_leaves_out_and_why(make_run, monkeypatch):
    run = make_run("a")
    made = row(Run.open(run))
    result = next(iter(published_results("dr2seg")))
    here = replace(result, task=made.task, split=made.split, metric=made.headline)
    monkeypatch.setattr(
        "harness.leaderboards.published_results.published_results",
        lambda paper: [here] if paper == "dr2seg" else [],
    )
    (note,) = [note for note in build(run).tables[0].notes if "left out" in note]
    assert note.startswith("1 row of papers left out: ") and note in markdown.render(build(run))
    assert not any("left out" in note for note in build(run, published=False).tables[0].notes)
