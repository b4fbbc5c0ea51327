"""Ways of calling one network: planted faults are named, equal ones are not called different.

`benchmarks/certify.py` certifies all planted faults and equal pairs with 50 questions.
"""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness import plugins
from harness.chat import ChatResponse
from harness.cli.main import main
from harness.errors import UsageError
from harness.leaderboards.certification.battery import battery
from harness.leaderboards.certification.certify import Certificate, Check, certify
from harness.leaderboards.certification.pairs import regret, residual, tensor_distances
from harness.leaderboards.certification.questions import Questions
from harness.leaderboards.certification.rates import rates_of, share_interval
from harness.leaderboards.certification.suspects import suspects
from harness.observation import Examination, Observation, Variation
from harness.spec import parse
from harness.testing import ScriptedChat
from harness.types import AnswerForm

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from planted import FAULTS, QWEN, Changed, Networks, built, equal_cases

QUICK = (
    *("other system prompt", "max_tokens cut", "clips sent as images", "smaller max_pixels"),
    *("smaller max_pixels before a server", "JPEG that is sent"),
)
SAME = (f"{QWEN}, bfloat16", f"{QWEN}, another seed", f"{QWEN}, a server that tells nothing")
CASES = {case.name: case for case in (*FAULTS, *equal_cases())}


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    return Networks(tmp_path_factory.mktemp("networks"))


def certified(case, networks, *, questions=10):
    with built(case, networks) as (a, b):
        return certify(("A", "B"), (a, b), battery(questions, a.forms))


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_fault_is_found_with_its_cause(networks, name):
    certificate = certified(CASES[name], networks)
    assert certificate.verdict == "different"
    assert any(re.search(CASES[name].cause, cause) for cause in certificate.causes)


@pytest.mark.parametrize("name", SAME)
def test_equal_ways_are_not_called_different(networks, name):
    certificate = certified(CASES[name], networks)
    assert not certificate.causes and certificate.verdict != "different"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - {*QUICK, *SAME}))
def test_every_planted_fault_and_equal_pair(networks, name):
    certificate = certified(CASES[name], networks, questions=20)
    if CASES[name].cause is None:
        assert certificate.verdict != "different", certificate.summary
    else:
        assert any(re.search(CASES[name].cause, cause) for cause in certificate.causes)


def test_there_are_more_than_twenty_faults_and_fifty_equal_pairs():
    assert len(FAULTS) >= 20 and len(list(equal_cases())) >= 50


def test_what_was_not_compared_is_not_called_equal(networks):
    """Two sides that tell their text alone may share every answer and have other weights."""
    model = networks.model(QWEN)
    a, b = (replace(model, chat=Changed(model.chat, opaque=True)) for _ in range(2))
    certificate = certify(("A", "B"), (a, b), battery(5, a.forms))
    assert certificate.verdict == "cannot tell"
    unknown = {check.aspect: check.words for check in certificate.checks if check.equal is None}
    assert {"images", "log-probabilities", "choice of tokens", "weights"} <= unknown.keys()
    assert unknown["log-probabilities"] == "A does not tell them"
    assert unknown["choice of tokens"] == "neither network is in this process"


def test_what_too_few_questions_leave_open_is_not_called_uncompared():
    """Log-probabilities of two questions are an interval that the limit is in."""
    checks = (
        Check(aspect="log-probabilities", equal=None, words="0.2 (-0.2 to 0.6)", questions=2),
        Check(aspect="weights", equal=None, words="a side does not tell them"),
    )
    certificate = Certificate(
        a="A",
        b="B",
        questions=2,
        verdict="cannot tell",
        causes=(),
        checks=checks,
        settings=(),
        dtypes=("float32", "float32"),
        rates=rates_of("float32", "float32"),
    )
    undecided, not_compared = certificate.summary.split(" Not compared: ")
    assert undecided.endswith("log-probabilities.") and not_compared == "weights."


class Encoded(Changed):
    """An adapter that tells its text, and that it encodes images."""

    def describe(self):
        return {**super().describe(), "images": "jpeg of quality 30"}


@pytest.mark.parametrize(("adapter", "verdict"), [(Changed, "equal"), (Encoded, "cannot tell")])
def test_other_settings_of_images_that_nobody_saw_are_not_equal(networks, adapter, verdict):
    model = networks.model(QWEN)
    other = replace(model, chat=adapter(model.chat, opaque=True))
    certificate = certify(("A", "B"), (model, other), battery(5, model.forms))
    assert certificate.verdict == verdict


def test_a_model_without_a_network_is_refused():
    saliency = plugins.build("models", parse("saliency"))
    with pytest.raises(UsageError, match=r"--against saliency.*asks one network"):
        certify(("a", "saliency"), (plugins.build("models", parse("pocket")), saliency), [])


