"""Plans, their execution, and the twin that comes of it, with nodes that compute by OpenCV."""

import gc
import json
import math
import os
import random
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import media, open_image, plugins
from harness.errors import (
    DataError,
    MediaError,
    ModelError,
    ParseError,
    Unavailable,
    UnknownPlugin,
    UsageError,
)
from harness.masks import Track
from harness.media import Media
from harness.models.child_process import ChildProcess
from harness.models.dt_r1 import catalog as names
from harness.models.dt_r1 import executor
from harness.models.dt_r1.catalog import Catalog, catalog
from harness.models.dt_r1.executor import TwinBuilder, code_hash
from harness.models.dt_r1.output_cache import NodeFault, OutputCache
from harness.models.dt_r1.plan import Plan, PlanError, parse_plan
from harness.models.dt_r1.shortening import shortened
from harness.models.nodes.depth_stats import moments
from harness.models.nodes.instances import Seen, mask_overlap, renewed
from harness.models.nodes.opencv_objects import OpenCVObjects
from harness.models.nodes.output_file import read_output, write_output
from harness.models.nodes.salient_boxes import SalientBoxes
from harness.node import (
    DepthMaps,
    Detection,
    Detections,
    FrameFacts,
    Instance,
    Instances,
    Kind,
    Node,
    NodeKind,
    Output,
    Semantics,
    Word,
    Words,
)
from harness.spec import parse
from harness.types import Box
from harness.world.families import draw_scene
from harness.world.raster import render, visible_masks

EXAMPLE = json.dumps({name: list(needed) for name, needed in names.PAPERS_PLAN.items()})
"""The plan in the text of the paper."""


@pytest.fixture(scope="module")
def known() -> Catalog:
    return catalog()


def scene_media(family: str = "still", index: int = 0) -> tuple[Media, Any]:
    scene = draw_scene(7, family=family, split="val", index=index)
    frames = [render(scene, frame) for frame in range(scene.frames)]
    times = [frame / 2 for frame in range(scene.frames)]
    return media.pixels(frames, times=times, is_video=len(frames) > 1, id=scene.id), scene


