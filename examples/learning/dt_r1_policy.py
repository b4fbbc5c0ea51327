"""A small text policy for DT-R1 on generated scenes: scripted trajectories, tokenizer, warm-up.

    python examples/learning/dt_r1_policy.py --data ROOT --out DIR [--steps 1500] [--seed 0]

A script that knows the questions' forms writes plans, code and answers; it errs in a stated share
of them, and mostly leaves out the last step of its code, so that there is something to learn. Its
trajectories run through the method's own environment: twins and results are real. A text-only
network of 400,000 weights is trained from nothing on what the script wrote; what the environment
injected is in no loss. Colours and shapes change their names from batch to batch, the same in
question, code and twin: what the network has to learn is to copy them.
"""

import argparse
import json
import random
import re
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import plugins
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.dt_r1.environment import Limits, Perception, TwinEnvironment
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.model import question
from harness.models.prompts import asked_briefly
from harness.run.batching import samples_of
from harness.spec import parse
from harness.types import AnswerForm, Query, Sample

TASKS = ("shapes_referring(split=train,asks=single)", "shapes_qa(split=train,part=still)")
PLAN = '{"SAM2": [], "SemanticAnalysis": ["SAM2"]}'
WRONG_PLANS = (
    '{"SAM2": [], "SemanticAnalysis": ["OWLv2"]}',
    '{"SAM3": [], "SemanticAnalysis": ["SAM3"]}',
    '{"SAM2": ["SemanticAnalysis"], "SemanticAnalysis": ["SAM2"]}',
)
ERRORS = {"plan": 0.25, "code": 0.2, "task": 0.2, "order": 0.2}
"""Share of trajectories in which the script errs, each independently of the others."""
SHORT_CUTS = 0.6
"""Share of trajectories whose code leaves out its last step, and mostly answers wrongly."""
COLOURS = ("red", "blue", "green", "yellow", "orange", "purple", "black", "white", "grey")
SHAPES = ("circle", "square", "triangle", "star", "cross", "diamond", "hexagon", "rectangle")
PLURALS = {shape: f"{shape}{'es' if shape == 'cross' else 's'}" for shape in SHAPES}
NAMED = {word: word for word in (*COLOURS, *SHAPES)} | {many: one for one, many in PLURALS.items()}
"""The colour or shape that a word of a question names."""
EXTREMES = {"leftmost": (0, 0), "rightmost": (0, -1), "topmost": (1, 0), "lowest": (1, -1)}
"""Axis and place, in the order along it, of superlatives."""
WIDTH, LAYERS, HEADS, VOCABULARY = 96, 3, 4, 512
TWIN_TOKENS = 32
READ = 100
"""Trajectories that the tokenizer is made of."""
END, USER, ASSISTANT, PAD = "<|end|>", "<|user|>", "<|assistant|>", "<|pad|>"
TEMPLATE = (
    "{% for message in messages %}" + USER + "{{ message.content }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One scripted rollout: its question, and its stretches with who wrote them."""

    prompt: str
    parts: tuple[tuple[str, bool], ...]
    """Text, and True where the script wrote it."""


def words_of(text: str) -> list[str]:
    """Colours and shapes that a text names, in order and in the singular."""
    words = (NAMED.get(word) for word in re.findall(r"[a-z]+", text))
    return [word for word in words if word is not None]


def code_for(query: Query, *, whole: bool) -> str:
    """The code that answers a question, or without its last step; a guess where none is known."""
    text, words = query.text, words_of(query.text)
    named = " ".join(words[:2] if words[:1] and words[0] in COLOURS else words[:1])
    start = f"f = [i for i in dt['instances'] if '{named}' in i['name']]\n"
    if query.form is AnswerForm.MASK:
        found = [EXTREMES[word] for word in EXTREMES if word in text]
        if found and whole:
            ((axis, place),) = found
            start += f"f.sort(key=lambda i: i['frames'][0]['centroid'][{axis}])\n"
            return f"{start}print(f[{place}]['mask'])"
        return f"{start}print(f[0]['mask'])"
    if text.startswith("How many"):
        return start + ("print(len(f))" if whole else "print(len(dt['instances']))")
    if text.startswith("Is there"):
        return start + ("print('yes' if f else 'no')" if whole else "print('yes')")
    if text.startswith(("What colour", "What shape")):
        part = 0 if text.startswith("What colour") else -1
        return f"{start}print(f[0]['name']{f'.split()[{part}]' if whole else ''})"
    if text.startswith(("How wide", "How high")):
        high = int("high" in text)
        side, length = ("width", "height")[high], f"b[{2 + high}] - b[{high}]"
        percent = f"round(100 * ({length}) / dt['video']['{side}'])"
        return f"{start}b = f[0]['frames'][0]['box']\nprint({percent if whole else length})"
    return "print('A')"


def scripted(sample: Sample, environment: TwinEnvironment, draw: random.Random) -> Trajectory:
    """Run the script on one sample, with its errors, through the environment."""
    query = sample.query
    code = code_for(query, whole=draw.random() >= SHORT_CUTS)
    wrong = {kind: draw.random() < share for kind, share in ERRORS.items()}
    plan = draw.choice(WRONG_PLANS) if wrong["plan"] else PLAN
    if wrong["code"]:
        code = draw.choice((code.replace("dt[", "twin[", 1), code.rsplit(")", 1)[0]))
    masked = query.form is AnswerForm.MASK
    task = "segmentation" if masked else "visual question answering"
    if wrong["task"]:
        task = "visual question answering" if masked else "segmentation"
    think = "" if wrong["order"] and draw.random() < 0.5 else "<think></think>"
    last = "" if wrong["order"] and think else "<think></think>"
    episode = environment(query)
    parts: list[tuple[str, bool]] = []

    def turn(text: str) -> str:
        found = episode(text)
        made = found.result() if isinstance(found, Future) else found
        parts.extend([(text, True), (made.inject or "", False)])
        return made.inject or ""

    turn(f"<think></think><dt_plan>{plan}</dt_plan>")
    output = turn(f"{think}<execute>{code}</execute>")
    output = output.removeprefix("<results>").removesuffix("</results>")
    named = json.dumps({"instances": [{"name": "it", "mask": output}]})
    answer = named if masked else output
    turn(f"{last}<task>{task}</task><answer>{answer}</answer>")
    return Trajectory(asked_briefly(question(query)), tuple(parts))


def trajectories(
    samples: Sequence[Sample], environment: TwinEnvironment, seed: int
) -> list[Trajectory]:
    """One trajectory a training sample."""
    draw = random.Random(seed)
    return [scripted(sample, environment, draw) for sample in samples]


def tokenizer_of(texts: Sequence[str]) -> Any:
    """A byte-level tokenizer whose tokens are words, single digits, and runs of signs."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[A-Za-z_]+|\d|[^A-Za-z_\d]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    special = [PAD, END, USER, ASSISTANT]
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[USER, ASSISTANT],
        chat_template=TEMPLATE,
    )


def renamed(one: Trajectory, draw: random.Random) -> Trajectory:
    """The same trajectory in a world whose colours and shapes have changed their names."""
    colours, shapes = draw.sample(COLOURS, len(COLOURS)), draw.sample(SHAPES, len(SHAPES))
    names = dict(zip((*COLOURS, *SHAPES), (*colours, *shapes), strict=True))
    names |= {PLURALS[shape]: PLURALS[names[shape]] for shape in SHAPES}

    def changed(text: str) -> str:
        return re.sub(r"[a-z]+", lambda word: names.get(word[0], word[0]), text)

    return Trajectory(changed(one.prompt), tuple((changed(text), own) for text, own in one.parts))


def encoded(one: Trajectory, tokenizer: Any) -> tuple[list[int], list[int]]:
    """Tokens of prompt and rollout, and the labels: -100 where the script did not write."""
    tokens = tokenizer(f"{USER}{one.prompt}{END}{ASSISTANT}")["input_ids"]
    labels = [-100] * len(tokens)
    for text, own in one.parts:
        more = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens = [*tokens, *more]
        labels += more if own else [-100] * len(more)
    return [*tokens, tokenizer.eos_token_id], [*labels, tokenizer.eos_token_id]


def warmed_up(known: Sequence[Trajectory], tokenizer: Any, given: Any) -> Any:
    """A network trained on the trajectories."""
    import torch

    ensure_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(given.seed)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=3 * WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=given.steps)
    draw, began = random.Random(given.seed), time.monotonic()
    by_length = sorted(known, key=lambda one: len(encoded(one, tokenizer)[0]))
    for step in range(given.steps):
        start = draw.randrange(max(1, len(by_length) - given.batch + 1))
        batch = [
            encoded(renamed(one, draw), tokenizer) for one in by_length[start : start + given.batch]
        ]
        width = max(len(tokens) for tokens, _ in batch)
        ids = torch.full((len(batch), width), tokenizer.pad_token_id)
        labels = torch.full((len(batch), width), -100)
        for row, (tokens, own) in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            labels[row, : len(own)] = torch.tensor(own)
        mask = (torch.arange(width) < torch.tensor([len(row[0]) for row in batch])[:, None]).long()
        loss = network(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step + 1 == given.steps:
            print(
                f"step {step} loss {loss.item():.3f} {time.monotonic() - began:.0f} s", flush=True
            )
    return network


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tasks = [plugins.build("tasks", parse(spec), given.data) for spec in TASKS]
    samples = [sample for task in tasks for sample in samples_of(task)]
    draw = random.Random(given.seed)
    draw.shuffle(samples)
    perception = Perception(TwinBuilder(), workers=2)
    whole = TwinEnvironment(
        perception=perception, limits=Limits(twin_tokens=10**6), count_tokens=len
    )
    read = trajectories(samples[:READ], whole, given.seed)
    tokenizer = tokenizer_of(
        [
            "".join((one.prompt, *(text for text, _ in one.parts)))
            for several in ([renamed(one, draw) for one in read] for _ in range(8))
            for one in several
        ]
    )

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    limited = TwinEnvironment(
        perception=perception, limits=Limits(twin_tokens=TWIN_TOKENS), count_tokens=count
    )
    known = trajectories(samples, limited, given.seed)
    perception.close()
    lengths = sorted(len(encoded(one, tokenizer)[0]) for one in known)
    print(f"{len(known)} trajectories, {lengths[len(lengths) // 2]} tokens, at most {lengths[-1]}")
    network = warmed_up(known, tokenizer, given)
    network.save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    info = {
        "trajectories": len(known),
        "steps": given.steps,
        "errors": {**ERRORS, "short cut": SHORT_CUTS},
        "seed": given.seed,
    }
    (given.out / "warm_up.json").write_text(json.dumps(info, indent=1) + "\n")


if __name__ == "__main__":
    main()
