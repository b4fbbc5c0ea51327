"""What the parts cost on a GPU, at the published sizes, by one command that needs no network.

    python benchmarks/gpu.py [--size 3B] [--limit 120] [--json FILE]     # make gpu
    python benchmarks/gpu.py --size tiny                                 # the code path, on a CPU

Weights are random, in the published configurations (`tests/models/real_sizes.toml`, and SAM 2.1
large); tokenizer and processor are those of a rehearsal. No answer means anything: seconds and
memory do. Each part is a process of its own with a limit of its own; one that fails stops no other.
Memory is the most that PyTorch reserved on the GPU, beside the dry run's estimate; on a CPU it is
the most that the process held.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from real_size import vllm_side
from steps import Clock, data

from harness import plugins, provenance
from harness.chat import ChatRequest
from harness.leaderboards import estimate
from harness.masks import Rle
from harness.metrics.boundary import boundary_f_measure
from harness.metrics.overlap import region_similarity
from harness.run.train import TrainingOptions, train
from harness.segmentation import ObjectPrompt
from harness.spec import Spec, parse
from harness.types import Box

HERE = Path(__file__).resolve().parent
SIZES = tomllib.loads((HERE.parent / "tests/models/real_sizes.toml").read_text("utf-8"))
NEW = 128
"""Tokens of a response, which random weights seldom end."""
SAM2 = {
    "architectures": ["Sam2VideoModel"],
    "model_type": "sam2_video",
    "vision_config": {
        "model_type": "sam2_vision_model",
        "backbone_channel_list": [1152, 576, 288, 144],
        "backbone_config": {
            "model_type": "sam2_hiera_det_model",
            "hidden_size": 144,
            "num_attention_heads": 2,
            "blocks_per_stage": [2, 6, 36, 4],
            "embed_dim_per_stage": [144, 288, 576, 1152],
            "num_attention_heads_per_stage": [2, 4, 8, 16],
            "window_size_per_stage": [8, 4, 16, 8],
            "global_attention_blocks": [23, 33, 43],
            "window_positional_embedding_background_size": [7, 7],
        },
    },
}
"""What differs in `config.json` of facebook/sam2.1-hiera-large from the defaults of the class."""


def network_facts(size: str) -> dict[str, Any]:
    """Return the files of a Qwen2.5-VL of a published size, beside those of a stand-in."""
    from harness.rehearsal import standins

    facts = standins.facts_of(f"Qwen/Qwen2.5-VL-{'3B' if size == 'tiny' else size}-Instruct")
    config = facts["files"]["config.json"]
    if size != "tiny":
        text = dict(SIZES[size]["text_config"])
        config |= text | {"max_window_layers": text["num_hidden_layers"]}
        config["rope_scaling"] = {"type": "mrope", "mrope_section": [16, 24, 24]}
        config["vision_config"] |= SIZES[size]["vision_config"] | {
            "depth": 32,
            "num_heads": 16,
            "fullatt_block_indexes": [7, 15, 23, 31],
        }
    return facts


def sam2_facts(size: str) -> dict[str, Any]:
    """Return the files of SAM 2.1 large."""
    from harness.rehearsal import standins

    facts = standins.facts_of("facebook/sam2.1-hiera-large")
    if size != "tiny":
        facts["files"]["config.json"] = SAM2
        facts["files"]["processor_config.json"]["target_size"] = 1024
        facts["files"]["preprocessor_config.json"] |= {
            "size": {"height": 1024, "width": 1024},
            "mask_size": {"height": 256, "width": 256},
        }
    return facts


def write_network(folder: Path, facts: dict[str, Any], place: str) -> str:
    """Write a checkpoint with random weights, drawn on the device; return its folder."""
    import torch

    from harness.rehearsal import networks

    folder.mkdir()
    with torch.device(place):
        networks.write(folder, facts, seed=0)
    return str(folder)


def backend_of(checkpoint: str, given: argparse.Namespace, batch: int = 8) -> str:
    """Return the SPEC of a network on the device, with images of at most 400 patches of 28 × 28."""
    return (
        f"transformers(checkpoint={checkpoint},device={given.place},batch_size={batch},"
        f"max_pixels={400 * 28**2},dtype={'float32' if given.place == 'cpu' else 'bfloat16'})"
    )


def memory() -> float:
    """Return the most memory in GB that was held: on the GPU, if there is one."""
    import torch

    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_reserved()) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of a call, the device's work included."""
    import torch

    start = perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter() - start


