"""Nodes around networks, each with tiny random weights of the real class of transformers."""

import json
import re
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.coordinates import Coordinates
from harness.errors import MissingDependency, ModelError, UsageError
from harness.masks import Track
from harness.media import Media
from harness.models.dt_r1.catalog import PRESETS, catalog
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.plan import parse_plan
from harness.models.nodes.semantic_analysis import SemanticAnalysis
from harness.models.nodes.u2netp import U2NetP
from harness.node import Detections, Instance, Instances, Node, check_output
from harness.papers import deviations
from harness.spec import Spec, parse
from harness.types import AnswerForm

NETWORKS = runpy.run_path(str(Path(__file__).parent / "sam2_networks.py"))
WORDS = ("cat", "dog", "a", "photo", "of")


def ready() -> Any:
    """PyTorch on one thread, with what transformers' processors need."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from harness.models.backends.torchvision_cpu import ensure_torchvision

    ensure_torchvision()
    return torch


def video(frames: int = 2, height: int = 40, width: int = 60) -> Media:
    drawn = np.random.default_rng(0).integers(0, 255, (frames, height, width, 3), np.uint8)
    times = [float(index) for index in range(frames)]
    return media.pixels(list(drawn), times=times, is_video=frames > 1, id=f"noise{frames}")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of DINOv2, Depth Anything and OWLv2, saved as the hub's are."""
    torch = ready()
    import transformers

    root = tmp_path_factory.mktemp("nodes")
    torch.manual_seed(0)
    small = {"num_attention_heads": 2, "image_size": 56, "patch_size": 14, "hidden_size": 32}
    eyes = transformers.Dinov2Config(num_hidden_layers=2, intermediate_size=64, **small)
    transformers.Dinov2Model(eyes).save_pretrained(root / "dinov2")
    transformers.BitImageProcessor(
        size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}
    ).save_pretrained(root / "dinov2")
    backbone = transformers.Dinov2Config(
        num_hidden_layers=4,
        mlp_ratio=2,
        out_indices=[1, 2, 3, 4],
        reshape_hidden_states=False,
        **small,
    )
    depth = transformers.DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=32,
        neck_hidden_sizes=[8, 16, 16, 16],
        fusion_hidden_size=8,
        head_hidden_size=8,
        patch_size=14,
    )
    transformers.DepthAnythingForDepthEstimation(depth).save_pretrained(root / "depth")
    transformers.DPTImageProcessor(
        size={"height": 56, "width": 56}, ensure_multiple_of=14, keep_aspect_ratio=True
    ).save_pretrained(root / "depth")
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    owl = transformers.Owlv2Config(
        text_config={
            **layers,
            "num_attention_heads": 2,
            "vocab_size": 64,
            "max_position_embeddings": 16,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
        },
        vision_config={**layers, "num_attention_heads": 2, "image_size": 64, "patch_size": 16},
        projection_dim=32,
    )
    transformers.Owlv2ForObjectDetection(owl).save_pretrained(root / "owl")
    vocabulary = ["!", "<|startoftext|>", "<|endoftext|>", *(f"{word}</w>" for word in WORDS)]
    vocabulary += sorted({letter for word in WORDS for letter in word})
    vocabulary += [f"{letter}</w>" for letter in sorted(set("".join(WORDS)) - {"a"})]
    words = root / "words"
    words.mkdir()
    (words / "vocab.json").write_text(
        json.dumps({word: place for place, word in enumerate(dict.fromkeys(vocabulary))})
    )
    (words / "merges.txt").write_text("#version: 0.2\n")
    read = transformers.CLIPTokenizer.from_pretrained(words)
    transformers.Owlv2Processor(
        transformers.Owlv2ImageProcessor(size={"height": 64, "width": 64}), read
    ).save_pretrained(root / "owl")
    return root


def built(spec: str) -> Node:
    node: Node = plugins.build("nodes", parse(spec))
    return node