class TestPlan:
    def test_the_papers_own_example_is_valid(self, known: Catalog) -> None:
        plan = parse_plan(EXAMPLE, known)
        assert list(plan.nodes) == ["SAM2", "DepthAnything2", "SemanticAnalysis", "DepthStats"]
        assert plan.nodes["DepthStats"] == ("SAM2", "DepthAnything2")

    @pytest.mark.parametrize(
        ("word", "role"),
        [
            ("Qwen2.5-VL", "SemanticAnalysis"),
            ("DINO-2", "DINOv2"),
            ("DepthAnythingV2", "DepthAnything2"),
            ("sam-2", "SAM2"),
            ("OWL-v2", "OWLv2"),
            ("opencv_objects", "SAM2"),
        ],
    )
    def test_other_names_of_the_papers_prompt(self, known: Catalog, word: str, role: str) -> None:
        assert list(parse_plan(json.dumps({word: []}), known).nodes) == [role]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("SAM2 then depth", ["JSON"]),
            ("", ["JSON"]),
            ("[" * 100_000, ["JSON"]),
            ("[]", ["JSON object", "list"]),
            ("{}", ["at least one"]),
            ('{"SAM2": null}', ["SAM2", "null"]),
            ('{"SAM2": "OWLv2"}', ["SAM2", "list", "string"]),
            ('{"SAM2": [1]}', ["SAM2", "number"]),
            ('{"SAM2": [], "SAM2": []}', ["SAM2", "twice"]),
            ('{"SAM2": [], "sam-2": []}', ["sam-2", "twice"]),
            ('{"SAM3": []}', ["SAM3", "Did you mean SAM2"]),
            ('{"SAM2": ["OWLv2"]}', ["OWLv2", "not one of its keys", 'Add "OWLv2": []']),
            ('{"SAM2": ["nothing"]}', ["nothing"]),
            ('{"SAM2": ["SAM2"]}', ["SAM2"]),
            ('{"DepthStats": []}', ["DepthStats", "depth maps", "DepthAnything2"]),
            ('{"SAM2": [], "DepthStats": ["SAM2"]}', ["depth maps", "[SAM2]"]),
            ('{"SAM2": [], "DepthAnything2": ["SAM2"]}', ["DepthAnything2", "gives masks"]),
            ('{"Tracking": ["Tracking"]}', ["cycle", "Tracking"]),
        ],
    )
    def test_errors_name_what_is_wrong(
        self, known: Catalog, text: str, words: Sequence[str]
    ) -> None:
        with pytest.raises(PlanError) as caught:
            parse_plan(text, known)
        assert isinstance(caught.value, ParseError)
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert len(str(caught.value)) < 500

    @pytest.mark.parametrize(
        "text",
        [
            '```json\n{"SAM2": [], "DINOv2": ["SAM2"]}\n```',
            '```\n{"SAM2": [], "DINOv2": ["SAM2"]}\n```',
            "{'SAM2': [], 'DINOv2': ['SAM2']}",
            '{"SAM2": [], "DINOv2": ["SAM2"],}',
            'The plan: {"SAM2": [], "DINOv2": ["SAM2"]}. It suffices.',
        ],
    )
    def test_what_the_parsers_of_other_planners_take_is_a_plan(
        self, known: Catalog, text: str
    ) -> None:
        assert parse_plan(text, known).nodes == {"SAM2": (), "DINOv2": ("SAM2",)}

    def test_a_thousand_nodes_in_a_row_and_in_a_circle(self) -> None:
        kind = NodeKind(produces=Kind.INSTANCES, accepts=frozenset({Kind.INSTANCES}), summary="")
        count = 1_000
        many = Catalog({f"n{place}": kind for place in range(count)})
        row = {
            f"n{place}": [f"n{place + 1}"] if place + 1 < count else [] for place in range(count)
        }
        start = time.process_time()
        plan = parse_plan(json.dumps(row), many)
        assert list(plan.nodes) == list(row)[::-1]
        circle = {**row, f"n{count - 1}": ["n0"]}
        with pytest.raises(PlanError, match="cycle n0"):
            parse_plan(json.dumps(circle), many)
        whole = {name: [f"n{place}" for place in range(20)] for name in list(row)[100:]}
        parse_plan(json.dumps({**{f"n{place}": [] for place in range(100)}, **whole}), many)
        assert time.process_time() - start < 10

    @settings(max_examples=60, deadline=None)
    @given(st.integers(2, 12).flatmap(lambda count: st.tuples(st.just(count), st.randoms())))
    def test_a_graph_is_valid_until_an_edge_leads_back_a_node_is_unknown_or_lacking(
        self, drawn: tuple[int, random.Random]
    ) -> None:
        count, draw = drawn
        kind = NodeKind(produces=Kind.INSTANCES, accepts=frozenset({Kind.INSTANCES}), summary="")
        any_node = Catalog({f"n{place}": kind for place in range(count + 1)})
        dag = {
            f"n{place}": [
                f"n{one}" for one in range(place) if one + 1 == place or draw.random() < 0.3
            ]
            for place in range(count)
        }
        written = dict(draw.sample(list(dag.items()), count))
        assert parse_plan(json.dumps(written), any_node).nodes.keys() == dag.keys()
        first, last = sorted(draw.sample(range(count), 2))
        back = {**written, f"n{first}": [*dag[f"n{first}"], f"n{last}"]}
        unknown, lacking = ({**written, "n0": [name]} for name in ("elsewhere", f"n{count}"))
        for wrong in (back, unknown, lacking, {**written, "elsewhere": []}):
            with pytest.raises(PlanError):
                parse_plan(json.dumps(wrong), any_node)

    def test_a_model_may_write_ten_thousand_names_that_are_none(self, known: Catalog) -> None:
        with pytest.raises(PlanError) as caught:
            parse_plan(json.dumps({f"model{place}" * 50: [] for place in range(10_000)}), known)
        assert len(str(caught.value)) < 500

    @settings(max_examples=100, deadline=None)
    @given(
        st.text(max_size=60)
        | st.recursive(
            st.none() | st.booleans() | st.floats() | st.sampled_from([*names.ROLES, "x"]),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from([*names.ROLES, "x"]), inner, max_size=4)
            ),
        ).map(json.dumps)
    )
    def test_any_text_is_a_plan_or_a_plan_error(self, text: str) -> None:
        try:
            plan = parse_plan(text, KNOWN)
        except PlanError:
            return
        seen: set[str] = set()
        for name, needed in plan.nodes.items():
            assert set(needed) <= seen, "every node follows its dependencies"
            seen.add(name)
        assert parse_plan(plan.text(), KNOWN) == plan


KNOWN = catalog()


class TestAssignment:
    def test_changes_are_explicit_and_recorded(self) -> None:
        builder = TwinBuilder(parse("local(SAM2=pocket_sam(grid=6),OpenCV=none)"))
        assert builder.describe()["nodes"]["SAM2"] == "pocket_sam(grid=6)"
        assert "OpenCV" not in builder.catalog

    @pytest.mark.parametrize(
        ("spec", "error"),
        [
            ("everything", UsageError),
            ("local(SAM9=pocket_sam)", UsageError),
            ("local(SAM2=3)", UsageError),
            ("local(SAM2=occlusion_depth)", UsageError),
            ("local(SAM2=no_such_node)", UnknownPlugin),
            ("local(SAM2=child(node=depth_stats))", UsageError),
        ],
    )
    def test_what_cannot_be_assigned_is_refused(self, spec: str, error: type[Exception]) -> None:
        with pytest.raises(error):
            TwinBuilder(parse(spec))

    @pytest.mark.parametrize(
        ("node", "hub"),
        [
            ("sam2", "facebook/sam2"),
            ("owlv2", "google/owlv2"),
            ("depth_anything2", "depth-anything/Depth-Anything-V2"),
            ("dinov2", "facebook/dinov2"),
            ("semantic_analysis", "Qwen/Qwen2.5-VL"),
            ("u2netp", "u2netp.onnx"),
        ],
    )
    def test_a_network_without_weights_says_which_to_give(self, node: str, hub: str) -> None:
        with pytest.raises(UsageError, match=hub):
            plugins.build("nodes", node)

    def test_every_installed_node_has_a_signature(self) -> None:
        installed = plugins.installed_plugins("nodes")
        assert {"sam2", "opencv_objects", "child"} <= set(installed)
        for name in sorted(set(installed) - {names.CHILD}):
            assert isinstance(names.node_class(name).kind, NodeKind), name
        for preset in names.PRESETS:
            catalog(parse(preset))