def metrics(given: argparse.Namespace) -> Mapping[str, object]:
    """J and F of 16 frames of 1,920 × 1,080, on the CPU."""
    draw = np.random.default_rng(0)
    corners = draw.integers(0, 500, (2, 16, 2))
    frames = []
    for side in corners:
        masks = []
        for x, y in side:
            mask = np.zeros((1080, 1920), dtype=bool)
            mask[y : y + 500, x : x + 900] = True
            masks.append(Rle.from_array(mask))
        frames.append(tuple(masks))
    true, predicted = frames
    return {
        "J, ms a frame": 1000 * seconds(lambda: region_similarity(true, predicted)) / 16,
        "F, ms a frame": 1000 * seconds(lambda: boundary_f_measure(true, predicted)) / 16,
    }


def segment(given: argparse.Namespace) -> Mapping[str, object]:
    """SAM 2.1 large on images of 854 × 480 with one box each, and along a video."""
    from harness.media import pixels

    checkpoint = write_network(Path(given.folder) / "sam2", sam2_facts(given.size), given.place)
    segmenter = plugins.build("segmenters", parse(f"sam2(checkpoint={checkpoint})"))
    propagator = plugins.build("propagators", parse(f"sam2_video(checkpoint={checkpoint})"))
    draw = np.random.default_rng(0)
    images = 2 if given.size == "tiny" else 16
    frames = [draw.integers(0, 256, (480, 854, 3), dtype=np.uint8) for _ in range(images)]
    prompts = [ObjectPrompt(box=Box(100.0, 100.0, 500.0, 400.0))]
    segmenter.segment(frames[0], prompts)
    taken = seconds(lambda: [segmenter.segment(frame, prompts) for frame in frames])
    video = pixels(frames, times=[float(at) for at in range(images)], is_video=True, id="noise")
    masks = segmenter.segment(frames[0], prompts)
    propagator.propagate(video, 0, masks)
    followed = seconds(lambda: propagator.propagate(video, 0, masks))
    return {
        "images/s": images / taken,
        "frames/s along a video": images / followed,
        "memory, GB": memory(),
    }


def requests_of(model: Any, folder: Path, count: int) -> list[ChatRequest]:
    """Return the requests of the first questions of the generated world."""
    task = plugins.build("tasks", parse("reason_seg(split=train)"), data(folder, size=count))
    samples = islice(task.samples(), count)
    return [request for sample in samples for request in model.requests(sample.query)]


