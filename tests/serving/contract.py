"""What must hold of a chat that is reached through something: it answers what it was asked.

A transport that drops the image, the text or anything else would still give well-formed responses,
and scores of its own. `check` compares it with the network itself, and changes one thing at a time
to see that the response changes with it.
"""

import re
from dataclasses import replace

import numpy as np

from harness.backend import Chat
from harness.chat import ChatRequest
from harness.media import pixels


def clip(level, frames=4, size=(70, 60)):
    """A medium whose frames differ, in colours that no rounding makes equal."""
    rows, columns = np.mgrid[: size[1], : size[0]]
    made = [
        np.stack(
            [
                (rows * (3 + level)) % 256,
                (columns * (2 + level)) % 256,
                rows * 0 + 40 * index + level,
            ],
            axis=2,
        )
        for index in range(frames)
    ]
    shown = [frame.astype(np.uint8) for frame in made]
    times = [index / 4 for index in range(frames)]
    return pixels(shown, times=times, is_video=frames > 1, id=f"{level} {frames}")


def requests(*, prefix: bool = True, clips: bool = False) -> dict[str, ChatRequest]:
    """A request, and others that differ from it in one thing each."""
    first = ChatRequest(
        key="a", text="where is it?", media=(clip(1, 1),), system="be kind", max_new_tokens=12
    )
    two = replace(first, media=(clip(1, 1), clip(2, 1)))
    several = replace(first, media=(clip(1),), frames=((0, 2),))
    changed = {
        "first": first,
        "text": replace(first, text="where is the other?"),
        "image": replace(first, media=(clip(2, 1),)),
        "system": replace(first, system="be brief"),
        "two images": two,
        "squashed": replace(first, resize=(112, 84)),
        "each squashed otherwise": replace(two, resize=(56, 28), resize_others=(28, 56)),
        "limit": replace(first, max_new_tokens=5),
    }
    if prefix:
        changed["prefix"] = replace(first, prefix="<think>it is")
    if clips:
        changed["clip"] = several
        changed["other frames"] = replace(several, frames=((1, 3),))
        changed["order of frames"] = replace(several, frames=((2, 0),))
    return changed


def stopped(network: Chat, request: ChatRequest) -> tuple[ChatRequest, str]:
    """A request with a stop string that the network's response to it has, and what comes
    before it.
    """
    (response,) = network.generate([request])
    output = response.text.removeprefix(request.prefix)
    met = re.search("[^\ufffd]{1,2}", output[len(output) // 2 :])  # no half of a character
    assert met is not None, "a response with nothing to stop at"
    stop = (f"{met[0]}, and this never", met[0])
    return replace(request, stop=stop), f"{request.prefix}{output.partition(met[0])[0]}"


def check(chat: Chat, network: Chat, asked: dict[str, ChatRequest]) -> None:
    """Raise AssertionError unless `chat` says what `network` says, and looks at all it is given."""
    request, kept = stopped(network, asked["first"])
    asked = {**asked, "stop": request}
    names, several = list(asked), list(asked.values())
    expected = network.generate(several)
    assert len({response.text for response in expected}) == len(expected), "it looks at too little"
    assert (expected[-1].text, expected[-1].cut) == (kept, False), "it does not stop"
    for order in (several, several[::-1]):
        output = dict(zip(order, chat.generate(order), strict=True))
        for name, request, response in zip(names, several, expected, strict=True):
            assert output[request].text == response.text, name
            assert output[request].prompt_tokens == response.prompt_tokens, name
            assert output[request].completion_tokens == response.completion_tokens, name
            assert output[request].cut == response.cut, name
