"""Compare what `harness eval --pilot 8` says of a run with what the run then takes.

    python benchmarks/pilot.py [--settings NAMES] [--save]

Each setting is a run in a process of its own. Networks: pocket, here and in worker processes;
servers (`length_server.py`) with equal answers, with the lengths of stored responses of three
families (`response_lengths.json`: characters / 4 of the responses to MATH-500 and OlympiadBench
that github.com/NovaSky-AI/SkyThought holds), with prompts that take time by their size, with few
places, and with a segmenter behind them. Seconds and tokens are those of everything after the
statement, scoring and the writing of results included. Where the model takes several samples at
once the seconds are stated later than tokens; `after` counts the samples before the statement.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unittest import mock

from steps import RESULTS, save_part

from harness import plugins
from harness.run.evaluate import evaluate
from harness.run.forecast import Rates
from harness.run.options import Options
from harness.run.piloted import PilotedRun
from harness.run.workers import build_model
from harness.spec import parse
from harness.testing.shapes import make_shapes

HERE = Path(__file__).resolve().parent
LENGTHS = HERE / "response_lengths.json"
PLACE = {"bbox_2d": [100, 100, 600, 600], "point_2d": [300, 300], "label": "shape"}
ANSWER = f"<answer>{json.dumps([PLACE])}</answer>"
GEMMA, SKY, QWEN = (
    "gemma-2-27b-it, OlympiadBench",
    "Sky-T1-27B, MATH-500",
    "Qwen2.5-14B-Instruct, MATH-500",
)
WITHIN = 0.2


class Setting(NamedTuple):
    """One run."""

    task: str
    samples: int
    places: int = 0
    """Requests to the server at once; 0: pocket."""
    server: tuple[str, ...] = ()
    """Options of the server."""
    segmenter: str = "box"
    workers: int = 1


def lengths(name: str, rate: float) -> tuple[str, ...]:
    """Return the server's options for a family's lengths at tokens a second."""
    return ("--lengths", str(LENGTHS), name, "--rate", str(rate))


SETTINGS = {
    "pocket, counts": Setting("counting", 800),
    "pocket, letters": Setting("vsi_bench", 400),
    "pocket, masks": Setting("reason_seg", 500),
    "pocket, masks of videos": Setting("mevis", 100),
    "pocket, letters on videos": Setting("tempcompass", 600),
    "pocket, counts, 2 processes": Setting("counting", 1600, workers=2),
    "server, equal, 1 at once": Setting("counting", 120, 1, ("--seconds", "0.4")),
    "server, equal, 8 at once": Setting("counting", 300, 8, ("--seconds", "1.0")),
    "server, equal, 64 at once": Setting("counting", 400, 64, ("--seconds", "4.0")),
    "server, by prompt, 1 at once": Setting("counting", 120, 1, ("--bytes", "40000")),
    "server, by prompt, 8 at once": Setting("reason_seg", 150, 8, ("--bytes", "20000")),
    "gemma 27b, 1 at once": Setting("counting", 120, 1, lengths(GEMMA, 1000)),
    "gemma 27b, 16 at once": Setting("counting", 300, 16, lengths(GEMMA, 180)),
    "Sky-T1 27B (thinks), 8 at once": Setting("counting", 300, 8, lengths(SKY, 1000)),
    "Sky-T1 27B (thinks), 32 at once": Setting("counting", 300, 32, lengths(SKY, 300)),
    "Sky-T1 27B, 32 at once, 8 places": Setting(
        "counting", 300, 32, lengths(SKY, 1000), "box"
    )._replace(server=(*lengths(SKY, 1000), "--slots", "8")),
    "Qwen2.5 14B (loops), 8 at once": Setting("counting", 300, 8, lengths(QWEN, 300)),
    "Qwen2.5 14B (loops), 32 at once": Setting("counting", 300, 32, lengths(QWEN, 100)),
    "server, masks by GrabCut, 16 at once": Setting(
        "reason_seg", 150, 16, ("--seconds", "0.5"), "grabcut"
    ),
    "gemma 27b, letters, 2 processes, 8 each": Setting(
        "vsi_bench", 300, 8, lengths(GEMMA, 180), workers=2
    ),
}


@contextmanager
def server(options: tuple[str, ...]) -> Iterator[str]:
    """Run a server; yield its address."""
    command = [sys.executable, str(HERE / "length_server.py"), "--answer", ANSWER, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it is a pipe"
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def measure(setting: Setting, data: Path, out: Path) -> dict[str, Any]:
    """Run a setting; return what was stated, and what the rest took."""
    stated: list[tuple[float, int, int, Rates]] = []
    state = PilotedRun._state

    def remember(run: PilotedRun, *given: Any) -> None:
        state(run, *given)
        assert run.rates is not None, "it was stated"
        tokens = sum(completion for _, completion in run._tokens.values())
        stated.append((perf_counter(), run.n_left, tokens, run.rates))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(PilotedRun, "_state", remember))
        spec = parse("pocket")
        if setting.places:
            url = stack.enter_context(server(setting.server))
            spec = parse(
                f"qwen_vl(prompt=locate,batch_size=64,segmenter={setting.segmenter},"
                f"propagator=still,backend=openai(model=model,base_url={url}/v1,"
                f"coordinates=normalized_1000,concurrency={setting.places}))"
            )
        options = Options(workers=setting.workers, pilot=8, subset=f"first{setting.samples}")
        model = build_model(spec, 0) if options.in_process else spec
        task = plugins.build("tasks", parse(setting.task), data)
        run = evaluate(task, model, out, options)
    end = perf_counter()
    total, tokens = run.results["n_total"], run.results["usage"]["completion_tokens"]
    peak = max(run.timing["attempts"][-1]["memory"].get("process_peak_bytes", [0]))
    rows = [
        {
            "after": total - left,
            "left": left,
            "seconds": end - moment,
            "said": None if rates.seconds is None else rates.seconds * left,
            "error": rates.error,
            "tokens": tokens - before,
            "tokens_said": rates.completion_tokens * left,
            "memory_said": rates.memory,
            "memory": peak,
        }
        for moment, left, before, rates in stated
    ]
    return {"n": total, "statements": rows}


def row(name: str, result: dict[str, Any]) -> tuple[str, bool, bool]:
    """Return a line of the table, and whether the first and the last time stated were right."""
    timed = [part for part in result["statements"] if part["said"] is not None]
    cells, right = [], []
    for part in (timed[0], timed[-1]):
        ratio = part["said"] / part["seconds"]
        right.append(abs(ratio - 1) <= WITHIN)
        mark = "" if right[-1] else " ✗"
        cells.append(
            f"{part['after']} | {part['said']:.0f} | {part['seconds']:.0f} | {ratio:.2f}{mark}"
        )
    first = result["statements"][0]
    tokens = f"{first['tokens_said'] / first['tokens']:.2f}" if first["tokens"] else "–"
    last = result["statements"][-1]
    memory = f"{last['memory_said'] / last['memory']:.2f}" if last["memory"] else "–"
    return f"| {name} | {result['n']} | {' | '.join(cells)} | {tokens} | {memory} |", *right


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--settings", help="names of settings, separated by ;")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--save", action="store_true")
    parser.add_argument(
        "--json", type=Path, help="a file that keeps results; those it has are not measured"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = given.data or Path(folder) / "data"
        sizes: dict[str, int] = {}
        for setting in SETTINGS.values():
            sizes[setting.task] = max(setting.samples, sizes.get(setting.task, 0))
        for name, size in sizes.items():
            if not (data / name).is_dir():
                make_shapes(data / name, tasks=[name], size=size)
        if given.one:
            setting = SETTINGS[given.one]
            print(json.dumps(measure(setting, data / setting.task, Path(folder) / "run")))
            return
        kept = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
        for name in given.settings.split(";") if given.settings else SETTINGS:
            if name not in kept:
                command = [sys.executable, __file__, "--one", name, "--data", str(data)]
                output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
                kept[name] = json.loads(output.stdout.splitlines()[-1])
                if given.json:
                    given.json.write_text(json.dumps(kept, indent=1))
            print(row(name, kept[name])[0], flush=True)
    rows = [row(name, kept[name]) for name in SETTINGS if name in kept]
    head = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores\n\n"
        "| setting | samples | first time after | s said | s taken | ratio | last time after "
        "| s said | s taken | ratio | tokens, ratio at 8 | memory, ratio at last |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    right = (sum(first for _, first, _ in rows), sum(last for _, _, last in rows))
    end = (
        f"Within ± 20 %: {right[0]} of {len(rows)} by the first time that was stated, "
        f"{right[1]} by the last."
    )
    text = "\n".join([head, *(part[0] for part in rows), "", end])
    print(text)
    if given.save:
        save_part(RESULTS / "pilot.md", "pilot", text)


if __name__ == "__main__":
    main()
