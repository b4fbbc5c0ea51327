"""The recipes, with stand-ins that have the names and calls of the official packages."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import media
from harness.models.external.model import external
from harness.types import AnswerForm, FailureKind, Query, query_id

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
HEIGHT, WIDTH = 20, 30

BRIGHT = """
import numpy as np
from PIL import Image

def bright(path):
    return (np.array(Image.open(path).convert("L")) > 150).astype(float) - 0.5

def halves(path):
    # two objects, left and right
    both = np.stack([bright(path)] * 2)
    both[0, :, 8:] = both[1, :, :8] = -0.5
    return both
"""
ASKED = """
import sys

class {Network}:
    def evaluate(self, path, text):
        if "raise" in text:
            raise RuntimeError("no [SEG]")
        masks = {masks}
        return text, [one[:0] for one in masks] if "nothing" in text else masks
"""
CHAT = """
import sys
from bright import bright
from {module} import {Network}
{imports}

def main(args):
    assert args == ["--version", "some"], args
    network = {Network}()
    while True:
        prompt = input("Please input your prompt: ")
        assert prompt.endswith("Please output segmentation mask."), prompt
        path = input("Please input the {kind} path: ")
        network.evaluate({shown}, prompt)
"""
OFFICIAL = {
    "lisa": {
        "model/LISA.py": ASKED.format(
            Network="LISAForCausalLM", masks="[__import__('bright').halves(path)]"
        ),
        "chat.py": CHAT.format(
            module="model.LISA", Network="LISAForCausalLM", imports="", kind="image", shown="path"
        ),
    },
    "videolisa": {
        "model/VideoLISA.py": ASKED.format(
            Network="VideoLISAForCausalLM",
            masks="[[one.max(axis=2) > 150 for one in path]]",
        ),
        "utils/video_capture.py": "class VideoCapture:\n    pass\n",
        "chat.py": CHAT.format(
            module="model.VideoLISA",
            Network="VideoLISAForCausalLM",
            imports="from utils.video_capture import VideoCapture",
            kind="video",
            shown="VideoCapture.load_all_frames_from_video(path)",
        ),
    },
    "sa2va": {
        "transformers.py": """
import numpy as np

class Model:
    def eval(self): return self
    def cuda(self): return self
    def predict_forward(self, text, tokenizer, image=None, video=None):
        assert text.startswith("<image>Please segment ") and tokenizer == "words"
        if "raise" in text:
            raise RuntimeError("no [SEG]")
        frames = [image] if video is None else video
        masks = [np.array([np.array(one.convert("L")) > 150 for one in frames])]
        return {"prediction": "Sure, [SEG].", "prediction_masks": masks}

class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(path, torch_dtype, trust_remote_code):
        assert (path, trust_remote_code) == ("some", True)
        return Model()

class AutoTokenizer:
    @staticmethod
    def from_pretrained(path, trust_remote_code):
        return "words"
"""
    },
    "unipixel": {
        "unipixel/model/builder.py": """
def build_model(path, device, dtype):
    class Model:
        seg = None
    with open("loaded", "a") as file:
        file.write("once ")
    return Model(), "processor"
""",
        "tools/inference.py": """
import argparse, os
import numpy as np
from bright import bright
from unipixel.model.builder import build_model

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("media_path")
    parser.add_argument("prompt")
    parser.add_argument("--output_dir")
    parser.add_argument("--sample_frames", type=int, default=16)
    parser.add_argument("--model_path")
    args = parser.parse_args()
    model, processor = build_model(args.model_path, device="auto", dtype="bfloat16")
    if "raise" in args.prompt:
        raise RuntimeError("no [SEG]")
    paths = [args.media_path]
    if os.path.isdir(args.media_path):
        paths = [os.path.join(args.media_path, one) for one in sorted(os.listdir(args.media_path))]
    assert args.sample_frames == (len(paths) if os.path.isdir(args.media_path) else 16)
    model.seg = [np.array([[bright(path) for path in paths]])]
    response = "Sure, [SEG]."
""",
    },
    "glamm": {
        "model/GLaMM.py": ASKED.format(
            Network="GLaMMForCausalLM", masks="[__import__('bright').halves(path)]"
        ),
        "app.py": """
import argparse
from types import SimpleNamespace
from PIL import Image
from model.GLaMM import GLaMMForCausalLM

class CLIPImageProcessor:
    @staticmethod
    def from_pretrained(tower): return tower

class ResizeLongestSide:
    def __init__(self, side): assert side == 1024

class Network(GLaMMForCausalLM):
    config = SimpleNamespace(vision_tower="tower")
    def eval(self): return self

def parse_args(args):
    assert args == ["--version", "some"]
    return SimpleNamespace(version="some", image_size=1024)
def setup_tokenizer_and_special_tokens(args): return "words"
def initialize_model(args, tokenizer): return Network()
def prepare_model_for_inference(model, args): return model

