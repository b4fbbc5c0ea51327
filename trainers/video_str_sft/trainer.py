"""The supervised baseline of Video-STR: `trainers/sft` on its samples, answers alone.

harness train --method video_str_sft --model "video_str(checkpoint=…,graph=off)"
    --train-tasks "shapes_qa(split=train)" --data ROOT --out DIR

With `graphs=…` responses also contain the true graph, if the model's prompt asks for one. This
prepares a network that has never seen a graph for `video_str`.
"""

from functools import partial
from typing import Annotated

from harness.options import GIVEN, Only, with_options
from harness.trainers.sft.trainer import Sft, SftSettings
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import extend_task, named_or_drawn
from harness.trainers.video_str_sft.graphs import with_graph


@with_options(
    SftSettings,
    without=("lora_dropout",),
    learning_rate=1e-6,
    weight_decay=0.01,
    max_grad_norm=5.0,
)
def video_str_sft(
    settings: SftSettings,
    *,
    graphs: str | None = None,
    graph_in_reasoning: Annotated[bool, Only(graphs=GIVEN)] = False,
) -> Sft:
    """Supervised fine-tuning on right answers without reasoning, Video-STR's baseline.

    The paper does not describe it; these are its samples, one pass, its learning rate, decay and
    limit of the gradient. See `sft` for a trainer with other defaults.

    Args:
        graphs: Source of the true graphs that responses contain, as for `video_str`; None:
            responses have no graphs.
        graph_in_reasoning: True: the graph comes before the reasoning, which can then use it.
            False: it comes after the reasoning.
    """
    if graphs is None:
        return Sft(settings=settings, name="video_str_sft")
    extra = extra_of(graphs)
    return Sft(
        settings=settings,
        name="video_str_sft",
        complete=partial(with_graph, in_reasoning=graph_in_reasoning),
        extended=lambda task: extend_task(task, extra, listed=named_or_drawn),
        own={"graphs": graphs, "graph_in_reasoning": graph_in_reasoning},
    )