def test_the_command_prints_a_verdict_and_writes_a_page(networks, tmp_path, capsys):
    side = "qwen_vl(prompt=locate,max_new_tokens=4,checkpoint={},backend={})"
    checkpoint = networks.checkpoint(QWEN)
    a, b = (
        side.format(checkpoint, f"transformers(device=cpu,dtype=float32,temperature={heat})")
        for heat in ("0.0", "0.5")
    )
    given = ["--questions", "3", "--out", str(tmp_path / "out")]
    assert main(["certify", "--model", a, "--against", a, *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "equal"
    assert main(["certify", "--model", a, "--against", b, *given]) == 1
    assert "sampling: temperature: 0.0 → 0.5" in " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "out/certificate.html").read_text("utf-8")
    assert "Two ways of calling one network: different" in page and "temperature" in page


# -- parts, by hand -------------------------------------------------------------------------------


def examination(*logprobs, best=None, prompt=(1, 2), tensors=None):
    values = np.array(logprobs)
    top = values if best is None else np.array(best)
    return Examination(prompt=prompt, tensors=tensors or {}, logprobs=values, best=top)


def test_the_distance_of_two_views():
    told = Observation(
        response=ChatResponse(text="ab", tokens=(3, 4)),
        prompt=(1, 2),
        logprobs=np.array([-1.0, -2.0]),
    )
    assert residual(examination(-1.0, -2.0), told) == 0
    assert residual(examination(-1.5, -2.0), told) == pytest.approx(0.25)
    assert residual(examination(-1.0, -2.0, prompt=(1, 9)), told) == 1
    silent = Observation(response=ChatResponse(text="ab", prompt_tokens=2))
    assert residual(examination(-1.0, -2.0, best=(-1.0, -1.0)), silent) == pytest.approx(0.5)
    assert residual(examination(-1.0, prompt=(1,)), silent) == 1
    assert regret(examination()) == 0


def test_tensors_of_other_shapes_are_infinitely_far_apart():
    one, two = np.zeros((2, 3), np.float32), np.full((2, 3), 0.5, np.float32)
    assert tensor_distances({"pixels": one}, {"pixels": two}) == (0.5, 0.5)
    assert tensor_distances({"pixels": one}, {"pixels": one[:1]})[1] == math.inf
    assert tensor_distances({}, {"pixels": one})[1] == math.inf


@pytest.mark.parametrize(
    ("a", "b", "tokens", "diverges", "early"),
    [
        ("abcd", "abcd", 4, 0, None),
        ("abcd", "abxd", 3, 1, None),
        ("abcd", "ab", 2, 1, 1),
        ("abcd", "ab…", 2, 0, None),  # cut: the limit's doing
    ],
)
def test_how_far_two_responses_begin_alike(a, b, tokens, diverges, early):
    def response(text):
        plain = text.removesuffix("…")
        written = tuple(map(ord, plain))
        return ChatResponse(
            text=plain, tokens=written, completion_tokens=len(written), cut=text != plain
        )

    questions = Questions((ScriptedChat(responses=[""]),) * 2)
    assert questions.common_start(response(a), response(b)) == (tokens, diverges, early)


def test_rates_add_up_as_squares_and_an_unknown_type_counts_as_bfloat16():
    one, both = rates_of("bfloat16"), rates_of("bfloat16", None)
    assert both.logprob == pytest.approx(math.sqrt(2) * one.logprob)
    assert rates_of("float32", "float32").logprob < rates_of("float16").logprob < one.logprob
    assert one.tightened(one.logprob) == one
    assert rates_of("float32").logprob <= one.tightened(0.0).logprob < one.logprob


def test_an_interval_of_few_tokens_is_wide():
    assert share_interval(0, 0, groups=5) == share_interval(1, 2, groups=1) == (0.0, 1.0)
    low, high = share_interval(50, 100, groups=50)
    assert 0.3 < low < 0.5 < high < 0.7


def test_every_suspect_changes_a_question_of_the_battery_or_leaves_it(networks):
    """A change gives other requests, or None; it never gives the same one as another."""
    model = networks.model(QWEN)
    variations = [
        Variation(request=request)
        for query in battery(10, frozenset({AnswerForm.TEXT}))
        for request in model.requests(query)
    ]
    for words, change in suspects().items():
        if words == "there is no system prompt":
            continue  # none of these has one
        changed = [change(variation) for variation in variations]
        assert any(after is not None for after in changed), words
        same = [b for b, after in zip(variations, changed, strict=True) if after == b]
        assert not same, words
