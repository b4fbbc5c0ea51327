"""What is logged of a round and a step has TRL's names and meanings: beside TRL's own trainer."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")

from harness import media  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.learning.loss import advantages  # noqa: E402
from harness.trainers.grpo.completions import rows_of, table_of, write_completions  # noqa: E402
from harness.trainers.grpo.method import TOTAL, Group, Rollout  # noqa: E402
from harness.trainers.grpo.rewards import numbers_of, reward_group, summary_of  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.grpo.vllm import sampler_ratio, sampling_numbers  # noqa: E402
from harness.trainers.loggers import as_in_trl  # noqa: E402
from harness.types import Answer, AnswerForm, Query, Sample, Target  # noqa: E402

ensure_torchvision()

GROUP, PROMPTS, LONGEST = 4, ["Where is the cup?", "How many of them are there?"], 6


def letters(text):
    return float(sum(map(str.isalpha, text)))


def even(text):
    """Does not apply to some completions."""
    return None if letters(text) > 3 else letters(text) % 2


class Drawn:
    """Stands in for vLLM: it draws completions, some of which end by themselves."""

    def __init__(self, end, known):
        draw = np.random.default_rng(5)
        self.tokens = [
            draw.choice(known, LONGEST if row % 3 else row % LONGEST + 1).tolist()
            for row in range(GROUP * len(PROMPTS))
        ]
        for row in (0, 3, 6):
            self.tokens[row][-1:] = [end]
        self.logps = [draw.normal(-6, 0.1, len(row)).tolist() for row in self.tokens]
        self.logps[1][2] = math.nan  # vLLM does not say every one

    def generate(self, prompts, **_):
        return prompts, self.tokens, [[[one] for one in row] for row in self.logps], None

    def sync_weights(self):
        return


@pytest.fixture(scope="module")
def theirs(tiny_qwen, tmp_path_factory):
    """One step of TRL's trainer: what it logged, its table, what was drawn and how it scored it."""
    import pandas
    from datasets import Dataset
    from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback

    folder, logged, scored = tmp_path_factory.mktemp("trl"), {}, []

    class Watch(TrainerCallback):
        def on_log(self, *_, logs, **__):
            logged.update({name: value for name, value in logs.items() if name not in logged})

    def function(reward):
        def scores(completions, **_):
            return [reward(one) for one in completions]

        scores.__name__ = reward.__name__
        return scores

    processor = AutoProcessor.from_pretrained(tiny_qwen)
    trainer = trl.GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(tiny_qwen, dtype=torch.float32),
        args=trl.GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=GROUP * len(PROMPTS),
            num_generations=GROUP,
            max_completion_length=LONGEST,
            max_steps=1,
            logging_steps=1,
            shuffle_dataset=False,
            log_completions=True,
            num_completions_to_print=0,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=Dataset.from_list([{"prompt": one} for one in PROMPTS]),
        reward_funcs=[function(letters), function(even)],
        processing_class=processor,
        callbacks=[Watch()],
    )
    known = processor.tokenizer("a b c 1 2 where is it ?")["input_ids"]
    drawn = Drawn(processor.tokenizer.eos_token_id, known)
    trainer.vllm_generation, trainer.use_vllm = drawn, True
    trainer._last_loaded_step = 0
    inner = trainer._get_per_token_logps_and_entropies

    def scoring(*given, **more):
        found = inner(*given, **more)
        scored.append(found[0].detach())
        return found

    trainer._get_per_token_logps_and_entropies = scoring
    trainer.train()
    table = pandas.read_parquet(next((folder / "completions").glob("*.parquet")))
    return SimpleNamespace(logged=logged, table=table, drawn=drawn, old=scored[0], at=processor)