def inference(input_str, all_inputs, follow_up, generate):
    assert args.version and tokenizer == "words" and global_enc_processor == "tower" and transform
    assert all_inputs["boxes"] == [] and not follow_up and not generate
    model.evaluate(all_inputs["image"], input_str)
    prepare_mask(all_inputs["image"], colours)
    return None, process_markdown("Sure, [SEG].", [])

colours = ["red"]
def prepare_mask(path, colours):
    colours.pop()
    Image.new("L", (3, 3)).save(path)
def process_markdown(said, colours): return f"<p>{said}</p>"
""",
    },
    "visa": {
        "utils/dataset_config.py": 'RVOS_ROOT = "/mnt"\n',
        "utils/rvos_eval_dataset.py": "from .dataset_config import RVOS_ROOT\n",
        "train_ds.py": """
import argparse, json, os
from PIL import Image
from bright import bright
from utils import rvos_eval_dataset

def main(args):
    parser = argparse.ArgumentParser()
    for name in ("--version", "--log_base_dir", "--val_dataset"):
        parser.add_argument(name)
    parser.add_argument("--eval_only", action="store_true")
    args = parser.parse_args(args)
    assert (args.version, args.val_dataset, args.eval_only) == ("some", "mevis_test", True)
    root = os.path.join(rvos_eval_dataset.RVOS_ROOT, "mevis/valid")
    for name, video in json.load(open(root + "/meta_expressions.json"))["videos"].items():
        for number, one in video["expressions"].items():
            if "raise" in one["exp"]:
                continue
            out = os.path.join(args.log_base_dir, "val", "Annotations", name, number)
            os.makedirs(out)
            for frame in video["frames"]:
                mask = bright(f"{root}/JPEGImages/{name}/{frame}.jpg") > 0
                Image.fromarray((mask * 255).astype("uint8")).save(f"{out}/{frame}.png")
    exit()
""",
    },
}
ONLY = {"lisa": "image", "glamm": "image", "visa": "video"}
REST = {"sa2va": "some", "unipixel": "--model_path some"}


def query(name, frames=1):
    images = []
    for place in range(frames):
        image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
        image[4:12, 3 + place : 13 + place] = 255
        images.append(image)
    shown = media.pixels(images, times=range(frames), is_video=frames > 1, id=f"{name}{frames}")
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    return Query(id=query_id(name), text=name, media=(shown,), forms=(form,))


@pytest.fixture
def recipe(tmp_path):
    """Builds the model of a recipe over a stand-in for its checkout."""

    def build(name):
        for path, text in {"bright.py": BRIGHT, **OFFICIAL[name]}.items():
            place = tmp_path / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        script = shlex.quote(str(RECIPES / f"run_{name}.py"))
        rest = REST.get(name, "--version some")
        command = f"{shlex.quote(sys.executable)} {script} --in {{input}} --out {{output}} {rest}"
        return external(command=command, directory=tmp_path, timeout=60.0, images="jpg")

    return build


@pytest.mark.parametrize("name", OFFICIAL)
def test_a_recipe_answers_by_the_official_function(name, recipe):
    kinds = {"image": 1, "video": 3}
    frames = [kinds[ONLY[name]]] * 2 if name in ONLY else list(kinds.values())
    queries = [query(f"thing {place}", count) for place, count in enumerate(frames)]
    queries.insert(1, query("raise an error", frames[0]))
    found = recipe(name).predict(queries)
    assert found[1].failure.kind is FailureKind.MODEL
    for asked, one in zip((queries[0], queries[2]), (found[0], found[2]), strict=True):
        assert one.failure is None, one.failure
        assert len(one.answer.masks) == len(asked.media[0])
        for place, mask in enumerate(one.answer.masks):
            expected = np.zeros((HEIGHT, WIDTH), dtype=bool)
            expected[4:12, 3 + place : 13 + place] = True
            assert (mask.to_array() != expected).sum() <= 8  # JPEG


def test_glamm_keeps_what_was_said_and_paints_over_no_image(recipe):
    asked = query("one")
    found = recipe("glamm").predict([asked, replace(query("two"), media=asked.media)])
    assert [one.responses for one in found] == [("Sure, [SEG].",)] * 2
    assert found[1].answer.masks == found[0].answer.masks


def test_lisa_that_writes_no_seg_means_nothing(recipe):
    (found,) = recipe("lisa").predict([query("nothing")])
    assert found.failure is None and found.answer.masks[0].area == 0


def test_unipixel_is_loaded_once(recipe, tmp_path):
    recipe("unipixel").predict([query("one"), query("two")])
    assert (tmp_path / "loaded").read_text() == "once "


def test_every_recipe_is_in_the_page_and_under_test():
    scripts = {path.stem.removeprefix("run_") for path in RECIPES.glob("run_*.py")}
    assert scripts == set(OFFICIAL)
    page = (RECIPES / "README.md").read_text()
    assert all(f"`run_{name}.py`" in page for name in scripts)
