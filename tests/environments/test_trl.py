"""TRL's columns and reward function, without a training."""

import numpy as np
import pytest

from harness.environments.session import EnvironmentSettings, open_environment
from harness.environments.trl import prompts_of, reward_function
from harness.errors import UsageError
from harness.run.verify import perfect

pytest.importorskip("datasets")

LIMITS = "coordinates=pixels,factor=28,min_pixels=3136,max_pixels=12845056"
MODEL = f"visionreasoner(backend=openai({LIMITS}),segmenter=box,propagator=still)"


def opened(task, data, model=MODEL):
    return open_environment(EnvironmentSettings(task=task, data=str(data), model=model))


def test_columns_are_the_prompts_and_their_images(shapes):
    environment = opened("reason_seg", shapes)
    rows = list(prompts_of(environment))
    assert [row["unit"] for row in rows] == list(environment.units)
    for row, (sample,) in zip(rows, environment.units.values(), strict=True):
        ((message,), (image,)) = row["prompt"], row["images"]
        assert [part["type"] for part in message["content"]] == ["image", "text"]
        (request,) = environment.model.requests(sample.query)
        assert image.size == request.resize


def test_completions_are_rewarded_by_the_protocol(shapes):
    environment = opened("reason_seg", shapes)
    reward, units = reward_function(environment), list(environment.units)
    samples = [environment.units[unit][0] for unit in units]
    right = [environment.model.write(s.query, perfect(s).answer)[0] for s in samples]
    said = [[{"role": "assistant", "content": text}] for text in right]
    given = reward(prompts=None, completions=said, completion_ids=None, unit=units, images=None)
    assert given == reward(completions=right, unit=units)
    assert np.mean(given) > 0.5 > np.mean(reward(completions=["?"] * len(units), unit=units))
    assert reward.__name__ == "gIoU"


def test_an_episode_of_several_requests_is_refused(shapes):
    with pytest.raises(UsageError, match="one request"):
        prompts_of(opened("ref_davis17", shapes))


def test_a_prompt_with_a_video_is_refused(shapes):
    model = "pocket(backend=openai(coordinates=pixels,clips=video))"
    with pytest.raises(UsageError, match="clips=images"):
        prompts_of(opened("mevis", shapes, model))
