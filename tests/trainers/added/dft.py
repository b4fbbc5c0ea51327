"""Dynamic fine-tuning: a trainer with a loss of its own, as docs/training.md describes one."""

from dataclasses import dataclass

from harness.options import with_options
from harness.trainer import Trainer
from harness.trainers.sft.trainer import SftSettings


@dataclass(frozen=True, kw_only=True)
class Dft(Trainer):
    settings: SftSettings
    name: str = "dft"
    needs_model = needs_tasks = True  # refused without --model and --train-tasks

    def describe(self):
        return self.settings.describe()

    def train(self, run):
        from harness.trainers.learner import train
        from harness.trainers.network import trainable, training_facts
        from harness.trainers.policy import accelerator_of
        from harness.trainers.session import Session
        from harness.trainers.sft.learner import SftLearner, prepare_examples

        class DftLearner(SftLearner):
            def loss(self, batch, tokens):
                inputs, mask = self.placed(batch)
                logp, entropy = self.policy(inputs, mask)
                weighted = logp.detach().exp() * logp  # a token weighs as much as it is likely
                return -(weighted * mask).sum() / tokens, {"entropy": (entropy, mask)}

        model, chat = trainable(self.name, run.model)
        accelerator = accelerator_of(self.settings, chat)
        examples, skipped = prepare_examples(
            model, chat.processor, run, reasoning="none", max_length=None
        )
        learner = DftLearner(chat, self.settings, accelerator, seed=run.seed)
        session = Session(
            run,
            learner.export,
            report_to=self.settings.report_to,
            settings=self.describe(),
        )
        facts = train(learner, examples, session)
        return {**facts, **training_facts(examples, skipped, learner.network)}


@with_options(SftSettings, without=("reasoning", "text_source", "max_length", "lora_dropout"))
def dft(settings: SftSettings) -> Dft:
    """Dynamic fine-tuning (arXiv:2508.05629)."""
    return Dft(settings=settings)
