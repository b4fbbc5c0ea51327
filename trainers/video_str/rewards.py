"""The rewards of Video-STR, term by term, and their total (Eq. 9).

    R_total = R_format + R_ans + R_graph (+ R_l where R_ans > 0.8)
    R_graph = mean over k frames of (R_n + R_e)

R_ans is logged a second time as R_mc, R_num or R_IoU, whose means are over samples of that form.
`answers` has R_format and R_ans, `nodes` has R_n and R_e. README.md lists what the paper leaves
open.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from harness.errors import ParseError
from harness.frames import uniform
from harness.models.video_str.grammar import Graph, graph
from harness.options import Only
from harness.thoughts import after_thought
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.method import (
    TOTAL,
    ComponentReward,
    Group,
    RewardComponents,
    Rollout,
)
from harness.trainers.video_str.answers import REWARDS, answer_reward, format_reward
from harness.trainers.video_str.graphs import graphs_of
from harness.trainers.video_str.nodes import Angle, FrameGraph, edge_reward, node_reward

MIN_ANSWER = 0.8  # R_ans above which a length is rewarded
MIN_OBJECTS = 2  # fewest objects of a frame with a relation (an edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoStrReward(ComponentReward):
    """R_total of a group's rollouts. Components that are off stay in the log and count nothing."""

    literal: Annotated[bool, Only(with_edges=True), OF_REWARD] = False
    """R_e as it is printed, up to n²; see `nodes.edge_reward`."""
    angle: Annotated[Angle, Only(with_edges=True), OF_REWARD] = "joint"
    """Frame in which R_e compares directions."""
    sigma: Annotated[float, Only(with_nodes=True) | Only(with_edges=True), OF_REWARD] = 1.0
    """Metres; of R_n and R_e."""
    frames: int = 4
    """k: true frames that the one graph of a response is compared with."""
    omega: Annotated[float, Only(with_length=True), OF_REWARD] = 0.2
    """R_l of a right answer whose length is rewarded."""
    shortest: Annotated[int, Only(with_length=True), OF_REWARD] = 320
    longest: Annotated[int, Only(with_length=True), OF_REWARD] = 512
    """R_l rewards completions of `shortest` to `longest` tokens, the end token included."""
    with_format: Annotated[bool, OF_REWARD] = True
    with_nodes: Annotated[bool, OF_REWARD] = True
    with_edges: Annotated[bool, OF_REWARD] = True
    with_length: Annotated[bool, OF_REWARD] = True

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the terms of each rollout."""
        ground_truth = self.frames_compared(group)
        return [self._terms(group, rollout, ground_truth) for rollout in group.rollouts]

    def frames_compared(self, group: Group) -> tuple[FrameGraph, ...]:
        """Return the true graphs that count: of k shown frames, evenly spread.

        They are chosen among frames with at least MIN_OBJECTS objects, or, if there is none, among
        frames with any.
        """
        graphs = [entry for entry in graphs_of(group.sample) if entry.nodes]
        if group.frames:
            graphs = [entry for entry in graphs if entry.frame in group.frames[0]]
        candidates = [entry for entry in graphs if len(entry.nodes) >= MIN_OBJECTS] or graphs
        return tuple(candidates[index] for index in uniform(range(len(candidates)), self.frames))

    def _terms(
        self, group: Group, rollout: Rollout, ground_truth: Sequence[FrameGraph]
    ) -> RewardComponents:
        """Return the terms of one rollout, under the paper's names."""
        r_ans = answer_reward(group, after_thought(rollout.text))
        r_n, r_e = self.graph_terms(rollout.text, ground_truth)
        terms = {
            "R_format": format_reward(rollout.text),
            "R_ans": r_ans,
            "R_n": r_n,
            "R_e": r_e,
            "R_l": self.length_reward(r_ans, rollout.tokens),
        }
        term = REWARDS[group.sample.query.form].term
        return {**terms, **({} if term is None else {term: r_ans})}

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return R_total (Eq. 9) of each rollout, and R_graph."""
        totals = list[RewardComponents]()
        for terms in components:
            nodes = terms["R_n"] if self.with_nodes else 0.0
            edges = terms["R_e"] if self.with_edges else 0.0
            r_graph = nodes + edges
            form = terms["R_format"] if self.with_format else 0.0
            length = terms["R_l"] if self.with_length else 0.0
            totals.append({"R_graph": r_graph, TOTAL: form + terms["R_ans"] + r_graph + length})
        return totals

    def graph_terms(self, response: str, ground_truth: Sequence[FrameGraph]) -> tuple[float, float]:
        """Return R_n and R_e, each the mean over the true frames; 0 if no graph can be read."""
        predicted = graph_or_none(response) if ground_truth else None
        if predicted is None:
            return 0.0, 0.0
        nodes = [node_reward(predicted, frame.nodes, sigma=self.sigma) for frame in ground_truth]
        edges = [
            edge_reward(
                predicted, frame.nodes, literal=self.literal, angle=self.angle, sigma=self.sigma
            )
            for frame in ground_truth
        ]
        return math.fsum(nodes) / len(ground_truth), math.fsum(edges) / len(ground_truth)

    def length_reward(self, r_ans: float, tokens: int) -> float:
        """Return R_l: omega for a right answer with a length within the bounds, else 0."""
        is_rewarded = r_ans > MIN_ANSWER and self.shortest <= tokens <= self.longest
        return self.omega * float(is_rewarded)


def graph_or_none(response: str) -> Graph | None:
    """Return the graph of a response, centres by category; None: none can be read."""
    try:
        return graph(response)
    except ParseError:
        return None
