"""VideoLISA by its `chat.py`, which is given the frames of a folder as its video."""

from protocol import Files, converse, noted

# isort: split
from pathlib import Path

import chat
import numpy as np
from model.VideoLISA import VideoLISAForCausalLM
from PIL import Image
from utils.video_capture import VideoCapture


def load(path: str) -> list[np.ndarray]:
    place = Path(path)
    frames = sorted(place.iterdir()) if place.is_dir() else [place]
    return [np.array(Image.open(frame).convert("RGB")) for frame in frames]


VideoCapture.load_all_frames_from_video = staticmethod(load)
files, emitted = Files(), noted(VideoLISAForCausalLM)
converse(files, chat.main, emitted, prompt="{} Please output segmentation mask.")