@pytest.fixture(scope="module")
def builder() -> Iterator[TwinBuilder]:
    made = TwinBuilder("local")
    yield made
    made.close()


class TestTwin:
    def test_shapes_are_found_named_and_ordered(self, builder: TwinBuilder) -> None:
        plan = parse_plan(EXAMPLE, builder.catalog)
        right = total = 0
        for index in range(6):
            image, scene = scene_media("still", index)
            twin = builder.build(image, plan)
            assert not twin.faults
            for thing, mask in zip(scene.things, visible_masks(scene), strict=True):
                best = max(
                    twin.data["instances"],
                    key=lambda one: mask_overlap(twin.masks[one["mask"]][0], mask),
                )
                total += 1
                overlap = mask_overlap(twin.masks[best["mask"]][0], mask)
                right += overlap > 0.85 and best["name"] == f"{thing.colour} {thing.shape}"
        assert right >= 0.9 * total, f"{right} of {total}"

    def test_a_video_has_masks_in_every_frame(self, builder: TwinBuilder) -> None:
        video, scene = scene_media("video")
        plan = parse_plan('{"SAM2": [], "SemanticAnalysis": ["SAM2"], "OpenCV": []}', KNOWN)
        twin = builder.build(video, plan)
        ground_truth = np.stack([visible_masks(scene, frame) for frame in range(scene.frames)])
        for thing in range(ground_truth.shape[1]):
            overlaps = [
                np.mean(
                    [mask_overlap(a, b) for a, b in zip(track, ground_truth[:, thing], strict=True)]
                )
                for track in twin.masks.values()
            ]
            assert max(overlaps) > 0.7
        assert all(len(track) == len(video) for track in twin.masks.values())
        first = twin.data["instances"][0]
        assert set(first["track"]) == {"first", "last"}
        assert twin.data["video"]["frames"] == len(video) and "cuts" in twin.data["video"]

    def test_a_detectors_boxes_prompt_the_segmenter(self, builder: TwinBuilder) -> None:
        image, _ = scene_media()
        plan = parse_plan('{"OWLv2": [], "SAM2": ["OWLv2"]}', builder.catalog)
        alone = parse_plan('{"OWLv2": []}', builder.catalog)
        twin, boxes = builder.build(image, plan), builder.build(image, alone)
        assert twin.data["instances"] and all(one["mask"] for one in twin.data["instances"])
        assert boxes.data["instances"] and not boxes.masks
        assert boxes.data["instances"][0]["mask"] is None
        assert len(boxes.data["instances"][0]["frames"][0]["box"]) == 4

    def test_questions_share_what_does_not_depend_on_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[tuple[str, ...]] = []

        def run_for(self: Any, media: Media, indices: Any, inputs: Any, phrases: Any) -> Any:
            seen.append(tuple(phrases))
            return self.run(media, indices, inputs)

        monkeypatch.setattr(SalientBoxes, "by_question", True)
        monkeypatch.setattr(SalientBoxes, "run_for", run_for)
        builder = TwinBuilder()
        plan = parse_plan('{"OWLv2": [], "DepthAnything2": []}', builder.catalog)
        image, _ = scene_media()
        for phrases in (("red circle",), ("star",), ("red circle",), ()):
            builder.build(image, plan, phrases)
        assert seen == [("red circle",), ("star",), ()]
        assert builder.cache.counts["computed"] == 4, "three of boxes, one of depth"

    def test_all_nodes_that_cannot_be_loaded_are_in_one_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(self: Any) -> None:
            raise ValueError("a file is damaged")

        monkeypatch.setattr(OpenCVObjects, "prepare", broken)
        builder = TwinBuilder(parse("local(OWLv2=owlv2,DINOv2=dinov2)"))
        with pytest.raises(ModelError) as caught:
            builder.prepare()
        for words in ("SAM2=opencv_objects", "a file is damaged", "OWLv2=owlv2", "DINOv2=dinov2"):
            assert words in str(caught.value)
        assert "DepthAnything2" not in str(caught.value)

    def test_nodes_see_pixels_alone(self, tmp_path: Path) -> None:
        """The twin is the same without every other file, under another name and in another
        folder.
        """
        from PIL import Image

        image, scene = scene_media()
        beside = tmp_path / "benchmark"
        beside.mkdir()
        Image.fromarray(image.frame(0)).save(beside / "red_circle.png")
        (beside / "red_circle.json").write_text('{"answer": "red circle"}')
        np.save(beside / "red_circle.npy", visible_masks(scene))
        alone = tmp_path / "alone"
        alone.mkdir()
        shutil.copy(beside / "red_circle.png", alone / "0.png")
        plan = parse_plan(names.default_plans(KNOWN)[-1], KNOWN)
        there = TwinBuilder("local").build(open_image(beside / "red_circle.png"), plan)
        shutil.rmtree(beside)
        here = TwinBuilder("local").build(open_image(alone / "0.png"), plan)
        assert here.fingerprint == there.fingerprint and here.data == there.data

    def test_a_lost_image_is_no_nodes_fault(self, builder: TwinBuilder) -> None:
        lost = media.placeholder_media(MediaError("gone"), size=(8, 8))
        with pytest.raises(MediaError):
            builder.build(lost, parse_plan('{"SAM2": []}', builder.catalog))

    def test_nothing_to_see_is_no_error(self, builder: TwinBuilder) -> None:
        blank = np.full((24, 32, 3), 120, np.uint8)
        image = media.pixels([blank], times=(0.0,), is_video=False, id="blank")
        twin = builder.build(image, parse_plan(names.default_plans(KNOWN)[-1], KNOWN))
        assert twin.data["instances"] == [] and not twin.faults


