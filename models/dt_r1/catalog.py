"""Names that a plan may use, and the node that stands behind each: an explicit assignment.

A plan speaks of roles: the names of the paper with fixed signatures, so that a plan is valid or not
whatever computes it. An assignment is a SPEC: `paper`, `local`, or one of them with changes, such
as `local(SAM2=pocket_sam,OCR=ocr)`; `none` leaves a role out. OCR and Tracking are ours: the paper
has neither.
"""

import json
import re
import typing
from collections.abc import Mapping
from types import MappingProxyType

from harness import plugins
from harness.errors import ModelError, UsageError
from harness.node import Kind, Node, NodeKind
from harness.spec import Spec, parse

ROLES: Mapping[str, NodeKind] = MappingProxyType(
    {
        "SAM2": NodeKind(
            produces=Kind.INSTANCES,
            accepts=frozenset({Kind.DETECTIONS}),
            summary="instance segmentation; everything in view, or what a detector's boxes hold",
        ),
        "OWLv2": NodeKind(produces=Kind.DETECTIONS, summary="object detection"),
        "DepthAnything2": NodeKind(produces=Kind.DEPTH, summary="depth estimation"),
        "DINOv2": NodeKind(
            produces=Kind.FEATURES,
            accepts=frozenset({Kind.INSTANCES}),
            summary="visual feature extraction",
        ),
        "SemanticAnalysis": NodeKind(
            produces=Kind.SEMANTICS,
            accepts=frozenset({Kind.INSTANCES, Kind.DETECTIONS, Kind.WORDS}),
            summary="semantic analysis of instances, frames and the video",
        ),
        "DepthStats": NodeKind(
            produces=Kind.STATISTICS,
            requires=frozenset({Kind.INSTANCES, Kind.DEPTH}),
            summary="mean and standard deviation of depth within each instance",
        ),
        "OpenCV": NodeKind(produces=Kind.FRAMES, summary="frame-level processing"),
        "OCR": NodeKind(produces=Kind.WORDS, summary="text in the image"),
        "Tracking": NodeKind(
            produces=Kind.INSTANCES,
            requires=frozenset({Kind.INSTANCES}),
            summary="follows instances through the frames of a video",
        ),
    }
)
"""Signature of each name in a plan."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "sam": "SAM2",
        "owl": "OWLv2",
        "owl2": "OWLv2",
        "depthanything": "DepthAnything2",
        "depthanythingv2": "DepthAnything2",
        "dino": "DINOv2",
        "dino2": "DINOv2",
        "qwenvl": "SemanticAnalysis",
        "qwen25vl": "SemanticAnalysis",
        "qwen2vl": "SemanticAnalysis",
        "vlm": "SemanticAnalysis",
        "depthstatistics": "DepthStats",
        "tracker": "Tracking",
        "opticalflow": "Tracking",
    }
)
"""Other names of the roles, in lower case, without anything but letters and digits."""

CHILD = "child"
"""The node that runs another one in a process of its own."""

PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        # The paper names networks and no sizes. Ours: SAM 2 large, as Seg-Zero, its baseline, has;
        # the large ones of the others, which one GPU holds beside it (DINOv2 and Depth Anything V2
        # share that encoder); Qwen2.5-VL-7B, as large as the language model.
        "paper": {
            "SAM2": "sam2(checkpoint=facebook/sam2-hiera-large)",
            "OWLv2": "owlv2(checkpoint=google/owlv2-large-patch14-ensemble,by_question=true)",
            "DepthAnything2": "depth_anything2("
            "checkpoint=depth-anything/Depth-Anything-V2-Large-hf)",
            "DINOv2": "dinov2(checkpoint=facebook/dinov2-large)",
            "SemanticAnalysis": "semantic_analysis(by_question=true,"
            "backend=transformers(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct))",
            "DepthStats": "depth_stats",
            "OpenCV": "opencv",
        },
        "local": {
            "SAM2": "opencv_objects",
            "OWLv2": "salient_boxes",
            "DepthAnything2": "occlusion_depth",
            "DINOv2": "colour_features",
            "SemanticAnalysis": "colour_and_shape",
            "DepthStats": "depth_stats",
            "OpenCV": "opencv",
            "Tracking": "tracking",
        },
    }
)
"""Node behind each role, a SPEC. `paper` is the paper's; `local` computes without a download."""

PAPERS_PLAN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "SAM2": (),
        "DepthAnything2": (),
        "DepthStats": ("SAM2", "DepthAnything2"),
        "SemanticAnalysis": ("SAM2",),
    }
)
"""Example of the paper's text."""


