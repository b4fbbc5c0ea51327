"""Writes README.md beside this file: the gains that `learning.py --save` left, study by study.

python examples/learning/results_page.py
"""

import json
from collections import Counter
from collections.abc import Iterator

from learned import table
from learning import RESULTS
from studies import STUDIES

PAGE = RESULTS.parent / "README.md"
HEAD = """# Learning: all numbers

What was trained and what follows from it: [learning.md](../../docs/learning.md). Means over seeds;
gains are paired by image, with intervals of 95 % over images and seeds. Studies marked ‡ mix
commits; `*` is an uncommitted state of one. Written by `python examples/learning/results_page.py`
from `examples/learning/results`.
"""

NOT_THE_PAPERS = {
    "visionreasoner": (
        "`learning_rate=5e-5` (1e-6), `generation_batch_size=64` (128), "
        "`max_completion_length=96` (2000), `newline=false` (true)"
    ),
    "seg_zero": (
        "`learning_rate=5e-5` (1e-6), `generation_batch_size=64` (128), "
        "`per_device_train_batch_size=16` (1), `max_completion_length=96` (1300)"
    ),
    "dr2seg": (
        "`n0=12` (45), `len_floor=0.1` (0), `learning_rate=5e-5` (1e-6), "
        "`generation_batch_size=64` (128), `max_completion_length=160` (2000)"
    ),
    "videoseg_r1": (
        "`budgets=6+12+18` (96+176+256), `thresholds=3.5+4.5` (3+6), "
        "`scorer=measured` (Qwen2.5-VL-72B), `length_beta=0.02` (0.002), "
        "`min_references=2` (8), `max_references=4` (12), `freeze_vision=false` (true), "
        "`learning_rate=5e-5` (1e-6), `generation_batch_size=64` (128), "
        "`max_completion_length=160` (1024)"
    ),
    "video_str": (
        "`beta=0` (0.04), `shortest=8` (320), `longest=200` (512), `sigma=42` (1), "
        "`graphs=shapes_canvas` (none), `learning_rate=5e-5` (1e-6), "
        "`lr_scheduler_type=constant_with_warmup` (cosine), `max_grad_norm=1` (5), "
        "`per_device_train_batch_size=16` (1), `max_completion_length=224` (1024), "
        "`top_p=1.0` (0.95)"
    ),
    "spacer": (
        "`beta=0` (0.04), `shortest=8` (320), `longest=200` (512), `maps=shapes` (none), "
        "`learning_rate=2e-5` (1e-6), `lr_scheduler_type=constant_with_warmup` (cosine), "
        "`max_grad_norm=1` (5), `per_device_train_batch_size=16` (1), "
        "`max_completion_length=224` (1024), `top_p=1.0` (0.95)"
    ),
    "video_r1": (
        "`beta=0` (0.04), `shortest=8` (320), `longest=64` (512), "
        "`learning_rate=2e-5` (1e-6), `lr_scheduler_type=constant_with_warmup` (cosine), "
        "`max_grad_norm=1` (5), `generation_batch_size=64` (32), "
        "`per_device_train_batch_size=16` (1), `max_completion_length=160` (768), "
        "`top_p=1.0` (0.95)"
    ),
}
"""Settings of a study that differ from its paper's, and the paper's in brackets."""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for name in STUDIES for line in study(name))])


def study(name: str) -> Iterator[str]:
    """Yield the lines of one study: seeds with the commit of each, and the table of its gains."""
    saved = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    plan, courses = saved["plan"], next(iter(saved["training"].values()))
    commits = [f"{one['commit'][:7]}{'*' * one['dirty']}" for one in courses]
    seeds = ", ".join(f"{number} of {commit}" for commit, number in Counter(commits).items())
    yield f"## {name}{' ‡' if len(set(commits)) > 1 else ''}\n"
    yield f"{plan['steps']} steps; {plan['held']} held-out samples a task; seeds: {seeds}.\n"
    if name in NOT_THE_PAPERS:
        yield f"Settings (published): {NOT_THE_PAPERS[name]}.\n"
    yield from table(saved["rows"])
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
