"""Servers of networks: whatever one does, each sample is counted, and the run ends or goes on."""

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.main import main
from harness.models.backends.openai import openai
from harness.models.qwen_vl.model import qwen_vl
from harness.record import Run
from harness.spec import Spec

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import chat_server
import contract
from chat_server import Scripted, serving

case = pytest.mark.case


@dataclass(frozen=True)
class Right(Scripted):
    """A network that answers in VisionReasoner's grammar.

    What it was shown and told decides how many boxes it sees, and where.
    """

    coordinates: str = "normalized_1000"

    def _response(self, request):
        response = super()._response(request)
        edges = [int(response.text[at : at + 2], 16) for at in range(1, 7)]
        seen = [
            {"bbox_2d": [edge, edge, edge + 420, edge + 420], "point_2d": [edge + 9, edge + 9]}
            for edge in edges[: 1 + int(response.text[0], 16) % 6]
        ]
        text = f"<think>{response.text}</think><answer>{json.dumps(seen)}</answer>"
        return replace(response, text=text)


@dataclass(frozen=True)
class Alike(Right):
    """Says to everybody what the first one was told."""

    def _response(self, request):
        return super()._response(contract.requests()["first"])


def check_responses(folder, data):
    """Raise AssertionError unless each sample that did not fail has the response to its own
    request.

    What the network says to a request is asked anew, without a server.
    """
    run = Run.open(folder)
    model = qwen_vl(backend=Right(), segmenter=Spec("box"))
    heard = []
    for sample in plugins.build("tasks", Spec("counting"), data).samples():
        if sample.query.id in run.journal.places:
            made = run.prediction(sample.id)
            if made.failure is None:
                (response,) = Right().generate(model.requests(sample.query))
                assert made.responses == (response.text,), "not the response to this request"
                heard.append(response.text)
    assert len(set(heard)) == len(heard), "the requests differ too little"


@pytest.fixture
def ask(harness, counting):
    """Evaluates a network behind a server that does these things, on two samples in turn.

    Each sample that does not fail must have the network's response to its own question and image.
    """

    def asked(faults, *, out="runs", url="", network=None, **settings):
        with serving(network or Right(), faults=faults) as served:
            given = {
                "base_url": url or served.url,
                "model": served.model,
                "wait": 0.01,
                "coordinates": "normalized_1000",
                "retries": 1,
                "concurrency": 1,
                "timeout": 20.0,
                **settings,
            }
            words = ",".join(f"{name}={value}" for name, value in given.items())
            model = f"qwen_vl(backend=openai({words}),segmenter=box)"
            few = ("--subset", "first2", "--infrastructure-limit", 1)
            done = harness.eval(*few, model=model, tasks="counting", out=out)
        if done.code:
            assert not list((harness.folder / out).rglob("results.json"))
        else:
            (manifest,) = (harness.folder / out).rglob("manifest.json")
            check_responses(manifest.parent, harness.folder / "data")
        return done

    return asked


PASSING = [
    "500",
    "503",
    "429",
    "closes",
    "closes_half_way",
    "garbage",
    "no_json",
    "no_object",
    "no_choices",
]


@case(
    "a server that answers 429 or 5xx, resets or closes half-way, or streams garbage",
    "tried again; then a failure of the infrastructure",
    code=0,
)
@pytest.mark.parametrize("fault", PASSING)
def test_what_a_server_fails_at_is_the_infrastructures(ask, fault):
    found = ask([fault, fault]).task("counting")
    assert found["failures"]["infrastructure"] == found["n_failed"] == 1
    assert found["n_scored"] == 1


@case("the same, once", "tried again, without a note", code=0)
def test_what_passes_changes_no_number(ask):
    calm = ask([], out="undisturbed").task("counting")
    for fault in PASSING:
        assert ask([fault], out=fault).task("counting") == calm, fault


@case(
    "a server that hangs, or sends a byte now and then",
    "left after `timeout` seconds, then as above",
    code=0,
)
@pytest.mark.parametrize("fault", ["hang", "trickle"])
def test_a_server_that_does_not_end_is_left(ask, fault):
    found = ask([fault], timeout=1.5, retries=0).task("counting")
    assert found["failures"]["infrastructure"] == found["n_failed"] == 1


@case(
    "a server that is not there",
    "refused before the first sample; says how one is started",
    code=6,
)
def test_a_server_that_is_not_there_is_missing(ask):
    ask([], url="http://127.0.0.1:9/v1").says("http://127.0.0.1:9/v1", "vllm serve")


@case(
    "an empty response of a server, or one of 10 MB",
    "a failed sample (parse), cut in the record",
    code=0,
)
@pytest.mark.parametrize("fault", ["empty", "null", "huge"])
def test_an_empty_or_huge_response_is_the_models_failure(harness, ask, fault):
    found = ask([fault]).task("counting")
    assert found["failures"]["parse"] == found["n_failed"] == 1
    assert sum(path.stat().st_size for path in harness.run.rglob("*") if path.is_file()) < 2**20


@case(
    "an answer of more than 32 MiB, or a request that is refused (400)",
    "a failed sample (model); not tried again",
    code=0,
)
@pytest.mark.parametrize("fault", ["endless", "400"])
def test_a_request_that_is_refused_is_the_models_failure(ask, fault):
    found = ask([fault, ""]).task("counting")
    assert found["failures"]["model"] == found["n_failed"] == 1