def halves(seen: Media) -> Instances:
    """Two instances: the left half in every frame, and one that is seen nowhere."""
    track, nowhere = (Track(len(seen), seen.size[1], seen.size[0]) for _ in range(2))
    mask = np.zeros((seen.size[1], seen.size[0]), dtype=np.bool_)
    mask[:, : seen.size[0] // 2] = True
    for index in range(len(seen)):
        track[index] = mask
    return Instances((Instance(track, "half", key="a"), Instance(nowhere, key="b")))


def test_dinov2_gives_vectors_of_instances_and_frames(folders: Path) -> None:
    seen, node = video(), built(f"dinov2(checkpoint={folders / 'dinov2'})")
    features = node.run(seen, (0, 1), [halves(seen)])
    check_output("dinov2", features, node.kind.produces, seen)
    assert set(features.instances) == {"a"} and set(features.frames) == {0, 1}
    for vector in (*features.instances.values(), *features.frames.values()):
        assert vector.shape == (32,) and vector.dtype == np.float32
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(features.instances["a"], features.frames[0])


def test_depth_anything_gives_a_depth_a_pixel(folders: Path) -> None:
    seen, node = video(), built(f"depth_anything2(checkpoint={folders / 'depth'})")
    depth = node.run(seen, (0, 1), [])
    check_output("depth_anything2", depth, node.kind.produces, seen)
    assert depth.maps[0].shape == (40, 60) and depth.maps[0].dtype == np.float32
    assert "larger is nearer" in depth.meaning


def test_owlv2_gives_labelled_boxes_inside_the_image(folders: Path) -> None:
    spec = f"owlv2(checkpoint={folders / 'owl'},words=cat|dog,threshold=0.0,max_boxes=5)"
    seen, node = video(), built(spec)
    found = node.run(seen, (0, 1), []).found
    assert found and {one.label for one in found} <= {"cat", "dog"}
    assert {one.frame for one in found} == {0, 1}
    for one in found:
        assert 0 <= one.box.left < one.box.right <= 60
        assert 0 <= one.box.top < one.box.bottom <= 40
    assert sum(one.frame == 0 for one in found) <= 5


def test_owlv2_looks_for_what_the_question_names(folders: Path) -> None:
    """Its own words and the phrases, of whatever script and length, and nothing else."""
    spec = f"owlv2(checkpoint={folders / 'owl'},words=cat,by_question=true,threshold=0.0)"
    seen, node = video(frames=1), built(spec)
    assert node.by_question and not built(spec.replace(",by_question=true", "")).by_question
    phrases = ("dog", "红色的杯子和另一个很长的名字", "goalkeeper's long coat")
    asked = node.run_for(seen, (0,), [], phrases)
    assert isinstance(asked, Detections)
    labels = {one.label for one in asked.found}
    assert "dog" in labels and labels <= {"cat", *phrases}
    assert node.run(seen, (0,), []) == node.run_for(seen, (0,), [], ())
    assert {one.label for one in node.run(seen, (0,), []).found} == {"cat"}


def test_sam2_segments_by_itself_and_by_boxes(folders: Path, tmp_path: Path) -> None:
    ready()
    folder, _ = NETWORKS["save"](tmp_path, seed=1)
    node = f"sam2(checkpoint={folder},grid=3,min_votes=1,max_masks=3)"
    spec = f"paper(SAM2={node},OWLv2=salient_boxes)"
    builder = TwinBuilder(parse(spec), frames=2)
    drawn = video(frames=3)
    for text in ('{"SAM2": []}', '{"OWLv2": [], "SAM2": ["OWLv2"]}'):
        twin = builder.build(drawn, parse_plan(text, builder.catalog))
        assert not twin.faults
        for track in twin.masks.values():
            assert (track.height, track.width, len(track)) == (40, 60, 3)


def test_pocket_sam_finds_drawn_shapes() -> None:
    ready()
    from harness.world.families import draw_scene
    from harness.world.raster import render

    scene = draw_scene(7, family="still", split="val", index=2)
    image = media.pixels([render(scene)], times=(0.0,), is_video=False, id="shapes")
    builder = TwinBuilder(parse("local(SAM2=pocket_sam(grid=10))"))
    twin = builder.build(image, parse_plan('{"SAM2": []}', builder.catalog))
    assert not twin.faults
    assert len(scene.things) / 2 <= len(twin.masks) <= 2 * len(scene.things)


@pytest.mark.parametrize("node", ["dinov2", "depth_anything2", "owlv2"])
def test_another_network_is_refused_by_its_type(node: str, tmp_path: Path) -> None:
    ready()
    folder, _ = NETWORKS["save"](tmp_path, seed=1)
    with pytest.raises(ModelError, match="sam2_video"):
        built(f"{node}(checkpoint={folder})")


def test_a_type_that_is_none_is_refused(folders: Path) -> None:
    with pytest.raises(UsageError, match="int4"):
        built(f"dinov2(checkpoint={folders / 'dinov2'},dtype=int4)")


@dataclass
class Told(Chat):
    """Answers every request, and keeps what it was shown."""

    requests: list[ChatRequest]
    batch_size: int = 4
    coordinates: Coordinates = "pixels"

    def describe(self) -> Mapping[str, Any]:
        return {"backend": "told"}

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        self.requests += requests
        return [ChatResponse(text=f"thing {place}: of  use\n") for place in range(len(requests))]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return request.media[0].size

    def count_tokens(self, text: str) -> int:
        return len(text)


def test_semantic_analysis_describes_crops_frames_and_the_video() -> None:
    chat, seen = Told([]), video()
    node = SemanticAnalysis(chat=chat, by_question=True, max_instances=5, max_new_tokens=16)
    said = node.run(seen, (0, 1), [halves(seen)])
    assert set(said.instances) == {"a"} and said.instances["a"]["description"] == "of use"
    assert said.instances["a"]["name"] == "thing 2"
    assert set(said.frames) == {0, 1} and said.video.startswith("thing 3")
    sizes = [request.media[0].size for request in chat.requests]
    assert sizes[:2] == [(60, 40)] * 2 and sizes[2][0] < 60
    assert chat.requests[3].frames == ((0, 1),)
    plain = [request.text for request in chat.requests]
    node.run_for(seen, (0, 1), [halves(seen)], ("red mug", "table"))
    asked = [request.text for request in chat.requests[4:]]
    for before, after in zip(plain, asked, strict=True):
        assert after.startswith(before) and after.endswith(": red mug; table.")


def test_semantic_analysis_by_a_real_backend(tiny_qwen: Path) -> None:
    node = built(
        f"semantic_analysis(backend=transformers(checkpoint={tiny_qwen}),max_new_tokens=4)"
    )
    seen = video(frames=1, height=56, width=84)
    said = node.run(seen, (0,), [halves(seen)])
    check_output("semantic_analysis", said, node.kind.produces, seen)
    assert set(said.instances) == {"a"}


def test_a_node_behind_a_server_of_openais_protocol() -> None:
    server = runpy.run_path(str(Path(__file__).parents[1] / "serving" / "chat_server.py"))
    seen, plan = video(), '{"SAM2": [], "SemanticAnalysis": ["SAM2"]}'

    def built_at(url: str) -> Any:
        chat = f"openai(base_url={url!r},model=served,coordinates=pixels,retries=0)"
        builder = TwinBuilder(parse(f"local(SemanticAnalysis=semantic_analysis(backend={chat}))"))
        return builder.build(seen, parse_plan(plan, builder.catalog))

    with server["serving"](server["Scripted"]()) as served:
        twin = built_at(served.url)
        assert not twin.faults and len(served.asked) == 3 + len(twin.masks)
    assert twin.data["video"]["description"] and twin.data["frames"][0]["description"]
    fault = built_at(served.url).faults["SemanticAnalysis"]
    assert fault.infrastructure and served.url in fault.reason


def test_text_by_pp_ocr_or_an_error_that_names_the_extra() -> None:
    pytest.importorskip("cv2")
    import cv2

    try:
        node = built("ocr")
    except MissingDependency as error:
        assert "visual-reasoning-harness[ocr]" in str(error)
        return
    page = np.full((80, 360, 3), 255, np.uint8)
    cv2.putText(page, "DIGITAL TWIN 42", (10, 50), cv2.FONT_HERSHEY_SIMPLEX, 1.1, (0, 0, 0), 2)
    seen = media.pixels([page], times=(0.0,), is_video=False, id="page")
    words = node.run(seen, (0,), [])
    assert "42" in " ".join(word.text for word in words.found)


def test_u2netp_makes_an_object_of_each_piece_of_its_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    salience = np.zeros((320, 320), np.float32)
    salience[16:64, 16:64], salience[128:256, 128:256], salience[300, 300] = 0.6, 0.9, 1.0
    monkeypatch.setattr(U2NetP, "_salience", lambda *_: salience)
    (tmp_path / "u2netp.onnx").write_bytes(b"read when it is first needed")
    node = built(f"u2netp(weights={tmp_path / 'u2netp.onnx'})")
    seen = media.pixels(
        [video(1).frame(0)] * 3, times=[0.0, 1.0, 2.0], is_video=True, id="nothing moves"
    )
    found = node.run(seen, (0, 2), [])
    check_output("u2netp", found, node.kind.produces, seen)
    scores = [one.score or 0.0 for one in found.found]
    assert scores == sorted(scores, reverse=True) and len(scores) == 2, "without the speck"
    areas = [[int(mask.sum()) for mask in one.track] for one in found.found]
    assert all(abs(area - 24 * 16) < 40 for area in areas[0]) and min(areas[1]) > 30


def test_u2netp_refuses_what_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="none"):
        built(f"u2netp(weights={tmp_path / 'none.onnx'})")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"bad\.onnx"):
        built(f"u2netp(weights={tmp_path / 'bad.onnx'})").prepare()