def generate(given: argparse.Namespace) -> Mapping[str, object]:
    """Responses one by one, and as many at once, and whether they are the same."""
    checkpoint = write_network(
        Path(given.folder) / "network", network_facts(given.size), given.place
    )
    told: dict[str, object] = {}
    said: list[list[str]] = []
    count = 4 if given.size == "tiny" else 32
    for batch in (1, 8, 32):
        spec = (
            f"qwen_vl(backend={backend_of(checkpoint, given, batch)},prompt=locate,segmenter=box,"
            f"propagator=still,max_new_tokens={NEW},batch_size={batch})"
        )
        model = plugins.build("models", parse(spec))
        model.prepare()
        requests = requests_of(model, Path(given.folder) / f"of{batch}", count)
        model.chat.generate(requests[:1])
        asked = requests if batch > 1 else requests[: max(2, count // 8)]
        answers: list[Any] = []
        taken = seconds(lambda: answers.extend(model.chat.generate(asked)))  # noqa: B023
        tokens = sum(answer.completion_tokens for answer in answers)
        told[f"tokens/s, {batch} at once"] = tokens / taken
        told[f"memory, {batch} at once, GB"] = memory()
        said.append([answer.text for answer in answers])
    same = [first == other for first, other in zip(said[0], said[1], strict=False)]
    told["the same responses alone and 8 at once"] = sum(same) / len(same)
    if given.size != "tiny":
        told["estimate of memory, GB"] = estimate.evaluation(
            size=estimate.parameters(f"Qwen2.5-VL-{given.size}"),
            samples=count,
            device=estimate.DEVICES[0],
            is_video=False,
        ).memory
    return told


def train_policy(given: argparse.Namespace, finetune: str) -> Mapping[str, object]:
    """Two steps of VisionReasoner's GRPO: 2 prompts with 8 responses each."""
    folder = Path(given.folder)
    checkpoint = write_network(folder / "network", network_facts(given.size), given.place)
    settings = {
        "finetune": finetune,
        "max_steps": 2,
        "num_generations": 8,
        "generation_batch_size": 16,
        "per_device_train_batch_size": 4,
        "max_completion_length": 16 if given.size == "tiny" else 256,
        "gradient_checkpointing": True,
        "dtype": "bfloat16",
        "report_to": None,
    }
    model = (
        f"visionreasoner(backend={backend_of(checkpoint, given)},segmenter=box,propagator=still)"
    )
    task = plugins.build("tasks", parse("reason_seg(split=train)"), data(folder, size=8))
    trainer = plugins.build("trainers", Spec("visionreasoner", settings))
    clock = Clock()
    train(trainer, [task], parse(model), folder / "run", TrainingOptions(progress=clock))
    expected = estimate.training(
        {**settings, "beta": 0.01},
        size=estimate.parameters(f"Qwen2.5-VL-{given.size}") if given.size != "tiny" else 0.01,
        samples=32,
        device=estimate.DEVICES[0],
        processes=1,
    )
    return {
        "seconds of the second step": clock.seconds,
        "memory, GB": memory(),
        "estimate of memory, GB": expected.memory,
    }


def adapt(given: argparse.Namespace) -> Mapping[str, object]:
    """One sample of VR-TTRL with LoRA: 4 responses, one update, one answer."""
    folder = Path(given.folder)
    checkpoint = write_network(folder / "network", network_facts(given.size), given.place)
    base = (
        f"visionreasoner(backend={backend_of(checkpoint, given)},segmenter=box,propagator=still,"
        f"max_new_tokens={NEW})"
    )
    model = plugins.build("models", parse(f"vr_ttrl(base={base},finetune=lora,rollouts=4,steps=1)"))
    task = plugins.build("tasks", parse("reason_seg(split=train)"), data(folder, size=2))
    first, second = (sample.query for sample in islice(task.samples(), 2))
    model.prepare()
    model.predict([first])
    return {"seconds a sample": seconds(lambda: model.predict([second])), "memory, GB": memory()}


def served(given: argparse.Namespace) -> Mapping[str, object]:
    """Samples/s of an evaluation through vLLM, and of its engine alone."""
    if find_spec("vllm") is None:
        return {"not measured": "vLLM is not installed"}
    return vllm_side(
        write_network(Path(given.folder) / "network", network_facts(given.size), given.place), 64
    )


PARTS: Mapping[str, Callable[[argparse.Namespace], Mapping[str, object]]] = {
    "J and F": metrics,
    "SAM 2": segment,
    "generation": generate,
    "GRPO, LoRA": lambda given: train_policy(given, "lora"),
    "GRPO, full": lambda given: train_policy(given, "full"),
    "test time": adapt,
    "vLLM": served,
}


def run_parts(given: argparse.Namespace) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each part's numbers, or why there are none."""
    for name in given.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            line = [sys.executable, __file__, "--part", name, "--folder", folder]
            line += ["--size", given.size, "--place", given.place]
            start = perf_counter()
            try:
                done = subprocess.run(
                    line, capture_output=True, text=True, check=False, timeout=given.limit
                )
            except subprocess.TimeoutExpired:
                yield name, {"not measured": f"not finished within {given.limit} s"}
                continue
            whole = {"seconds in all": perf_counter() - start}
            last = done.stdout.strip().rpartition("\n")[2]
            if done.returncode or not last.startswith("{"):
                why = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
                yield name, {"failed": f"code {done.returncode}: {why[:300]}"}
                continue
            yield name, json.loads(last) | whole


def text_of(value: object) -> str:
    """Return a number in three figures, other things as they are."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Run the parts and print one table; exit code 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=("tiny", "3B", "7B"))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a part")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(PARTS[given.part](given)))
        return 0
    import torch

    given.place = "cuda" if torch.cuda.is_available() else "cpu"
    given.size = given.size or ("3B" if given.place == "cuda" else "tiny")
    where = provenance.device() if given.place == "cuda" else "CPU"
    print(f"Qwen2.5-VL {given.size} and SAM 2.1 large, random weights, {where}", flush=True)
    measured: dict[str, dict[str, object]] = {}
    for name, numbers in run_parts(given):
        measured[name] = numbers
        print(f"\n{name}", flush=True)
        for key, value in numbers.items():
            print(f"  {key:42} {text_of(value)}", flush=True)
    if given.json:
        whole = {"size": given.size, "device": where, "parts": measured}
        given.json.write_text(json.dumps(whole | {"provenance": provenance.collect()}, indent=1))
    return int(any("failed" in numbers for numbers in measured.values()))


if __name__ == "__main__":
    raise SystemExit(main())
