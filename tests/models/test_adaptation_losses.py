"""Losses that methods of test-time training hand to the optimiser, on tokens worked out by hand."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from harness.models.backends.restored_weights import BLOCK_SIZE, N_BLOCKS, fingerprint  # noqa: E402
from harness.models.learning.loss import advantages  # noqa: E402
from harness.models.learning.rows import ScoredRows  # noqa: E402
from harness.models.test_time.methods import (  # noqa: E402
    GroupLoss,
    GroupRelative,
    PseudoLabel,
    Tent,
    Vote,
)


@dataclass
class Trial:
    """Draws two responses of given tokens, and keeps the losses that a method takes steps along."""

    labels: tuple = (1, 1)
    losses: list = field(default_factory=list)
    drawn: int = 0

    @property
    def context(self):
        return self

    def draw(self, number, *, temperature, name):
        self.drawn += 1
        return [SimpleNamespace(tokens=(1, 2), text=f"{name}#{one}") for one in range(number)]

    def log_probs(self, drawn, *, temperature):
        return torch.full((len(drawn), 2), -9.0)

    def group(self, drawn, thresholds, semantics):
        rewards = [float(one == 1) for one in range(len(drawn))]
        return SimpleNamespace(label=lambda *_, **__: 1, rewards=lambda _: rewards)

    def uniform(self, name):
        return 0.5

    def note(self, *given, **named):
        pass

    def step(self, loss, drawn, temperature=1.0):
        self.losses.append(loss)
        return SimpleNamespace(logp=torch.full((len(drawn), 2), -float(len(self.losses))))


def rows(places=(0, 1), mask=((1.0, 1.0), (1.0, 0.0))):
    """Log-probabilities and entropies that gradients can be asked for; the last token answers."""
    logp, entropy = (
        torch.tensor([[-1.0, -2.0], [-3.0, -4.0]], requires_grad=True) for _ in range(2)
    )
    answer = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    return ScoredRows(
        indices=places,
        logp=logp,
        entropy=entropy,
        mask=torch.tensor(mask),
        answer=answer,
        log_probs=lambda: logp,
    )


def gradient(loss, of="logp", **given):
    made = rows(**given)
    loss(made).backward()
    return getattr(made, of).grad


def test_tent_lowers_the_entropy_of_the_answer_alone():
    trial = Trial()
    Tent(name="tent", steps=1)(trial)
    assert gradient(trial.losses[0], "entropy").tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_supervised_steps_make_the_tokens_likelier():
    trial = Trial()
    PseudoLabel(name="sft_greedy", steps=1)(trial)
    assert gradient(trial.losses[0]).tolist() == [[-1.0, -1.0], [-1.0, 0.0]]


def test_a_vote_is_the_label():
    trial = Trial()
    assert Vote(name="vote", rollouts=2)(trial).text == "step0#1"


def test_a_group_loss_counts_tokens_and_takes_each_row_s_own_numbers():
    loss = GroupLoss(torch.tensor([3.0, -6.0]), 4.0, None, None, beta=0.0, epsilon=0.2)
    assert gradient(loss).tolist() == [[-0.75, -0.75], [1.5, 0.0]]
    back = gradient(loss, places=(1, 0), mask=((1.0, 1.0), (1.0, 1.0)))
    assert back.tolist() == [[1.5, 1.5], [-0.75, -0.75]]


@pytest.mark.parametrize("single", [True, False])
def test_old_probabilities_are_those_of_who_drew(single):
    trial = Trial()
    GroupRelative(name="vr_ttrl", steps=3, rollouts=2, single_gen=single)(trial)
    first, *later = trial.losses
    assert first.old is None and first.reference is None and trial.drawn == (1 if single else 3)
    for loss in later:
        assert loss.reference.tolist() == [[-1.0, -1.0] if single else [-9.0, -9.0]] * 2
        assert (loss.old is None) != single
        if single:
            assert loss.old.tolist() == [[-1.0, -1.0]] * 2


def test_a_fingerprint_reads_the_whole_length_and_buffers():
    size = 4 * N_BLOCKS * BLOCK_SIZE
    network = torch.nn.Linear(size, 1, bias=False)
    network.register_buffer("mean", torch.zeros(3))
    before = fingerprint(network)
    with torch.no_grad():
        network.weight[0, -1] += 1
    moved = fingerprint(network)
    network.mean += 1
    assert len({before, moved, fingerprint(network)}) == 3


@pytest.mark.parametrize("scale", ["group", "batch", None])
@pytest.mark.parametrize("scored", [0, 1])
def test_rewards_without_another_to_compare_with_have_no_advantage(scale, scored):
    rewards = torch.tensor([2.0] * scored + [torch.nan] * (4 - scored))
    assert advantages(rewards, 2, scale_rewards=scale).tolist() == [0.0] * 4
