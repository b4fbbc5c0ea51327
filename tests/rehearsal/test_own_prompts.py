"""A rehearsal of a prompt of the user's own: its stand-ins answer in the format that is read."""

from dataclasses import replace
from importlib import import_module

import pytest

from harness.cli.main import build_parser
from harness.models.questions import answer_part
from harness.rehearsal import responses
from harness.rehearsal.own_prompts import own_grammar, own_prompts
from harness.rehearsal.responses import draw, grammar_of
from harness.rehearsal.wording import Asked
from harness.spec import parse
from harness.stated.letters import stated_letter
from harness.types import AnswerForm

OWN = '"Where is {question}? Give its box as JSON."'
MASK = {AnswerForm.MASK}


def registered(monkeypatch, spec, forms):
    (model,) = own_prompts([parse(spec)])
    monkeypatch.setattr(responses, "OWN_GRAMMARS", [own_grammar(model, forms)])
    return model


@pytest.mark.parametrize(
    "spec",
    [
        f"qwen_vl(checkpoint=x/y,prompt={OWN})",
        f"qwen_vl(checkpoint=x/y,prompt={OWN},grammar=visionreasoner)",
        f"vlm(dialect=gemma,checkpoint=x/y,prompt={OWN})",
        f"seg_zero(checkpoint=x/y,prompt={OWN})",
        f"vote(base=qwen_vl(checkpoint=x/y,prompt={OWN}))",
    ],
)
def test_places_are_written_in_the_format_that_the_model_reads(monkeypatch, spec):
    model = registered(monkeypatch, spec, MASK)
    asked = Asked(text=model.prompt.render("the red cup"), extent=(640, 480))
    assert grammar_of(asked).name == "own"
    drawn = [draw(replace(asked, key=f"q{place}")) for place in range(40)]
    assert {one.text: model.prompt.parse(one.text).ok for one in drawn} == {
        one.text: not one.fault for one in drawn
    }
    assert 20 < sum(not one.fault for one in drawn) < 40


def test_listed_options_are_answered_with_a_letter_and_the_methods_requests_as_before(monkeypatch):
    spec = 'qwen_vl(checkpoint=x/y,prompt="Think. {question}\n{options}")'
    registered(monkeypatch, spec, {AnswerForm.CHOICE, AnswerForm.NUMBER})
    text = "Think. Which?\nA. a cup\nB. a dog"
    drawn = [draw(Asked(text=text, key=f"q{place}")) for place in range(40)]
    letters = {stated_letter(answer_part(one.text), "AB") for one in drawn if not one.fault}
    assert letters == {"A", "B"}
    assert grammar_of(Asked(text="How many?\nAnswer with a single number.")).name.endswith("number")


def test_a_model_with_its_methods_prompt_has_no_grammar_of_its_own():
    specs = ["qwen_vl(checkpoint=x/y,prompt=locate)", "pocket", "qwen_vl(checkpoint=x/y)"]
    assert not list(own_prompts(map(parse, specs)))


@pytest.mark.parametrize("name", ["eval", "train", "reproduce"])
def test_every_command_that_can_be_rehearsed_has_its_rehearsal(name):
    line = ["dr2seg", "1"] if name == "reproduce" else []
    parsed = build_parser(name).parse_args([name, *line, "--rehearse"])
    function = parsed.function.partition(":")[2]
    assert callable(getattr(import_module("harness.rehearsal.command"), function))
