"""A network as its authors give it out: a <SEG> token prompts SAM 2's mask decoder, as in LISA.

The hidden state of the token, projected, is the decoder's only prompt; every frame is decoded with
it. As in LISA's validation, the response is given and not generated.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, AutoProcessor, Sam2Model, Sam2Processor

RESPONSE = "Sure, it is <SEG>."


class SegmentNetwork:
    """Qwen2.5-VL and SAM 2 of a folder: `vlm/`, `sam2/`, `projection.safetensors`."""

    def __init__(self, folder: Path) -> None:
        self.processor = AutoProcessor.from_pretrained(folder / "vlm")
        self.vlm = AutoModelForImageTextToText.from_pretrained(folder / "vlm")
        self.images = Sam2Processor.from_pretrained(folder / "sam2")
        self.sam2 = Sam2Model.from_pretrained(folder / "sam2")
        self.projection = load_file(folder / "projection.safetensors")["weight"]
        self.token = self.processor.tokenizer.convert_tokens_to_ids("<SEG>")

    @torch.inference_mode()
    def segment(self, frames: Sequence[np.ndarray], text: str) -> tuple[str, list[np.ndarray]]:
        """The response, and a boolean array (frames × height × width) for each of its tokens."""
        content = [{"type": "image"}, {"type": "text", "text": text}]
        output = {"role": "assistant", "content": [{"type": "text", "text": RESPONSE}]}
        talk = self.processor.apply_chat_template([{"role": "user", "content": content}, output])
        inputs = self.processor(text=talk, images=frames[0], return_tensors="pt")
        hidden = self.vlm(**inputs, output_hidden_states=True).hidden_states[-1]
        prompts = hidden[inputs["input_ids"] == self.token] @ self.projection
        masks = np.stack([self._decoded(frame, prompts) for frame in frames], axis=1)
        return RESPONSE, list(masks)

    def _decoded(self, frame: np.ndarray, prompts: torch.Tensor) -> np.ndarray:
        """One mask a prompt, of the frame's size."""
        pixels = self.images(images=frame, return_tensors="pt")["pixel_values"]
        *fine, coarse = self.sam2.get_image_embeddings(pixels)
        where = self.sam2.get_image_wide_positional_embeddings()
        _, dense = self.sam2.prompt_encoder(None, None, None, None)
        masks, *_ = self.sam2.mask_decoder(
            coarse, where, prompts[None, :, None], dense, False, fine
        )
        (whole,) = self.images.post_process_masks([masks[0]], [frame.shape[:2]])
        return whole[:, 0].numpy()
