"""Several processes of a training: a failure is told at once, Ctrl-C is left to the first."""

import os

import pytest

pytest.importorskip("torch")

import torch
from pocket_training.vlm.process_group import spawn_workers

from harness.errors import HarnessError

WORK = """
import os, signal
import torch

if {fails} and os.getpid() != {parent}:
    raise ImportError("a worker that cannot be imported")

def work(group, interrupted):
    if interrupted:
        os.kill(os.getpid(), signal.SIGINT)
    group.sum_gradients([torch.ones(2)], stop=False)

def leave(group):
    raise SystemExit(3)
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """A module that a spawned process can import."""
    name = f"pocket_{request.node.name}"
    fails = "cannot_be_imported" in name
    (tmp_path / f"{name}.py").write_text(WORK.format(fails=fails, parent=os.getpid()))
    monkeypatch.syspath_prepend(tmp_path)
    return __import__(name)


def test_a_worker_that_cannot_be_imported_ends_the_training_at_once(module):
    with pytest.raises(HarnessError, match="ended before"), spawn_workers(2, module.work, (False,)):
        pytest.fail("there is no second process")


def test_a_worker_that_leaves_is_an_error_of_the_training(module):
    gradient = [torch.ones(2)]
    with pytest.raises(HarnessError, match="at work"), spawn_workers(2, module.leave, ()) as group:
        group.sum_gradients(gradient, stop=False)


def test_a_worker_ignores_an_interrupt_and_gradients_are_summed(module):
    gradient = torch.ones(2)
    with spawn_workers(2, module.work, (True,)) as group:
        assert group.sum_gradients([gradient], stop=True) is True
    assert gradient.tolist() == [2.0, 2.0]


def test_an_error_of_the_first_process_is_not_taken_for_a_failed_worker(module):
    with pytest.raises(RuntimeError, match="shapes"), spawn_workers(2, module.work, (False,)):
        raise RuntimeError("shapes do not fit")
