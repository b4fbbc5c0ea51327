"""What counts as answered is what the protocol reads, not what a model's parser made of it."""

import json

import pytest

from harness.cli.main import main
from harness.run.scoring import score_unit
from harness.run.verify import perfect
from harness.types import Answer, AnswerForm, Failure, FailureKind, Prediction

PROTOCOLS = {
    "video_mme": ("videomme/official", "videomme/strict"),
    "long_video_bench": ("lvb/official", "lvb/strict"),
    "vsi_bench": ("vsi/official", "vsi/lmms2026", "vsi/strict"),
    "spar_bench": ("spar/official", "spar/strict"),
    "sti_bench": ("sti/official", "sti/strict"),
    "shapes_qa": ("qa/within_10",),
}
SPECS = [
    *(f"{task}(protocol={one})" for task, names in PROTOCOLS.items() for one in names),
    *(
        f"tempcompass(split={split},protocol=tempcompass/{kind})"
        for split, kinds in {
            "multi-choice": ("rules", "judged", "strict"),
            "yes_no": ("rules", "strict"),
            "caption_matching": ("rules", "strict"),
            "all": ("judged", "strict"),
        }.items()
        for kind in kinds
    ),
    "vsi_bench(form=numeric)",
    "sti_bench(form=numeric)",
    "v_star",
    "v_star(where=text)",
    "v_star(protocol=vstar/strict)",
]


def unparsed(sample, *responses):
    """What the model's own parser could not read."""
    return Prediction(
        query_id=sample.query.id,
        responses=responses,
        failure=Failure(FailureKind.PARSE, "not in the grammar"),
    )


def parsed(sample, response):
    """An answer that the model's own parser made of a response."""
    answer = Answer(number=1.0) if sample.query.form is AnswerForm.NUMBER else Answer(choice="A")
    return Prediction(query_id=sample.query.id, answer=answer, responses=(response,))


def units(task):
    grouped = {}
    for sample in task.samples():
        grouped.setdefault(sample.unit, []).append(sample)
    return list(grouped.values())


def failed(task, make):
    """(samples that count as failed, samples) where each is predicted by `make`."""
    done = [score_unit(task, unit, [make(one) for one in unit]) for unit in units(task)]
    return sum(one.failed for one in done), sum(len(one.samples) for one in done)


@pytest.mark.parametrize("spec", SPECS)
def test_perfect_answers_are_read_and_silence_is_not(build, example, spec):
    task = build(spec, example(spec.partition("(")[0]))
    assert failed(task, perfect)[0] == 0
    lost, total = failed(task, unparsed)
    assert lost == total


@pytest.mark.parametrize(
    ("task", "response", "reading", "not_reading"),
    [
        ("video_mme", "I would say B since it rains", ["official", "strict"], []),
        ("video_mme", "no idea", [], ["official", "strict"]),
        ("long_video_bench", "It has to be C, or so", ["official"], ["strict"]),
        ("long_video_bench", "no idea", [], ["official", "strict"]),
        ("sti_bench", "option described above", ["official"], ["strict"]),
        ("sti_bench", "no idea", [], ["official", "strict"]),
        ("spar_bench", "no idea", [], ["official", "strict"]),
        ("vsi_bench", "no idea", [], ["official", "lmms2026", "strict"]),
    ],
)
def test_a_response_is_answered_where_the_protocol_reads_it(
    build, example, task, response, reading, not_reading
):
    prefix = PROTOCOLS[task][0].partition("/")[0]
    for kind in (*reading, *not_reading):
        built = build(f"{task}(protocol={prefix}/{kind})", example(task))
        for make in (lambda one: unparsed(one, response), lambda one: parsed(one, response)):
            lost, total = failed(built, make)
            assert lost == (0 if kind in reading else total), kind


def test_a_number_behind_words_is_read_by_one_protocol_and_not_by_the_other(build, example):
    for kind, read in (("official", False), ("lmms2026", True), ("strict", True)):
        task = build(f"vsi_bench(protocol=vsi/{kind})", example("vsi_bench"))
        numbers = [one for one in task.samples() if one.target.answer.number is not None]
        assert numbers
        for one in numbers:
            done = score_unit(task, [one], [unparsed(one, "There are 3")])
            assert done.failed == (not read)


@pytest.mark.parametrize("split", ["multi-choice", "yes_no", "caption_matching"])
def test_tempcompass_counts_what_no_rule_fits_and_prints_the_match_rate(build, example, split):
    task = build(f"tempcompass(split={split})", example("tempcompass"))
    names = [metric.name for metric in task.protocol.metrics]
    assert "Match Success Rate" in names
    for response, matched in (("perhaps", 0.0), (None, 1.0)):
        for unit in units(task):
            (sample,) = unit
            text = response or sample.target.extra["record"].answer
            done = score_unit(task, unit, [parsed(sample, text)])
            assert done.scores["Match Success Rate"].value == matched
            assert done.failed == 1 - matched


def test_v_star_counts_each_step_by_what_its_scorer_reads(build, example):
    responses = {
        "what": "a thing",
        "when": "from 3 to 7",
        "when2": "early on",
        "where": "nowhere",
        "where2": '{"3": [0, 0, 4, 4]}',
    }
    for kind, lost in (("official", 2), ("strict", 3)):
        task = build(f"v_star(where=text,protocol=vstar/{kind},rubric=graded)", example("v_star"))
        for sample in task.samples():
            step = sample.id.rpartition("/")[2]
            reads = task.protocol.reads(sample, unparsed(sample, responses[step]))
            unread = {"when2", "where"} | ({"when"} if kind == "strict" else set())
            assert reads == (step not in unread) and len(unread) == lost


def test_a_failure_keeps_its_kind_unless_its_response_is_read(build, example, tmp_path, capsys):
    data = example("video_mme")
    samples = list(build("video_mme", data).samples())
    lines = [
        {"id": samples[0].id, "response": f"I'd say {samples[0].target.extra['letter']} it is"},
        {"id": samples[1].id, "response": "no idea"},
    ]
    file = tmp_path / "said.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (
        main(
            [
                "score",
                "--predictions",
                str(file),
                "--model",
                "qwen_vl(backend=stored)",
                "--tasks",
                "video_mme",
                "--data",
                str(data),
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)["tasks"]["video_mme"]
    assert (found["n_total"], found["n_scored"], found["n_failed"]) == (3, 1, 2)
    assert {kind: count for kind, count in found["failures"].items() if count} == {
        "infrastructure": 1,
        "parse": 1,
    }


def test_responses_of_which_a_protocol_reads_none_are_a_run_without_answers(
    build, capsys, example, tmp_path
):
    """They are texts, which no parser of the model failed at."""
    data, spec = example("video_mme"), "video_mme(prompt=official)"
    ids = [sample.id for sample in build(spec, data).samples()]
    output = tmp_path / "said.jsonl"
    output.write_text("".join(json.dumps({"id": one, "answer": "no idea"}) + "\n" for one in ids))
    assert (
        main(
            [
                "eval",
                "--model",
                f"replay(file={output})",
                "--tasks",
                spec,
                "--data",
                str(data),
                "--out",
                str(tmp_path / "runs"),
                "--json",
            ]
        )
        == 1
    )
    out, err = capsys.readouterr()
    found = json.loads(out)["tasks"]["video_mme"]
    assert (found["n_scored"], found["failures"]["parse"]) == (0, len(ids))
    assert found["metrics"]["accuracy"] is None
    assert "videomme/official" in err
