"""Time and size of a site, and the time until Chromium shows its overview and a table's rows.

    python benchmarks/site.py --world DIR [--models 50] [--worlds 5] [--size 200] [--tasks NAMES]

Worlds of `shapes` with different seeds give distinct tables. Each model is right with a probability
of its own, and else guesses as `random` does, in a response of the usual length. DIR stays, so that
a second call measures at once. A long table: `--models 2 --worlds 1 --size 5000 --tasks reason_seg`
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter

from harness import plugins
from harness.model import Model
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import parse
from harness.testing import make_shapes
from harness.types import Answer, Call, Parsed, ParsedObject, Prediction, Query, Request, Usage

TASKS = "reason_seg,mevis,counting,shapes_qa"
WORDS = ["large", "red", "blue", "circle", "left", "right", "near", "moves"]
PROMPT = (
    'Please find "{q}" with bboxs and points. Compare the difference between object(s) and find '
    "the most closely matched object(s). Output the thinking process in <think> </think> and final "
    "answer in <answer> </answer> tags, in JSON format."
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
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
TRIES = 5
COST = (
    "import resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], stdout=-3, check=True)\n"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)"
)
"""Between a command and this process, whose own memory would be that command's peak."""


@dataclass(frozen=True, kw_only=True)
class Knowing(Model):
    """Knows the answers, and gives a guess by chance."""

    name: str
    skill: float
    """Probability of a right answer."""
    answers: Mapping[str, Answer]
    """The right ones, by the query's id."""
    guesser: Model
    batch_size: int = 64

    def describe(self) -> dict[str, object]:
        return {"name": self.name, "skill": self.skill}

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        return [self._prediction(query) for query in queries]

    def _prediction(self, query: Query) -> Prediction:
        chance = random.Random(f"{self.name} {query.id}")
        (guess,) = self.guesser.predict([query])
        right = replace(self.answers[query.id], instances=None)
        spoken = " ".join(chance.choices(WORDS, k=28))
        box = sorted(chance.randrange(840) for _ in range(4))
        found = json.dumps([{"bbox_2d": box, "point_2d": box[1:3]}])
        response = f"<think>{spoken}</think><answer>{found}</answer>"
        return Prediction(
            query_id=query.id,
            answer=right if chance.random() < self.skill else guess.answer,
            responses=(response,),
            calls=(Call(request=Request(text=PROMPT.format(q=query.text)), response=response),),
            parsed=(Parsed(form=query.form, objects=(ParsedObject(box=None),)),),
            usage=Usage(prompt_tokens=400, completion_tokens=chance.randrange(40, 160), frames=8),
        )


def write_runs(world: Path, name: str, out: Path, models: int) -> None:
    """Evaluate every model on one task of one world, which is made if it is not there."""
    if not world.exists():
        size, seed = (int(one) for one in world.name.split("-")[:2])
        make_shapes(world, tasks=[name], size=size, seed=seed)
    task = plugins.build("tasks", parse(name), world)
    answers = {one.query.id: one.target.answer for one in task.samples()}
    for number in range(models):
        skill = 0.25 + 0.7 * number / max(1, models - 1)
        guesser = plugins.build("models", parse(f"random(seed={number})"))
        model = Knowing(name=f"model{number:02d}", skill=skill, answers=answers, guesser=guesser)
        folder = out / model.name / world.name
        if not (folder / "results.json").is_file():
            options = Options(checked=True, data_root=str(world))
            evaluate(task, model, folder, options, task_spec=name)


def shown(page: Path, fragment: str, selector: str) -> float:
    """Return seconds from the start of the navigation until a selector is painted: the median."""
    from playwright.sync_api import sync_playwright

    found: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(TRIES):
            tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            tab.add_init_script(WATCH % json.dumps(selector))
            tab.goto(page.resolve().as_uri() + fragment, wait_until="commit")
            tab.wait_for_function("() => window.painted", timeout=120_000)
            found.append(tab.evaluate("window.painted"))
            tab.context.close()
        browser.close()
    return round(median(found), 2)


def measured(runs: Path, out: Path, models: int) -> dict[str, object]:
    """Build the site and open it; return seconds, MB and what it holds."""
    shutil.rmtree(out, ignore_errors=True)
    line = ["-m", "harness", "board", "site", "--runs", str(runs), "--out", str(out)]
    start = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COST, sys.executable, *line], stdout=subprocess.PIPE, check=True
    )
    seconds = perf_counter() - start
    processor, peak = map(float, done.stdout.split())
    text = (out / "data/index.js").read_text("utf-8")
    index = json.loads(text[len('H("index",') : text.rindex(")")])
    key = index["site"]["tables"][0]["key"]
    sizes = {path: path.stat().st_size / 1e6 for path in out.rglob("*") if path.is_file()}
    media = sum(size for path, size in sizes.items() if out / "media" in path.parents)
    page = out / "index.html"
    rows = ".rows [role=row][aria-rowindex='2'] .delta"
    return {
        "tables": len(index["board"]["tables"]),
        "runs": sum(len(table["rows"]) for table in index["board"]["tables"]),
        "build_seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "peak_mb": round(peak),
        "site_mb": round(sum(sizes.values()), 1),
        "media_mb": round(media, 1),
        "overview_seconds": shown(page, "", f"table.overview tbody tr:nth-child({models})"),
        "first_rows_seconds": shown(page, f"#/task/{key}/samples/model00/model01", rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--models", type=int, default=50, help="at least 2")
    parser.add_argument("--worlds", type=int, default=5)
    parser.add_argument("--size", type=int, default=200, help="samples a table")
    parser.add_argument("--tasks", default=TASKS)
    given = parser.parse_args()
    runs = given.world / f"runs-{given.models}x{given.worlds}x{given.size}"
    for seed in range(given.worlds):
        for name in given.tasks.split(","):
            world = given.world / f"{given.size}-{seed}-{name}"
            write_runs(world, name, runs, given.models)
    print(json.dumps(measured(runs, given.world / "site", given.models), indent=1))


if __name__ == "__main__":
    main()