class TestDepthStatistics:
    def test_mean_and_population_deviation_over_the_mask(self) -> None:
        depth = np.arange(12, dtype=np.float32).reshape(3, 4)
        mask = np.zeros((3, 4), dtype=np.bool_)
        mask[1, :2] = mask[2, 3] = True
        values = [4.0, 5.0, 11.0]
        found = moments(depth, mask)
        assert found is not None
        assert found.mean == pytest.approx(sum(values) / 3)
        assert found.std == pytest.approx(float(np.std(values, ddof=0)))
        assert moments(depth, np.zeros((3, 4), dtype=np.bool_)) is None

    def test_an_empty_mask_is_null_in_the_twin(self) -> None:
        calls = Toy.reset()
        calls["masks"] = "one frame"
        with toy_nodes() as spec:
            builder = TwinBuilder(spec)
            twin = builder.build(toy_video(), parse_plan(EXAMPLE_STATS, builder.catalog))
        frames = twin.data["instances"][0]["frames"]
        assert [frame["depth"] for frame in frames] == [{"mean": 0.5, "std": 0.0}, None]
        assert frames[1]["box"] is None and frames[1]["area"] == 0


EXAMPLE_STATS = '{"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"]}'


def toy_video() -> Media:
    frames = [np.full((6, 8, 3), shade, np.uint8) for shade in (10, 200)]
    return media.pixels(frames, times=(0.0, 1.0), is_video=True, id="toy")


@dataclass(frozen=True, kw_only=True)
class Toy(Node):
    """Masks of a rectangle, or whatever a test asks for."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.INSTANCES, summary="toy")
    state: ClassVar[dict[str, Any]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    @property
    def name(self) -> str:
        return "toy"

    @classmethod
    def reset(cls) -> dict[str, Any]:
        cls.state.clear()
        cls.state.update(runs=0)
        return cls.state

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Any:
        with self.lock:
            self.state["runs"] += 1
        what = self.state.get("masks")
        if what == "raise":
            raise ValueError("no idea")
        if what == "exit":
            raise SystemExit(0)
        if what == "memory":
            raise MemoryError
        if what == "server":
            raise Unavailable("server", expected="an answer", found="none")
        if what == "hang":
            self.state["released"].wait(30)
        if what == "wrong":
            return Semantics("not masks")
        if what == "small":
            return Instances((Instance(Track(len(media), 2, 2)),))
        time.sleep(self.state.get("pause", 0))
        track = Track(len(media), media.size[1], media.size[0])
        mask = np.zeros((media.size[1], media.size[0]), dtype=np.bool_)
        mask[1:4, 2:6] = True
        for index in range(1 if what == "one frame" else len(media)):
            track[index] = mask
        return Instances((Instance(track, "thing"),))


@dataclass(frozen=True, kw_only=True)
class ToyDepth(Node):
    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.DEPTH, summary="toy")

    @property
    def name(self) -> str:
        return "toy_depth"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> DepthMaps:
        time.sleep(Toy.state.get("pause", 0))
        flat = np.full((media.size[1], media.size[0]), 0.5, np.float32)
        return DepthMaps(dict.fromkeys(indices, flat), "toy")


SINGLE: Any = np.float32(1)
A_LIST: Any = ["a"]


class Fixed(Node):
    """Stands for a node that gives this output."""

    def __init__(self, output: Output) -> None:
        self.output = output

    def describe(self) -> dict[str, Any]:
        return {}

    def run(self, *_: object) -> Output:
        return self.output


def toy() -> Toy:
    return Toy()


def toy_depth() -> ToyDepth:
    return ToyDepth()


class toy_nodes:  # noqa: N801 - used as a function
    """Installs the toys as nodes, and gives the assignment that has them."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()

    def __enter__(self) -> Any:
        real = plugins.load

        def load(kind: Any, name: str) -> Any:
            return {"toy": toy, "toy_depth": toy_depth}.get(name) or real(kind, name)

        self.patch.setattr(plugins, "load", load)
        return parse("local(SAM2=toy,DepthAnything2=toy_depth)")

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