class Catalog(dict[str, NodeKind]):
    """Signatures by name, with other names for them."""

    def __init__(
        self, kinds: Mapping[str, NodeKind], aliases: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(kinds)
        known = {_plain(alias): name for alias, name in aliases.items() if name in kinds}
        self._known = {**known, **{_plain(name): name for name in kinds}}

    def canonical(self, name: str) -> str | None:
        """The name that a plan's word means, case and punctuation aside; None if it is unknown."""
        if name in self:
            return name
        return self._known.get(_plain(name)) if len(name) <= 64 else None

    def text(self) -> str:
        """One line a node for a planner: its work, its inputs, its output."""
        return "\n".join(
            f"{name}: {kind.summary}. "
            + (f"Needs {_listed(kind.requires)}. " if kind.requires else "")
            + (f"Can use {_listed(kind.accepts)}. " if kind.accepts else "")
            + f"Gives {kind.produces}."
            for name, kind in self.items()
        )


def _listed(kinds: frozenset[Kind]) -> str:
    return " and ".join(sorted(kind.value for kind in kinds))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def assignment(nodes: Spec) -> dict[str, Spec]:
    """The node behind each role, from an assignment's SPEC.

    Raises:
        UsageError: no preset has this name, or a change names no role or gives it no node.
    """
    if nodes.name not in PRESETS:
        raise UsageError(
            f"nodes={nodes}",
            expected=f"{' or '.join(PRESETS)}, with changes such as local(SAM2=pocket_sam)",
            found=nodes.name,
        )
    assigned = {role: parse(node) for role, node in PRESETS[nodes.name].items()}
    for role, node in nodes.arguments.items():
        if role not in ROLES:
            raise UsageError(
                f"nodes={nodes}", expected=f"roles among {', '.join(ROLES)}", found=role
            )
        if node is None:
            assigned.pop(role, None)
        elif isinstance(node, (Spec, str)):
            assigned[role] = node if isinstance(node, Spec) else Spec(node)
        else:
            raise UsageError(
                f"{role}={node}", expected="the name of a node, or none", found=str(node)
            )
    return {role: assigned[role] for role in ROLES if role in assigned}


def catalog(nodes: Spec = Spec("local")) -> Catalog:  # noqa: B008 - a Spec does not change
    """The names of an assignment's roles; a node's own name means its role, where that is clear.

    Loads no network.

    Raises:
        UsageError: the assignment is none, or a node's signature is not that of its role.
        UnknownPlugin: a node is not installed.
    """
    given = assignment(nodes)
    for role, spec in given.items():
        check_role(role, spec)
    own: dict[str, str] = {}
    for role, spec in given.items():
        own.setdefault(without_process(spec).name, role)
    return Catalog({role: ROLES[role] for role in given}, {**own, **ALIASES})


def node_class(name: str) -> type[Node]:
    """The class that a node's function returns, by its annotation.

    Raises:
        UnknownPlugin: no node has this name.
        ModelError: the annotation is not a class that derives from `harness.node.Node`.
    """
    function = plugins.load("nodes", name)
    returned = typing.get_type_hints(function).get("return")
    if not (isinstance(returned, type) and issubclass(returned, Node)):
        raise ModelError(
            f"node {name!r}",
            expected="a function annotated to return a class that derives from harness.node.Node",
            found=repr(returned),
        )
    return returned


def without_process(spec: Spec) -> Spec:
    """The node itself, where a SPEC puts it into a process of its own."""
    if spec.name != CHILD:
        return spec
    inner = spec.arguments.get("node")
    if not isinstance(inner, (Spec, str)):
        raise UsageError(str(spec), expected="node=, the node to run", found=str(inner))
    return inner if isinstance(inner, Spec) else Spec(inner)


def check_role(role: str, spec: Spec) -> None:
    """Hold a node to the signature of a role.

    Raises:
        UsageError: it gives something else, or needs what the role's plan need not name.
    """
    wanted, kind = ROLES[role], node_class(without_process(spec).name).kind
    if kind.produces != wanted.produces or not kind.requires <= wanted.requires:
        needs = f", needing {_listed(kind.requires)}" if kind.requires else ""
        raise UsageError(
            f"{role}={spec}",
            expected=f"a node that gives {wanted.produces}",
            found=f"one that gives {kind.produces}{needs}",
        )


def default_plans(known: Catalog) -> list[str]:
    """Plans with everything in a catalog: the paper's example, and one prompted by a detector.

    Both with features, facts about frames and text, so that the outputs of most plans that are
    like them are among theirs. Nodes that the catalog lacks are left out, and what needs them.
    """
    both: list[str] = []
    for first in ({}, {"OWLv2": (), "SAM2": ("OWLv2",)}):
        wanted = {**PAPERS_PLAN, **first, "DINOv2": ("SAM2",), "OpenCV": (), "OCR": ()}
        plan = {
            name: [before for before in needed if before in known]
            for name, needed in wanted.items()
            if name in known
        }
        plan = {
            name: needed
            for name, needed in plan.items()
            if known[name].requires <= {known[before].produces for before in needed}
        }
        if not first or "OWLv2" in plan:
            both.insert(0, json.dumps(plan))
    return both
