"""The pure loss: equal to TRL's own on random rollouts, value and gradient."""

import json
import math
import typing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.learning.loss import (  # noqa: E402
    STD_EPSILON,
    advantages,
    divergence,
    grpo_loss,
)
from harness.trainers.grpo.clipping import clipped, extremes  # noqa: E402
from harness.trainers.grpo.settings import LossType, Settings  # noqa: E402
from harness.trainers.grpo.vllm import MAX_RATIO, sampler_ratio  # noqa: E402

ensure_torchvision()
KINDS = typing.get_args(LossType)
ROLLOUTS, TOKENS = 6, 9


def rollouts(seed):
    """Log-probabilities of three networks, advantages, and masks of rollouts of unequal lengths."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    logp = -normal(ROLLOUTS, TOKENS).abs()
    lengths = torch.randint(1, TOKENS + 1, (ROLLOUTS, 1), generator=draw)
    mask = (torch.arange(TOKENS) < lengths).to(torch.float64)
    return SimpleNamespace(
        logp=logp,
        old=logp + 0.3 * normal(ROLLOUTS, TOKENS),
        reference=logp + 0.3 * normal(ROLLOUTS, TOKENS),
        advantage=normal(ROLLOUTS),
        mask=mask,
    )


def trls_own(one, *, kind, beta, high, old, ratio=None, level="token", logged=None):
    """The loss by TRL's own `_compute_loss`, of a trainer that was never built.

    What it logs goes into `logged`.
    """
    from collections import defaultdict

    from trl import GRPOTrainer

    logp = one.logp.clone().requires_grad_()
    trainer = object.__new__(GRPOTrainer)
    trainer.__dict__.update(
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        beta=beta,
        loss_type=kind,
        importance_sampling_level=level,
        epsilon_low=0.2,
        epsilon_high=high,
        use_vllm=ratio is not None,
        max_completion_length=50,
        current_gradient_accumulation_steps=1,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        model=SimpleNamespace(training=True),
        _metrics={"train": defaultdict(list)},
        vllm_importance_sampling_correction=ratio is not None,
        args=SimpleNamespace(
            delta=None,
            use_bias_correction_kl=False,
            steps_per_generation=1,
        ),
        accelerator=SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x
        ),
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, torch.zeros_like(logp), None),
    )
    whole = torch.ones(len(one.mask), 2, dtype=torch.int64)
    inputs = {
        "prompt_ids": whole,
        "prompt_mask": whole,
        "completion_ids": torch.ones(one.mask.shape, dtype=torch.int64),
        "completion_mask": one.mask,
        "advantages": one.advantage,
        "ref_per_token_logps": one.reference,
        "num_items_in_batch": one.mask.sum(),
    }
    if old:
        inputs["old_per_token_logps"] = one.old
    if ratio is not None:
        inputs["importance_sampling_ratio"] = ratio
    loss = trainer._compute_loss(None, inputs)
    loss.backward()
    if logged is not None:
        logged |= {name: values[-1] for name, values in trainer._metrics["train"].items()}
    return loss.detach(), logp.grad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize(("high", "old"), [(0.2, True), (0.28, True), (0.2, False), (5.0, True)])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_loss_is_trls_own(kind, beta, high, old, level):
    for seed in range(20):
        one = rollouts(seed)
        logp = one.logp.clone().requires_grad_()
        ours = grpo_loss(
            logp,
            one.old if old else None,
            one.reference,
            one.advantage,
            one.mask,
            loss_type=kind,
            epsilon=0.2,
            epsilon_high=high,
            beta=beta,
            max_completion_length=50,
            importance_sampling_level=level,
        )
        ours.backward()
        theirs, gradient = trls_own(one, kind=kind, beta=beta, high=high, old=old, level=level)
        assert abs(ours.item() - theirs.item()) < 1e-6
        assert torch.allclose(logp.grad, gradient, rtol=0, atol=1e-6)


ROUNDS = Path(__file__).resolve().parents[1] / "golden" / "grpo_round"
STORED = ["round", "lengths"]


def stored(name):
    """A step of a real training; see golden/grpo_round/make_round.py."""
    plain = json.loads((ROUNDS / f"{name}.json").read_text())
    shape = (plain["rows"], plain["width"])
    several = {
        name: torch.tensor(plain[name], dtype=torch.float64).view(shape)
        for name in ("logp", "old", "reference", "mask")
    }
    advantage = torch.tensor(plain["advantage"], dtype=torch.float64)
    return plain, SimpleNamespace(**several, advantage=advantage)


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_trls_own_on_a_step_of_a_real_training(kind, name):
    plain, one = stored(name)
    logp, high = one.logp.clone().requires_grad_(), plain.get("epsilon_high", plain["epsilon"])
    ours = grpo_loss(
        logp,
        one.old,
        one.reference,
        one.advantage,
        one.mask,
        loss_type=kind,
        beta=plain["beta"],
        epsilon=plain["epsilon"],
        epsilon_high=high,
        max_completion_length=50,
    )
    ours.backward()
    theirs, gradient = trls_own(one, kind=kind, beta=plain["beta"], high=high, old=True)
    assert abs(ours.item() - theirs.item()) < 1e-6
    assert torch.allclose(logp.grad, gradient, rtol=0, atol=1e-6)
    if kind == plain["loss_type"]:
        assert abs(ours.item() - plain["loss"]) < 1e-6, "what the training itself has computed"


@pytest.mark.parametrize("name", STORED)
def test_the_stored_step_is_one_that_can_be_told_from_others(name):
    plain, one = stored(name)
    assert not torch.equal(one.logp, one.old) and one.advantage.abs().max() > 0.1
    lengths = one.mask.sum(dim=1)
    assert len(one.mask) > 1 and lengths.min() > 0
    if name == "lengths":
        found = sorted(int(length) for length in lengths)
        assert len(found) == 6 and len(set(found)) > 2
        assert found[0] < found[-1] == plain["max_completion_length"], (
            "some have ended, and some are cut"
        )
        losses = [
            float(
                grpo_loss(
                    one.logp,
                    one.old,
                    one.reference,
                    one.advantage,
                    one.mask,
                    loss_type=kind,
                    max_completion_length=plain["max_completion_length"],
                )
            )
            for kind in ("grpo", "bnpo", "dr_grpo", "dapo")
        ]
        assert losses[1] == pytest.approx(losses[3], rel=1e-9), "a whole step is one batch here"
        assert len({round(loss, 9) for loss in losses}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_that_is_masked_as_a_whole_is_as_in_trl(kind):
    """TRL can leave out responses that were cut."""
    one = rollouts(5)
    one.mask[2] = 0
    logp = one.logp.clone().requires_grad_()
    ours = grpo_loss(
        logp,
        one.old,
        one.reference,
        one.advantage,
        one.mask,
        loss_type=kind,
        beta=0.04,
        max_completion_length=50,
    )
    ours.backward()
    theirs, gradient = trls_own(one, kind=kind, beta=0.04, high=0.2, old=True)
    assert abs(ours.item() - theirs.item()) < 1e-6
    assert torch.allclose(logp.grad, gradient, rtol=0, atol=1e-6)
    assert (logp.grad[2] == 0).all() and logp.grad.any()


def test_losses_are_called_as_in_trl():
    from trl import GRPOConfig

    info = GRPOConfig.__dataclass_fields__["loss_type"].metadata["help"]
    listed = info.partition("Supported values are ")[2].partition(".")[0]
    named = {part.strip(" '") for part in listed.replace("and ", "").split(",")}
    assert named >= set(KINDS) >= {GRPOConfig.__dataclass_fields__["loss_type"].default}
    one = rollouts(0)
    with pytest.raises(AssertionError, match="gspo"):
        grpo_loss(one.logp, None, None, one.advantage, one.mask, loss_type="gspo")


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_what_vllm_drew_is_trls_own(kind):
    for seed in range(5):
        one = rollouts(seed)
        drawn = one.old + 0.5 * torch.randn(
            one.old.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        ratio = sampler_ratio(one.old, drawn, one.mask)
        assert ratio.shape == (ROLLOUTS, 1)
        assert ratio.max() <= MAX_RATIO
        logp = one.logp.clone().requires_grad_()
        ours = grpo_loss(
            logp,
            one.old,
            one.reference,
            one.advantage,
            one.mask,
            loss_type=kind,
            beta=0.04,
            max_completion_length=50,
            sampler_ratio=ratio,
        )
        ours.backward()
        theirs, gradient = trls_own(one, kind=kind, beta=0.04, high=0.2, old=True, ratio=ratio)
        assert abs(ours.item() - theirs.item()) < 1e-6
        assert torch.allclose(logp.grad, gradient, rtol=0, atol=1e-6)


def test_how_far_vllm_is_off_is_limited_as_in_trl():
    from trl import GRPOConfig

    usual = {name: one.default for name, one in GRPOConfig.__dataclass_fields__.items()}
    assert usual["vllm_importance_sampling_clip_max"] == MAX_RATIO
    assert usual["vllm_importance_sampling_mode"] == "sequence_mask"
    old, mask = torch.zeros(2, 2), torch.ones(2, 2)
    drawn = torch.tensor([[-0.1, float("nan")], [-1.0, -1.0]])
    whole = sampler_ratio(old, drawn, mask)
    assert whole.flatten().tolist() == pytest.approx([math.exp(0.1), 0.0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [None, 0, torch.tensor(0)])
def test_a_step_in_which_no_token_counts_has_a_loss_of_nothing(kind, tokens):
    one = rollouts(2)
    loss = grpo_loss(
        one.logp, one.old, None, one.advantage, 0 * one.mask, loss_type=kind, tokens=tokens
    )
    assert loss == 0


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_are_masked_carry_no_gradient(kind):
    one = rollouts(1)
    logp = one.logp.clone().requires_grad_()
    grpo_loss(
        logp, one.old, one.reference, one.advantage, one.mask, loss_type=kind, beta=0.1
    ).backward()
    assert (logp.grad[one.mask == 0] == 0).all()
    assert (logp.grad[one.mask == 1] != 0).any()
    changed = torch.where(one.mask == 1, one.logp, one.logp - 1)
    first, second = (
        grpo_loss(each, one.old, one.reference, one.advantage, one.mask, loss_type=kind, beta=0.1)
        for each in (one.logp, changed)
    )
    assert first == second


def test_ratios_beyond_the_clip_teach_nothing():
    old = torch.zeros(2, 1)
    for ratio, advantage, teaches in (
        (1.5, 1, False),
        (1.5, -1, True),
        (0.5, -1, False),
        (0.5, 1, True),
        (1.1, 1, True),
    ):
        logp = torch.full((2, 1), math.log(ratio), requires_grad=True)
        grpo_loss(logp, old, None, torch.full((2,), float(advantage)), torch.ones(2, 1)).backward()
        assert bool(logp.grad.any()) == teaches


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_a_step_add_up_to_the_whole_but_with_bnpo(kind):
    one = rollouts(4)
    whole = grpo_loss(
        one.logp, one.old, None, one.advantage, one.mask, loss_type=kind, max_completion_length=50
    )
    parts = [
        grpo_loss(
            one.logp[rows],
            one.old[rows],
            None,
            one.advantage[rows],
            one.mask[rows],
            loss_type=kind,
            tokens=one.mask.sum(),
            max_completion_length=50,
        )
        for rows in (slice(0, 3), slice(3, 6))
    ]
    joined = sum(parts) if kind in ("dapo", "cispo") else sum(parts) / 2
    assert (joined.item() == pytest.approx(whole.item(), rel=1e-3)) == (kind != "bnpo")
    assert kind == "bnpo" or joined.item() == pytest.approx(whole.item())


def test_a_divergence_needs_a_reference():
    one = rollouts(0)
    with pytest.raises(ValueError, match="reference"):
        grpo_loss(one.logp, one.old, None, one.advantage, one.mask, beta=0.1)
    assert (divergence(one.logp, one.reference) >= 0).all()
    assert (divergence(one.logp, one.logp) == 0).all()


numbers = st.lists(st.floats(-9, 9, width=32), min_size=8, max_size=8)


@settings(deadline=None)
@given(numbers, st.randoms(use_true_random=False))
def test_advantages_do_not_depend_on_order_and_add_up_to_nothing(rewards, random):
    order = random.sample(range(4), 4)
    plain = torch.tensor(rewards, dtype=torch.float64)
    found = advantages(plain, 4).view(2, 4)
    assert found.sum(dim=1).abs().max() < 1e-6
    shuffled = advantages(plain.view(2, 4)[:, order].reshape(-1), 4).view(2, 4)
    assert torch.allclose(shuffled, found[:, order])


@pytest.mark.parametrize("scale", ["group", "batch", None])
@pytest.mark.parametrize("size", [3, 6, 8, 16])
def test_rewards_that_are_equal_give_no_advantage_whatever_rounding_does(size, scale):
    for number in range(7 * 12 + 1):
        rewards = torch.tensor([number / 12] * size)
        assert (advantages(rewards, size, scale_rewards=scale) == 0).all()
    two = torch.tensor([16 / 3] * size + [1.0] * (size - 1) + [2.0])
    assert (advantages(two, size, scale_rewards=scale)[:size] == 0).all()
    assert (advantages(two, size, scale_rewards=scale)[size:] != 0).all()


factors = st.lists(st.floats(0.01, 100), min_size=2, max_size=2)
shifts = st.lists(st.floats(-100, 100), min_size=2, max_size=2)


@settings(deadline=None)
@given(numbers, factors, shifts)
def test_scaling_or_shifting_all_rewards_of_a_group_leaves_its_advantages(rewards, factor, shift):
    """But for what is added to the deviation, which a small factor makes larger beside it."""
    plain = torch.tensor(rewards, dtype=torch.float64).view(2, 4)
    by, to = (torch.tensor(each, dtype=torch.float64).view(2, 1) for each in (factor, shift))
    changed = plain * by + to
    found, again = (advantages(one.view(-1), 4).view(2, 4) for one in (plain, changed))
    spread = plain.std(dim=1, keepdim=True)
    drift = by * (spread + STD_EPSILON) / (by * spread + STD_EPSILON)
    assert torch.allclose(again, found * drift, rtol=0, atol=1e-6)
    minimum = torch.minimum(spread, by * spread)
    assert ((again - found).abs() * minimum <= found.abs() * STD_EPSILON + 1e-6).all()
    centred = advantages(plain.view(-1), 4, scale_rewards=None).view(2, 4)
    scaled = advantages(changed.view(-1), 4, scale_rewards=None).view(2, 4)
    assert torch.allclose(scaled, centred * by, rtol=0, atol=1e-6), "nothing divides it out"


def test_advantages_of_a_group_do_not_see_another():
    rewards = torch.tensor([1.0, 2, 3, 6, 0, 0, 0, 1])
    first = advantages(rewards, 4)[:4]
    rewards[4:] = 100
    assert torch.equal(advantages(rewards, 4)[:4], first)
    assert torch.equal(advantages(rewards, 4)[4:], torch.zeros(4))
    centred = advantages(rewards, 4, scale_rewards=None)[:4]
    assert torch.equal(centred, torch.tensor([-2.0, -1, 0, 3]))
    batch = advantages(rewards, 4, scale_rewards="batch")[:4]
    assert torch.allclose(batch * (rewards.std() + 1e-4), centred)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("kind", "high"), [("grpo", 0.28), ("cispo", 1.1)])
def test_clipped_ratios_are_called_and_counted_as_by_trl(kind, high, level):
    settings = Settings(loss_type=kind, epsilon_high=high, importance_sampling_level=level)
    for seed in range(5):
        one, logged = rollouts(seed), {}
        trls_own(one, kind=kind, beta=0.0, high=high, old=True, level=level, logged=logged)
        counted, shares = clipped(one.logp, one.old, one.advantage, one.mask, settings)
        means = {
            name: float((chosen * counts).sum() / counts.sum())
            for name, (chosen, counts) in counted.items()
        }
        known = {name: value for name, value in logged.items() if "clip" in name}
        assert {**means, **extremes([shares])} == pytest.approx(known)
        assert level == "sequence" or 0 < max(known.values()) < 1