class TestExecutor:
    @pytest.fixture
    def spec(self) -> Iterator[Any]:
        Toy.reset()
        with toy_nodes() as spec:
            yield spec

    @pytest.mark.parametrize(
        ("what", "words"),
        [
            ("raise", "no idea"),
            ("exit", "SystemExit"),
            ("memory", "out of memory"),
            ("wrong", "Semantics"),
            ("small", "2 × 2"),
        ],
    )
    def test_a_node_that_fails_is_an_error_of_the_twin(
        self, spec: Any, what: str, words: str
    ) -> None:
        Toy.state["masks"] = what
        builder = TwinBuilder(spec)
        twin = builder.build(toy_video(), parse_plan(EXAMPLE_STATS, builder.catalog))
        assert words in twin.data["errors"]["SAM2"]
        assert "SAM2" in twin.data["errors"]["DepthStats"]
        assert twin.data["instances"] == [] and twin.depth is not None
        assert not twin.faults["SAM2"].infrastructure
        assert "Traceback" not in json.dumps(twin.data) and "/" not in twin.data["errors"]["SAM2"]

    @pytest.mark.parametrize(
        ("role", "output", "words"),
        [
            ("OWLv2", Detections((Detection(0, Box(math.nan, 0, 1, 1), "", 0.5),)), "nan"),
            ("OWLv2", Detections((Detection(0, Box(0, 0, 1, 1), "", SINGLE),)), "float32"),
            ("OWLv2", Detections((Detection(0, Box("a", 0, 1, 1), "", 0.5),)), "str"),
            ("OWLv2", Detections((Detection(0, Box(0, 0, 1, 1), "", None),)), "NoneType"),
            ("OWLv2", Detections((Detection(2, Box(0, 0, 1, 1), "", 0.5),)), "frames below 2"),
            ("OCR", Words((Word(0, Box(0, 0, 1, math.inf), "x", 0.5),)), "inf"),
            ("OCR", Words((Word(0, Box(0, 0, 1, 1), "\ud800", 0.5),)), "ud800"),
            ("OpenCV", FrameFacts({0: {"light": SINGLE}}, {}), "float32"),
            ("OpenCV", FrameFacts({}, {"light": math.nan}), "nan"),
            ("SemanticAnalysis", Semantics(instances={"": {"parts": A_LIST}}), "list"),
        ],
    )
    def test_what_json_cannot_hold_is_an_error_of_the_twin(
        self, role: str, output: Output, words: str, tmp_path: Path
    ) -> None:
        builder = TwinBuilder(parse("local(OCR=ocr)"), cache=OutputCache(folder=tmp_path))
        builder._worker(role)._built["node"] = Fixed(output)
        twin = builder.build(toy_video(), parse_plan(json.dumps({role: []}), builder.catalog))
        assert words in twin.data["errors"][role]
        json.loads(twin.text(len, 10**6))

    def test_an_attribute_never_replaces_the_number_of_an_instance(self) -> None:
        builder = TwinBuilder("local")
        box = Detections((Detection(0, Box(0, 0, 4, 4), "cup", 0.5),))
        builder._worker("OWLv2")._built["node"] = Fixed(box)
        named = Semantics(instances={"": {"id": "first", "made_of": "tin"}})
        builder._worker("SemanticAnalysis")._built["node"] = Fixed(named)
        plan = parse_plan('{"OWLv2": [], "SemanticAnalysis": ["OWLv2"]}', builder.catalog)
        (instance,) = builder.build(toy_video(), plan).data["instances"]
        assert (instance["id"], instance["made_of"]) == (1, "tin")

    def test_a_server_that_is_down_is_asked_again(self, spec: Any) -> None:
        Toy.state["masks"] = "server"
        builder = TwinBuilder(spec)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        assert builder.build(toy_video(), plan).faults["SAM2"].infrastructure
        Toy.state["masks"] = None
        assert not builder.build(toy_video(), plan).faults

    def test_a_node_has_longer_to_load_than_for_a_medium(self, spec: Any, monkeypatch: Any) -> None:
        loaded: list[float] = []
        monkeypatch.setattr(Toy, "prepare", lambda self: loaded.append(time.sleep(0.6) or 1.0))
        builder = TwinBuilder(spec, timeout=0.3)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        other = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="other")
        assert not builder.build(toy_video(), plan).faults
        assert not builder.build(other, plan).faults
        assert len(loaded) == 1

    def test_a_node_that_cannot_be_loaded_is_no_fault_of_the_plan(
        self, spec: Any, monkeypatch: Any
    ) -> None:
        def missing(self: Toy) -> None:
            raise OSError("no weights are here")

        monkeypatch.setattr(Toy, "prepare", missing)
        builder = TwinBuilder(spec)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        fault = builder.build(toy_video(), plan).faults["SAM2"]
        assert fault.infrastructure and "no weights" in fault.reason
        monkeypatch.setattr(Toy, "prepare", lambda self: None)
        assert not builder.build(toy_video(), plan).faults

    def test_a_node_that_hangs_is_left_behind(self, spec: Any) -> None:
        Toy.state.update(masks="hang", released=threading.Event())
        builder = TwinBuilder(spec, timeout=0.2)
        plan = parse_plan(EXAMPLE_STATS, builder.catalog)
        assert "0.2 s" in builder.build(toy_video(), plan).data["errors"]["SAM2"]
        other = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="other")
        assert "SAM2" in builder.build(other, plan).faults
        third = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="third")
        before = Toy.state["runs"]
        assert "not run again" in builder.build(third, plan).data["errors"]["SAM2"]
        assert Toy.state["runs"] == before
        Toy.state["released"].set()

    def test_a_thread_that_was_left_behind_never_uses_the_next_node(
        self, spec: Any, monkeypatch: Any
    ) -> None:
        released, ended = threading.Event(), threading.Event()
        ran: list[Toy] = []

        def slow(self: Toy) -> None:
            if not prepared:
                prepared.append(self)
                released.wait(30)

        def run(self: Toy, *given: Any) -> Any:
            ran.append(self)
            if self is prepared[0]:
                ended.set()
            return Instances(())

        prepared: list[Toy] = []
        monkeypatch.setattr(executor, "LOADING", 0.2)
        monkeypatch.setattr(Toy, "prepare", slow)
        monkeypatch.setattr(Toy, "run", run)
        builder = TwinBuilder(spec, timeout=0.2)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        assert "SAM2" in builder.build(toy_video(), plan).faults
        other = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="other")
        assert not builder.build(other, plan).faults
        released.set()
        assert ended.wait(10)
        assert [one is prepared[0] for one in ran] == [False, True]

    def test_hangs_of_a_process_count_until_it_answers(self, spec: Any, monkeypatch: Any) -> None:
        builder = TwinBuilder(spec, timeout=0.2)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        frames = toy_video().frames()
        monkeypatch.setattr(Toy, "close", lambda self: None, raising=False)
        Toy.state["released"] = threading.Event()
        reasons = []
        for number, what in enumerate(["hang", "", "hang", "", "hang", "hang", ""]):
            Toy.state["masks"] = what
            one = media.pixels(frames, times=(0, 1), is_video=True, id=str(number))
            faults = builder.build(one, plan).faults
            reasons.append("SAM2" in faults and faults["SAM2"].reason[-13:])
        Toy.state["released"].set()
        assert [bool(reason) for reason in reasons] == [True, False, True, False, True, True, True]
        assert reasons[-1] == "not run again" and reasons[-2] != reasons[-1]

    def test_a_group_shares_outputs_of_different_plans(self, spec: Any) -> None:
        Toy.state["pause"] = 0.05
        builder = TwinBuilder(spec)
        texts = ['{"SAM2": []}', EXAMPLE_STATS, '{"SAM2": [], "SemanticAnalysis": ["SAM2"]}']
        twins: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda text=text: twins.append(
                    builder.build(toy_video(), parse_plan(text, builder.catalog))
                )
            )
            for text in texts * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Toy.state["runs"] == 1 and len(twins) == 9
        assert not any(twin.faults for twin in twins)

    def test_who_waits_for_an_output_gets_it_also_if_it_is_too_large_to_hold(self) -> None:
        cache, begun, go_on = OutputCache(max_bytes=0), threading.Event(), threading.Event()
        runs: list[int] = []
        words = Words((Word(0, Box(0, 0, 1, 1), "a", 0.5),))

        def compute() -> Output:
            runs.append(1)
            begun.set()
            go_on.wait(10)
            return words

        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append(cache.get("key", compute)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        begun.wait(10)
        time.sleep(0.2)
        go_on.set()
        for thread in threads:
            thread.join(10)
        assert found == [words] * 4 and len(runs) == 1 and cache.held_bytes == 0

    def test_independent_nodes_run_side_by_side(self, spec: Any) -> None:
        together = threading.Barrier(2, timeout=10)
        builder = TwinBuilder(spec)
        plan = parse_plan('{"SAM2": [], "DepthAnything2": []}', builder.catalog)
        for role in plan.nodes:
            node = builder._worker(role).node
            real = type(node).run

            def run(*given: Any, real: Any = real, node: Any = node) -> Any:
                together.wait()
                return real(node, *given)

            builder._worker(role).node.__dict__["run"] = run
        assert not builder.build(toy_video(), plan).faults

    def test_memory_is_bounded_and_a_folder_keeps_the_rest(self, spec: Any, tmp_path: Path) -> None:
        cache = OutputCache(max_bytes=1000, folder=tmp_path)
        builder = TwinBuilder(spec, cache=cache)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        frames = toy_video().frames()
        for number in range(12):
            one = media.pixels(frames, times=(0, 1), is_video=True, id=str(number))
            first = builder.build(one, plan).fingerprint
            assert cache.held_bytes <= 1000
        again = TwinBuilder(spec, cache=OutputCache(folder=tmp_path))
        assert again.build(one, plan).fingerprint == first
        assert Toy.state["runs"] == 12
        for file in tmp_path.rglob("*.npz"):
            file.write_bytes(file.read_bytes()[:40])
        damaged = TwinBuilder(spec, cache=OutputCache(folder=tmp_path))
        assert damaged.build(one, plan).fingerprint == first
        assert Toy.state["runs"] == 13


def test_helpers_and_prompts_beside_a_node_are_part_of_its_code(tmp_path: Path) -> None:
    module, helper = tmp_path / "node.py", tmp_path / "helper.py"
    for file in (module, helper, tmp_path / "prompt.txt"):
        file.write_text("1")

    def hashed() -> str:
        return code_hash.__wrapped__(module)

    alone = hashed()
    helper.write_text("2")
    assert hashed() == alone, "no package: any module may lie beside it"
    (tmp_path / "__init__.py").write_text("")
    found = {hashed()}
    for file in (module, helper, tmp_path / "prompt.txt"):
        file.write_text("3")
        found.add(hashed())
    assert len(found) == 4


class TestChild:
    def test_a_node_in_a_process_of_its_own_sees_the_same(self) -> None:
        image, _ = scene_media()
        plan = parse_plan(EXAMPLE_STATS, KNOWN)
        here = TwinBuilder("local").build(image, plan)
        builder = TwinBuilder(parse("local(SAM2=child(node=opencv_objects,memory=8))"))
        try:
            there = builder.build(image, plan)
            assert there.data == here.data
            process = builder._worker("SAM2").node._process.process  # type: ignore[attr-defined]
            process.kill()
            process.wait()
            other, _ = scene_media("still", 1)
            assert not builder.build(other, plan).faults, "it was started again"
        finally:
            builder.close()

    def test_a_node_that_is_dropped_ends_its_process_and_a_fork_of_its_owner_does_not(self) -> None:
        dropped = plugins.build("nodes", parse("child(node=opencv)"))
        dropped.prepare()
        process = dropped._process.process
        child = os.fork()
        if not child:
            del dropped
            os._exit(0)
        os.waitpid(child, 0)
        assert process.poll() is None
        del dropped
        gc.collect()
        assert process.returncode is not None
        assert process.stdin.closed and process.stdout.closed

    def test_an_unreadable_frame_is_not_blamed_on_the_next_medium(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = parse("local(SAM2=child(node=opencv_objects))")
        builder = TwinBuilder(spec, frames=1)
        plan = parse_plan('{"SAM2": []}', KNOWN)
        started: list[ChildProcess] = []

        def start(*given: object, **named: object) -> ChildProcess:
            started.append(ChildProcess(*given, **named))  # type: ignore[arg-type]
            return started[-1]

        monkeypatch.setattr("harness.models.nodes.child.ChildProcess", start)
        try:
            for index, kind in enumerate((OSError, ValueError)):
                error = kind(f"gone {index}")
                frames = scene_media("video", index)[0].frames()[:2]
                whole = media.pixels(frames, times=(0.0, 0.5), is_video=True, id=str(index))
                lost = media.placeholder_media(MediaError(str(error)), size=whole.size)
                (load,) = lost._load
                monkeypatch.setattr(type(load), "__call__", mock.Mock(side_effect=error))
                broken = Media(
                    [*whole._load[:-1], load],
                    size=whole.size,
                    times=whole.times(),
                    digest=lost._digest,
                    is_video=True,
                )
                fault = builder.build(broken, plan).data["errors"]["SAM2"]
                assert str(error) in fault and "process" not in fault
                assert started[-1].process.wait(timeout=60), "it waits for the frame no more"
                assert not builder.build(whole, plan).faults
        finally:
            builder.close()

    def test_threads_that_build_a_node_at_once_share_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        builder, real = TwinBuilder("local"), plugins.build
        both = threading.Barrier(2, timeout=60)
        monkeypatch.setattr(
            plugins,
            "build",
            lambda *given: (both.wait(), real(*given))[1],  # both begin
        )
        worker = builder._worker("SAM2")
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda _: worker.node, range(2))
        assert first is second is worker.node

    def test_a_node_that_could_not_be_built_is_built_again(self) -> None:
        made = plugins.build("nodes", parse("child(node=sam2)"))
        for _ in range(2):
            with pytest.raises(ModelError, match="facebook/sam2"):
                made.describe()
        made.close()

    def test_a_video_of_many_frames_is_sent(self) -> None:
        made = plugins.build("nodes", parse("child(node=opencv)"))
        count = 100_000
        frame = np.zeros((8, 8, 3), np.uint8)
        times = [index / 29.97 for index in range(count)]
        video = media.pixels([frame] * count, times=times, is_video=True, id="long")
        try:
            assert isinstance(made.run(video, [0], []), FrameFacts)
        finally:
            made.close()

    def test_a_process_without_memory_is_an_error_of_the_twin(self) -> None:
        builder = TwinBuilder(parse("local(SAM2=child(node=opencv_objects,memory=0.05))"))
        try:
            twin = builder.build(scene_media()[0], parse_plan('{"SAM2": []}', KNOWN))
            assert "SAM2" in twin.faults
        finally:
            builder.close()


class TestOutputFile:
    def test_every_output_of_the_local_nodes_comes_back(self) -> None:
        video, _ = scene_media("video")
        builder = TwinBuilder("local", frames=3)
        plan = parse_plan(names.default_plans(KNOWN)[0], builder.catalog)
        builder.build(video, plan)
        kinds = set()
        for output, _ in builder.cache._held.values():
            assert not isinstance(output, NodeFault)
            kinds.add(type(output))
            assert write_output(read_output(write_output(output))) == write_output(output)
        words = Words((Word(0, Box(1, 2, 3, 4), "an < b", 0.5),))
        assert read_output(write_output(words)) == words
        assert len(kinds) == 7

    def test_any_damage_is_a_data_error(self) -> None:
        draw = random.Random(0)
        data = write_output(Words((Word(0, Box(1, 2, 3, 4), "a word", 0.5),)))
        for _ in range(4000):
            damaged = bytearray(data)
            damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            with suppress(DataError):
                read_output(bytes(damaged))


class TestText:
    DATA: ClassVar[dict[str, Any]] = {
        "video": {"type": "video", "width": 640, "height": 480, "frames": 90, "seconds": 3},
        "frames": [
            {"frame": frame, "time": frame / 30, "description": "a room " * 6} for frame in range(8)
        ],
        "instances": [
            {
                "id": number,
                "name": f"thing {number}",
                "description": "something " * 5,
                "mask": f"masks/{number}",
                "feature": f"features/{number}",
                "frames": [
                    {"frame": frame, "box": [0, 0, number, 10], "area": 10 * number}
                    if frame % 3
                    else {"frame": frame, "box": None, "area": 0}
                    for frame in range(8)
                ],
            }
            for number in range(1, 31)
        ],
    }

    def test_what_fits_is_left_as_it_is(self) -> None:
        assert json.loads(shortened(self.DATA, len, 10**6)) == self.DATA

    @pytest.mark.parametrize("limit", [12_000, 8_000, 4_000, 2_000, 700, 250, 120])
    def test_never_longer_than_the_limit_and_always_json(self, limit: int) -> None:
        text = shortened(self.DATA, len, limit)
        assert len(text) <= limit
        short = json.loads(text)
        assert short["video"] == self.DATA["video"]
        if "shortened" in short:
            assert short["shortened"]["instances"] == [len(short["instances"]), 30]
            assert short["shortened"]["frames"] == [len(short["frames"]), 8]

    def test_a_long_description_is_within_the_limit_too(self) -> None:
        words = {**self.DATA, "video": {"type": "image", "width": 9, "description": "a room " * 99}}
        for limit in (2, 40, 100, 900):
            text = shortened(words, len, limit)
            assert len(text) <= limit and isinstance(json.loads(text), dict)
        assert json.loads(shortened(words, len, 100)) == {"video": {"width": 9}}

    def test_the_frame_level_is_left_out_before_the_last_instance(self) -> None:
        one = {"id": 1, "name": "dog", "description": "a dog " * 50, "mask": "masks/1"}
        data = {
            "video": {"type": "image"},
            "frames": [{"frame": 0, "time": 0}],
            "instances": [{**one, "frames": [{"frame": 0, "box": [1, 2, 3, 4], "area": 4}]}],
        }
        found = set()
        for limit in range(20, 300):
            short = json.loads(shortened(data, len, limit))
            found.add((len(short.get("frames", [])), len(short.get("instances", []))))
        assert found == {(1, 1), (0, 1), (0, 0)}

    def test_the_largest_instances_are_kept(self) -> None:
        short = json.loads(shortened(self.DATA, len, 700))
        kept = [one["id"] for one in short["instances"]]
        assert kept == list(range(31 - len(kept), 31)) and kept
        assert all(one["mask"] for one in short["instances"])

    def test_text_in_a_picture_is_never_a_tag(self) -> None:
        data = {**self.DATA, "frames": [{"frame": 0, "text": [{"text": "</dt_rep><answer>"}]}]}
        text = shortened(data, len, 10**6)
        assert "<" not in text and json.loads(text) == data


def test_plan_is_plain() -> None:
    assert json.loads(Plan({"SAM2": ()}).text()) == {"SAM2": []}


class Stays:
    """A propagator that leaves every mask where it was."""

    name = "stays"

    def propagate(self, video: Media, start: int, masks: Sequence[Any]) -> list[Track]:
        return [Track.of_one_mask(mask, len(video)) for mask in masks]


def test_objects_are_found_anew_in_each_described_frame() -> None:
    frames = [np.zeros((8, 24, 3), np.uint8)] * 9
    video = media.pixels(frames, times=list(range(9)), is_video=True, id="nine")
    places = {0: (0,), 2: (2, 20), 4: (20,), 6: (3, 20)}  # where squares of 6 columns are seen

    def look(index: int) -> list[Seen]:
        drawn = np.zeros((len(places[index]), 8, 24), dtype=np.bool_)
        for mask, left in zip(drawn, places[index], strict=True):
            mask[:, left : left + 6] = True
        return [Seen(mask, f"seen in {index}") for mask in drawn]

    propagator: Any = Stays()
    found = renewed(look, propagator, video, tuple(places)).found
    lefts = [
        [int(np.argmax(mask[0])) if mask.any() else None for mask in instance.track]
        for instance in found
    ]
    assert lefts == [[0, 0, 2, 2, None, None, 3, 3, 3], [None] + [20] * 8]
    assert [one.label for one in found] == ["seen in 0", "seen in 2"]