@case(
    "a request whose settings are refused (400 that names max_tokens, temperature, …)",
    "ends the run with the setting to change; no sample is scored",
    code=2,
)
def test_a_setting_that_is_refused_ends_the_run(ask):
    message = "Unsupported parameter: 'max_tokens' is not supported with this model."
    fault = {"status": 400, "body": json.dumps({"error": {"message": message}})}
    ask(repeat(fault)).says("max_tokens as it was sent", "server=openai")


@case(
    "a server that answers as another release of the model while the run goes on",
    "both names are in the record and beside the numbers",
    code=0,
)
def test_a_name_that_changes_within_a_run_marks_it(harness, ask, monkeypatch):
    names = iter(["served-2024-08-06", "served-2024-11-20"])
    completion = chat_server.completion
    monkeypatch.setattr(
        chat_server, "completion", lambda *given: completion(*given[:2], next(names))
    )
    ask([]).says("served-2024-08-06, served-2024-11-20", "several models")
    (results,) = harness.run.rglob("results.json")
    served = json.loads(results.read_text())["ledger"]["served"]
    assert served == {"served-2024-08-06": 1, "served-2024-11-20": 1}
    run = Run.open(results.parent)
    calls = [run.prediction(one).calls[0].model for unit in run.units() for one in unit.samples]
    assert sorted(calls) == [*served]
    board = harness.folder / "board"
    main(["board", "build", "--runs", str(results.parent), "--out", str(board)])
    pages = "".join(path.read_text() for path in board.glob("*.md"))
    assert "answered as 2 models: served-2024-08-06 (1), served-2024-11-20 (1)" in pages


@case(
    "a key, an address or a model that the server does not know, another model's name in "
    "an answer, a redirection",
    "ends the run: no request would fare better",
    code=2,
)
@pytest.mark.parametrize("fault", ["401", "403", "404", "302", "wrong_model"])
def test_what_no_request_survives_ends_the_run(ask, fault):
    ask(repeat(fault)).says("server http://127.0.0.1")


@case(
    "a server whose response does not depend on the request",
    "not noticed",
    code=0,
)
@pytest.mark.parametrize("ignored", ["", "text", "media", "system", "prefix", "limit", "stop"])
def test_a_server_that_does_not_look_is_told_apart(harness, ignored):
    with (
        serving(Scripted(ignores=frozenset({ignored} - {""}))) as served,
        pytest.raises(AssertionError) if ignored else nullcontext(),
    ):
        chat = openai(model=served.model, base_url=served.url, coordinates="pixels")
        contract.check(chat, Scripted(), contract.requests())


@case("the same", "seen by these tests, which compare responses with requests", code=0)
def test_responses_that_do_not_depend_on_the_request_are_noticed_here(ask):
    with pytest.raises(AssertionError, match=r"(?m)request$"):
        ask([], network=Alike())


KEY = "sk-Abc123_defGHI456-jklMNO789"
SPELLED = {
    "whole": KEY,
    "apart": " ".join(KEY),
    "in lines": "\n".join([KEY[:9], KEY[9:20], KEY[20:]]),
    "escaped": "".join(f"\\u{ord(one):04x}" for one in KEY),
    "of the web": "".join(f"%{ord(one):02X}" for one in KEY),
    "of HTML": "".join(f"&#{ord(one)};" for one in KEY),
    "a half": f"{KEY[:15]} is how it begins",
    "capitals": KEY.upper(),
}


def letters(text):
    return "".join(one for one in text.casefold() if one.isalnum())


@case(
    "a server that says the key in its response or an error",
    "shown and recorded as `***`",
    code=0,
)
@pytest.mark.parametrize("spelled", SPELLED)
def test_a_key_that_a_server_says_is_kept_nowhere(harness, ask, monkeypatch, spelled):
    monkeypatch.setenv("TESTS_KEY", KEY)
    output = SPELLED[spelled]
    message = {"role": "assistant", "content": f"<think>{output}</think><answer>[]</answer>"}
    response = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
    refusal = json.dumps({"error": {"message": output}})
    faults = [None, {"status": 200, "body": response}, {"status": 400, "body": refusal}]
    del faults[0]
    monkeypatch.setattr(sys.modules[__name__], "check_responses", lambda *_: None)
    done = ask(faults, key_variable="TESTS_KEY")
    kept = "".join(path.read_text() for path in harness.run.rglob("*") if path.is_file())
    for text in (kept, done.out, done.err):
        assert letters(KEY[:15]) not in letters(text) and output not in text
    assert "***" in kept


@case("terminal escapes in a server's status, error or names", "shown spelled out", code=2)
@pytest.mark.parametrize("status", [401, 404])
def test_escapes_of_a_server_do_not_reach_the_terminal(ask, status):
    body = json.dumps({"error": {"message": "a\x1b[2J\x1b]0;b\x07\x9b2K"}})
    done = ask(repeat({"status": status, "body": body}))
    done.says("\\x1b[2J")
    assert not any(sign in done.err + done.out for sign in "\x1b\x07\x9b")


@case(
    "a server whose list of models is empty of sense",
    "said once; how a server is started",
    code=6,
)
@pytest.mark.parametrize("listed", [b"", b"garbage", b"[]", b"7"])
def test_a_list_of_models_that_is_none_is_said_once(ask, listed, monkeypatch):
    from chat_server import Handler

    monkeypatch.setattr(Handler, "do_GET", lambda self: self.say(200, listed))
    done = ask([], retries=0)
    done.says("vllm serve")
    assert done.err.count("expected an answer") == 1
