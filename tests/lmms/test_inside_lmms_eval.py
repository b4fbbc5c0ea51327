"""lmms-eval's real command line, where it is installed: our tasks, and our models, inside it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from PIL import Image

from harness import evaluate, load_model, load_task
from harness.cli.main import main
from harness.errors import UsageError
from harness.lmms.export import load_pipeline, read_metadata
from harness.lmms.visuals import medium
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.pocket import FOLDER
from harness.models.pocket.model import CANVAS
from harness.run.batching import samples_of
from harness.types import Answer, AnswerForm, Box, Failure, FailureKind, Prediction, Query, query_id

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
from harness.lmms import models

LIMITS = f"min_pixels={CANVAS[0] * CANVAS[1]},max_pixels={CANVAS[0] * CANVAS[1]}"
SAID = '''
"""A model of lmms-eval that says what stands in a file."""
import json
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest

def manifests():
    return ModelManifest("said", simple_class_path="said.Simple", chat_class_path="said.Chat")

class Simple(lmms):
    is_simple = True

    def __init__(self, file, **_):
        super().__init__()
        rows = map(json.loads, open(file))
        self.said = {(row["task"], row["id"], row["form"]): row["response"] for row in rows}

    def loglikelihood(self, requests): ...
    def generate_until_multi_round(self, requests): ...

    def generate_until(self, requests):
        return [self.say(*one.args) for one in requests]

    def say(self, text, settings, doc_to_visual, doc, task, split):
        row = self.task_dict[task][split][doc]
        assert text and doc_to_visual(row) and settings["until"] == []
        return self.said[row["task"], row["id"], row["form"]]

class Chat(Simple):
    is_simple = False

    def say(self, text, doc_to_messages, settings, doc, task, split):
        row = self.task_dict[task][split][doc]
        *media, last = doc_to_messages(row)[-1]["content"]
        assert media and last == {"type": "text", "text": text} and settings["until"] == []
        return self.said[row["task"], row["id"], row["form"]]
'''


@pytest.fixture(scope="module")
def lmms_eval(tmp_path_factory):
    """Run `lmms-eval` with these arguments; give results and samples by task."""
    site = tmp_path_factory.mktemp("site")
    (site / "said.py").write_text(SAID)
    about = site / "said-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: said\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[lmms_eval.models]\nsaid = said:manifests\n")
    if ensure_torchvision():  # this machine's torchvision has to be mended in its process as well
        mend = "from harness.models.backends.torchvision_cpu import ensure_torchvision as mend\n"
        (site / "sitecustomize.py").write_text(f"{mend}mend()\n")

    def ran(*arguments: object) -> tuple[dict, dict]:
        out = tmp_path_factory.mktemp("out")
        logged = ("--log_samples", "--verbosity", "DEBUG", "--output_path")
        paths = [str(site), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, "-m", "lmms_eval", *map(str, arguments), *logged, str(out)],
            capture_output=True,
            text=True,
            timeout=500,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "HF_HOME": str(site / "hub"),
                "HF_HUB_OFFLINE": "1",
            },
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        (results,) = out.rglob("*_results.json")
        samples = {
            path.stem.partition("_samples_")[2]: list(map(json.loads, path.open()))
            for path in out.rglob("*_samples_*.jsonl")
        }
        return json.loads(results.read_text())["results"], samples

    return ran


def numbers(result):
    """Metrics of a task without errors and names."""
    found = {key.rpartition(",")[0]: one for key, one in result.items() if key.endswith(",none")}
    return {name: one for name, one in found.items() if "_stderr" not in name}


def write_responses(folder: Path, out: Path) -> dict[str, Path]:
    """Write right, unreadable, wrong and reasoned responses: for lmms-eval, and for `stored`."""
    files = {}
    with (out / "said.jsonl").open("w") as said:
        for path in folder.glob("*.yaml"):
            recorded = read_metadata(path)
            reader = load_pipeline(recorded["pipeline"])
            task = load_task(recorded["task"], data=recorded["data"])
            files[path.stem] = out / f"{path.stem}.jsonl"
            with files[path.stem].open("w") as stored:
                for place, sample in enumerate(samples_of(task)):
                    texts = reader.write(sample.query, sample.target.answer)
                    for request, text, form in zip(
                        reader.requests(sample.query), texts, sample.query.forms, strict=True
                    ):
                        ways = (
                            text,
                            "no idea",
                            text.replace("1", "2"),
                            f"<think>A 7</think>{text}",
                        )
                        row = {"response": ways[place % 4]}
                        stored.write(json.dumps({"key": request.key, **row}) + "\n")
                        known = {"task": path.stem, "id": sample.id, "form": form}
                        said.write(json.dumps({**known, **row}) + "\n")
    return files


LARGE = "videoseg_r1_15k"
"""A set of the generated world with thousands of samples."""


def test_every_exported_task_scores_as_eval_does(shapes, tmp_path, lmms_eval):
    """Of all metrics of all tasks, on the same responses, to the last bit."""
    folder, reader = tmp_path / "lmms", "qwen_vl(prompt=locate,segmenter=box,propagator=still{})"
    given = ["--data", str(shapes), "--out", str(folder), "--pipeline", reader.format("")]
    assert main(["lmms", "export", *given]) == 0
    for path in folder.glob(f"*{LARGE}.*"):
        path.unlink()
    files = write_responses(folder, tmp_path)
    said = ["--model", "said", "--model_args", f"file={tmp_path / 'said.jsonl'}"]
    found, _ = lmms_eval("--include_path", folder, *said, "--tasks", ",".join(files))
    assert set(found) == set(files) and len(files) > 50
    for name, file in files.items():
        task = load_task(read_metadata(folder / f"{name}.yaml")["task"], data=shapes)
        spec = reader.format(f",backend=stored(file={file})")
        ours = evaluate(task, spec, out=tmp_path / "runs").results["metrics"]
        theirs = {key: one if one == one else None for key, one in numbers(found[name]).items()}
        assert theirs == ours, name
    few = ["--tasks", "harness_reason_seg,harness_mvbench", "--force_simple"]
    simple, samples = lmms_eval("--include_path", folder, *said, *few)
    assert all(numbers(simple[name]) == numbers(found[name]) for name in simple)
    error = simple["harness_reason_seg"]["gIoU_stderr_clustered,none"]
    assert 0 < error < 0.5
    assert {one["gIoU"]["score"] for one in samples["harness_reason_seg"]} >= {0.0, 1.0}


def test_a_network_of_lmms_eval_scores_as_behind_our_backend(shapes, tmp_path, lmms_eval):
    """lmms-eval's own class of Qwen2.5-VL, with the weights that come with harness."""
    reader = f"pocket(retry=false,segmenter=box,propagator=still,backend=stored({LIMITS}))"
    names, folder = ("reason_seg", "counting", "shapes_qa"), tmp_path / "lmms"
    given = ["--data", str(shapes), "--out", str(folder), "--tasks", ",".join(names)]
    assert main(["lmms", "export", *given, "--pipeline", reader]) == 0
    arguments = f"pretrained={FOLDER},device_map=cpu,{LIMITS}"
    found, _ = lmms_eval(
        *("--include_path", folder, "--model", "qwen2_5_vl", "--device", "cpu"),
        *("--model_args", arguments, "--tasks", ",".join(f"harness_{name}" for name in names)),
    )
    backend = (
        f"lmms(name=qwen2_5_vl,arguments='{arguments}',tokenizer={FOLDER},device=cpu,{LIMITS})"
    )
    model = load_model(
        f"pocket(retry=false,segmenter=box,propagator=still,batch_size=1,backend={backend})"
    )
    for name in names:
        run = evaluate(load_task(name, data=shapes), model, out=tmp_path / "runs")
        assert numbers(found[f"harness_{name}"]) == run.results["metrics"]
    assert numbers(found["harness_reason_seg"])["gIoU"] > 0.3, "it knows these shapes"


