"""What VR-TTRL costs: beside TRL, and in memory.

    python benchmarks/test_time.py [--checkpoint pocket] [--data ROOT] [--samples 4] [--save]

All of it is one sample after another: 5 updates of 8 rollouts, and the greedy answer. The plain
side builds TRL's `GRPOTrainer` on the sample with the same network, image, prompt, settings and
reward, trains 5 steps, and puts the weights back; its seconds an update leave out the building and
the first step, ours hold the answer and the restoring too. The two take turns. Seconds are those of
the processor, on one thread, so that other programs count in neither. The aim is a ratio of 1.5 at
least of seconds an update.
"""

import argparse
import itertools
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import torch
from steps import RESULTS, Clock, data, train_by_trl, write

from harness import plugins
from harness.models.test_time.consensus import Group
from harness.models.test_time.methods import Drawing
from harness.models.test_time.model import AdaptedModel
from harness.spec import parse
from harness.trainers import network as networks
from harness.types import Query

RESULT = RESULTS / "test_time.json"
AIM = 1.5
ROUNDS = 10
"""Times that the samples are adapted to, to see the memory that they leave taken."""
STEPS, GROUP, NEW, RATE = 5, 8, 64, 2e-5


def ours(model: AdaptedModel, query: Query) -> float:
    """Return seconds of a sample, answer and restoring included."""
    start = process_time()
    model.generate([query])
    return process_time() - start


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def plain(
    model: AdaptedModel, network: Any, first: dict[str, Any], query: Query
) -> tuple[float, float]:
    """Train by TRL on one sample: seconds of the whole, and of an update after the first."""
    method = model.method
    assert isinstance(method, Drawing)
    (request,) = model.base.requests(query)
    canvas, clock = model.base.canvas(request).extent, Clock(now=process_time)

    def reward(completions: Sequence[Any], **_: Any) -> list[float]:
        texts = tuple(one[0]["content"] for one in completions)
        group = Group(texts, canvas, thresholds=method.thresholds)
        return group.rewards(group.label("consensus"))

    start = process_time()
    train_by_trl(
        clock,
        network,
        model.base.chat.processor,
        [request] * GROUP,
        reward,
        use_cpu=True,
        per_device_train_batch_size=GROUP,
        num_generations=GROUP,
        max_steps=STEPS,
        max_completion_length=NEW,
        temperature=method.temperature,
        beta=1e-2,
        loss_type="bnpo",
        learning_rate=RATE,
        lr_scheduler_type="constant",
        weight_decay=0.01,
        max_grad_norm=1.0,
        bf16=False,
        gradient_checkpointing=False,
    )
    with torch.no_grad():
        for name, one in network.named_parameters():
            one.copy_(first[name])
    return process_time() - start, clock.seconds_a_step


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", default="pocket")
    parser.add_argument("--data", type=Path, help="a data root; none: a small world is made")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = f"segmenter=box,propagator=still,max_new_tokens={NEW},retry=false"
    base = parse(f"pocket({parts})").with_defaults(checkpoint=given.checkpoint)
    settings = f"steps={STEPS},rollouts={GROUP},learning_rate={RATE}"
    model: AdaptedModel = plugins.build("models", parse(f"vr_ttrl(base={base},{settings})"))
    model.prepare()
    network = networks.load(model.base.chat, dtype="float32")
    first = {name: one.detach().clone() for name, one in network.named_parameters()}
    seconds: dict[str, list[float]] = {"ours": [], "trl": [], "trl an update": []}
    with tempfile.TemporaryDirectory() as folder:
        task = plugins.build("tasks", parse("reason_seg"), given.data or data(Path(folder)))
        queries = [sample.query for sample in task.samples()][: given.samples + 1]
        for number, query in enumerate(queries):  # the first warms up
            turn = (ours(model, query), *plain(model, network, first, query))
            for several, one in zip(seconds.values(), turn, strict=True) if number else ():
                several.append(one)
        sizes = []
        for _ in range(ROUNDS + 1):  # memory that the first one takes is kept for the others
            for query in queries:
                model.generate([query])
            sizes.append(resident())
    medians = {name: median(several) for name, several in seconds.items()}
    pairs = zip(seconds["trl an update"], seconds["ours"], strict=True)
    ratios = sorted(trl * STEPS / own for trl, own in pairs)
    result = {
        "ratio_to_trl": median(ratios),
        "ratios_to_trl": ratios,
        "aim": AIM,
        "seconds_an_update": {"ours": medians["ours"] / STEPS, "trl": medians["trl an update"]},
        "seconds_a_sample": {"ours": medians["ours"], "trl": medians["trl"]},
        "resident_bytes_grown": {
            "samples_a_round": len(queries),
            "by_round": [after - before for before, after in itertools.pairwise(sizes)],
        },
        "settings": {"steps": STEPS, "rollouts": GROUP, "max_new_tokens": NEW},
        "checkpoint": given.checkpoint,
    }
    print(json.dumps(result, indent=1))
    if given.save:
        write(RESULT, result)
    return int(median(ratios) < AIM)


if __name__ == "__main__":
    raise SystemExit(main())
