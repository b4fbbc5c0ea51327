"""Prompts and a reward function for `trl.GRPOTrainer` and trainers with the same interface.

    environment = open_environment(EnvironmentSettings(task=…, data=…, model=…))
    GRPOTrainer(train_dataset=prompts_of(environment), reward_funcs=reward_function(environment), …)

Our own trainer with TRL's loop is `harness train … --set engine=trl`.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image

from harness.environments.session import RewardEnvironment
from harness.errors import UsageError

if TYPE_CHECKING:
    from datasets import Dataset


def prompts_of(environment: RewardEnvironment) -> "Dataset":
    """Return TRL's columns `prompt`, `images` and, for the reward, `unit`, made when they are read.

    Raises:
        UsageError: an episode is more than one request, or its prompts have no images.
    """
    from datasets import Dataset

    def rows(columns: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
        shown = [_row(environment, name) for name in columns["unit"]]
        prompts, images = ([row[place] for row in shown] for place in (0, 1))
        return {"unit": list(columns["unit"]), "prompt": prompts, "images": images}

    rows({"unit": [next(iter(environment.units))]})
    return Dataset.from_dict({"unit": list(environment.units)}).with_transform(rows)


def reward_function(environment: RewardEnvironment) -> Callable[..., list[float]]:
    """Return a reward function of TRL's, called as its metric or method."""

    def reward(completions: Sequence[Any], unit: Sequence[str], **_: Any) -> list[float]:
        rewards = []
        for completion, name in zip(completions, unit, strict=True):
            text = completion if isinstance(completion, str) else completion[-1]["content"]
            rewards.append(environment.score(name, environment.read(name, [[text]]))[0])
        return rewards

    reward.__name__ = environment.reward_name
    return reward


def _row(
    environment: RewardEnvironment, name: str
) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    messages, alone = environment.prompt(name)
    if not alone:
        raise UsageError(
            f"unit {name!r} of {environment.task.name}",
            expected="one request, which TRL's prompts are",
            found="several",
        )
    images: list[Image.Image] = []

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] == "text":
            return part
        data = part["image_url"]["url"].partition(",")[2]
        images.append(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
        return {"type": "image"}

    shown = [
        {**message, "content": [plain(part) for part in content]}
        if isinstance(content := message["content"], list)
        else message
        for message in messages
    ]
    return shown, images
