"""DT-R1: GRPO over rollouts that plan a digital twin, compute on it and answer from it.

harness train --method dt_r1 --config r1_distill_qwen_7b_16x24gb_lora
    --model "dt_r1(checkpoint=deepseek-ai/DeepSeek-R1-Distill-Qwen-7B,nodes=paper)"
    --data ROOT --out DIR
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness import plugins
from harness.errors import UsageError
from harness.model import Judge
from harness.models.dt_r1.model import DTR1
from harness.options import with_options
from harness.spec import Spec
from harness.trainers.dt_r1.rewards import DTR1Reward
from harness.trainers.grpo.settings import Settings, refuse_unused
from harness.trainers.grpo.trainer import GrpoTrainer


@dataclass(frozen=True, kw_only=True)
class DTR1Trainer(GrpoTrainer):
    """GRPO in the environment of the model that is trained."""

    model_kind: ClassVar[type[Any]] = DTR1

    def bound(self, model: Any) -> "DTR1Trainer":
        """Return the method with the model's own environment: its nodes, sandbox and limits.

        Raises:
            SandboxUnavailable: code cannot be run here.
        """
        model.perception.prepare()
        return replace(self, environment=model.environment)


def as_written(model: Any) -> Any:
    """Return the model, if its response is one that goes on from turn to turn.

    Raises:
        UsageError: its plan and answer are responses to requests of their own, as `jit` does.
    """
    if type(model) is not DTR1:
        raise UsageError(
            "trainer dt_r1", expected="dt_r1(checkpoint=…) as the model", found=model.name
        )
    return model


@with_options(
    Settings,
    finetune="lora",
    lora_r=16,
    lora_alpha=32,
    learning_rate=1e-5,
    generation_batch_size=256,
    num_generations=8,
    max_completion_length=8192,
)
def dt_r1(
    settings: Settings,
    *,
    alpha: float = 1.0,
    beta_accuracy: float = 1.0,
    r_token: bool = True,
    r_dag: bool = True,
    r_exec: bool = True,
    r_task: bool = True,
    r_result: bool = True,
    require_execute: bool = False,
    judge: Spec | None = None,
) -> DTR1Trainer:
    """DT-R1 (Shen and Unberath 2025) with GRPO: rewards of format and of accuracy.

    Rank, batch and group are the paper's; it states no learning rate, divergence, temperature,
    lengths, α or β: those are ours. Beside these, every setting of the GRPO engine can be given;
    docs/training.md lists them.

    Args:
        settings: Of the engine.
        alpha: α, the weight of R_token + R_dag.
        beta_accuracy: β, the weight of R_exec + R_task + R_result. (`beta` weighs the divergence.)
        r_token: Reward tags in their legal order (Table 7).
        r_dag: Reward a valid plan.
        r_exec: Punish code that fails.
        r_task: Reward the right task.
        r_result: Reward the right answer.
        require_execute: R_token wants a block of code, as the paper's list of tags read literally.
        judge: Judge of summaries and free answers, such as `chat(backend=openai(…))`; None: they
            must be in the words of a reference.
    """
    for name, value in (("alpha", alpha), ("beta_accuracy", beta_accuracy)):
        if not 0 <= value < float("inf"):
            raise UsageError(f"dt_r1({name}=…)", expected="at least 0", found=str(value))
    if not r_token:
        refuse_unused("dt_r1", "r_token=false", require_execute=(require_execute, False))
    if not r_result:
        refuse_unused("dt_r1", "r_result=false", judge=(judge, None))
    by: Judge | None = None if judge is None else plugins.build("judges", judge)
    return DTR1Trainer(
        name="dt_r1",
        settings=settings,
        reward=DTR1Reward(
            alpha=alpha,
            beta=beta_accuracy,
            token=r_token,
            dag=r_dag,
            code=r_exec,
            task=r_task,
            result=r_result,
            require_execute=require_execute,
            judge=by,
        ),
        own={
            "alpha": alpha,
            "beta_accuracy": beta_accuracy,
            "r_token": r_token,
            "r_dag": r_dag,
            "r_exec": r_exec,
            "r_task": r_task,
            "r_result": r_result,
            "require_execute": require_execute,
            "judge": None if by is None else by.name,
        },
        with_prompt=as_written,
    )
