"""lmms-eval's own tasks inside harness, where it is installed: its scores, our runs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from harness import compare, evaluate, load_task, read_run, read_samples
from harness.cli.main import main
from harness.errors import DataError, HarnessError, UsageError
from harness.lmms.benchmarks import request_settings
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.run.batching import samples_of
from harness.run.verify import verify
from harness.types import GenerationSettings

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")

REPOSITORY = Path(__file__).resolve().parents[2]
YAML = """
task: {name}
dataset_path: {kind}
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: {output}
doc_to_visual: !function utils.visual
doc_to_text: question
doc_to_target: answer
description: "Look. "
process_results: !function utils.process
metric_list:
  - {{metric: right, aggregation: mean, higher_is_better: true}}
  - {{metric: percent, aggregation: !function utils.percent, higher_is_better: true}}
"""
GROUP = """
group: both
task: [files, images]
aggregate_metric_list:
  - {metric: right, weight_by_size: true}
"""
UTILS = """
from PIL import Image
def visual(doc):
    image = doc["image"]
    return [Image.open(image) if isinstance(image, str) else image]
def process(doc, results):
    if results[0] == "kept by nothing": return {"percent": object()}
    return {"right": doc["answer"] in results[0], "percent": {"right": doc["answer"] in results[0]}}
def percent(items): return 100 * sum(one["right"] for one in items) / len(items)
"""


@pytest.fixture(scope="module", autouse=True)
def hub_of_ones_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("hub")))
        yield


@pytest.fixture(scope="module")
def root(shapes, tmp_path_factory):
    """A data root with tasks of one's own: images in files, images in a table, and both."""
    datasets = pytest.importorskip("datasets")
    root = tmp_path_factory.mktemp("root")
    folder = root / "lmms_eval"
    folder.mkdir()
    rows = []
    for place, sample in enumerate(samples_of(load_task("counting", data=shapes))):
        path = folder / f"{place}.png"
        Image.fromarray(sample.query.media[0].frame(0)).save(path)
        answer = str(sample.target.answer.count)
        rows.append({"question": sample.query.text, "answer": answer, "image": str(path)})
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    few = [{**row, "image": Image.open(row["image"])} for row in rows[:2]]
    datasets.Dataset.from_list(few).to_parquet(str(folder / "rows.parquet"))
    for name, kind, file, output in (
        ("files", "json", "rows.jsonl", "generate_until"),
        ("images", "parquet", "rows.parquet", "generate_until"),
        ("likely", "json", "rows.jsonl", "loglikelihood"),
    ):
        text = YAML.format(name=name, kind=kind, file=file, output=output)
        (folder / f"{name}.yaml").write_text(text)
    (folder / "short.yaml").write_text(
        YAML.format(name="short", kind="json", file="rows.jsonl", output="generate_until")
        + "generation_kwargs: {max_new_tokens: 3, do_sample: false, temperature: 0.7}"
    )
    (folder / "both.yaml").write_text(GROUP)
    (folder / "own.yaml").write_text(
        GROUP.replace("both", "own").replace(
            "weight_by_size: true", "aggregation: !function utils.percent"
        )
    )
    (folder / "mmstar.yaml").write_text(
        YAML.format(name="mmstar", kind="json", file="rows.jsonl", output="generate_until").replace(
            "utils.visual", "hostile.visual"
        )
    )
    (folder / "hostile.py").write_text("raise SystemExit('code of a data root has run')")
    (folder / "utils.py").write_text(UTILS)
    return root


def said(folder, texts):
    """A model that says these, one after the other."""
    file = folder / "said.jsonl"
    rows = ({"id": name, "response": text} for name, text in texts.items())
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return f"qwen_vl(backend=stored(file={file}))"


