"""The golden captions and worked examples are sharp: plausible mistakes are found.

Each mutation changes one place in one module. The modules are executed anew, and a comparison with
the golden files or an example worked out by hand has to differ. The Java tokenizer is asked once
for each input, whichever module asks.
"""

import contextlib
import dataclasses
import importlib
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import harness
from harness.errors import HarnessError
from harness.judge import Verdict
from harness.types import Answer, Prediction, Usage

sys.path.insert(0, str(Path(__file__).parents[1] / "mutations"))

from place import in_memory, replaced

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pycocoevalcap") is None, reason="needs the extra [text]"),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]
FOLDER = Path(harness.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"
ORDER = (
    "metrics.penn_treebank",
    "metrics.caption_tokens",
    "metrics.captions",
    "metrics.efficiency",
    "judging",
)
ASKED = ("tokens", "BLEU-2", "BLEU-4", "ROUGE-L", "CIDEr")
CANNOT = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    HarnessError,
    StopIteration,
)

MUTATIONS = in_memory("text")


@pytest.fixture(scope="module")
def java():
    """The Java program, each input given to it once."""
    known = {}

    def run(command, **given):
        key = (tuple(command), given["input"])
        if key not in known:
            known[key] = subprocess.run(command, **given)
        return known[key]

    return SimpleNamespace(run=run)


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    return importlib.import_module("compare_text")


def executed(changed, java, monkeypatch):
    """All modules executed anew, one of them from another source."""
    fresh = {}
    for name in ORDER:
        module = ModuleType(f"harness.{name}")
        module.__file__ = str(FOLDER / f"{name.replace('.', '/')}.py")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        short = name.rpartition(".")[2]
        source = changed.get(short) or Path(module.__file__).read_text(encoding="utf-8")
        exec(compile(source, f"{short}.py", "exec"), module.__dict__)
        fresh[short] = module
    fresh["penn_treebank"].subprocess = java
    return SimpleNamespace(**fresh)


def worked_differ(modules):
    """Whether an example that was worked out by hand comes out otherwise."""
    found = [*worked_tokens(modules), *worked_costs(modules.efficiency), *judged(modules.judging)]
    return any(not right for right in found)


def worked_tokens(modules):
    tokens, captions = modules.caption_tokens, modules.captions
    penn = modules.penn_treebank
    yield penn.penn_treebank(["a\u2028b", "C"]) == ["a b", "c"]
    penn.penn_treebank(["x", "see No.", "5 cats", "by A.", "The end"])
    yield penn.penn_treebank(["see No.", "5 cats"]) == ["see no.", "5 cats"]
    yield penn.penn_treebank(["see No.", "The cat", "x"]) == ["see no", "the cat", "x"]
    yield penn.surroundings(["No.", "5", "A.", "The", "B.", "of"]) == [
        ("No.", "9"),
        ("5",),
        ("A.", "", "The"),
        ("The",),
        ("B.", "", "of"),
        ("of",),
    ]
    items = [
        {"candidate": "It's A dog", "references": ["A dog runs far", "no"]},
        {"candidate": "5 cats", "references": ["five cats", "see No."]},
    ]
    simple = tokens.tokenize(items, tokenizer="simple")
    yield simple.candidates == ("it's a dog", "5 cats")
    yield tokens.tokenize(items).references[1] == ("five cats", "see no")
    last = tokens.tokenize([{"candidate": "The end", "references": ["by A."]}])
    yield last == (("the end",), (("by a.",),))  # an initial at the end of the file
    yield round(captions.corpus_value(items, name="BLEU-2", tokenizer="simple"), 6) == 0.366148
    yield (
        captions.corpus_value(
            [{"candidate": "a", "references": ["."]}], name="CIDEr", tokenizer="simple"
        )
        == 0.0
    )
    yield [one.name for one in captions.caption_metrics(["CIDEr"])] == ["CIDEr"]
    with contextlib.suppress(HarnessError):
        tokens.tokenize([{"candidate": "a", "references": []}], tokenizer="simple")
        yield False


def worked_costs(efficiency):
    responses = ("<think> ab </think>c</think>", "x")
    usage = Usage(prompt_tokens=1, completion_tokens=10, reasoning_tokens=6, frames=3)
    one = Prediction(query_id="a", answer=Answer(), usage=usage, responses=responses)
    other = dataclasses.replace(
        one, responses=("y", "<think>cdef"), usage=Usage(completion_tokens=4)
    )
    plans = {
        "reasoning_tokens": 3,
        "completion_tokens": 7,
        "frames": 1.5,
        "reasoning_characters": 3,
    }
    for name, mean in plans.items():
        extra = getattr(efficiency, name)()
        (found,) = extra.score([None, None], [one, other]).values()
        yield (found.value, found.weight) == (mean, 2)
    yield efficiency.tokens_per_correct().cost([one, other]) == 14


def judged(judging):
    graded, case = judging.rubric("graded"), judging.Case("?", "an answer", "the ground_truth")
    scale = judging.GradeScale(lowest=1, highest=3, correct_from=2, unreadable=1)
    low = dataclasses.replace(graded, scale=scale)
    yield [low.read_grade(response) for response in ("2", "0", "x3", "3")] == [2, None, None, 3]
    yield [low.verdict(response).score for response in ("2", "3", "?")] == [0.5, 1.0, 0.0]

    def by(response, *, more=0.0):
        verdict = graded.verdict(response)
        return SimpleNamespace(name="j", judge=lambda *_: Verdict(verdict.score + more, response))

    yield judging.judgement(by("2"), graded, case)[1:4] == (True, "judge", True)
    yield judging.judgement(by("?"), graded, case)[1:4] == (False, "judge", False)
    yield judging.judgement(by("3"), graded, case._replace(answer=" "))[0] == 0.0
    asking = dataclasses.replace(graded, exact_match=False)
    exact = case._replace(answer="The ground_truth.")
    yield judging.judgement(by("0"), asking, exact).by == "judge"
    yield judging.judgement(by("0"), graded, exact).score == 1.0
    yield judging.cases_to_judge(graded, [exact, case]) == [case]
    yield graded.key(case, "a") != graded.key(case, "b")
    with contextlib.suppress(HarnessError):
        judging.judgement(by("2", more=0.1), graded, case)
        yield False


def test_unchanged_modules_executed_anew_differ_nowhere(compare, java, monkeypatch):
    modules = executed({}, java, monkeypatch)
    assert not worked_differ(modules)
    assert all(compare.CHECKS[name](modules).deviation == 0 for name in ASKED)


def path_of(name):
    return next(FOLDER / f"{one.replace('.', '/')}.py" for one in ORDER if one.endswith(name))


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_mistake_is_found(name, function, old, new, compare, java, monkeypatch):
    source = path_of(name).read_text(encoding="utf-8")
    modules = executed({name: replaced(source, function, old, new)}, java, monkeypatch)
    with contextlib.suppress(*CANNOT):
        assert worked_differ(modules) or any(
            compare.CHECKS[requested](modules).deviation > 0 for requested in ASKED
        )


def test_every_module_is_mutated():
    assert {name for name, *_ in MUTATIONS.values()} == {one.rpartition(".")[2] for one in ORDER}
