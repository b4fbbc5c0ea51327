"""DR2Seg by vLLM, for which a tiny network stands in that holds the weights that TRL brings it."""

import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import plugins
from harness.errors import MissingDependency
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.trainer import Curve

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness.models.backends.sampling import TokenChoice  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.trainers.grpo import vllm  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

SEED, STEPS, HEAT = 3, 2, 0.5
FEW = {
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 4,
    "max_completion_length": 8,
    "max_steps": STEPS,
    "save_steps": STEPS,
    "learning_rate": 0.003,
    "beta": 0.0,
    "report_to": "none",
    "keep_rollouts": 2,
    "reward": "random",
    "second_temperature": HEAT,
}


class Llm:
    """vLLM in the same process: writes one by one, by the keys of the round that has begun.

    It begins with weights that are all zero.
    """

    keys: list[str]
    """Of the requests that it is asked next."""

    def __init__(self, model, **others):
        from transformers import AutoModelForImageTextToText, AutoProcessor

        del others
        self.processor = AutoProcessor.from_pretrained(model)
        self.network = AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32)
        self.named = {name: one.data.zero_() for name, one in self.network.named_parameters()}
        runner = SimpleNamespace(model=self)
        worker = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        self.llm_engine = SimpleNamespace(model_executor=worker)
        self.brought, self.asked = 0, []

    def load_weights(self, pairs):
        for name, value in pairs:
            self.named[name].copy_(value)

    def reset_prefix_cache(self):
        self.brought += 1

    def generate(self, prompts, *, sampling_params, use_tqdm):
        del use_tqdm
        self.asked.append((self.brought, len(prompts), sampling_params))
        pairs = zip(prompts, self.keys, strict=True)
        return [self._written(*pair, sampling_params) for pair in pairs]

    @torch.no_grad()
    def _written(self, prompt, key, sampling):
        ids = torch.tensor([prompt["prompt_token_ids"]])
        media = self.processor.image_processor(
            images=[prompt["multi_modal_data"]["image"]], return_tensors="pt"
        )
        length, config = ids.shape[1], self.network.config
        biases = getattr(sampling, "logit_bias", {})
        choice = TokenChoice(
            keys=[key],
            prompt_length=length,
            seed=SEED,
            starts=[0],
            temperature=sampling.temperature,
            top_p=sampling.top_p,
        )
        configuration = deepcopy(self.network.generation_config)
        configuration.update(
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            max_new_tokens=sampling.max_tokens,
            # A trained network hardly ever writes a token of a medium; the tiny one does.
            sequence_bias=[[[token], bias] for token, bias in biases.items()] or None,
            output_logits=True,
            return_dict_in_generate=True,
        )
        output = self.network.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            **media,
            mm_token_type_ids=(ids == config.image_token_id).int(),
            generation_config=configuration,
            logits_processor=[choice],
        )
        tokens = output.sequences[0, length:].tolist()
        logps = [
            logits[0].float().log_softmax(0)[token].item()
            for logits, token in zip(output.logits, tokens, strict=True)
        ]
        chosen = [
            {token: SimpleNamespace(rank=1, logprob=logp)}
            for token, logp in zip(tokens, logps, strict=True)
        ]
        response = SimpleNamespace(token_ids=tokens, logprobs=chosen)
        return SimpleNamespace(prompt_token_ids=prompt["prompt_token_ids"], outputs=[response])


def installed(monkeypatch) -> list[Llm]:
    """Let TRL find the stand-in: those that it makes."""
    from trl.generation import vllm_generation as module

    made: list[Llm] = []

    def begun(*given, **named):
        made.append(Llm(*given, **named))
        return made[-1]

    def noted(chat, requests, group, of=vllm.VllmChat._write):
        Llm.keys = [one.key for one in requests]
        return of(chat, requests, group)

    monkeypatch.setattr(vllm, "import_module", lambda name: name)
    monkeypatch.setattr(vllm.VllmChat, "_write", noted)
    monkeypatch.setattr(module, "is_vllm_available", lambda: True)
    monkeypatch.setattr(module, "LLM", begun, raising=False)
    monkeypatch.setattr(
        module, "SamplingParams", lambda **given: SimpleNamespace(**given), raising=False
    )
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):  # TRL sets them
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return made


