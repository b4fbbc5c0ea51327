"""Load stand-ins by their published names, by the real loaders; a JSON line a name.

    HF_HUB_CACHE=… HF_HUB_OFFLINE=1 python loads.py NAME…

No socket opens here.
"""

import json
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from harness import media, plugins
from harness.chat import ChatRequest
from harness.node import check_output
from harness.rehearsal import standins
from harness.segmentation import ObjectPrompt
from harness.spec import parse
from harness.types import Box

PIXELS = np.random.default_rng(0).integers(0, 255, (3, 60, 80, 3), np.uint8)
IMAGE = media.pixels([PIXELS[0]], times=[0.0], is_video=False, id="image")
VIDEO = media.pixels(list(PIXELS), times=[0.0, 0.5, 1.0], is_video=True, id="video")


def chat(name: str, *, sees: bool = True, options: str = "") -> None:
    """A network answers, about an image and a clip too; its tokenizer gives back what it got."""
    network = plugins.build("backends", parse(f"transformers(checkpoint={name}{options})"))
    network.prepare()
    clips = getattr(network.processor, "video_processor", None) is not None
    shown = [(), *([(IMAGE,)] if sees else []), *([(VIDEO,)] if clips else [])]
    requests = [
        ChatRequest(key=str(place), text="What is it?", media=one, max_new_tokens=3)
        for place, one in enumerate(shown)
    ]
    # One by one: GLM-V's class takes no image beside a clip in one batch.
    responses = [response for request in requests for response in network.generate([request])]
    assert all(0 < response.completion_tokens <= 3 for response in responses)
    text = 'Hello  wörld 東京 {"bbox_2d": [12, 345]}\n'
    assert network.decode(network.encode(text)) == text


def segmenter(name: str, *, plugin: str) -> None:
    part = plugins.build("segmenters", parse(f"{plugin}(checkpoint={name})"))
    prompts = [ObjectPrompt(box=Box(10, 10, 40, 40), phrase="cup")]
    (mask,) = part.segment(IMAGE.frame(0), prompts)
    assert mask.shape == (60, 80)


def propagator(name: str, *, plugin: str) -> None:
    part = plugins.build("propagators", parse(f"{plugin}(checkpoint={name})"))
    mask = np.zeros((60, 80), dtype=np.bool_)
    mask[10:40, 10:40] = True
    (track,) = part.propagate(VIDEO, 1, [mask])
    assert len(track) == 3


def node(name: str, *, plugin: str) -> None:
    part = plugins.build("nodes", parse(f"{plugin}(checkpoint={name})"))
    part.prepare()
    check_output(plugin, part.run(IMAGE, (0,), []), part.kind.produces, IMAGE)


def bertscore(name: str) -> None:
    from harness.models.neural_metrics.bertscore import HUB_NAMES, load_scorer

    (model,) = [short for short, hub in HUB_NAMES.items() if hub == name]
    assert 0 <= load_scorer(model=model).score("a red dog", ["the dog is red"]).f1 <= 1


Load = Callable[[str], None]
PARTS: Mapping[str, tuple[Load, ...]] = {
    "qwen2_5_vl": (chat,),
    "qwen3_vl": (chat,),
    "qwen3_5": (chat,),
    "qwen2_5": (partial(chat, sees=False),),
    "r1_distill_qwen": (partial(chat, sees=False),),
    "sam2": (partial(segmenter, plugin="sam2"), partial(propagator, plugin="sam2_video")),
    "sam3": (partial(segmenter, plugin="sam3"), partial(propagator, plugin="sam3_video")),
    "owlv2": (partial(node, plugin="owlv2"),),
    "depth_anything2": (partial(node, plugin="depth_anything2"),),
    "dinov2": (partial(node, plugin="dinov2"),),
    "roberta": (bertscore,),
    "deberta": (bertscore,),
}
"""What loads a name in this package, by the family of its stand-in."""
OTHERS: Load = partial(chat, options=",coordinates=normalized_1000")


def refuse(*given: Any) -> None:
    raise OSError(f"a connection was opened: {given[1:]}")


if __name__ == "__main__":
    socket.socket.connect = refuse  # type: ignore[method-assign, assignment]
    families = {name: facts["family"] for name, facts in standins._table()["names"].items()}
    for name in sys.argv[1:]:
        try:
            for load in PARTS.get(families[name], (OTHERS,)):
                load(name)
            problem = ""
        except Exception as error:  # noqa: BLE001 - told to the test
            problem = f"{type(error).__name__}: {error}"
        print(json.dumps([name, problem]), flush=True)
