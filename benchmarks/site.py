"""Time and size of a site, and the time until Chromium shows it, beside an earlier version's page.

    python benchmarks/site.py --world DIR [--models 50] [--worlds 5] [--size 200] [--before HARNESS]

Worlds of `shapes` with different seeds give distinct tables. A prediction is the ground truth or a
wrong answer, by the model's own probability, with a response of the usual length. `--before` names
the `harness` of an earlier checkout, whose `board build` then runs on the same folders. DIR stays,
so that a second call measures at once.
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from harness import plugins
from harness.interchange import prediction_to_json
from harness.masks import Rle
from harness.record import VERSION, finish, summarise
from harness.run.scoring import score_unit
from harness.scores import UnitScore
from harness.spec import parse
from harness.store.atomic import write_json
from harness.store.journal import Writer
from harness.store.texts import with_references
from harness.types import Answer, Call, Parsed, ParsedObject, Prediction, Request, Usage

TASKS = ("reason_seg", "mevis", "counting", "shapes_qa")
WORDS = (
    "the",
    "a",
    "large",
    "red",
    "blue",
    "circle",
    "left",
    "right",
    "of",
    "near",
    "moves",
    "it",
    "is",
)
PROMPT = (
    'Please find "{q}" with bboxs and points. Compare the difference between object(s) and find '
    "the most closely matched object(s). Output the thinking process in <think> </think> and final "
    "answer in <answer> </answer> tags, in JSON format."
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))


def make_world(folder: Path, *, seed: int, size: int, task: str) -> Path:
    if not (folder / "shapes.json").is_file():
        command = ["data", "make", "shapes", "--out", folder, "--seed", seed, "--size", size]
        harness(*command, "--tasks", task)
    return folder


def make_long(folder: Path, source: Path, times: int) -> Path:
    """A world whose validation samples stand there several times, under names of their own."""
    if not (folder / "shapes.json").is_file():
        shutil.copytree(source, folder)
        for path in sorted((folder / "reason_seg/ReasonSeg/val").iterdir()):
            for number in range(times):
                shutil.copy(path, path.with_stem(f"{path.stem}_{number:02d}"))
            path.unlink()
    return folder


def harness(*arguments, program=None) -> None:
    start = [program] if program else [sys.executable, "-m", "harness"]
    subprocess.run([*start, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def wrong(answer: Answer, query) -> Answer:
    """An answer beside the right one."""
    if answer.masks is not None:
        moved = []
        for mask in answer.masks:
            array = mask.to_array()
            moved.append(Rle.from_array(array[:, ::-1]))
        return Answer(masks=tuple(moved))
    if answer.count is not None:
        return Answer(count=answer.count + 1)
    if answer.choice is not None:
        others = [letter for letter in "ABCDEFGH"[: len(query.options)] if letter != answer.choice]
        return Answer(choice=others[0] if others else "A")
    return Answer(number=(answer.number or 0) + 1)


def plain_answer(answer: Answer) -> Answer:
    return replace(answer, instances=None)


def prediction(sample, answer: Answer, chance: random.Random) -> Prediction:
    spoken = " ".join(chance.choices(WORDS, k=28))
    box = sorted(chance.randrange(840) for _ in range(4))
    response = (
        f'<think>{spoken}</think><answer>[{{"bbox_2d": {box}, "point_2d": {box[1:3]}}}]</answer>'
    )
    call = Call(request=Request(text=PROMPT.format(q=sample.query.text)), response=response)
    return Prediction(
        query_id=sample.query.id,
        answer=answer,
        responses=(response,),
        calls=(call,),
        parsed=(Parsed(form=sample.query.form, objects=(ParsedObject(box=None),)),),
        usage=Usage(prompt_tokens=400, completion_tokens=chance.randrange(40, 160), frames=8),
    )


def write_runs(world: Path, task_name: str, out: Path, models: int) -> None:
    """Runs of all models on one task of one world; both answers of a sample are scored once."""
    task = plugins.build("tasks", parse(task_name), world)
    samples = list(task.samples())
    kinds = []
    for sample in samples:
        right = plain_answer(sample.target.answer)
        pair = []
        for answer in (right, wrong(right, sample.query)):
            made = Prediction(query_id=sample.query.id, answer=answer)
            pair.append(
                (answer, score_unit(task, [sample], [made]) if sample.unit == sample.id else None)
            )
        kinds.append(pair)
    if any(scored is None for pair in kinds for _, scored in pair):
        raise SystemExit(f"{task_name} scores several samples together")
    fingerprint = world.name
    for model in range(models):
        folder = out / f"model{model:02d}" / world.name
        if (folder / "results.json").is_file():
            continue
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        chance = random.Random(f"{model} {fingerprint}")
        skill = 0.25 + 0.7 * model / max(1, models - 1)
        chosen = [pair[chance.random() > skill] for pair in kinds]
        predictions = [
            prediction(sample, answer, chance)
            for sample, (answer, _) in zip(samples, chosen, strict=True)
        ]
        units: list[UnitScore] = [scored for _, scored in chosen]
        manifest = {
            "version": VERSION,
            "harness": "0.1.0",
            "task": {
                "spec": task_name,
                "name": task.name,
                "version": task.version,
                "split": task.split,
                "protocol": task.protocol.name,
                "arguments": {},
            },
            "subset": None,
            "model": {"spec": f"model{model:02d}", "name": f"model{model:02d}", "description": {}},
            "data": {"root": str(world), "fingerprint": fingerprint, "n_total": len(samples)},
            "seed": 0,
            "provenance": {
                "commit": "0" * 40,
                "dirty": False,
                "packages": {},
                "python": "3.11",
                "platform": "Linux",
                "device": "cpu",
            },
            "config_hash": f"{fingerprint}-{model}",
        }
        usage = {
            name: sum(getattr(one.usage, name) for one in predictions)
            for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens", "frames")
        }
        nothing = dict.fromkeys(metric.name for metric in task.protocol.metrics)
        results = summarise(task, manifest, units, {}, usage, nothing, 1.0)
        with Writer(folder, 0, 1) as journal:
            journal.append(
                [
                    with_references(
                        {"sample": sample.query.id, "prediction": prediction_to_json(one)},
                        question=sample.query.text,
                        options=sample.query.options,
                    )
                    for sample, one in zip(samples, predictions, strict=True)
                ]
            )
        write_json(folder / "manifest.json", manifest)
        finish(folder, units, results)
        write_json(folder / "timing.json", {"wall_seconds": 60.0 + model, "attempts": []})


def measured(*arguments, program=None) -> dict[str, float]:
    """Seconds, seconds of the processor, and peak memory in MB of one call."""
    script = (
        "import resource, subprocess, sys\n"
        "code = subprocess.run(sys.argv[1:], stdout=-3, stderr=-3)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, code.returncode)"
    )
    start = [program] if program else [sys.executable, "-m", "harness"]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, *start, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    processor, memory, code = done.stdout.split()
    if code != "0":
        raise SystemExit(f"{arguments}: exit code {code}")
    return {
        "build_seconds": round(seconds, 1),
        "processor_seconds": round(float(processor), 1),
        "peak_mb": round(float(memory)),
    }


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


WATCH = """(() => {
  const watcher = new MutationObserver(() => {
    if (!document.querySelector(%s)) return;
    watcher.disconnect();
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => { window.painted = performance.now() / 1000; };
      after.port2.postMessage(0);
    });
  });
  watcher.observe(document, { subtree: true, childList: true });
})();"""
"""Notes when the frame is painted in which a selector first fits."""


def shown(page_path: Path, fragment: str, selector: str, *, tries: int = 5) -> float:
    """The median of seconds from the start of the navigation until a selector is painted."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(tries):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.add_init_script(WATCH % json.dumps(selector))
            page.goto(page_path.resolve().as_uri() + fragment, wait_until="commit")
            page.wait_for_function("() => window.painted", timeout=120_000)
            found.append(page.evaluate("window.painted"))
            page.context.close()
        browser.close()
    return round(sorted(found)[len(found) // 2], 2)


def loaded(page_path: Path, *, tries: int = 3) -> float:
    """The median of seconds until the browser has loaded the page, and answers again."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(tries):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.goto(page_path.resolve().as_uri(), timeout=120_000)
            found.append(page.evaluate("performance.now() / 1000"))
            page.context.close()
        browser.close()
    return round(sorted(found)[len(found) // 2], 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--worlds", type=int, default=5)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    runs = given.world / f"runs-{given.models}x{given.worlds}x{given.size}"
    for seed in range(given.worlds):
        for task in TASKS:
            folder = given.world / f"data{seed}-{task}"
            write_runs(
                make_world(folder, seed=seed, size=given.size, task=task), task, runs, given.models
            )
    report = {"wide": wide(runs, given.world / "site", given.models, given.before)}
    if given.samples:
        times = given.samples // given.size
        long = make_long(
            given.world / f"long{given.samples}", given.world / "data0-reason_seg", times
        )
        write_runs(long, "reason_seg", given.world / f"runs-long{given.samples}", 2)
        report["long"] = one_table(given.world / f"runs-long{given.samples}", given.world / "long")
    print(json.dumps(report, indent=1))


def wide(runs: Path, out: Path, models: int, before: Path | None) -> dict[str, object]:
    shutil.rmtree(out, ignore_errors=True)
    cost = measured("board", "site", "--runs", runs, "--out", out)
    index = json.loads((out / "board.json").read_text())
    found: dict[str, object] = {
        "tables": len(index["tables"]),
        "runs": sum(len(table["rows"]) for table in index["tables"]),
        **cost,
        "site_mb": round(megabytes(out), 1),
        "media_mb": round(megabytes(out / "media"), 1),
        "loaded_seconds": loaded(out / "index.html"),
        "overview_seconds": shown(
            out / "index.html", "", f"table.overview tbody tr:nth-child({models})"
        ),
    }
    if before is not None:
        old = out.with_name("before")
        shutil.rmtree(old, ignore_errors=True)
        cost = measured("board", "build", "--runs", runs, "--out", old, program=before)
        page = old / "board.html"
        found["before"] = {
            **cost,
            "page_mb": round(page.stat().st_size / 1e6, 1),
            "loaded_seconds": loaded(page),
        }
    return found


def one_table(runs: Path, out: Path) -> dict[str, object]:
    shutil.rmtree(out, ignore_errors=True)
    cost = measured("board", "site", "--runs", runs, "--out", out)
    text = (out / "data/index.js").read_text()
    key = json.loads(text[len('H("index",') : text.rindex(")")])["site"]["tables"][0]["key"]
    first = shown(
        out / "index.html",
        f"#/task/{key}/samples/model00/model01",
        ".rows [role=row][aria-rowindex='2'] .delta",
    )
    return {
        "samples": 5000,
        **cost,
        "site_mb": round(megabytes(out), 1),
        "first_rows_seconds": first,
    }


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
