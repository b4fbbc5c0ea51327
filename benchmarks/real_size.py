"""Throughput and training at the published sizes, by one command on a machine with a GPU.

    python benchmarks/real_size.py --size 3B --lmms PYTHON [--samples 256] [--batch 64] [--save]
    python benchmarks/real_size.py --size tiny          # the code path, on a CPU

Weights are random (`real_network.py`): no download, and no answer means anything. Parts, each in a
process of its own while the GPU is watched once a second:

- `throughput.py`: samples/s beside lmms-eval, in an environment of its own (`--lmms`).
- vLLM: samples/s of an evaluation through the backend `vllm`, beside its engine alone given as many
  prompts at once (where vLLM is installed).
- `trl_step.py`: seconds of a GRPO step beside TRL's.

A part that cannot be run is named with its reason. 3B trains all its weights within 80 GB; of 7B
leave the step out (`--parts lmms vllm`).
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from time import perf_counter

from steps import RESULTS, data, save_part

from harness import plugins
from harness.provenance import device
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import parse

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "models"))

import real_network  # noqa: E402  # which tests make networks of these sizes with, too

RESULT = RESULTS / "real_size.md"
STEP = ("--rounds", "1", "--num-generations", "4", "--prompts", "1", "--batch", "4")
NEW = 128  # tokens of a response, which random weights seldom end
QUERY = ("nvidia-smi", "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits")


@dataclass
class Watch:
    """Memory and work of the first GPU, once a second; without one, memory of ended children."""

    on_gpu: bool
    seen: list[tuple[float, float]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watch":
        self._thread = threading.Thread(target=self._look, daemon=True)
        if self.on_gpu:
            self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(1.0):
            told = subprocess.run(QUERY, capture_output=True, text=True, check=False).stdout
            if told.strip():
                memory, work = told.splitlines()[0].split(",")
                self.seen.append((float(memory) / 1024, float(work) / 100))

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.on_gpu:
            self._thread.join()

    def told(self) -> str:
        """The most memory in GB, and the share of seconds in which the GPU was busy."""
        if not self.seen:
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
            return f"{most:.1f} GB of main memory; no GPU was watched"
        busy = sum(work for _, work in self.seen) / len(self.seen)
        return f"{max(memory for memory, _ in self.seen):.1f} GB, GPU busy {busy:.0%}"


def vllm_side(checkpoint: str, samples: int) -> dict[str, float]:
    """Samples a second of an evaluation through vLLM, and of its engine alone, on as many others.

    On the same ones the second would find the first one's prefixes and images in vLLM's caches.
    """
    model = plugins.build(
        "models",
        parse(
            f"qwen_vl(checkpoint={checkpoint},prompt=locate,segmenter=box,propagator=still,"
            f"max_new_tokens={NEW},batch_size={samples},backend=vllm(max_model_len=8192))"
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        root = data(Path(folder), size=samples // 2 + 1)
        whole = plugins.build("tasks", parse("reason_seg(split=train)"), root)
        several = list(islice(whole.samples(), 2 * samples))
        chosen = several[samples:]
        task = replace(whole, samples=lambda: iter(chosen))
        model.prepare()
        model.describe()  # hashes the weights, once
        requests = [one for sample in several[:samples] for one in model.requests(sample.query)]
        model.chat.generate(requests[:8])  # warms up
        start = perf_counter()
        model.chat._generate(requests, model.chat._prompts(requests))
        alone = perf_counter() - start
        start = perf_counter()
        evaluate(task, model, Path(folder) / "run", Options())
        ours = perf_counter() - start
    return {"harness": samples / ours, "vLLM alone": samples / alone}


def lines_of(given: argparse.Namespace, checkpoint: Path, place: str) -> dict[str, list[str] | str]:
    """The command of each part, or the reason why there is none."""
    script = [sys.executable, str(HERE / "throughput.py"), "--checkpoint", str(checkpoint)]
    sizes = ["--samples", str(given.samples), "--batch", str(given.batch), "--repeats", "3"]
    sizes += ["--threads", "1"]
    step = [sys.executable, str(HERE / "trl_step.py"), "--checkpoint", str(checkpoint)]
    step += ["--new", str(given.new)]
    own = [sys.executable, __file__, "--child", str(checkpoint), "--samples", str(given.samples)]
    return {
        "lmms": [*script, *sizes, "--device", place, "--lmms", given.lmms]
        if given.lmms
        else "--lmms PYTHON was not given",
        "vllm": own if importlib.util.find_spec("vllm") else "vLLM is not installed",
        "trl": [*step, "--model", "qwen_vl", *STEP, "--steps", str(given.steps)]
        if importlib.util.find_spec("trl")
        else "TRL is not installed",
    }


def measure(given: argparse.Namespace, *, on_gpu: bool) -> str:
    """Run the parts; return what they said."""
    told: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = real_network.save(given.size, Path(folder) / "c", max_pixels=400 * 28**2)
        for name, line in lines_of(given, checkpoint, "cuda" if on_gpu else "cpu").items():
            if name not in given.parts:
                continue
            if isinstance(line, str):
                told.append(f"### {name}\n\nnot run: {line}")
                continue
            with Watch(on_gpu) as watch:
                done = subprocess.run(line, capture_output=True, text=True, check=False)
            text = done.stdout.strip()
            if done.returncode and ("Traceback" in done.stderr or not text):  # not a missed aim
                text += f"\n\nfailed with exit code {done.returncode}:\n{done.stderr[-2000:]}"
            told.append(f"### {name}\n\n{text}\n\n{watch.told()}")
    head = f"Qwen2.5-VL {given.size}, random weights, {device() if on_gpu else 'CPU'}"
    return "\n\n".join([head, *told])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=list(real_network.SIZES), default="3B")
    parts = ["lmms", "vllm", "trl"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--lmms", metavar="PYTHON", help="of an environment with lmms-eval")
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--new", type=int, default=NEW, metavar="TOKENS")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(vllm_side(given.child, given.samples)))
        return 0
    import torch

    on_gpu = bool(torch.cuda.is_available())
    if real_network.vocabulary() is None:
        print("error: no vocabulary: pip install --no-deps dashscope", file=sys.stderr)
        return 6
    if not on_gpu and given.size != "tiny":
        print(
            f"error: no GPU: {given.size} is measured on one. --size tiny shows that the command "
            "runs, and measures nothing.",
            file=sys.stderr,
        )
        return 6
    text = measure(given, on_gpu=on_gpu)
    print(text)
    if given.save:
        save_part(RESULT, given.size, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
