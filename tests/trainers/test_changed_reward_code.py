"""The code of a user's own reward is recorded with a training, and compared when it resumes."""

import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import plugins  # noqa: E402
from harness.errors import ModelError, ResumeMismatch  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402

ensure_torchvision()

METHOD = (
    "grpo(reward=own_length,num_generations=4,generation_batch_size=4,"
    "per_device_train_batch_size=4,max_completion_length=6,max_steps=2,save_steps=10,"
    "learning_rate=0.003,report_to=none)"
)
WORKING = "def own_length(response, sample, **facts):\n    return len(response) / 100\n"
ENTRY = "[harness.rewards]\nown_length = own_reward:own_length\n"
FAILING = WORKING.replace("return", "return 1 / 0,")


@pytest.fixture
def reward(tmp_path, monkeypatch):
    """Writes the source of the reward `own_length`, as a new process would import it."""
    folder = tmp_path / "site"
    info = folder / "own_reward-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-reward\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY)
    monkeypatch.syspath_prepend(str(folder))

    def write(source):
        (folder / "own_reward.py").write_text(source)
        sys.modules.pop("own_reward", None)

    yield write
    sys.modules.pop("own_reward", None)


def test_a_corrected_reward_goes_on_only_when_it_is_accepted(
    reward, tiny_qwen, examples, tmp_path, told, monkeypatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    task = plugins.build("tasks", parse("reason_seg"), examples)

    def trained(**options):
        spec = parse(METHOD)
        return train(
            plugins.build("trainers", spec),
            [task],
            parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate,max_new_tokens=6)"),
            tmp_path / "training",
            TrainingOptions(
                seed=3, progress=told, keep_state=True, method_spec=str(spec), **options
            ),
        )

    reward(FAILING)
    with pytest.raises(ModelError):
        trained()
    reward(WORKING)
    with pytest.raises(ResumeMismatch, match=r"own_reward\.py: [\s\S]*--accept-code"):
        trained()
    training = trained(accept_code=True)
    assert training.is_finished
    (change,) = training.manifest["changed"]
    files = training.manifest["provenance"]["plugins"]["own_reward"]["files"]
    assert files == {"own_reward.py": change["to"]}
    reward(WORKING.replace("100", "50"))
    with pytest.raises(ResumeMismatch, match=r"own_reward\.py"):
        trained()
    assert trained(accept_code=True).manifest == training.manifest, "it is finished: nothing is new"