TASK = """
task: local
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.visual
doc_to_text: question
doc_to_target: answer
process_results: !function utils.process
metric_list:
  - {metric: said, aggregation: !function utils.count, higher_is_better: true}
"""
UTILS = dedent(
    """
    from PIL import Image
    def visual(doc): return [Image.open(doc["image"]).convert("RGB")]
    def process(doc, results): return {"said": results[0]}
    def count(said): return float(sum(map(bool, said)))
    """
)


@pytest.mark.parametrize(
    ("method", "form", "simple"),
    [
        ("pocket", "text", False),
        ("pocket", "boxes", True),
        ("dr2seg", "mask", False),
        ("dr2seg", "mask", True),
    ],
)
def test_our_model_answers_tasks_of_lmms_eval(method, form, simple, shapes, tmp_path, lmms_eval):
    """The network that ships writes answers as DR2Seg's do."""
    task = load_task("refcoco", data=shapes)
    samples = list(samples_of(task))[:3]
    for place, sample in enumerate(samples):
        Image.fromarray(sample.query.media[0].frame(0)).save(tmp_path / f"{place}.png")
    rows = [
        {"question": one.query.text, "answer": "", "image": str(tmp_path / f"{place}.png")}
        for place, one in enumerate(samples)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "local.yaml").write_text(TASK)
    (tmp_path / "utils.py").write_text(UTILS)
    own = "retry=false" if method == "pocket" else f"checkpoint={FOLDER}"
    arguments = f"{own},segmenter=box,backend=transformers(dtype=float32,device=cpu)"
    _, found = lmms_eval(
        *("--include_path", tmp_path, "--tasks", "local", "--model", "harness"),
        *("--model_args", f"method={method},{arguments},form={form}"),
        *(["--force_simple"] if simple else []),
    )
    queries = [
        Query(
            id=query_id(f"local/{place}"),
            text=one.query.text,
            media=one.query.media,
            forms=(AnswerForm(form),),
        )
        for place, one in enumerate(samples)
    ]
    for query, line in zip(queries, found["local"], strict=True):
        (output,) = load_model(f"{method}({arguments})").predict([query])
        if form == "text":
            assert line["said"] == (output.answer.text if output.answer else output.responses[-1])
        elif form == "mask":
            (mask,) = json.loads(line["said"])["masks"]
            assert mask == output.answer.masks[0].to_json() and output.answer.masks[0].area > 0
        else:
            wide, high = query.size
            parts = [
                (box.left / wide, box.top / high, box.right / wide, box.bottom / high)
                for box in output.answer.boxes
            ]
            assert [tuple(box) for box in json.loads(line["said"])] == parts