def test_a_task_of_ones_own_is_run_resumed_and_compared(root, tmp_path):
    task = load_task("lmms:files", data=root)
    samples = list(samples_of(task))
    assert samples[0].query.text.startswith("Look. How many")
    right = {one.id: f"<think>0</think>It is {one.target.answer.text}." for one in samples}
    model = said(tmp_path, right | {samples[0].id: "<think>7</think>none"})
    run = evaluate(task, model, out=tmp_path / "runs")
    n = len(samples)
    assert run.results["metrics"] == {"right": (n - 1) / n, "percent": 100 * (n - 1) / n}
    low, high = run.results["intervals"]["percent"]
    assert low < 100 * (n - 1) / n < high and run.results["ceiling"] is None
    assert run.results["protocol"].startswith("lmms-eval/")
    journal = sorted((run.folder / "journal").rglob("*")) or sorted(run.folder.glob("*journal*"))
    before = {path: path.stat().st_mtime_ns for path in journal}
    again = evaluate(task, model, out=tmp_path / "runs")
    assert before == {path: path.stat().st_mtime_ns for path in journal}
    other = evaluate(task, said(tmp_path, right), out=tmp_path / "runs", name="all right")
    made = compare(again, other)
    assert made.difference == pytest.approx(1 / n)
    assert read_run(run.folder).results == again.results
    assert main(["diff", str(run.folder), str(other.folder)]) == 0
    assert main(["score", str(run.folder)]) == 0


def test_a_group_is_averaged_by_the_sizes_of_its_tasks(root, tmp_path):
    task = load_task("lmms:both", data=root)
    texts = {
        one.id: one.target.answer.text if one.id.startswith("images/") else "none"
        for one in samples_of(task)
    }
    numbers = evaluate(task, said(tmp_path, texts), out=tmp_path / "runs").results["metrics"]
    n = len(texts)
    assert numbers["files/right"] == 0 and numbers["images/right"] == 1
    assert numbers["right"] == 2 / n and numbers["percent"] == 50.0
    assert task.protocol.headline == "right"


def test_images_in_a_table_are_those_in_files(root):
    both = {one.id: one.query for one in samples_of(load_task("lmms:both", data=root))}
    for place in range(2):
        ours, theirs = both[f"files/{place}"].media[0], both[f"images/{place}"].media[0]
        assert (ours.frame(0) == theirs.frame(0)).all() and ours.id == theirs.id


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"max_new_tokens": 16, "do_sample": False, "temperature": 0.7}, {"max_new_tokens": 16}),
        ({"do_sample": True, "temperature": 0.7, "top_p": 0.9}, {"temperature": 0.7, "top_p": 0.9}),
        ({"do_sample": True, "temperature": 0.7, "top_p": 0}, {}),
        ({"do_sample": False, "until": ["\n\n", "", "Q:"]}, {"stop": ("Q:",)}),
        ({"do_sample": False, "until": "Q:"}, {"stop": ("Q:",)}),
        (None, {"temperature": None}),
    ],
)
def test_generation_kwargs_are_settings_of_the_request(given, taken):
    task = SimpleNamespace(config=SimpleNamespace(generation_kwargs=given))
    assert request_settings(task) == GenerationSettings(**{"temperature": 0.0, **taken})


def test_a_response_has_the_length_that_its_task_prescribes(root, tmp_path):
    """And the run says so; with `generation=model` it is the model's, by another protocol."""
    model = "pocket(retry=false,segmenter=box,max_new_tokens=60)"
    for spec, limit in (("lmms:short", 3), ("lmms(name=short,generation=model)", 60)):
        run = evaluate(load_task(spec, data=root), model, out=tmp_path / spec)
        used = [one.prediction.usage.completion_tokens for one in read_samples(run)]
        sent = {
            call.request.generation for one in read_samples(run) for call in one.prediction.calls
        }
        assert run.results["ledger"]["limit"] == limit
        if limit == 3:
            assert {*used} == {3} and run.results["ledger"]["cut"] == len(used)
            assert sent == {GenerationSettings(max_new_tokens=3, temperature=0.0)}
            official = run.results["protocol"]
        else:
            assert max(used) > 3 and sent == {None} and run.results["protocol"] != official


