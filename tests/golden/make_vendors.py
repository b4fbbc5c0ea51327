"""Write the golden files of vendors' evaluations: what their own code gives a network.

    python tests/golden/make_vendors.py --official FOLDER [NAME …]

FOLDER holds checkouts named as in `COMMITS` at these commits. Functions and classes are compiled
from there, without what their files import; none of it is kept here.
"""

import argparse
import ast
import dataclasses
import json
import os
import re
import string
import sys
import tempfile
import types
import typing
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import vendor_networks
import yaml
from PIL import Image
from vendor_cases import CASES, GOLDEN, MARK, Case, Sample, Seen

from harness.models.backends.torchvision_cpu import ensure_torchvision

ensure_torchvision()

import torch  # noqa: E402
import torchvision  # noqa: E402
from torchvision import transforms  # noqa: E402
from transformers import AutoProcessor, BatchFeature, image_transforms, image_utils  # noqa: E402
from transformers.image_processing_utils import get_size_dict  # noqa: E402
from transformers.video_utils import VideoMetadata  # noqa: E402

COMMITS = {
    "InternVL": "2410d1dbf208f0e799459aff9376e5747dbf41a2",
    "LLaVA-NeXT": "df179663ae8b83207df100a1f7af24caec633ff9",
    "Qwen3-VL": "96588727e44c78b25ba03ea03b8e12f7e64fd0da",
    "qwen-vl-utils": "0.0.14",
    "molmo2": "f3cb1085fbb97c4a4d7fdcadd77cf871bf37a88a",
    "GLM-V": "8fc9756fd2313c6b7717bb681bed58f0694abc22",
    "lmms-eval": "75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3",
}
Official = Callable[[Sample, Any], Seen]


def pieces(path: Path, names: Sequence[str], **namespace: Any) -> Any:
    """Compile functions, classes and assignments of a file, also those within its classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names)
    ]
    exec(compile(tree, str(path), "exec"), namespace)
    return SimpleNamespace(**namespace)


def _internvl(folder: Path) -> tuple[Any, Callable[..., list[int]]]:
    """Return the functions for images, and one that gives the tokens of a chat."""
    root = folder / "InternVL/internvl_chat/internvl"
    bicubic = transforms.InterpolationMode.BICUBIC
    images = pieces(
        root / "train/dataset.py",
        ("find_closest_aspect_ratio", "dynamic_preprocess", "build_transform"),
        T=transforms,
        InterpolationMode=SimpleNamespace(BICUBIC=bicubic),
        IMAGENET_MEAN=(0.485, 0.456, 0.406),
        IMAGENET_STD=(0.229, 0.224, 0.225),
    )
    template_of = _executed(root / "conversation.py", "conversation").get_conv_template
    chat = pieces(
        root / "model/internvl_chat/modeling_internvl_chat.py",
        ("chat",),
        get_conv_template=template_of,
        torch=torch,
    ).chat

    def tokens(words: Any, pixels: Any, question: str, counts: list[int] | None) -> list[int]:
        given: list[Any] = []
        network = SimpleNamespace(
            template="internvl2_5",
            system_message=template_of("internvl2_5").system_message,
            num_image_token=256,
            language_model=SimpleNamespace(device="cpu"),
            generate=lambda **inputs: given.append(inputs) or [[0]],
        )
        chat(network, words, pixels, question, {}, num_patches_list=counts)
        return given[0]["input_ids"][0].tolist()

    return images, tokens


def internvl_mvbench(folder: Path) -> Official:
    """`evaluate_mvbench.py`."""
    images, tokens = _internvl(folder)
    path = folder / "InternVL/internvl_chat/eval/mvbench/evaluate_mvbench.py"
    names = ("get_index", "qa_template", "prompt", "question_prompt", "question", "special_tokens")
    evaluation = pieces(path, names[:4], np=np)
    transform = images.build_transform(is_train=False, input_size=448)

    def official(sample: Sample, processor: Any) -> Seen:
        dataset = SimpleNamespace(num_segments=16)
        frames = evaluation.get_index(dataset, None, sample.rate, len(sample.frames) - 1)
        pixels = torch.stack([transform(Image.fromarray(sample.frames[at])) for at in frames])
        data = {"question": sample.question, "candidates": sample.options, "answer": ""}
        asked, _ = evaluation.qa_template(dataset, data)
        places = "\n".join(f"Frame{number + 1}: <image>" for number in range(len(frames)))
        question = (
            f"{places}\n{evaluation.prompt}\n{asked}{evaluation.question_prompt}"  # __getitem__
        )
        prompt = tokens(processor.tokenizer, pixels, question, [1] * len(frames))
        return Seen(prompt, pixels.numpy(), frames.tolist())

    return official


def internvl_refcoco(folder: Path) -> Official:
    """`evaluate_grounding.py --dynamic`."""
    images, tokens = _internvl(folder)
    path = folder / "InternVL/internvl_chat/eval/refcoco/evaluate_grounding.py"
    evaluation = pieces(path, ("prompt",), model=None)
    transform = images.build_transform(is_train=False, input_size=448)

    def official(sample: Sample, processor: Any) -> Seen:
        image = Image.fromarray(sample.frames[0])
        tiles = images.dynamic_preprocess(image, image_size=448, use_thumbnail=True, max_num=6)
        pixels = torch.stack([transform(tile) for tile in tiles])
        question = evaluation.prompt.format(sample.question)
        return Seen(tokens(processor.tokenizer, pixels, question, None), pixels.numpy(), [0])

    return official


def _executed(path: Path, name: str) -> Any:
    """Run a file of a checkout as a module."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module


