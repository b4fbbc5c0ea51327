"""GLaMM by `inference` of its `app.py`, without the page and the painter around it; images only."""

from protocol import Files, Question, Tracks, answer, apart, noted

# isort: split
import app
from model.GLaMM import GLaMMForCausalLM

files, emitted = Files(), noted(GLaMMForCausalLM, apart)
app.args = app.parse_args(files.rest)
app.tokenizer = app.setup_tokenizer_and_special_tokens(app.args)
app.model = app.prepare_model_for_inference(
    app.initialize_model(app.args, app.tokenizer), app.args
).eval()
app.global_enc_processor = app.CLIPImageProcessor.from_pretrained(app.model.config.vision_tower)
app.transform = app.ResizeLongestSide(app.args.image_size)
app.prepare_mask = lambda *_: None  # it saves a mask over the image, and runs out of colours
app.process_markdown = lambda said, _: said


def ask(question: Question) -> tuple[Tracks, str]:
    if question.is_video:
        raise ValueError("GLaMM sees images, and this is a video")
    emitted.clear()
    text = f"Can you please segment {question.text} in this image?"
    _, said = app.inference(text, {"image": question.path, "boxes": []}, False, False)
    return emitted[-1], said


answer(files, ask)
