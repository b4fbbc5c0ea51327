import json
import urllib.error
import urllib.request

import numpy as np
import pytest

from harness import media, plugins
from harness.rehearsal.server import serve
from harness.spec import parse
from harness.types import AnswerForm, Query

PIXELS = np.random.default_rng(0).integers(0, 255, (3, 60, 80, 3), np.uint8)
VIDEO = media.pixels(list(PIXELS), times=[0.0, 0.5, 1.0], is_video=True, id="video")


def post(url: str, plain: object) -> tuple[int, dict]:
    data = plain if isinstance(plain, bytes) else json.dumps(plain).encode()
    try:
        with urllib.request.urlopen(url, data) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("server", ["vllm", "openai"])
def test_the_backend_gets_answers_of_each_form_for_any_model(server: str) -> None:
    forms = (AnswerForm.NUMBER, AnswerForm.CHOICE, AnswerForm.INTERVAL, AnswerForm.TEXT)
    queries = [
        Query(id=f"{form}{place}", text="How long?", media=(VIDEO,), forms=(form,), options=options)
        for form in forms
        for place in range(4)
        for options in [("a", "b") if form is AnswerForm.CHOICE else ()]
    ]
    with serve() as served:
        backend = f"openai(server={server},model=gpt-4o,base_url={served.url},coordinates=pixels)"
        model = plugins.build(
            "models", parse(f"video_r1(backend={backend},segmenter=box,propagator=still)")
        )
        model.prepare()
        found = model.predict(queries)
    assert served.counts == {"gpt-4o": len(queries)} and served.faults == []
    answered = {query.form for query, one in zip(queries, found, strict=True) if one.answer}
    assert answered == set(forms)


def test_a_judge_gets_grades() -> None:
    with serve() as served:
        spec = f"chat(backend=openai(model=judge,base_url={served.url},coordinates=pixels))"
        judge = plugins.build("judges", parse(spec))
        scores = {judge.judge("graded", f"q{place}", "a", "b").score for place in range(12)}
    assert len(scores) > 1


def test_a_stop_string_ends_a_response_and_a_limit_cuts_it() -> None:
    text = "You plan the perception: nothing. <think>"
    request = {"model": "m", "messages": [{"role": "user", "content": text}], "seed": 3}
    with serve() as served:
        url = f"{served.url}/chat/completions"
        (whole,) = post(url, request)[1]["choices"]
        said = whole["message"]["content"]
        stop = said[4:8]
        (short,) = post(url, {**request, "stop": [stop]})[1]["choices"]
        (kept,) = post(url, {**request, "stop": stop, "no_stop_trim": True})[1]["choices"]
        (cut,) = post(url, {**request, "max_tokens": 2})[1]["choices"]
    assert short["message"]["content"] == said.partition(stop)[0]
    assert kept["message"]["content"] == said.partition(stop)[0] + stop
    assert cut == {**cut, "finish_reason": "length"} and cut["message"]["content"] == said[:8]


@pytest.mark.parametrize(
    ("plain", "status"),
    [
        (b"no JSON", 400),
        ({"model": "m", "messages": []}, 400),
        ({"messages": [{"role": "user", "content": "a"}]}, 400),
        ({"model": "m", "stream": True, "messages": [{"role": "user", "content": "a"}]}, 400),
        (
            {
                "model": "m",
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "http://a/b.png"}},
                            {"type": "text", "text": "a"},
                        ],
                    }
                ],
            },
            400,
        ),
    ],
)
def test_what_is_no_request_is_refused_and_noted(plain: object, status: int) -> None:
    with serve() as served:
        assert post(f"{served.url}/chat/completions", plain)[0] == status
        assert len(served.faults) == 1
        with urllib.request.urlopen(f"{served.url}/models") as answer:
            assert json.load(answer) == {"object": "list", "data": []}


def test_a_model_that_is_not_served_is_refused_as_servers_do() -> None:
    request = {"messages": [{"role": "user", "content": "How many?"}]}
    with serve(models=["known"]) as served:
        url = f"{served.url}/chat/completions"
        assert post(url, {**request, "model": "known"})[0] == 200
        status, answer = post(url, {**request, "model": "other"})
    assert status == 404 and "`other` does not exist" in answer["error"]["message"]
