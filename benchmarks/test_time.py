"""What VR-TTRL costs: beside TRL, by step, with and without shared prompts, and in memory.

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
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import torch
from steps import data

from harness import plugins, provenance
from harness.models.test_time.consensus import Group
from harness.models.test_time.methods import Drawing
from harness.models.test_time.model import AdaptedModel
from harness.spec import Spec, parse
from harness.trainers import network as networks
from harness.trainers.grpo.vllm import images_of
from harness.types import Query

RESULT = Path(__file__).parent / "results" / "test_time.json"
AIM = 1.5
ROUNDS = 10
"""Times that the samples are adapted to, to see the memory that they leave taken."""
STEPS, GROUP, NEW = 5, 8, 64


def adapted(checkpoint: str, **settings: Any) -> AdaptedModel:
    base = Spec(
        "pocket",
        {
            "checkpoint": checkpoint,
            "segmenter": Spec("box"),
            "propagator": Spec("still"),
            "max_new_tokens": NEW,
            "retry": False,
        },
    )
    given = {"steps": STEPS, "rollouts": GROUP, "learning_rate": 2e-5, **settings}
    made: AdaptedModel = plugins.build("models", Spec("vr_ttrl", {"base": base, **given}))
    made.prepare()
    return made


def ours(model: AdaptedModel, query: Query) -> float:
    """Seconds of a sample, answer and restoring included."""
    start = process_time()
    model.generate([query])
    return process_time() - start


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def plain(model: AdaptedModel, network: Any, first: dict[str, Any], query: Query) -> list[float]:
    """TRL's trainer on one sample: seconds of the whole, and an update after the first."""
    import trl
    from datasets import Dataset
    from transformers import TrainerCallback

    method = model.method
    assert isinstance(method, Drawing)
    (request,) = model.base.requests(query)
    canvas, ends = model.base.canvas(request).extent, list[float]()

    def reward(completions: Sequence[Any], **_: Any) -> list[float]:
        texts = tuple(one[0]["content"] for one in completions)
        group = Group(texts, canvas, thresholds=method.thresholds)
        return group.rewards(group.label("consensus"))

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(process_time())

    start = process_time()
    with tempfile.TemporaryDirectory() as folder:
        engine = trl.GRPOTrainer(
            model=network,
            args=trl.GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_steps=STEPS,
                max_completion_length=NEW,
                temperature=method.temperature,
                beta=1e-2,
                loss_type="bnpo",
                learning_rate=2e-5,
                lr_scheduler_type="constant",
                weight_decay=0.01,
                max_grad_norm=1.0,
                bf16=False,
                gradient_checkpointing=False,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(
                [
                    {
                        "prompt": [{"role": "user", "content": request.text}],
                        "images": images_of(request),
                    }
                ]
                * GROUP
            ),
            reward_funcs=[reward],
            processing_class=model.base.chat.processor,
            callbacks=[Watch()],
        )
        engine.train()
    with torch.no_grad():
        for name, one in network.named_parameters():
            one.copy_(first[name])
    return [process_time() - start, (ends[-1] - ends[0]) / (len(ends) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", default="pocket")
    parser.add_argument("--data", type=Path, help="a data root; none: a small world is made")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        task = plugins.build("tasks", parse("reason_seg"), given.data or data(Path(folder)))
        queries = [sample.query for sample in task.samples()][: given.samples + 1]
        shared, alone = adapted(given.checkpoint), adapted(given.checkpoint, share_prefix=False)
        network = networks.load(shared.base.chat, dtype="float32")
        first = {name: one.detach().clone() for name, one in network.named_parameters()}
        found: dict[str, list[float]] = {
            name: [] for name in ("shared", "alone", "trl", "sample", "trl sample")
        }
        for number, query in enumerate(queries):  # the first warms up
            seconds = {"sample": ours(shared, query), "alone": ours(alone, query) / STEPS}
            seconds["shared"] = seconds["sample"] / STEPS
            seconds["trl sample"], seconds["trl"] = plain(shared, network, first, query)
            for name, value in seconds.items() if number else ():
                found[name].append(value)
        by_steps = {}
        for steps in (2, 4, 8):
            model = replace(shared, method=replace(shared.method, steps=steps))
            by_steps[steps] = statistics.median(ours(model, query) for query in queries[1:])
        sizes = [resident()]
        for _ in range(ROUNDS):
            for query in queries:
                shared.generate([query])
            sizes.append(resident())
    medians = {name: statistics.median(several) for name, several in found.items()}
    ratios = [trl / own for trl, own in zip(found["trl"], found["shared"], strict=True)]
    result = {
        "ratio_to_trl": statistics.median(ratios),
        "ratios_to_trl": sorted(ratios),
        "ratio_to_unshared": medians["alone"] / medians["shared"],
        "aim": AIM,
        "seconds_an_update": {name: medians[name] for name in ("shared", "alone", "trl")},
        "seconds_a_sample": {"ours": medians["sample"], "trl": medians["trl sample"]},
        "seconds_a_sample_by_steps": by_steps,
        "resident_bytes_grown": {
            "samples_a_round": len(queries),
            "by_round": [after - before for before, after in itertools.pairwise(sizes)],
        },
        "settings": {"steps": STEPS, "rollouts": GROUP, "max_new_tokens": NEW},
        "checkpoint": given.checkpoint,
        "device": provenance.device(),
        "provenance": provenance.collect(),
    }
    print(json.dumps(result, indent=1))
    if given.save:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return int(result["ratio_to_trl"] < AIM)


if __name__ == "__main__":
    raise SystemExit(main())
