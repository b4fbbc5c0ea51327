"""What is named as the cause of two different responses to one question."""

import pytest

from harness.leaderboards.differences.causes import causes_of
from harness.types import Answer, Call, Prediction, Request

SETTINGS = {"limit": ["max_new_tokens: 256 → 24"]}


def predicted(*responses):
    calls = tuple(
        Call(request=Request(text="?"), key=":again" * place, response=text)
        for place, text in enumerate(responses)
    )
    return Prediction(query_id="a", answer=Answer(), calls=calls)


@pytest.mark.parametrize(
    ("own", "other", "cause"),
    [
        (["red square"], ["red sq", "blue"], "limit"),  # cut, and asked again
        (["red square"], ["blue"], "chance"),
        (["red square"], [None], "chance"),
    ],
)
def test_a_limit_is_the_cause_where_a_response_begins_the_other(own, other, cause):
    assert causes_of(predicted(*own), predicted(*other), SETTINGS) == cause