class Reader:
    """A stand-in for decord's reader, of the frames of a sample."""

    def __init__(self, frames: Any, **_: object) -> None:
        self.frames = frames

    def __len__(self) -> int:
        return len(self.frames)

    def get_batch(self, indices: list[int]) -> Any:
        """Return frames with a method that gives their array, as decord does."""
        return SimpleNamespace(asnumpy=lambda: self.frames[indices])


def llava_onevision_videomme(folder: Path) -> Official:
    """lmms-eval's `llava_onevision` on its task `videomme`."""
    root = folder / "LLaVA-NeXT/llava"
    with patch("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: None):
        templates = _executed(root / "conversation.py", "conversation").conv_templates
    encoder = pieces(
        root / "model/multimodal_encoder/siglip_encoder.py",
        ("SigLipImageProcessor",),
        **{
            **vars(image_transforms),
            **vars(image_utils),
            **{"Dict": dict, "Image": Image, "partial": partial, "reduce": reduce},
            **{"BatchFeature": BatchFeature, "get_size_dict": get_size_dict},
        },
    )
    names = ("tokenizer_image_token",)
    split = pieces(root / "mm_utils.py", names, IMAGE_TOKEN_INDEX=MARK, torch=torch)
    lmms = folder / "lmms-eval/lmms_eval"
    adapter = pieces(
        lmms / "models/simple/llava_onevision.py",
        ("load_video",),
        VideoReader=Reader,
        np=np,
        cpu=lambda _: None,
    )
    task = pieces(lmms / "tasks/videomme/utils.py", ("videomme_doc_to_text",))
    kwargs = yaml.safe_load(
        (lmms / "tasks/videomme/videomme.yaml").read_text().replace("!function", "")
    )["lmms_eval_specific_kwargs"]["default"]
    images = encoder.SigLipImageProcessor()

    def official(sample: Sample, processor: Any) -> Seen:
        numbers = np.arange(len(sample.frames))  # in the place of frames, to learn which are shown
        shown = adapter.load_video(None, [numbers], 32)
        # Each frame once: the processor treats every one alone.
        once, places = np.unique(shown, return_inverse=True)
        pixels = images.preprocess(sample.frames[once], return_tensors="pt")["pixel_values"]
        lettered = [f"{'ABCD'[at]}. {text}" for at, text in enumerate(sample.options)]
        doc = {"question": sample.question, "options": lettered}
        asked = task.videomme_doc_to_text(doc, kwargs)
        chat = templates["qwen_1_5"].copy()
        chat.append_message(chat.roles[0], f"<image>\n{asked}")
        chat.append_message(chat.roles[1], None)
        tokens = split.tokenizer_image_token(chat.get_prompt(), processor.tokenizer)
        return Seen(tokens, pixels.numpy()[None, places], shown.tolist())

    return official


def _qwen_vl_utils(folder: Path) -> Any:
    """Return the package's functions, which read the arrays of samples in the place of videos."""
    sys.path.insert(0, str(folder / "qwen-vl-utils"))
    from qwen_vl_utils import vision_process

    module = types.ModuleType("decord")
    module.__dict__["VideoReader"] = lambda name: Video(*VIDEOS[name])
    sys.modules["decord"] = module
    vision_process.get_video_reader_backend = lambda: "decord"
    return vision_process


VIDEOS: dict[str, tuple[Any, float]] = {}
"""Frames and rate of each video by its name."""


class Video(Reader):
    """A stand-in for decord's reader that knows its rate."""

    def __init__(self, frames: Any, rate: float) -> None:
        super().__init__(frames)
        self.rate = rate

    def get_avg_fps(self) -> float:
        """Frames a second."""
        return self.rate


def qwen3_vl_videomme(folder: Path) -> Official:
    """`run_videomme.py infer` with the arguments of `infer_instruct.sh`."""
    root = folder / "Qwen3-VL/evaluation/VideoMME"
    utils = _qwen_vl_utils(folder)
    prompt = pieces(root / "dataset_utils.py", ("build_videomme_prompt",), os=os, string=string)
    inputs = pieces(
        root / "run_videomme.py",
        ("prepare_inputs_for_vllm",),
        process_vision_info=utils.process_vision_info,
    )
    script = (root / "infer_instruct.sh").read_text().replace("\\\n", " ")
    names = ("fps", "min-pixels", "max-pixels", "min-frames", "max-frames", "total-pixels")
    given = {
        name.replace("-", "_"): int(re.search(rf"--{name} (\d+)", script)[1])  # type: ignore[index]
        for name in names
    }

    def official(sample: Sample, processor: Any) -> Seen:
        lettered = [f"{'ABCD'[at]}. {text}" for at, text in enumerate(sample.options)]
        VIDEOS[f"videos/{sample.key}.mp4"] = (sample.frames, sample.rate)
        data = dict.fromkeys(("duration", "domain", "sub_category", "question_id"), "")
        data |= {"videoID": sample.key, "question": sample.question, "answer": "A"}
        messages, _ = prompt.build_videomme_prompt({**data, "options": lettered}, "", **given)
        request = inputs.prepare_inputs_for_vllm(messages, processor)
        ((video, metadata),) = request["multi_modal_data"]["video"]
        # As vLLM calls the processor.
        tensors = processor(
            text=[request["prompt"]],
            videos=[video],
            video_metadata=[metadata],
            return_tensors="pt",
            **request["mm_processor_kwargs"],
        )
        return Seen(
            tensors["input_ids"][0].tolist(),
            tensors["pixel_values_videos"].numpy(),
            list(metadata["frames_indices"]),
        )

    return official


def qwen2_5_vl_report(folder: Path) -> Official:
    """The calls of the model card, with the numbers of the report."""
    utils = _qwen_vl_utils(folder)
    limits = {"fps": 2, "max_frames": 768, "min_pixels": 4 * 28**2, "max_pixels": 768 * 28**2}

    def official(sample: Sample, processor: Any) -> Seen:
        VIDEOS[sample.key] = (sample.frames, sample.rate)
        video = {"type": "video", "video": sample.key, "total_pixels": 24576 * 28**2, **limits}
        lettered = [f"{'ABCDEF'[at]}. {text}" for at, text in enumerate(sample.options)]
        end = "Answer with the option's letter from the given choices directly."
        request = {"type": "text", "text": "\n".join([sample.question, *lettered, end])}
        messages = [{"role": "user", "content": [video, request]}]
        text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        _, videos, given = utils.process_vision_info(
            messages, return_video_kwargs=True, return_video_metadata=True
        )
        ((frames, metadata),) = videos
        tensors = processor(
            text=[text],
            videos=[frames],
            video_metadata=[metadata],
            do_resize=False,
            return_tensors="pt",
            **given,
        )
        shown = list(metadata["frames_indices"])
        return Seen(
            tensors["input_ids"][0].tolist(),
            tensors["pixel_values_videos"].numpy(),
            shown,
            tensors["second_per_grid_ts"],
        )

    return official


def glm_v_bench(folder: Path) -> Official:
    """`trans_infer_bench.py`, with arrays in the place of videos that torchcodec decodes."""
    path = folder / "GLM-V/inference/trans_infer_bench.py"
    script = pieces(path, ("generate_with_force_completion",))
    shown: list[Any] = []

    def fetch_videos(_: Any, names: list[str], sample_indices_fn: Any) -> Any:
        (name,) = names
        frames, rate = VIDEOS[name]
        metadata = VideoMetadata(
            total_num_frames=len(frames), fps=rate, duration=len(frames) / rate
        )
        metadata.frames_indices = sample_indices_fn(metadata=metadata)
        shown.append(metadata.frames_indices)
        return [torch.from_numpy(frames[shown[-1]]).permute(0, 3, 1, 2)], [metadata]

    def official(sample: Sample, processor: Any) -> Seen:
        given: list[Any] = []
        network = SimpleNamespace(
            device="cpu", generate=lambda **inputs: given.append(inputs) or inputs["input_ids"]
        )
        infers = SimpleNamespace(
            processor=processor,
            model=network,
            _check_needs_completion_by_tokens=lambda *_: False,
        )
        VIDEOS[sample.key] = (sample.frames, sample.rate)
        lettered = [f"{'ABCDEF'[at]}. {text}" for at, text in enumerate(sample.options)]
        end = "Answer with the option's letter from the given choices directly."
        prompt = "\n".join([sample.question, *lettered, end])
        arguments = SimpleNamespace(video_path=sample.key, prompt=prompt)
        messages = pieces(path, ("messages",), args=arguments).messages
        with patch.object(type(processor.video_processor), "fetch_videos", fetch_videos):
            script.generate_with_force_completion(infers, messages)
        tensors = given[0]
        pixels = tensors["pixel_values_videos"].numpy()
        return Seen(tensors["input_ids"][0].tolist(), pixels, shown[-1].tolist())

    return official


class Decoder:
    """A stand-in for torchcodec's decoder, of a video of `VIDEOS` that begins at 0."""

    def __init__(self, name: str, **_: object) -> None:
        self.frames, self.rate = VIDEOS[name]
        end = len(self.frames) / self.rate
        self.metadata = SimpleNamespace(
            average_fps=self.rate,
            duration_seconds=end,
            begin_stream_seconds_from_content=0.0,
            end_stream_seconds_from_content=end,
        )
        self.shown: list[int] = []

    def get_frames_played_at(self, seconds: Sequence[float]) -> Any:
        """Return the frames on show at these seconds."""
        begins = [index / self.rate for index in range(len(self.frames))]
        SHOWN[:] = [bisect_right(begins, moment) - 1 for moment in seconds]
        return SimpleNamespace(data=torch.from_numpy(self.frames[SHOWN]).permute(0, 3, 1, 2))


SHOWN: list[int] = []
"""Numbers of the frames that a decoder gave last."""


def _windows(grid: Any, _: str, dh: int, dw: int) -> Any:
    """Return windows of a grid: "(h dh) (w dw) -> h w (dh dw)" of einops."""
    high, wide = grid.shape[0] // dh, grid.shape[1] // dw
    parts = grid.reshape(high, dh, wide, dw).transpose(0, 2, 1, 3)
    return parts.reshape(high, wide, dh * dw)


def molmo2_videomme(folder: Path) -> Official:
    """`eval_molmo2.py` on `video_mme`: loader, preprocessors of frames and text, formatter."""
    root = folder / "molmo2/olmo"
    typing_names = {**vars(typing), "dataclasses": dataclasses, "dataclass": dataclasses.dataclass}
    common = {**typing_names, "np": np, "torch": torch, "torchvision": torchvision}
    module = types.ModuleType("torchcodec.decoders")
    module.__dict__["VideoDecoder"] = Decoder
    sys.modules["torchcodec"] = types.ModuleType("torchcodec")
    sys.modules["torchcodec.decoders"] = module
    loader = pieces(
        root / "data/video_loader.py",
        ("TimeSampler", "VideoFrames", "load_video_torchcodec"),
        **common,
    )
    images = pieces(
        root / "preprocessing/image_preprocessor.py",
        ("siglip_resize_and_pad", "ImagePreprocessor"),
        **common,
        InterpolationMode=transforms.InterpolationMode,
    )
    shared = pieces(
        root / "preprocessing/preprocessor_utils.py",
        ("batch_pixels_to_patches", "arange_for_pooling"),
        np=np,
        einops=SimpleNamespace(rearrange=_windows),
    )
    videos = pieces(
        root / "preprocessing/video_preprocessor.py",
        ("TokenIndexingVideoPreprocessor",),
        **common,
        **dict.fromkeys(("HfTokenizerWrapper", "VideoLoader"), object),
        ImagePreprocessor=images.ImagePreprocessor,
        VideoFrames=loader.VideoFrames,
        TokenizedVisionData=SimpleNamespace,
        **{name: vars(shared)[name] for name in ("batch_pixels_to_patches", "arange_for_pooling")},
    )
    texts = pieces(
        root / "preprocessing/text_preprocessor.py",
        ("MessageWeight", "InterleavedTextPreprocessor"),
        **common,
        BaseConfig=object,
    )
    styles = ("DEMO_STYLES", "VIDEO_MC_STYLES", "IMAGE_MC_STYLES")
    formatter = pieces(
        root / "preprocessing/data_formatter.py",
        (*styles, "get_system_prompt", "format_messages"),
    )
    question = pieces(
        root / "data/academic_video_datasets.py",
        ("VideoMME",),
        **{
            **common,
            "os": os,
            "join": os.path.join,
            "DatasetBase": object,
            "VIDEO_DATA_HOME": "",
        },
    ).VideoMME.question_template
    sampler = loader.TimeSampler(
        max_frames=384, frame_sample_mode="uniform_last_frame", max_fps=[2]
    )
    crops = images.ImagePreprocessor(base_image_input_size=(378, 378))
    settings = SimpleNamespace(
        eval_system_prompt_mapping=None,
        use_seperate_count_without_pointing_style=False,
        system_prompt="demo_or_style_v2",
        message_format="qwen3",
    )

    def official(sample: Sample, processor: Any) -> Seen:
        VIDEOS[sample.key] = (sample.frames, sample.rate)
        frames, times, rate, _ = loader.load_video_torchcodec(sample.key, sampler)
        words = _molmo2_words(processor.tokenizer)
        preprocessor = videos.TokenIndexingVideoPreprocessor(
            words,
            crops,
            video_loader=None,
            use_frame_special_tokens=True,
            per_frame_special_token=True,
        )
        seen = preprocessor(loader.VideoFrames(frames, times, rate))
        lettered = [f"{'ABCD'[at]}. {text}" for at, text in enumerate(sample.options)]
        asked = question(None, sample.question, lettered)
        style = formatter.get_system_prompt(
            settings, "video_eval_multiple_choice", True, [], False, None
        )
        assert style == "", "no style stands before a question with options"
        messages = formatter.format_messages(settings, [asked])
        whole = texts.InterleavedTextPreprocessor(words).tokenize_and_interleave(
            messages, [seen.tokens]
        )
        return Seen(whole["input_tokens"].tolist(), seen.images, list(SHOWN))

    return official


def _molmo2_words(tokenizer: Any) -> Any:
    """Return a tokenizer with the names of `HfTokenizerWrapper`."""
    number = tokenizer.convert_tokens_to_ids
    marks = {
        "image_end": "<im_end>",
        "image_start": "<im_start>",
        "image_col": "<im_col>",
        "image_patch": "<im_patch>",
        "image_low_res": "<im_low>",
        "image_prompt": "<|image|>",
        "frame_start": "<frame_start>",
        "frame_end": "<frame_end>",
    }
    return SimpleNamespace(
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **{f"{name}_token_id": number(mark) for name, mark in marks.items()},
    )


OFFICIAL: dict[str, tuple[str, Callable[[Path], Official]]] = {
    "internvl3_5_mvbench": ("InternVL", internvl_mvbench),
    "internvl3_5_refcoco": ("InternVL", internvl_refcoco),
    "qwen3_vl_videomme": ("Qwen3-VL", qwen3_vl_videomme),
    "glm_v_bench": ("GLM-V", glm_v_bench),
    "molmo2_videomme": ("molmo2", molmo2_videomme),
    "qwen2_5_vl_report": ("qwen-vl-utils", qwen2_5_vl_report),
    "llava_onevision_videomme": ("lmms-eval", llava_onevision_videomme),
}


def write(case: Case, folder: Path) -> None:
    """Write the golden file of one evaluation."""
    tool, make = OFFICIAL[case.name]
    official = make(folder)
    with tempfile.TemporaryDirectory() as place:
        checkpoint = getattr(vendor_networks, case.network)(Path(place))
        processor = AutoProcessor.from_pretrained(checkpoint)
        rows = [official(sample, processor).row(case) for sample in case.samples()]
    head = {"tool": tool, "commit": COMMITS[tool], "what": "[tokens, pixels, frames]"}
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n'
    (GOLDEN / f"{case.name}.json").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{case.name}: {len(rows)} samples\n")


def main() -> None:
    """Write the files that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for case in CASES:
        if not given.names or case.name in given.names:
            write(case, given.official)


if __name__ == "__main__":
    main()