def test_the_papers_nodes_load_by_their_names_and_build_a_twin_by_the_question(
    folders: Path, tiny_qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by the hub's name, with random weights of its class in the hub's layout."""
    sam2, _ = NETWORKS["save"](tmp_path, seed=1)
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    here = {
        "facebook/sam2-hiera-large": sam2,
        "google/owlv2-large-patch14-ensemble": folders / "owl",
        "depth-anything/Depth-Anything-V2-Large-hf": folders / "depth",
        "facebook/dinov2-large": folders / "dinov2",
        "Qwen/Qwen2.5-VL-7B-Instruct": tiny_qwen,
    }
    for name, folder in here.items():
        kept = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (kept / "refs").mkdir(parents=True)
        (kept / "refs" / "main").write_text("0" * 40)
        (kept / "snapshots").mkdir()
        (kept / "snapshots" / ("0" * 40)).symlink_to(folder, target_is_directory=True)
    builder = TwinBuilder("paper", frames=1)
    builder.prepare()
    plan = {"OWLv2": [], "SAM2": ["OWLv2"], "DepthAnything2": [], "DINOv2": ["SAM2"]}
    plan |= {"DepthStats": ["SAM2", "DepthAnything2"], "Qwen2.5-VL": ["SAM2"], "OpenCV": []}
    twin = builder.build(
        video(frames=1), parse_plan(json.dumps(plan), builder.catalog), ("dog", "cat")
    )
    assert not twin.faults
    found = deviations("jit", {"perception": builder.describe()}, [AnswerForm.MASK])
    assert found == []


def test_the_papers_nodes_are_its_own() -> None:
    """No toy answers to the name of a published network."""
    assert catalog(Spec("paper")).canonical("SAM2") == "SAM2"
    for role, spec in PRESETS["paper"].items():
        assert spec == PRESETS["local"][role] or re.search("(checkpoint|model)=[^,)]+/", spec)
