"""Plans, assignments, and the twin that comes of them."""

import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import media, open_image, plugins
from harness.errors import (
    MediaError,
    ModelError,
    ParseError,
    UnknownPlugin,
    UsageError,
)
from harness.media import Media
from harness.models.dt_r1 import catalog as names
from harness.models.dt_r1.catalog import Catalog, catalog
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.plan import PlanError, parse_plan
from harness.models.nodes.depth_stats import moments
from harness.models.nodes.instances import mask_overlap
from harness.models.nodes.opencv_objects import OpenCVObjects
from harness.models.nodes.salient_boxes import SalientBoxes
from harness.node import (
    Kind,
    NodeKind,
)
from harness.spec import parse
from harness.world.raster import visible_masks

from .twin_media import EXAMPLE_STATS, KNOWN, Toy, scene_media, toy_nodes, toy_video

EXAMPLE = json.dumps({name: list(needed) for name, needed in names.PAPERS_PLAN.items()})
"""The plan in the text of the paper."""


@pytest.fixture(scope="module")
def known() -> Catalog:
    return catalog()


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
