"""Adapter to TRL: prompts and a reward function for `trl.GRPOTrainer` and similar trainers.

    environment = open_environment(EnvironmentSettings(task=…, data=…, model=…))
    GRPOTrainer(train_dataset=prompts_of(environment), reward_funcs=reward_function(environment), …)

harness's own trainer with TRL's loop is `harness train … --set engine=trl`.
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
    """Return a data set with TRL's columns `prompt` and `images`, and `unit`, a unit's name.

    `reward_function` gets `unit`. Prompts and images are made when rows are read.

    Raises:
        UsageError: an episode is more than one request, or its prompts have no images.
    """
    from datasets import Dataset

    def rows(columns: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
        unit_rows = [_row(environment, name) for name in columns["unit"]]
        return {
            "unit": list(columns["unit"]),
            "prompt": [messages for messages, _ in unit_rows],
            "images": [images for _, images in unit_rows],
        }

    rows({"unit": [next(iter(environment.units))]})  # raises at once, not in the training
    return Dataset.from_dict({"unit": list(environment.units)}).with_transform(rows)


def reward_function(environment: RewardEnvironment) -> Callable[..., list[float]]:
    """Return a function from completions and their units' names to rewards, as TRL takes it."""

    def reward(completions: Sequence[Any], unit: Sequence[str], **_: Any) -> list[float]:
        rewards = []
        for completion, name in zip(completions, unit, strict=True):
            text = completion if isinstance(completion, str) else completion[-1]["content"]
            total, _ = environment.score(name, environment.read(name, [[text]]))
            rewards.append(total)
        return rewards

    reward.__name__ = environment.reward_name
    return reward


def _row(
    environment: RewardEnvironment, name: str
) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """Return (a unit's messages with `{"type": "image"}` in place of images, its RGB images)."""
    messages, is_one_request = environment.prompt(name)
    if not is_one_request:
        raise UsageError(
            f"unit {name!r} of {environment.task.name}",
            expected="one request, which TRL's prompts are",
            found="several",
        )
    images: list[Image.Image] = []

    def without_data(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] == "text":
            return part
        if part["type"] != "image_url":
            raise UsageError(
                f"unit {name!r} of {environment.task.name}",
                expected="texts and images, which TRL's prompts have",
                found=part["type"],
                fix="With clips=images frames are images.",
            )
        data = part["image_url"]["url"].partition(",")[2]
        images.append(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
        return {"type": "image"}

    contents = [
        {**message, "content": [without_data(part) for part in content]}
        if isinstance(content := message["content"], list)
        else message
        for message in messages
    ]
    return contents, images
