"""How fast pocket answers: samples and tokens a second, bare and through the whole evaluation.

    python benchmarks/pocket.py [--checkpoint DIR] [--size N] [--save]

`generate` is the bare loop: prepared batches through the network's own `generate`. `evaluate` is
`harness eval` on the same questions: decoding, reading, segmenting, journal and scores included,
with boxes as masks, and with GrabCut and optical flow or pocket-sam.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import plugins
from harness.cli.data import writers
from harness.models.backends.inputs import processor_inputs
from harness.provenance import device
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import parse
from harness.task import Task
from harness.world.shapes import make

RESULT = Path(__file__).parent / "results" / "pocket.txt"
TASKS = ("reason_seg", "mevis", "counting")
MODELS = {
    "box, still": "pocket(checkpoint={},segmenter=box,propagator=still)",
    "pocket_sam, flow": "pocket(checkpoint={},propagator=flow)",
    "pocket_sam, pocket_sam_video": "pocket(checkpoint={})",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", default="pocket")
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    heads = f"{'samples':>8}{'seconds':>9}{'samples/s':>11}{'tokens/s':>10}"
    lines = [f"{device()}, {given.size} questions a task", f"{'':42}{heads}"]
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        chosen = {name: write for name, write in writers().items() if name in TASKS}
        make(data, seed=0, size=given.size, writers=chosen)
        for name in TASKS:
            task: Task = plugins.build("tasks", parse(name), data)
            lines.append(line(name, "generate", *bare(task, given.checkpoint)))
            for place, (title, named) in enumerate(MODELS.items()):
                spec = named.format(given.checkpoint)
                folder = Path(scratch) / f"{name}-{place}"
                lines.append(line(name, title, *whole(task, spec, folder)))
    text = "\n".join(lines)
    print(text)
    if given.save:
        RESULT.write_text(text + "\n", encoding="utf-8")


def line(task: str, what: str, samples: int, seconds: float, tokens: int) -> str:
    """One row of the table."""
    return (
        f"{task:12}{what:30}{samples:8}{seconds:9.1f}{samples / seconds:11.1f}"
        f"{tokens / seconds:10.0f}"
    )


def bare(task: Task, checkpoint: str) -> tuple[int, float, int]:
    """Samples, seconds and tokens written by the network alone."""
    import torch

    model = plugins.build("models", parse(f"pocket(checkpoint={checkpoint})"))
    model.prepare()
    requests = [one for sample in task.samples() for one in model.requests(sample.query)]
    groups = [
        requests[start : start + model.batch_size]
        for start in range(0, len(requests), model.batch_size)
    ]
    inputs: list[Any] = [processor_inputs(model.chat.processor, group) for group in groups]
    network, end = model.chat.network, model.chat.processor.tokenizer.eos_token_id
    start, tokens = time.perf_counter(), 0
    with torch.inference_mode():
        for one in inputs:
            written = network.generate(**one, max_new_tokens=256, do_sample=False)
            response = written[:, one["input_ids"].shape[1] :]
            tokens += int(((response == end).cumsum(1) < 1).sum())
    return len(requests), time.perf_counter() - start, tokens


def whole(task: Task, spec: str, folder: Path) -> tuple[int, float, int]:
    """Samples, seconds and tokens of an evaluation, the model's loading left out."""
    model = plugins.build("models", parse(spec))
    model.prepare()
    start = time.perf_counter()
    run = evaluate(task, model, folder, Options(), model_spec=spec)
    seconds = time.perf_counter() - start
    predictions = [run.prediction(sample.id) for sample in task.samples()]
    tokens = sum(one.usage.completion_tokens for one in predictions)
    return len(predictions), seconds, tokens


if __name__ == "__main__":
    main()
