"""Which frames are shown: the published rules, to the frame."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.frames import PUBLISHED, frame_policy, frame_rate, uniform
from harness.pixel_budget import PixelBudget
from harness.spec import Spec

GOLDEN = Path(__file__).parents[1] / "golden" / "qwen_vl_utils"
RULES = [
    "uniform(n=7)",
    "linspace(n=7)",
    "centres(n=7)",
    "stride(n=7)",
    "qwen(n=7)",
    "fps(rate=2)",
    "fps(rate=0.1,max_frames=5)",
    "seconds",
    "seconds(every=0.3,max_frames=9)",
    *PUBLISHED,
]
gaps = st.lists(st.floats(1e-3, 5), max_size=60)


def at(rate, total):
    return [index / rate for index in range(total)]


@pytest.mark.parametrize("spec", RULES)
@given(gaps)
def test_a_rule_names_frames_of_the_video_in_order(spec, gaps):
    times = np.cumsum([0.0, *gaps]).tolist()
    chosen = frame_policy(spec).choose(times)
    assert chosen and all(0 <= index < len(times) for index in chosen)
    assert list(chosen) == sorted(chosen)


@given(st.integers(1, 400), st.integers(1, 64))
def test_rules_by_number_show_no_more_than_that_and_no_frame_twice(total, n):
    for rule in ("uniform", "linspace", "centres", "stride"):
        chosen = frame_policy(f"{rule}(n={n})").choose(at(25, total))
        assert len(chosen) <= n and len(set(chosen)) == len(chosen)


@given(st.integers(1, 2000), st.integers(1, 200))
def test_linspace_is_lmms_evals(total, n):
    official = np.linspace(0, total - 1, min(total, n), dtype=int).tolist()
    assert list(frame_policy(f"linspace(n={n})").choose(at(30, total))) == official


def smart_nframes(total, video_fps, rate, least, most):
    """qwen-vl-utils' count, written down from its published source."""
    highest = math.floor(min(most, total) / 2) * 2
    wanted = min(min(max(total / video_fps * rate, math.ceil(least / 2) * 2), highest), total)
    return math.floor(wanted / 2) * 2


def assert_spread_as_torch(chosen, spread):
    """Equal, but for ties: which frame one goes to in 32 bits depends on torch's processor."""
    for ours, exact in zip(chosen, spread.tolist(), strict=True):
        assert ours == round(exact) or (abs(exact % 1 - 0.5) < 2e-3 and abs(ours - exact) < 0.51)


@given(
    st.integers(2, 4000),
    st.sampled_from([1, 10, 15, 24, 25, 30000 / 1001, 30, 60]),
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.sampled_from([8, 32, 768]),
)
@settings(deadline=None)
def test_fps_takes_as_many_frames_as_qwen_does_and_the_same(total, video_fps, rate, most):
    torch = pytest.importorskip("torch")
    wanted = smart_nframes(total, video_fps, rate, 4, most)
    spread = torch.linspace(0, total - 1, wanted)
    chosen = frame_policy(Spec("fps", {"rate": rate, "max_frames": most})).choose(
        at(video_fps, total)
    )
    assert_spread_as_torch(chosen, spread)


@given(st.integers(2, 20_000), st.integers(1, 400))
@settings(deadline=None)
def test_qwens_even_numbers_are_spread_as_torch_does(total, half):
    torch = pytest.importorskip("torch")
    n = min(2 * half, total)
    chosen = frame_policy(f"qwen(n={2 * half})").choose(at(25, total))
    assert_spread_as_torch(chosen, torch.linspace(0, total - 1, n))


def official_stride(duration, rate, most):
    """LongVideoBench's load_video, for a file as long as its record says."""
    total = int(duration * rate)
    count = min(most, int(duration))
    return [int(total / count) * index for index in range(count)]


@pytest.mark.parametrize(("total", "rate", "most"), [(250, 25, 16), (3000, 30, 64), (90, 30, 256)])
def test_stride_is_longvideobenchs(total, rate, most):
    assert list(frame_policy(f"stride(n={most})").choose(at(rate, total))) == official_stride(
        total / rate, rate, most
    )


def test_seconds_go_by_true_times_not_by_numbers_of_frames():
    times = [0.0, 0.1, 0.2, 3.0, 3.1, 3.2]
    assert frame_policy("seconds").choose(times) == (0, 2, 3)
    assert frame_policy("seconds(every=0.1)").choose(times) == (0, 1, 2, 3, 4, 5)