@pytest.fixture(scope="module")
def begin(tiny_qwen, examples, tmp_path_factory):
    def begun(**settings):
        return train(
            plugins.build("trainers", Spec("dr2seg", {**FEW, **settings})),
            [plugins.build("tasks", parse("reason_seg"), examples)],
            parse(f"dr2seg(checkpoint={tiny_qwen},segmenter=box)"),
            tmp_path_factory.mktemp("training") / "out",
            TrainingOptions(seed=SEED),
        )

    return begun


@pytest.fixture(scope="module")
def by_vllm(begin):
    """Trains by the stand-in, once by each settings: the training, and the stand-in."""

    @cache
    def trained(**settings):
        with pytest.MonkeyPatch.context() as patch:
            made = installed(patch)
            training = begin(vllm_mode="colocate", **settings)
        (llm,) = made
        return training, llm

    return trained


@pytest.fixture(scope="module")
def one_step(by_vllm):
    return by_vllm(max_steps=1)


def rollouts(training):
    return Curve(training.folder / "rollouts.jsonl").read()


def tensors(folder: Path):
    from safetensors.torch import load_file

    return {
        name: one
        for path in sorted(folder.glob("*.safetensors"))
        for name, one in load_file(path).items()
    }


def test_vllm_writes_both_passes_and_the_step_is_that_of_transformers(one_step, begin, tiny_qwen):
    """After a step weights differ by rounding, which on some processors draws another token."""
    training, plain = one_step[0], begin(max_steps=1)
    assert len(rollouts(plain)) == 4
    for one, other in zip(rollouts(training), rollouts(plain), strict=True):
        assert one["second"] and one["second"] != one["text"]
        for name in ("text", "second", "task", "sample"):
            assert one[name] == other[name]
        assert one["components"] == pytest.approx(other["components"], abs=1e-9)
    for one, other in zip(training.curve.read(), plain.curve.read(), strict=True):
        assert one["second_length"] == other["second_length"]
    before, trained, expected = map(tensors, (tiny_qwen, training.checkpoint, plain.checkpoint))
    moved = sum(float((trained[name] - before[name]).square().sum()) for name in before)
    apart = sum(float((trained[name] - expected[name]).square().sum()) for name in before)
    assert moved > 0 and apart < 1e-4 * moved  # measured: 7e-7


def test_the_second_pass_asks_with_its_own_temperature_on_weights_that_are_brought_once(
    by_vllm,
):
    _, llm = by_vllm()
    assert [(turn, count) for turn, count, _ in llm.asked] == [(1, 4), (1, 4), (2, 4), (2, 4)]
    assert [one.temperature for *_, one in llm.asked] == [1.0, HEAT] * STEPS
    assert {(one.n, one.max_tokens) for *_, one in llm.asked} == {(1, 8)}
    assert llm.brought == STEPS


def test_no_token_of_a_second_pass_by_vllm_is_learned_from(by_vllm):
    """Without a second pass the same random rewards lead to the same weights, bit for bit."""
    without, llm = by_vllm(r_desc=False, r_len=False, second_temperature=None)
    assert len(llm.asked) == STEPS and "second_length" not in without.curve.read()[0]
    with_it, without_it = tensors(by_vllm()[0].checkpoint), tensors(without.checkpoint)
    assert with_it.keys() == without_it.keys()
    assert all(torch.equal(with_it[name], without_it[name]) for name in with_it)


def test_without_vllm_it_is_named_before_anything_is_made(begin, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingDependency, match=r"vllm_mode=colocate: .*'vllm'"):
        begin(vllm_mode="colocate")
