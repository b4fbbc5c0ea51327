"""What static shapes and compiling would bring: seconds a call, as it is and compiled, in one run.

    python benchmarks/compiled.py [--checkpoint pocket] [--device cpu] [--rows 8] [--tokens 64]
        [--repeats 5] [--save]

Two parts whose shapes could be fixed:

- `a token of the text network`: as it is, over keys and values that grow
  (`models/backends/kv_cache.py`); compiled, over a `StaticCache` of as many tokens as the prompt
  and the response together, which attends to its empty places too;
- `an image of the segmenter`: the image encoder of pocket-sam, whose images have one size.

They take turns; the first calls, in which compiling happens, are told apart. `pays after` is how
many calls it takes until compiling has won its own seconds back.
"""

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from parts import save
from torch import Tensor
from transformers import StaticCache

from harness.models.backends.checkpoint import find
from harness.models.backends.cpu_kernels import use_cpu_kernels
from harness.models.backends.kv_cache import preallocated_cache
from harness.models.backends.networks import load_network
from harness.models.backends.sam2 import network as segmenter
from harness.models.pocket_sam import FOLDER
from harness.provenance import device

RESULT = Path(__file__).resolve().parent / "results" / "compiled.md"
PROMPT = 200  # tokens before the response
Call = Callable[[], float]
"""Works for a while, and returns the seconds of one unit of work."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", default="pocket", help="a Qwen2.5-VL checkpoint")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.compiler.config.force_disable_caches = True  # what was compiled in an earlier run
    lines = [
        f"`python benchmarks/compiled.py --checkpoint {given.checkpoint} --device {given.device} "
        f"--rows {given.rows} --tokens {given.tokens} --repeats {given.repeats} --threads "
        f"{given.threads}` on {place(given.device)}, torch {torch.__version__}; medians of "
        f"{given.repeats} turns.",
        "",
        "| | as it is, ms | compiled, ms | ratio | compiling, s | pays after |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, plain, fast in parts(given):
        with torch.inference_mode():
            lines.append(f"| {name} | {compared(plain, fast, given.repeats)} |")
    text = "\n".join(lines)
    print(text)
    if given.save:
        save(RESULT, given.device, text)


def place(name: str) -> str:
    """The device in words."""
    return device() if name != "cpu" else f"{os.cpu_count()} cores, {platform.machine()}"


def parts(given: argparse.Namespace) -> Iterator[tuple[str, Call, Call]]:
    """What is compared: its name, as it is, and compiled."""
    network = load_network(
        find(given.checkpoint),
        name=given.checkpoint,
        dtype="bfloat16",
        attn_implementation="sdpa",
        adapter=None,
    )
    network = network.to(given.device).eval()
    # Compiling has ways of its own to make small products quick.
    compiled = torch.compile(deepcopy(network.model.language_model), dynamic=False)
    text = use_cpu_kernels(network, attn_implementation="auto").model.language_model
    cache = StaticCache(config=text.config, max_cache_len=PROMPT + given.tokens)

    def fast() -> float:
        cache.reset()  # another cache would be compiled again
        return written(compiled, cache, given)

    yield (
        f"a token of the text network, {given.rows} rows",
        lambda: written(text, preallocated_cache([]), given),
        fast,
    )
    sam = segmenter("Sam2VideoModel", FOLDER, name="pocket-sam", dtype="auto", device=given.device)
    side = sam.config.vision_config.backbone_config.image_size[0]
    image = torch.rand(1, 3, side, side, device=given.device, dtype=sam.dtype)
    encoder = torch.compile(sam.vision_encoder, dynamic=False)
    yield (
        f"an image of the segmenter, {side} × {side}",
        lambda: timed(lambda: sam.vision_encoder(image)),
        lambda: timed(lambda: encoder(image)),
    )


def written(text: Any, cache: Any, given: argparse.Namespace) -> float:
    """Seconds a token of a response, after a prompt that is read once."""
    width = text.config.hidden_size
    generator = torch.Generator().manual_seed(0)

    def states(count: int) -> Tensor:
        drawn = torch.randn(given.rows, count, width, generator=generator)
        return drawn.to(given.device, text.dtype)

    def step(start: int, count: int) -> None:
        places = torch.arange(start, start + count, device=given.device)
        text(
            inputs_embeds=states(count),
            past_key_values=cache,
            use_cache=True,
            position_ids=places.expand(3, given.rows, count),
        )

    step(0, PROMPT)
    return timed(lambda: [step(PROMPT + one, 1) for one in range(given.tokens)]) / given.tokens


def timed(work: Callable[[], object]) -> float:
    """Seconds that something takes."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter() - start


def compared(plain: Call, fast: Call, repeats: int) -> str:
    """The cells of a row."""
    plain()
    first = timed(fast)
    again = timed(fast)
    both = [(plain(), fast()) for _ in range(repeats)]
    slow, quick = (median(side) for side in zip(*both, strict=True))
    ratio = median(one / other for one, other in both)
    making = first - again
    pays = f"{making / (slow - quick):,.0f} calls" if quick < slow else "never"
    return f"{1000 * slow:.2f} | {1000 * quick:.2f} | {ratio:.2f} | {making:.0f} | {pays}"


if __name__ == "__main__":
    main()
