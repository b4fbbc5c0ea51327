"""What a run through a server cost stands in its results, where prices were given."""

import sys
from pathlib import Path

import pytest

from harness import plugins
from harness.models.backends.openai import openai
from harness.models.qwen_vl.model import qwen_vl
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import Spec
from harness.summary import public

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import Scripted, serving


def results(shapes, out, **prices):
    with serving(Scripted()) as served:
        chat = openai(
            model=served.model, base_url=served.url, coordinates="normalized_1000", **prices
        )
        model = qwen_vl(backend=chat, segmenter=Spec("box"))
        task = plugins.build("tasks", Spec("counting"), shapes)
        return evaluate(task, model, out, Options(subset="first3"), model_spec="served").results


def test_the_cost_is_prices_times_tokens_and_beside_the_scores(shapes, tmp_path):
    found = results(shapes, tmp_path, prompt_price=2.0, completion_price=10.0)
    usage = found["usage"]
    assert usage["completion_tokens"] == 3 * 16
    assert usage["prompt_tokens"] > 0
    paid = (2.0 * usage["prompt_tokens"] + 10.0 * usage["completion_tokens"]) / 1e6
    assert found["cost"] == pytest.approx(paid)
    assert public(found)["cost"] == found["cost"]


def test_without_prices_there_is_no_cost(shapes, tmp_path):
    found = results(shapes, tmp_path)
    assert "cost" not in found
    assert "cost" not in public(found)


def test_what_costs_nothing_says_so(shapes, tmp_path):
    assert results(shapes, tmp_path, prompt_price=0.0, completion_price=0.0)["cost"] == 0.0