def test_a_number_is_the_rule_of_before():
    for total in (1, 2, 7, 8, 9, 100):
        assert frame_policy(8).choose(at(1, total)) == uniform(range(total), 8)


def test_the_average_rate_is_exact_for_the_usual_ones():
    assert [frame_rate(at(rate, 1000)) for rate in (25, 30, 24000 / 1001, 12.5)] == [
        25,
        30,
        24000 / 1001,
        12.5,
    ]
    assert frame_rate([0.0]) == 1 and frame_rate([2.0, 2.0]) == 1


def smart_resize(height, width, most, least):
    """qwen-vl-utils' size, written down from its published source."""
    high, wide = (max(28, round(side / 28) * 28) for side in (height, width))
    if high * wide > most:
        beta = math.sqrt(height * width / most)
        return math.floor(height / beta / 28) * 28, math.floor(width / beta / 28) * 28
    if high * wide < least:
        beta = math.sqrt(least / (height * width))
        return math.ceil(height * beta / 28) * 28, math.ceil(width * beta / 28) * 28
    return high, wide


@given(st.integers(30, 4000), st.integers(30, 4000))
def test_a_budget_of_pixels_is_qwens(width, height):
    budget = PixelBudget(max_pixels=351232, min_pixels=100352)
    high, wide = smart_resize(height, width, 351232, 100352)
    assert budget.size((width, height)) == (max(wide, 28), max(high, 28))


def test_the_papers_budgets_are_what_they_print():
    policy = frame_policy("video_str")
    assert policy.budget == PixelBudget(max_pixels=448 * 28 * 28, min_pixels=128 * 28 * 28)
    assert len(policy.choose(at(30, 3000))) == 32
    assert len(frame_policy("video_str_train").choose(at(30, 3000))) == 16


def test_a_rule_says_all_of_itself_for_the_record():
    assert str(frame_policy(8)) == "uniform(n=8)"
    assert str(frame_policy("video_str")) == PUBLISHED["video_str"]
    assert str(frame_policy("video_str(n=64)")).startswith("qwen(n=64,")
    assert frame_policy(str(frame_policy("fps(rate=2)"))) == frame_policy("fps(rate=2)")


@pytest.mark.parametrize(
    "bad",
    [
        "uniform",
        "uniform(n=0)",
        "uniform(n=2.5)",
        "uniform(m=3)",
        "fps(rate=0)",
        "fps(rate=-1)",
        "fps(rate=many)",
        "nonsense(n=3)",
        "uniform(n=3,min_pixels=9)",
        "seconds(every=1e9)",
        "uniform(n=3,max_pixels=0)",
        "uniform(n=3,total_pixels=90000)",
        0,
        -1,
    ],
)
def test_what_is_no_rule_is_refused(bad):
    with pytest.raises(UsageError):
        frame_policy(bad)


def test_a_sliver_has_no_size_within_a_budget():
    with pytest.raises(UsageError, match="1 : 200"):
        PixelBudget(max_pixels=10**6).size((10_000, 20))


def sizes_of_qwen_vl_utils():
    return json.loads((GOLDEN / "frame_sizes.json").read_text())["cases"]


def test_a_total_budget_sets_sizes_as_qwen_vl_utils_does_or_is_refused_where_that_breaks_it():
    kept = 0
    for factor, low, high, total, frames, *sizes in sizes_of_qwen_vl_utils():
        given, official = tuple(sizes[:2]), tuple(sizes[2:])
        budget = PixelBudget(min_pixels=low, max_pixels=high, factor=factor, total_pixels=total)
        if math.ceil(frames / 2) * math.prod(official) <= total:
            assert budget.size(given, frames) == official
            kept += 1
        else:
            with pytest.raises(UsageError, match=f"total_pixels={total}.*{frames} frames"):
                budget.size(given, frames)
    assert kept > 200


def test_a_budget_of_tokens_holds_for_a_clip_and_not_for_an_image():
    rule = "fps(rate=2,max_frames=2048,min_pixels=4096,max_pixels=655360,factor=32,"
    policy = frame_policy(f"{rule}total_pixels={224_000 * 32**2})")
    width, height = policy.size((1920, 1080), frames=2048)
    assert 1024 * width * height // 32**2 <= 224_000 < 1024 * 1.3 * width * height // 32**2
    assert policy.size((1920, 1080), is_image=True) == policy.size((1920, 1080), frames=2)


def test_frames_larger_than_qwen_vl_utils_makes_any_are_refused_beside_a_total():
    with pytest.raises(UsageError, match=r"max_pixels.*768"):
        frame_policy("uniform(n=4,max_pixels=999999,total_pixels=9999999)")