def test_a_kill_in_the_middle_and_the_same_command_again_end_with_the_same_bytes(root, tmp_path):
    def start(out):
        model = "pocket(retry=false,segmenter=box,batch_size=1)"
        given = ["--model", model, "--tasks", "lmms:files", "--data", root, "--out", out, "--quiet"]
        line = [sys.executable, "-m", "harness", "eval", *map(str, given)]
        return subprocess.Popen(line, start_new_session=True)

    calm, rough = tmp_path / "calm", tmp_path / "rough"
    assert start(calm).wait() == 0
    process = start(rough)
    while not any(b'"sample"' in one.read_bytes() for one in rough.rglob("samples.*.jsonl")):
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not [*rough.rglob("results.json")]
    assert start(rough).wait() == 0
    for name in ("results.json", "scores.jsonl"):
        (ours,), (theirs,) = calm.rglob(name), rough.rglob(name)
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(("name", "found"), [("no_such_task", "no_such"), ("likely", "loglike")])
def test_what_cannot_be_run_is_said(name, found, root):
    with pytest.raises(UsageError, match=found):
        load_task(f"lmms:{name}", data=root)


def test_a_group_with_a_function_of_its_own_is_refused(root):
    with pytest.raises(UsageError, match="percent"):
        load_task("lmms:own", data=root)


def test_a_data_root_does_not_replace_tasks_of_lmms_eval(root):
    """Its code would run for a name that is not its own."""
    with pytest.raises(HarnessError):  # the data set of the real one is not here
        load_task("lmms:mmstar", data=root)


def test_perfect_answers_have_no_score_to_verify(root):
    with pytest.raises(DataError, match="lmms_files"):
        list(verify(load_task("lmms:files", data=root), None))


def test_results_that_a_record_cannot_keep_are_an_error(root, tmp_path):
    task = load_task("lmms:files", data=root)
    texts = dict.fromkeys((one.id for one in samples_of(task)), "kept by nothing")
    with pytest.raises(DataError, match="percent"):
        evaluate(task, said(tmp_path, texts), out=tmp_path / "runs")


@pytest.fixture(scope="module")
def hub(shapes, tmp_path_factory):
    """Run a command among local copies of the data sets that lmms-eval's tasks name."""
    folder = tmp_path_factory.mktemp("datasets")
    site = tmp_path_factory.mktemp("site")
    if ensure_torchvision():  # this machine's torchvision has to be mended in other processes too
        mend = "from harness.models.backends.torchvision_cpu import ensure_torchvision as mend\n"
        (site / "sitecustomize.py").write_text(f"{mend}mend()\n")

    def ran(*line):
        paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
        env["HF_HOME"] = str(folder / "home")
        line = [sys.executable, *map(str, line)]
        done = subprocess.run(line, capture_output=True, text=True, cwd=folder, env=env)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    ran.table = ran(REPOSITORY / "tests" / "lmms" / "wordings.py", shapes, folder)
    return ran


def test_the_page_has_the_table_of_both_protocols_on_the_same_responses(hub):
    page = (REPOSITORY / "docs" / "lmms-eval.md").read_text("utf-8")
    table = [line for line in hub.table.splitlines() if line.startswith("| ")]
    assert len(table) > 10 and all(f"{line}\n" in page for line in table), "\n".join(table)


def test_its_tasks_score_here_as_on_its_own_command_line(hub, root, tmp_path):
    """The same model of ours in both: equal questions, answers and numbers."""
    names = ("videomme", "mvbench", "vsibench")
    arguments = "retry=false,segmenter=box,batch_size=1"
    ours = json.loads(
        hub(
            *("-m", "harness", "eval", "--model", f"pocket({arguments})", "--data", root),
            *(
                "--tasks",
                ",".join(f"lmms(name={name},read=answer,generation=model)" for name in names),
            ),
            *("--out", tmp_path / "runs", "--json"),
        )
    )["tasks"]
    hub(
        *("-m", "lmms_eval", "--model", "harness", "--model_args", f"method=pocket,{arguments}"),
        *("--tasks", ",".join(names), "--output_path", tmp_path / "out", "--verbosity", "DEBUG"),
    )
    (path,) = (tmp_path / "out").rglob("*_results.json")
    theirs = json.loads(path.read_text())["results"]
    checked = 0
    for name in names:
        for metric, value in ours[f"lmms(name={name},read=answer,generation=model)"][
            "metrics"
        ].items():
            task, _, own = metric.rpartition("/")
            if name == "mvbench" and not task:
                continue  # lmms-eval has none
            assert theirs[task or name][f"{own},none"] == value, metric
            checked += 1
    assert checked == 1 + 20 + 9