@pytest.mark.parametrize(
    ("form", "answer", "text"),
    [
        ("text", Answer(text="red"), "red"),
        ("choice", Answer(choice="B"), "B"),
        ("count", Answer(count=3), "3"),
        ("number", Answer(number=2.5), "2.5"),
        ("boxes", Answer(boxes=(Box(0, 4, 10, 8),)), "[[0.0, 0.5, 1.0, 1.0]]"),
        ("points", Answer(points=((5, 2),)), "[[0.5, 0.25]]"),
        ("mask", None, "<answer>unreadable"),
    ],
)
def test_an_answer_of_each_form_is_text_for_lmms_eval(form, answer, text):
    image = medium(Image.new("RGB", (10, 8)))
    query = Query(id="q", text="?", media=(image,), forms=(AnswerForm(form),))
    failure = Failure(FailureKind.PARSE, "no answer") if answer is None else None
    said = ("<answer>unreadable",)
    given = Prediction(query_id="q", answer=answer, failure=failure, responses=said)
    assert models.answer_text(query, given) == text


@pytest.mark.parametrize(
    ("arguments", "config", "named"),
    [
        ("segmenter=box", {}, "method=NAME"),
        ("method=pocket,form=poem", {}, "form="),
        ("method=pocket", {"device": "cuda:0"}, "cuda:0"),
        ("method=pocket,no_such=1", {}, "no_such"),
    ],
)
def test_model_args_that_cannot_be_are_refused(arguments, config, named):
    with pytest.raises(UsageError, match=named):
        models.SimpleModel.create_from_arg_string(arguments, config)
