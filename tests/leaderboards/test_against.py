"""Which headlines a comparison that may stop early accepts."""

from dataclasses import replace

import pytest

from harness import plugins
from harness.errors import UsageError
from harness.leaderboards.differences.against import Against
from harness.record import Run


@pytest.fixture
def compared(world, make_run, monkeypatch):
    """Return a comparison with a run whose task has other metrics or another headline."""

    def make(headline, *, failing=(), **first):
        task = world.task("disc_seg")
        metrics = (replace(task.protocol.metrics[0], **first), *task.protocol.metrics[1:])
        protocol = replace(task.protocol, metrics=metrics, headline=headline)
        changed = replace(task, protocol=protocol)
        monkeypatch.setattr(plugins, "build", lambda kind, spec, root: changed)
        monkeypatch.setattr(type(world), "task", lambda *_: changed)
        # The fixture's records have a fingerprint of their own.
        monkeypatch.setattr(
            "harness.leaderboards.differences.against.selected", lambda *_: iter([None])
        )
        run = Run.open(make_run("a", failing=failing))
        return Against(run, changed, subset=None, margin=0.05, level=0.95)

    return make


def test_a_mean_with_an_epsilon_as_lisas_is_one(compared):
    assert compared("giou", epsilon=1e-5).to_json()["groups_total"] == 20


def test_a_quotient_of_sums_is_refused_even_where_all_scores_are_zero(compared):
    with pytest.raises(UsageError, match="ciou"):
        compared("ciou", failing=range(40))
