"""Do answers go by the graph that a response of Video-STR begins with?

    python benchmarks/graphs_read.py --checkpoint FOLDER --data ROOT [--samples N]
        [--save]

Questions for relations are answered; then each response is begun again with its own graph, and with
that graph mirrored, left to right and top to bottom, and the network goes on from there. Where
answers are read off the graph, mirrored graphs turn them round. Of a network that begins its
reasoning with the graph: after `video_str_sft(graph_in_reasoning=true)`, as in `studies.py`.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from studies import RELATIONS, STUDIES

from harness import plugins, provenance
from harness.model import ChatResponse
from harness.models.pipeline import PromptedModel
from harness.models.video_str.grammar import answer_part
from harness.run.batching import samples_of
from harness.spec import parse
from harness.trainers.pocket.vocabulary import CANVAS
from harness.types import Sample

RESULT = Path(__file__).parent / "results" / "learning" / "video_str_graphs.json"
BEGUN = re.compile(r"<think><graph>.*?</graph>", re.DOTALL)
PLACE = re.compile(r"\[(\d+), (\d+),")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", type=Path, required=True, help="a root with shapes_qa")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    given = parser.parse_args()

    model = plugins.build(
        "models", parse(STUDIES["video_str"].model.format(start=given.checkpoint))
    )
    assert isinstance(model, PromptedModel)
    task = plugins.build("tasks", parse("shapes_qa"), given.data)
    requested = (one for one in samples_of(task) if one.categories["kind"] in RELATIONS)
    samples = list(islice(requested, given.samples))
    requests = [model.requests(sample.query)[0] for sample in samples]
    own = model.chat.generate(requests)
    started = [BEGUN.match(response.text) for response in own]
    found = {
        "questions": len(samples),
        "begun_with_a_graph": sum(map(bool, started)),
        "as_they_are": {"right": right(samples, own)},
    }
    for name, change in (("own_graph_again", str), ("mirrored_graph", mirrored)):
        output = model.chat.generate(
            [
                replace(request, prefix=change(match.group())) if match else request
                for request, match in zip(requests, started, strict=True)
            ]
        )
        changed = [
            answer_part(one.text) != answer_part(other.text)
            for one, other in zip(own, output, strict=True)
        ]
        found[name] = {"right": right(samples, output), "answers_changed": sum(changed)}
    print(json.dumps(found, indent=1))
    if given.save:
        result = {
            **found,
            "checkpoint": Path(given.checkpoint).name,
            "weights": model.chat.describe()["weights"],
            "data": given.data.name,
            "device": provenance.device(),
            "provenance": provenance.collect(),
        }
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def mirrored(graph: str) -> str:
    """A graph whose places are turned round on the canvas.

    >>> mirrored('{"star": [20, 160, 5]}')
    '{"star": [148, 8, 5]}'
    """

    def turned(place: re.Match[str]) -> str:
        x, y = (max(0, CANVAS - int(number)) for number in place.groups())
        return f"[{x}, {y},"

    return PLACE.sub(turned, graph)


def right(samples: Sequence[Sample], responses: Sequence[ChatResponse]) -> float:
    """The part of the responses whose answer is the right letter."""
    hits = [
        answer_part(response.text).strip()[:1] == sample.target.answer.choice
        for sample, response in zip(samples, responses, strict=True)
        if sample.target.answer is not None
    ]
    return sum(hits) / len(hits)


if __name__ == "__main__":
    main()
