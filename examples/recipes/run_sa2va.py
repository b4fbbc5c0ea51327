"""Sa2VA by `predict_forward` of its checkpoint, whose code runs (trust_remote_code)."""

from protocol import Files, Question, Tracks, answer

# isort: split
from PIL import Image
from transformers import AutoModelForCausalLM, AutoTokenizer

files = Files()
(path,) = files.rest or ["ByteDance/Sa2VA-8B"]
model = AutoModelForCausalLM.from_pretrained(path, torch_dtype="auto", trust_remote_code=True)
model = model.eval().cuda()
tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=True)


def ask(question: Question) -> tuple[Tracks, str]:
    frames = [Image.open(frame).convert("RGB") for frame in question.frames]
    shown = {"video": frames} if question.is_video else {"image": frames[0]}
    text = f"<image>Please segment {question.text}"
    found = model.predict_forward(**shown, text=text, tokenizer=tokenizer)
    return found.get("prediction_masks") or [], found["prediction"]


answer(files, ask)
