"""Which step is best, and evaluations while training: with rounds of several steps, and resumed."""

import shutil

import pytest

torch = pytest.importorskip("torch")

from harness import plugins  # noqa: E402
from harness.errors import ResumeMismatch, StoreError, UsageError  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainer import TrainingRun  # noqa: E402
from harness.trainers import checkpoints  # noqa: E402
from harness.trainers.checkpoints import KeptCheckpoints  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.state import newest_state, saved_state, step_of  # noqa: E402

ensure_torchvision()

FEW = {
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 2,
    "max_completion_length": 4,
    "num_iterations": 2,
    "reward": "random",
    "report_to": None,
}
EVAL = "eval/reason_seg/gIoU"


@pytest.fixture(params=["harness", "trl"])
def begin(request, tiny_qwen, examples, tmp_path, told):
    if request.param == "trl":
        pytest.importorskip("trl")

    def begin(settings, reward=lambda group: [{"total": 0.0}] * 2, **options):
        trainer = GrpoTrainer(
            name="m",
            settings=Settings(**{**FEW, "engine": request.param, **settings}),
            reward=reward,
        )
        task = plugins.build("tasks", "reason_seg", examples)
        model = parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate)")
        given = TrainingOptions(progress=told, **options)
        return train(trainer, [task], model, tmp_path / "out", given)

    return begin


def test_a_rounds_reward_is_that_of_its_last_step(begin):
    best = {"metric_for_best_model": "reward", "load_best_model_at_end": True}
    training = begin({"max_steps": 6, "save_steps": 1, **best})
    rewards = {row["step"]: row["reward"] for row in training.curve.read() if "reward" in row}
    assert rewards.keys() == {1, 3, 5}
    assert training.manifest["result"]["best_step"] == max(rewards, key=rewards.get) + 1


def test_a_number_that_no_evaluation_logs_is_refused_before_a_step(begin, tmp_path):
    never = {"evaluate": lambda folder, step: {}, "evaluated": (EVAL,)}
    chosen = {"max_steps": 2, "metric_for_best_model": "eval/reason_seg/IoU"}
    with pytest.raises(UsageError, match=f"--every.*none|{EVAL}"):
        begin(chosen)
    with pytest.raises(UsageError, match=rf"{EVAL}, found eval/reason_seg/IoU"):
        begin(chosen, every=2, **never)
    assert not (tmp_path / "out" / "curve.jsonl").exists()


def test_a_number_that_is_not_logged_is_refused_in_the_first_round_and_can_be_changed(begin):
    chosen = {"max_steps": 4, "metric_for_best_model": "rewards"}
    with pytest.raises(UsageError, match=r"(?s)reward, .*found rewards"):
        begin(chosen)
    training = begin({**chosen, "metric_for_best_model": "reward"})
    (changed,) = training.manifest["changed"]
    assert changed == {"setting": "metric_for_best_model", "from": "rewards", "to": "reward"}
    assert training.manifest["result"]["best_metric"] == "reward"


def test_a_component_that_the_first_round_does_not_have_may_be_the_metric(begin, told):
    rounds = []

    def reward(group):
        rounds.append(group)  # two groups a round
        late = {} if len(rounds) <= 2 else {"late": 1.0}
        return [{"total": 0.0, **late}] * 2

    best = {"metric_for_best_model": "rewards/late", "load_best_model_at_end": True}
    training = begin({"max_steps": 6, "save_steps": 2, "reward": "method", **best}, reward=reward)
    assert training.manifest["result"]["best_step"] == 6
    (note,) = [note for note in told.notes if "rewards/late" in note]
    assert "but rewards/total" in note


def test_a_best_that_is_never_logged_leaves_the_last_and_says_so(begin, told):
    late = {"every": 50, "evaluate": lambda folder, step: {EVAL: 1.0}, "evaluated": (EVAL,)}
    best = {"metric_for_best_model": EVAL, "load_best_model_at_end": True}
    training = begin({"max_steps": 2, **best}, **late)
    assert training.is_finished and training.manifest["result"]["best_step"] is None
    assert any(EVAL in note and "last step's" in note for note in told.notes)


def test_a_state_is_saved_before_an_evaluation_that_falls_into_a_round(begin, tmp_path):
    calls = []

    def evaluate(folder, step):
        calls.append((step, step_of(newest_state(tmp_path / "out" / "state"))))
        return {EVAL: float(step)}

    training = begin({"max_steps": 8}, every=3, evaluate=evaluate, evaluated=(EVAL,))
    assert calls == [(4, 4), (6, 6)], "steps 3 and 6, at the ends of their rounds"
    assert [row["step"] for row in training.curve.read() if EVAL in row] == [4, 6]


def test_settings_by_which_nothing_else_is_learned_may_change_and_are_recorded(
    begin, told, died, request
):
    told.dies_at = 3
    with pytest.raises(died):
        begin({"max_steps": 4, "save_steps": 1})
    told.dies_at = None
    changed = {"gradient_checkpointing": True, "alarms": "off", "reward_error_limit": 0.1}
    changed |= {"infrastructure_limit": 0.2, "keep_rollouts": 1, "report_to": "none"}
    training = begin({"max_steps": 4, "save_steps": 1, **changed})
    assert {one["setting"]: one["to"] for one in training.manifest["changed"]} == changed


def test_a_finished_training_is_recorded_as_it_was_made(begin, told):
    first = begin({"max_steps": 2})
    record = first.manifest
    training = begin({"max_steps": 2, "metric_for_best_model": "reward", "alarms": "off"})
    assert training.manifest == record
    assert told.notes[-1].endswith("without effect: alarms, metric_for_best_model")


def test_a_round_that_an_earlier_total_cut_short_is_not_continued(begin, request, tmp_path):
    """Its other steps cannot be made: they were counted, and left out."""
    if "trl" in request.node.name:
        pytest.skip("refused at the start")
    training = begin({"max_steps": 3}, keep_state=True)
    record = training.curve.read(), training.manifest
    with pytest.raises(ResumeMismatch, match="max_steps: 3 → 5"):
        begin({"max_steps": 5}, keep_state=True)
    assert (training.curve.read(), training.manifest) == record


def test_checkpoints_of_steps_that_are_made_again_are_dropped_and_copies_are_kept(
    begin, told, died, tmp_path
):
    told.dies_at = 5
    chosen = {"max_steps": 6, "save_steps": 2, "save_total_limit": 3}
    with pytest.raises(died):
        begin(chosen)
    told.dies_at, out = None, tmp_path / "out"
    assert KeptCheckpoints(TrainingRun(out=out), Settings()).steps() == [2, 4]
    for folder in ("state", "checkpoints"):
        shutil.copytree(out / folder / "step-4", out / folder / "step-4-good")
    shutil.rmtree(out / "state" / "step-4")
    begin({**chosen, "save_steps": 6})
    kept = sorted(path.name for path in (out / "checkpoints").iterdir())
    assert kept == ["step-2", "step-4-good", "step-6"]


def test_an_old_state_that_cannot_be_removed_is_a_store_error(tmp_path, monkeypatch):
    with saved_state(tmp_path, 1):
        pass

    def fails(path, **given):
        if not given:
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoints.shutil, "rmtree", fails)
    with pytest.raises(StoreError, match="step-1"), saved_state(tmp_path, 2):
        pass
    assert step_of(newest_state(tmp_path)) == 2