@pytest.fixture(scope="module")
def ours(theirs):
    """The same completions as we log them: numbers, and the table's rows."""
    decode = theirs.at.tokenizer.decode
    shown = media.pixels([np.zeros((4, 4, 3), dtype=np.uint8)], times=[0.0], is_video=False, id="x")
    rollouts = [
        Rollout(
            text=decode(row, skip_special_tokens=True),
            tokens=len(row),
            cut=row[-1] != theirs.at.tokenizer.eos_token_id,
        )
        for row in theirs.drawn.tokens
    ]

    def reward(group):
        pairs = [(letters(one.text), even(one.text)) for one in group.rollouts]
        return [{"letters": a, "even": b, TOTAL: a + (b or 0.0)} for a, b in pairs]

    groups = [
        Group(
            sample=Sample(
                id=str(at),
                query=Query(id=str(at), text="?", media=(shown,), forms=(AnswerForm.MASK,)),
                target=Target(answer=Answer(no_target=True)),
            ),
            rollouts=tuple(rollouts[at * GROUP : (at + 1) * GROUP]),
            canvas=(4, 4),
            count_tokens=len,
        )
        for at in range(len(PROMPTS))
    ]
    method = GrpoTrainer(name="m", settings=Settings(), reward=reward)
    rewards = [reward_group(method, group, list("abcd"), seed=0) for group in groups]
    numbers = {**numbers_of(groups, rewards), "prompts/mean_length": [5.0, 7.0]}
    gains = advantages(torch.tensor(numbers["rewards/total"]), GROUP, scale_rewards="group")
    rows = rows_of(1, PROMPTS, groups, rewards, gains.tolist())
    return SimpleNamespace(numbers=summary_of(numbers, gains.tolist()), rows=rows)


OF_THE_STEP = ("entropy", "clip_ratio/", "sampling/", "num_tokens", "step_time")
"""What TRL logs of a step, not of its rollouts: tested below, and with the loss."""
OF_TRANSFORMERS = ("loss", "grad_norm", "learning_rate", "epoch")


def test_numbers_of_a_round_are_called_and_counted_as_by_trl(theirs, ours):
    named = as_in_trl(ours.numbers)
    known = {
        name
        for name in theirs.logged
        if not name.startswith((*OF_THE_STEP, *OF_TRANSFORMERS, "train", "total_flos"))
    }
    assert {"completions/min_length", "completions/min_terminated_length"} <= known
    assert {"reward", "reward_std", "rewards/even/std", "frac_reward_zero_std"} <= known
    for name in known:
        assert named[name] == pytest.approx(theirs.logged[name], rel=1e-5), name
    lengths = named["prompts/min_length"], named["prompts/mean_length"], named["prompts/max_length"]
    assert lengths == (5, 6, 7)


def test_what_vllm_is_off_by_is_called_and_counted_as_by_trl(theirs):
    drawn = theirs.drawn.logps
    mask = torch.tensor([[at < len(row) for at in range(LONGEST)] for row in drawn]).float()
    padded = torch.tensor([[*row, *[0.0] * (LONGEST - len(row))] for row in drawn])
    ratio = sampler_ratio(theirs.old, padded, mask)
    halves = [slice(0, 5), slice(5, None)]
    found = sampling_numbers(
        [(theirs.old[one], padded[one], mask[one], ratio[one]) for one in halves]
    )
    known = {name: one for name, one in theirs.logged.items() if name.startswith("sampling/")}
    assert known.keys() == found.keys()
    assert found == pytest.approx(known, rel=1e-4)


def test_the_table_of_completions_has_trls_columns_and_rows(theirs, ours, tmp_path):
    import pandas

    write_completions(tmp_path, 1, table_of(ours.rows))
    table = pandas.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert list(table.columns) == [*theirs.table.columns[:-1], TOTAL, "advantage"]
    for name in ("step", "prompt", "completion"):
        assert table[name].tolist() == theirs.table[name].tolist()
    for name in ("letters", "even", "advantage"):
        assert table[name].tolist() == pytest.approx(
            theirs.table[name].tolist(), nan_ok=True, abs=1e-5
        )
    assert table["even"].isna().any()
