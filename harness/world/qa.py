"""Chooses questions about a scene whose answer is an option or a number, for tasks on shapes.

To add a kind of question, write a generator (see `harness.world.quiz`) and put it, with its name,
into `STILL_GENERATORS` or `VIDEO_GENERATORS`.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeAlias

from harness.errors import UsageError
from harness.world import qa_looks, qa_places, qa_video
from harness.world.draws import Draws
from harness.world.qa_video import interval, visible_frames
from harness.world.quiz import QA, QAGenerator
from harness.world.scene import Scene

__all__ = ["KINDS_OF_QA", "QA", "ask_qa", "every_qa", "interval", "visible_frames"]

Generators: TypeAlias = Mapping[str, QAGenerator]
"""Generators by the kind of their questions."""

STILL_GENERATORS: Generators = MappingProxyType(
    {
        "relation": qa_places.relations,
        "relation4": qa_places.corners,
        "size": qa_looks.sizes,
        "largest": qa_looks.largest,
        "depth": qa_places.depths,
        "colour": qa_looks.colours,
        "shape": qa_looks.shapes,
        "nearest": qa_places.nearest,
        "extreme": qa_places.extremes,
        "count_choice": qa_looks.count_choices,
        "exists": qa_looks.existence,
        "count": qa_looks.count_questions,
        "width": qa_looks.widths,
        "height": qa_looks.heights,
        "distance": qa_places.distances,
    }
)
VIDEO_GENERATORS: Generators = MappingProxyType(
    {
        "direction": qa_video.directions,
        "speed": qa_video.speeds,
        "order": qa_video.arrivals,
        "order3": qa_video.orders,
        "leaves": qa_video.departures,
        "end_relation": qa_video.end_relations,
        "path": qa_video.paths,
        "enter_count": qa_video.arrival_counts,
    }
)
KINDS_OF_QA: Mapping[str, Generators] = MappingProxyType(
    {
        **dict.fromkeys(("still", "count", "countbench", "qa", "referring"), STILL_GENERATORS),
        **dict.fromkeys(("video", "qa_video", "arrivals"), VIDEO_GENERATORS),
    }
)
"""Generators by the family of scenes and the kind of question."""


def every_qa(scene: Scene) -> list[QA]:
    """Return all unambiguous questions that the scene allows, in a fixed order."""
    return [
        question
        for generator in KINDS_OF_QA[scene.family].values()
        for question in generator(scene)
    ]


def ask_qa(
    scene: Scene, *, number: int = 1, kinds: Collection[str] | None = None
) -> tuple[QA, ...]:
    """Choose up to `number` questions with different texts; fewer if a scene allows no more.

    For each question first its kind is drawn, then the answer, then one of the questions with this
    answer: so kinds are equally frequent where scenes allow it, and an answer is not likelier
    because more questions have it.

    Args:
        scene: A scene of any family in `KINDS_OF_QA`; random numbers are the scene's own.
        number: Largest number of questions.
        kinds: Kinds to choose among; those of other families are ignored. None: all kinds.

    Raises:
        UsageError: there is no such kind.
    """
    generators = KINDS_OF_QA[scene.family]
    all_kinds = {**STILL_GENERATORS, **VIDEO_GENERATORS}
    if unknown := sorted(set(kinds or ()) - set(all_kinds)):
        raise UsageError(
            f"kind of question {unknown[0]!r}",
            expected=f"one of {', '.join(all_kinds)}",
            found="none of them",
        )
    draws = Draws(scene.seed, scene.id, "qa")
    by_kind: dict[str, list[QA]] = {}
    chosen: dict[str, QA] = {}
    while len(chosen) < number:
        for kind in draws.shuffle([kind for kind in generators if kinds is None or kind in kinds]):
            if kind not in by_kind:
                by_kind[kind] = list(generators[kind](scene))
            unused = [question for question in by_kind[kind] if question.text not in chosen]
            if unused:
                answer = draws.choice(list(dict.fromkeys(question.answer for question in unused)))
                question = draws.choice(
                    [question for question in unused if question.answer == answer]
                )
                chosen[question.text] = question
                break
        else:
            break
    return tuple(chosen.values())
