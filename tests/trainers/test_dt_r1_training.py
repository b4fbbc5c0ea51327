"""DT-R1 from data to a run: a small text policy is made, trained, killed, resumed and evaluated."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import plugins  # noqa: E402
from harness.cli.main import main  # noqa: E402
from harness.errors import SandboxUnavailable, Unavailable, UsageError  # noqa: E402
from harness.models.dt_r1.environment import TwinEpisode  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.sandbox.pool import open_sandbox  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainer import Curve  # noqa: E402

LEARNING = Path(__file__).resolve().parents[2] / "examples" / "learning"
TASKS = "reason_seg,mevis,shapes_referring,shapes_qa,rvtbench_grounding,rvtbench_summary"
MODEL = "dt_r1(checkpoint={},prompt=short,twin_tokens=64,max_new_tokens=100,batch_size=4)"
RVTBENCH = ("rvtbench_grounding", "rvtbench_summary")
FEW = {
    "finetune": "full",
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 2,
    "max_completion_length": 200,
    "learning_rate": 1e-3,
    "max_steps": 2,
    "save_steps": 1,
    "report_to": None,
    "reward": "random",  # or rollouts of such a policy earn the same, and nothing is learned
}


@pytest.fixture(scope="module", autouse=True)
def sandboxed():
    try:
        open_sandbox(workers=1).close()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world") / "data"
    line = ["data", "make", "shapes", "--out", str(root), "--size", "6", "--tasks", TASKS]
    assert main(line) == 0
    return root


@pytest.fixture(scope="module")
def policy(world, tmp_path_factory):
    """A policy that has seen a few scripted trajectories a few times."""
    folder = tmp_path_factory.mktemp("policy")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LEARNING))
        import dt_r1_policy

        line = ["x", "--data", str(world), "--out", str(folder), "--steps", "60", "--batch", "4"]
        patch.setattr(sys, "argv", line)
        patch.setattr(dt_r1_policy, "LAYERS", 2)
        dt_r1_policy.main()
    return folder


@pytest.fixture
def figures(monkeypatch):
    """The program that draws Table 7 and Figure 4 from what was recorded."""
    monkeypatch.syspath_prepend(str(LEARNING))
    import dt_r1_figures

    return dt_r1_figures


@pytest.fixture
def begin(policy, world, tmp_path, told):
    def begun(name, **given):
        tasks = ("shapes_referring(split=train,asks=single)", "shapes_qa(split=train,part=still)")
        return train(
            plugins.build("trainers", parse("dt_r1").with_defaults(**FEW)),
            [plugins.build("tasks", parse(one), world) for one in tasks],
            parse(MODEL.format(policy)),
            tmp_path / name,
            TrainingOptions(seed=3, progress=told, keep_state=True, **given),
        )

    return begun


def test_a_training_that_died_and_goes_on_equals_one_that_did_not(
    begin, told, died, tmp_path, figures
):
    whole = begin("whole")
    told.steps.clear()
    told.dies_at = 2
    with pytest.raises(died):
        begin("cut")
    told.dies_at = None
    again = begin("cut", resume=True)
    for name in ("curve.jsonl", "rollouts.jsonl", "checkpoint/model.safetensors"):
        assert (whole.folder / name).read_bytes() == (again.folder / name).read_bytes(), name
    rows = whole.curve.read()
    assert all(row["grad_norm"] > 0 for row in rows)
    assert all(row["frac_rollouts_lost"] == 0 for row in rows)
    assert {"rewards/token", "rewards/dag", "rewards/exec", "rewards/success"} <= set(rows[0])
    assert figures.success_rate(rows) == rows[-1]["rewards/success"], "the last tenth of two steps"
    for row in Curve(whole.folder / "rollouts.jsonl").read():
        facts = row["facts"]
        *before, (_, cut) = facts["spans"]
        spans = before if cut else facts["spans"]  # a last injected one may no longer have fitted
        assert sum(length for length, _ in spans) <= len(row["text"])
        injected = [injected for _, injected in facts["spans"]]
        assert row["tokens"] <= 200 and injected[0] is False
    assert main(["explain", str(whole.folder), "--out", str(tmp_path / "page.html")]) == 0
    assert 'class="block' in (tmp_path / "page.html").read_text("utf-8")


def test_a_round_whose_rollouts_the_infrastructure_lost_ends_the_training(begin, monkeypatch, told):
    """As of nodes without weights: what it would learn is that plans of this method fail."""
    whole = TwinEpisode.facts

    def lost(episode):
        return {**whole(episode), "infrastructure": ["node SAM2: no weights"]}

    monkeypatch.setattr(TwinEpisode, "facts", lost)
    with pytest.raises(Unavailable, match=r"4 of 4, 4 of them because of: node SAM2: no weights"):
        begin("lost")
    assert told.steps == [], "nothing was learned"


@pytest.mark.parametrize("method", ["dt_r1", "jit"])
def test_every_task_is_evaluated_and_what_cannot_be_read_is_a_failure(
    method, policy, world, tmp_path, capsys, figures
):
    model = MODEL.format(policy)
    if method == "jit":
        model = f"jit(checkpoint={policy},twin_tokens=64,max_new_tokens=30,batch_size=4,alpha=0.5)"
    rvtbench = "rvtbench_grounding,rvtbench_summary(protocol=rvtbench/text_simple)"
    tasks = f"reason_seg,mevis,shapes_qa,{rvtbench}"
    line = ["eval", "--model", model, "--tasks", tasks, "--data", str(world)]
    line += ["--subset", "first2", "--out", str(tmp_path), "--json"]
    assert main(line) == 1  # random weights: no sample of some tasks has an answer
    capsys.readouterr()
    assert main(line) == 1  # everything is kept
    (folder,) = [one for one in tmp_path.iterdir() if one.is_dir()]
    results = [json.loads(one.read_text("utf-8")) for one in folder.glob("*/results.json")]
    assert len(results) == 5
    for one in results:
        assert one["n_total"] == 2
    headlines, used = figures.figure4(tmp_path)
    for panel in (headlines, used):
        assert set(panel.lines) == {"reason_seg", "mevis", "shapes_qa", *RVTBENCH}
        assert all([*points] == [5] for (points,) in panel.lines.values()), "blocks allowed"
    assert all(0 <= points[5] <= 5 for (points,) in used.lines.values())


def test_a_model_that_asks_in_requests_of_their_own_is_not_trained(policy, world, tmp_path):
    with pytest.raises(UsageError, match="dt_r1"):
        train(
            plugins.build("trainers", parse("dt_r1").with_defaults(**FEW)),
            [plugins.build("tasks", parse("reason_seg(split=train)"), world)],
            parse(f"jit(checkpoint={policy})"),
            tmp_path / "out",
            TrainingOptions(),
        )
