"""Models, their parts and trainers derive from declared bases: what they lack has defaults."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from harness import plugins
from harness.backend import Chat, ConversingChat
from harness.errors import MissingDependency, ModelError
from harness.model import Model, StagedModel
from harness.models.backends.ablation import AblationChat
from harness.models.videoseg_r1.cues import Cues
from harness.run.train import TrainingOptions, train
from harness.run.workers import worker_info
from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec
from harness.trainer import Trainer
from harness.types import Answer, AnswerForm, Prediction


@dataclass(frozen=True)
class Least(Model):
    """Defines what has no default, and nothing else."""

    batch_size: int
    name: str

    def describe(self):
        return {}

    def predict(self, queries):
        return [Prediction(query_id=query.id, answer=Answer(count=1)) for query in queries]


class Talks(Least, StagedModel[str]):
    def generate(self, queries):
        return [query.id.upper() for query in queries]

    def begin(self, query, said):
        return lambda: Prediction(query_id=said, answer=Answer(count=1))


@dataclass(frozen=True)
class Script(Chat):
    batch_size: int
    coordinates: str

    def describe(self):
        return {}

    def generate(self, requests):
        return []

    def canvas(self, request):
        return (8, 8)

    def count_tokens(self, text):
        return 0


def test_what_a_model_does_not_define_has_a_default(ask):
    output = worker_info(Least(4, "least"))
    assert (output.name, output.batch_size, output.sort, output.device) == (
        "least",
        4,
        False,
        "cpu",
    )
    assert (output.ahead, output.forms, output.by_sample) == (1, None, False)
    assert Least(4, "least").prepare() is None
    (shown,) = Least(4, "least").looks_at(ask(AnswerForm.MASK, frames=3))
    assert list(shown) == [0, 1, 2]


def test_what_a_staged_model_does_not_define_has_a_default(ask):
    model, query = Talks(4, "talks"), ask(AnswerForm.MASK)
    assert worker_info(model).ahead == 2 and model.wait_seconds is None and not model.by_sample
    assert list(model.generate_as_completed([query, query])) == list(
        enumerate([query.id.upper()] * 2)
    )
    assert model.objects(query, "") is None and model.prepare_next([query]) is model.halt() is None
    assert StagedModel.predict(model, [query]) == [
        Prediction(query_id=query.id.upper(), answer=Answer(count=1))
    ]


def test_a_chat_that_says_nothing_of_it_is_asked_once_and_turn_by_turn():
    chat = Script(4, "pixels")
    assert (chat.turns, chat.rounds, chat.wait_seconds, chat.devices) == (1, 1, None, ())
    assert not (chat.greedy or chat.goes_on or isinstance(chat, ConversingChat))
    assert chat.prepare() is chat.halt() is chat.prepare_next([]) is None


class Loud(Script):
    """Defines every member otherwise than the base."""

    turns, rounds, wait_seconds, devices, greedy, goes_on = 3, 5, 7.0, ("cuda:1",), True, True

    def prepare(self):
        raise KeyError("prepare")

    def halt(self):
        raise KeyError("halt")


def test_wrappers_delegate_what_stays_true_of_them():
    outer = AblationChat(chat=Loud(4, "pixels"), images="swapped", reasoning="own")
    assert (outer.batch_size, outer.coordinates, outer.turns) == (4, "pixels", 3)
    assert (outer.wait_seconds, outer.devices) == (7.0, ("cuda:1",))
    for member in ("prepare", "halt"):
        with pytest.raises(KeyError, match=member):
            getattr(outer, member)()
    # What it writes hangs on the other requests of a call: nothing is gone on with or rolled.
    assert (outer.greedy, outer.goes_on, outer.rounds) == (False, False, 1)


def test_cues_are_where_their_segmenter_is():
    class Far(Segmenter):
        name, devices = "far", ("cuda:1",)

        def prepare(self):
            raise KeyError("prepare")

        def segment(self, image, prompts):
            return []

    cues = Cues(segmenter=Far(), box=False)
    assert (cues.name, cues.devices) == ("far", ("cuda:1",))
    with pytest.raises(KeyError, match="prepare"):
        cues.prepare()


class Loose:
    """Has the members of everything, and derives from nothing."""

    name = "loose"
    batch_size = 1

    def describe(self):
        return {}

    def predict(self, queries):
        return []

    generate = segment = propagate = train = predict


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        ("models", Model),
        ("backends", Chat),
        ("segmenters", Segmenter),
        ("propagators", Propagator),
        ("trainers", Trainer),
    ],
)
def test_a_plugin_that_does_not_derive_from_its_base_is_refused(kind, base, monkeypatch):
    entry = SimpleNamespace(load=lambda: Loose)
    monkeypatch.setattr(plugins, "installed_plugins", lambda _: {"loose": entry})
    with pytest.raises(ModelError) as caught:
        plugins.build(kind, Spec("loose"))
    output = str(caught.value)
    assert "'loose'" in output and f"{base.__module__}.{base.__name__}" in output
    assert (
        f"{__name__}.Loose" in output
        and f"class Loose({base.__module__}.{base.__name__})" in output
    )


def test_a_ready_object_that_does_not_derive_from_its_base_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"harness\.model\.Model"):
        worker_info(Loose())
    with pytest.raises(ModelError, match=r"harness\.trainer\.Trainer"):
        train(Loose(), [], None, tmp_path / "out", TrainingOptions())
    assert not (tmp_path / "out").exists()


def test_a_member_without_a_default_that_is_missing_is_named():
    class Short(Model):
        name, batch_size = "short", 1

        def describe(self):
            return {}

    with pytest.raises(TypeError, match="predict"):
        Short()


def test_a_package_that_a_model_lacks_is_reported_by_the_models_own_name():
    class Lacking(Least):
        def describe(self):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

    with pytest.raises(MissingDependency, match="model typed"):
        worker_info(Lacking(1, "typed"))
