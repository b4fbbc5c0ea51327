"""Exported tasks: what lmms-eval calls gives the scores of `harness eval`, to the last bit."""

import json
import math
import shlex
import shutil

import pytest

from harness import evaluate, load_task
from harness.cli.main import main
from harness.errors import DataError, UsageError
from harness.lmms import tasks as exported
from harness.lmms.export import load_pipeline, read_metadata
from harness.plugins import installed_plugins
from harness.run.batching import samples_of
from harness.tasks.training.videoseg_r1_15k.task import videoseg_r1_15k

PIPELINE = "qwen_vl(prompt=locate,segmenter=box,propagator=still{})"

READER = PIPELINE.format("")


@pytest.fixture
def export(shapes, tmp_path):
    """Export tasks; give the folder."""

    def made(*names, data=shapes, pipeline=READER, more=""):
        folder = tmp_path / "lmms"
        given = ["--data", str(data), "--out", str(folder), "--pipeline", pipeline]
        for name in names:
            given += ["--tasks", name]
        assert main(["lmms", "export", *given, *shlex.split(more)]) == 0
        return folder

    return made


def documents(folder, name):
    lines = (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def responses(folder, name):
    """Right, unreadable, wrong and reasoned responses in turn, by sample and form, and by key."""
    recorded = read_metadata(folder / f"{name}.yaml")
    reader = load_pipeline(recorded["pipeline"])
    task = load_task(recorded["task"], data=recorded["data"])
    found, keys = {}, {}
    for place, sample in enumerate(samples_of(task)):
        texts = reader.write(sample.query, sample.target.answer)
        for form, text, request in zip(
            sample.query.forms, texts, reader.requests(sample.query), strict=True
        ):
            ways = (text, "no idea", text.replace("1", "2"), f"<think>A, or 7</think>{text}")
            found[sample.id, str(form)] = ways[place % 4]
            keys[request.key] = ways[place % 4]
    return task, found, keys


def by_lmms_eval(folder, name, found):
    """Every metric as lmms-eval comes to it: document by document, and then metric by metric."""
    items = {}
    for doc in documents(folder, name):
        response = found[doc["id"], doc["form"]]
        for metric, item in exported.process_results(folder, doc, [response]).items():
            items.setdefault(metric, []).append(item)
    return {metric: exported.aggregate(folder, several) for metric, several in items.items()}


@pytest.mark.parametrize(
    "spec",
    [
        "reason_seg",
        "mevis",
        "grefcoco",
        "counting",
        "spar_bench",
        "video_mme_v2",
        "revos",
        "tempcompass",
        "reason_seg(split=test,protocol=seg/visionreasoner)",
    ],
)
def test_numbers_are_those_of_eval_on_the_same_responses(spec, export, tmp_path):
    folder = export(spec)
    (path,) = folder.glob("*.yaml")
    task, found, keys = responses(folder, path.stem)
    file = tmp_path / "said.jsonl"
    rows = (json.dumps({"key": key, "response": text}) for key, text in keys.items())
    file.write_text("".join(f"{row}\n" for row in rows))
    model = PIPELINE.format(f",backend=stored(file={file})")
    ours = evaluate(task, model, out=tmp_path / "runs").results["metrics"]
    theirs = by_lmms_eval(folder, path.stem, found)
    assert {name: None if math.isnan(one) else one for name, one in theirs.items()} == ours
    assert len(set(ours.values())) > 1


def test_a_request_is_the_one_that_the_pipeline_sends(export):
    folder = export("mevis", pipeline="qwen_vl(keyframe=named,frames=3,segmenter=box,system=Hello)")
    doc = documents(folder, "harness_mevis")[0]
    system, user = exported.doc_to_messages(folder, doc)
    assert system["content"] == [{"type": "text", "text": "Hello"}]
    *images, text = user["content"]
    assert [one["type"] for one in images] == ["image"] * 3
    assert {one["url"].size for one in images} == {(840, 840)}
    assert text["text"] == exported.doc_to_text(folder, doc) and doc["question"] in text["text"]
    with pytest.raises(UsageError, match="force_simple"):
        exported.doc_to_visual(folder, doc)


def test_a_clip_can_be_a_video_file(export):
    av = pytest.importorskip("av")
    folder = export("video_mme", pipeline="qwen_vl(frames=4)", more="--clips file")
    doc = documents(folder, "harness_video_mme")[0]
    (path,) = exported.doc_to_visual(folder, doc)
    with av.open(path) as video:
        assert sum(1 for _ in video.decode(video=0)) == 4
    (message,) = exported.doc_to_messages(folder, doc)
    assert message["content"][0] == {"type": "video", "url": path}


def test_a_unit_without_all_its_responses_is_left_out(export):
    folder = export("video_mme_v2")
    _, found, _ = responses(folder, "harness_video_mme_v2")
    docs = documents(folder, "harness_video_mme_v2")[:-1]
    items = [exported.process_results(folder, one, [found[one["id"], one["form"]]]) for one in docs]
    name = next(iter(items[0]))
    with pytest.warns(UserWarning, match="1 unit "):
        exported.aggregate(folder, [one[name] for one in items])
    assert all("score" not in one[name] for one in items)


def test_numbers_of_single_samples_are_for_means_alone(export):
    folder = export("reason_seg")
    doc = documents(folder, "harness_reason_seg")[0]
    _, found, _ = responses(folder, "harness_reason_seg")
    items = exported.process_results(folder, doc, [found[doc["id"], "mask"]])
    assert items["gIoU"]["score"] == items["P@0.5"]["score"] == 1.0
    assert "score" not in items["cIoU"], "a ratio of sums has no number a sample"


def test_other_data_than_was_exported_is_refused(export, shapes, tmp_path):
    root = tmp_path / "root"
    shutil.copytree(shapes / "reason_seg", root / "reason_seg")
    folder = export("reason_seg", data=root)
    doc = documents(folder, "harness_reason_seg")[0]
    for path in (root / "reason_seg").rglob(f"*{doc['id']}*"):
        path.unlink()
    with pytest.raises(DataError, match="harness_reason_seg"):
        exported.doc_to_text(folder, doc)


@pytest.mark.parametrize("kept", ["", 'metadata: {"version": 1}', "metadata: ["])
def test_a_yaml_without_what_was_recorded_is_refused(kept, tmp_path):
    (tmp_path / "a.yaml").write_text(f"task: a\n{kept}\n")
    with pytest.raises(DataError, match=r"a\.yaml"):
        exported.doc_to_text(tmp_path, {"task": "a", "id": "1", "form": "mask"})


@pytest.mark.parametrize(
    "pipeline", ["dt_r1(backend=stored)", "videoseg_r1(backend=stored)", "random"]
)
def test_a_pipeline_has_one_request_a_question(pipeline):
    with pytest.raises(UsageError, match=pipeline.partition("(")[0]):
        load_pipeline(pipeline)


@pytest.mark.parametrize(("spec", "found"), [("v_star", "judge"), ("stv_205k", "box_3d")])
def test_what_cannot_be_scored_there_is_not_exported(spec, found, export, capsys, shapes, tmp_path):
    given = ["--data", str(shapes), "--out", str(tmp_path), "--tasks", spec]
    assert main(["lmms", "export", *given]) == UsageError.exit_code
    assert found in capsys.readouterr().err


NOT_EXPORTED = {
    "v_star": "answers that a judge grades",
    "stv_205k": "box_3d",  # no network here answers with one
    "table": "file",  # its own file is the benchmark
    "lmms": "name",  # they are lmms-eval's own
}
"""Why a task is not exported, in the message's own values."""


def test_without_names_every_task_is_exported_but_for_a_known_reason(
    command, shapes, tmp_path, monkeypatch
):
    monkeypatch.setitem(videoseg_r1_15k.__kwdefaults__, "total", 50)  # repeats of a few otherwise
    made = command.json("lmms", "export", "--data", shapes, "--out", tmp_path / "lmms")
    assert set(made["left_out"]) == set(NOT_EXPORTED)
    assert all(why in made["left_out"][name] for name, why in NOT_EXPORTED.items())
    every = set(installed_plugins("tasks")) - set(NOT_EXPORTED)
    assert set(made["tasks"].values()) == every
    assert set(made["tasks"]) == {path.stem for path in (tmp_path / "lmms").glob("*.yaml")}
    recorded = read_metadata(tmp_path / "lmms" / "harness_mevis.yaml")
    assert (
        recorded["described"]["segmenter"]
        == {"name": "grabcut"} | recorded["described"]["segmenter"]
    )
