"""DT-R1: GRPO over rollouts that plan a digital twin, compute on it and answer from it.

harness train --method dt_r1 --config r1_distill_qwen_7b_16x24gb_lora
    --model "dt_r1(checkpoint=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B,nodes=paper)"
    --data ROOT --out DIR
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from harness import plugins
from harness.errors import UsageError
from harness.judge import Judge
from harness.models.dt_r1.model import DTR1
from harness.options import Only, with_options
from harness.spec import Spec
from harness.trainer import TrainingRun
from harness.trainers.dt_r1.rewards import DTR1Reward
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.types import AnswerForm


@dataclass(frozen=True, kw_only=True)
class DTR1Trainer(GrpoTrainer):
    """GRPO whose rollouts run in the environment of the trained model: its nodes and sandbox."""

    model_kind: ClassVar[type[Any]] = DTR1
    reward: DTR1Reward

    def train(self, run: TrainingRun) -> Mapping[str, Any]:
        """Note how answers in words are scored without a judge; then train as `GrpoTrainer`."""
        tasks_in_words = [task.name for task in run.tasks if AnswerForm.TEXT in task.forms]
        if run.main and tasks_in_words and self.reward.r_result and self.reward.judge is None:
            run.progress.note(
                f"without judge=, an answer in words ({', '.join(tasks_in_words)}) earns "
                "R_result 1 only in the very words of a reference, and -1 in any other; in the "
                "paper a language model judges it: judge=chat(backend=openai(…))"
            )
        return super().train(run)

    def bound(self, model: Any) -> "DTR1Trainer":
        """Return the method with the model's own environment: its nodes, sandbox and limits.

        Raises:
            HarnessError: nodes, sandbox or judge are not available; the error names all of them.
        """
        prepare_judge: Callable[[], object] | None = getattr(self.reward.judge, "prepare", None)
        model.perception.prepare(**({} if prepare_judge is None else {"judge": prepare_judge}))
        return replace(self, environment=model.environment)


def as_written(model: Any) -> Any:
    """Return the model unchanged if its rollouts are single responses of several turns.

    Raises:
        UsageError: it is another model, such as `jit`, whose plan and answer are two requests.
    """
    if type(model) is not DTR1:
        raise UsageError(
            "trainer dt_r1", expected="dt_r1(checkpoint=…) as the model", found=model.name
        )
    return model


@with_options(
    DTR1Reward,
    Settings,
    without=("judge",),
    finetune="lora",
    lora_r=16,
    lora_alpha=32,
    learning_rate=1e-5,
    generation_batch_size=256,
    num_generations=8,
    max_completion_length=8192,
)
def dt_r1(
    reward_settings: DTR1Reward,
    settings: Settings,
    *,
    judge: Annotated[Spec | None, Only(r_result=True), OF_REWARD] = None,
) -> DTR1Trainer:
    """DT-R1 (Shen and Unberath 2025) with GRPO: rewards of format and of accuracy.

    Rank, batch and group are the paper's; it states no learning rate, divergence, temperature,
    lengths, α or β: those are ours. Beside these, every setting of the GRPO engine can be given;
    docs/training.md lists them.

    Args:
        reward_settings: Settings of the reward.
        settings: Settings of GRPO.
        judge: Judge of summaries and free answers, such as `chat(backend=openai(…))`; None: they
            must be in the words of a reference.
    """
    built_judge: Judge | None = None if judge is None else plugins.build("judges", judge)
    return DTR1Trainer(
        name="dt_r1",
        settings=settings,
        reward=replace(reward_settings, judge=built_judge),
        own={**vars(reward_settings), "judge": None if built_judge is None else built_judge.name},
        with_prompt=as_written,
    )
