"""Define the roles that a plan of DT-R1 may name, and assign a perception node to each role.

A plan names roles, such as `SAM2` or `DepthStats`: the paper's names with fixed inputs and outputs,
so that a plan's validity does not depend on the nodes that compute it. The assignment is the SPEC
`nodes=`: `paper`, `local`, or one of them with changes, such as `local(SAM2=pocket_sam,OCR=ocr)`;
`none` removes a role. OCR and Tracking are additions of this project.
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
"""Inputs and output of each role."""

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
"""Other names of the roles, reduced to lower-case letters and digits."""

CHILD = "child"
"""Name of the node that runs another node in its own process."""

PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        # The paper names networks but no sizes. Chosen here: SAM 2 large, which its baseline
        # Seg-Zero uses; the large versions of the others, which fit on one GPU beside it (DINOv2
        # and Depth Anything V2 share that encoder); Qwen2.5-VL-7B, the size of the language model.
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
"""SPEC of the node for each role. `paper`: the paper's networks; `local`: needs no download."""

PAPERS_PLAN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "SAM2": (),
        "DepthAnything2": (),
        "DepthStats": ("SAM2", "DepthAnything2"),
        "SemanticAnalysis": ("SAM2",),
    }
)
"""The example plan in the paper's text: the inputs of each role."""


class Catalog(dict[str, NodeKind]):
    """The roles that a plan may name, each with its signature; `canonical` accepts aliases."""

    def __init__(
        self, kinds: Mapping[str, NodeKind], aliases: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(kinds)
        by_alias = {_plain(alias): name for alias, name in aliases.items() if name in kinds}
        self._names = {**by_alias, **{_plain(name): name for name in kinds}}

    def canonical(self, name: str) -> str | None:
        """Return the role that a name in a plan means, ignoring case and punctuation; else None."""
        if name in self:
            return name
        return self._names.get(_plain(name)) if len(name) <= 64 else None  # a long text is no name

    def text(self) -> str:
        """Return one line for each role, for the planner's prompt: purpose, inputs, output."""
        return "\n".join(
            f"{name}: {node_kind.summary}. "
            + (f"Needs {_listed(node_kind.requires)}. " if node_kind.requires else "")
            + (f"Can use {_listed(node_kind.accepts)}. " if node_kind.accepts else "")
            + f"Gives {node_kind.produces}."
            for name, node_kind in self.items()
        )


def _listed(kinds: frozenset[Kind]) -> str:
    """Return kinds of data in words: "depth and instances"."""
    return " and ".join(sorted(kind.value for kind in kinds))


def _plain(name: str) -> str:
    """Return the lower-case letters and digits of a name: "OWL-v2" becomes "owlv2"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def assignment(nodes: Spec) -> dict[str, Spec]:
    """Return the node of each role, from a SPEC such as `local(SAM2=pocket_sam)`.

    Raises:
        UsageError: the SPEC names no preset, or a change is not a role with a node.
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
    """Return the roles of an assignment; the name of an assigned node is an alias of its role.

    No network is loaded.

    Raises:
        UsageError: the SPEC is not an assignment, or a node's signature does not fit its role.
        UnknownPlugin: a node is not installed.
    """
    assigned = assignment(nodes)
    node_names: dict[str, str] = {}
    for role, spec in assigned.items():
        check_role(role, spec)
        node_names.setdefault(without_process(spec).name, role)  # of two roles, the first
    return Catalog({role: ROLES[role] for role in assigned}, {**node_names, **ALIASES})


def node_class(name: str) -> type[Node]:
    """Return the class of node that a plugin function's return annotation names.

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
    """Return the SPEC of the node itself: `ocr` for `child(node=ocr)`, which runs it in a process.

    Raises:
        UsageError: `child` has no `node=`.
    """
    if spec.name != CHILD:
        return spec
    inner = spec.arguments.get("node")
    if not isinstance(inner, (Spec, str)):
        raise UsageError(str(spec), expected="node=, the node to run", found=str(inner))
    return inner if isinstance(inner, Spec) else Spec(inner)


def check_role(role: str, spec: Spec) -> None:
    """Check that a node has the output of its role, and needs no input that the role does not.

    Raises:
        UsageError: it has another output, or needs more.
    """
    role_kind, node_kind = ROLES[role], node_class(without_process(spec).name).kind
    if node_kind.produces != role_kind.produces or not node_kind.requires <= role_kind.requires:
        needs = f", needing {_listed(node_kind.requires)}" if node_kind.requires else ""
        raise UsageError(
            f"{role}={spec}",
            expected=f"a node that gives {role_kind.produces}",
            found=f"one that gives {node_kind.produces}{needs}",
        )


def default_plans(planned: Catalog) -> list[str]:
    """Return plans (JSON) whose twins are worth building ahead, with all roles of a catalog.

    One is the paper's example, one prompts SAM 2 with a detector (first, if the catalog has one).
    Both add features, facts about frames and text, so that their outputs include those of most
    similar plans. Roles that the catalog lacks are left out, and roles that need their output.
    """
    plans: list[str] = []
    for detector in ({}, {"OWLv2": (), "SAM2": ("OWLv2",)}):
        roles = {**PAPERS_PLAN, **detector, "DINOv2": ("SAM2",), "OpenCV": (), "OCR": ()}
        plan = {
            role: [name for name in inputs if name in planned]
            for role, inputs in roles.items()
            if role in planned
        }
        # an input that was left out may have been required
        plan = {
            role: inputs
            for role, inputs in plan.items()
            if planned[role].requires <= {planned[name].produces for name in inputs}
        }
        if not detector or "OWLv2" in plan:
            plans.insert(0, json.dumps(plan))
    return plans
