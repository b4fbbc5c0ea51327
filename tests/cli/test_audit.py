"""`harness audit`: models of which it is known what they need, and the verdicts on them."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.cli.main import main
from harness.leaderboards.differences.audit import Audit, Control
from harness.leaderboards.differences.audit_verdicts import judge_blind, judge_options
from harness.leaderboards.differences.option_order import shuffled_options
from harness.leaderboards.render.audit import COLOURS, badge
from harness.media import pixels
from harness.models.backends.ablation import AblationChat, _shuffled_tiles
from harness.models.backends.inputs import conversation_of
from harness.run.batching import samples_of
from harness.scores import Mean, Metric, UnitScore
from harness.spec import parse
from harness.statistics.paired import compare
from harness.types import EarlierTurn

NOT_SEEN = ("does not see", False)
READER = "qwen_vl(prompt=visionreasoner,segmenter=box,propagator=still,backend={})"


@dataclass
class Seer(Chat):
    """Knows the right response to each image by its content, and says it by what it is shown.

    `blind`: it says the response to the question instead, whatever it is shown.
    """

    said: dict
    blind: bool
    batch_size: int = 64
    coordinates: str = "pixels"

    def describe(self):
        return {"backend": "seer", "blind": self.blind}

    def generate(self, requests):
        return [self._response(one) for one in requests]

    def _response(self, request):
        if request.prefix:  # it goes on from somebody's reasoning, and answers as that says
            text = f"{request.prefix}{self.said.get(request.prefix, 'nothing')}"
        else:
            shown = request.key if self.blind else request.media[0].id if request.media else ""
            text = self.said.get(shown, "nothing")
        return ChatResponse(text=text, canvases=(self.canvas(request),))

    def canvas(self, request):
        return request.media[0].size if request.media else (8, 8)

    def count_tokens(self, text):
        return len(text)


@pytest.fixture
def backends(shapes, monkeypatch):
    """Backends `seer` and `blind`, with perfect responses to the world's questions."""
    said = {}
    reader = replace(
        plugins.build("models", parse(READER.format("stored"))), chat=Seer({}, blind=False)
    )
    for sample in samples_of(plugins.build("tasks", parse("reason_seg"), shapes)):
        (text,) = reader.write(sample.query, sample.target.answer)
        answer = text[text.index("<answer>") :]
        prefix = f"<think>{sample.id}</think>"
        said[sample.query.id] = said[sample.query.media[0].id] = f"{prefix}{answer}"
        said[prefix] = answer
    load = plugins.load

    def with_seers(kind, name):
        if kind != "backends" or name not in ("seer", "blind"):
            return load(kind, name)

        def build(*, batch_size: int = 64) -> Chat:
            return Seer(said, blind=name == "blind", batch_size=batch_size)

        return build

    monkeypatch.setattr(plugins, "load", with_seers)


def audited(capsys, tmp_path, shapes, backend, *given):
    capsys.readouterr()
    code = main(
        [
            "audit",
            READER.format(backend),
            "--tasks",
            "reason_seg",
            "--data",
            str(shapes),
            "--out",
            str(tmp_path / backend),
            *given,
            "--json",
        ]
    )
    assert code == 0
    made = json.loads(capsys.readouterr().out)
    return made, {one["name"]: one for one in made["controls"]}


def test_a_model_that_looks_and_one_that_does_not(capsys, tmp_path, shapes, backends):
    blind = ("grey", "swapped", "shuffled", "omitted")
    made, found = audited(capsys, tmp_path, shapes, "seer")
    for name in ("grey", "shuffled", "omitted"):
        assert found[name]["value"] == 0 and found[name]["verdict"].startswith("sees")
    assert found["swapped"]["verdict"] == "sees"
    left = max(found[name]["value"] for name in ("grey", "swapped", "omitted"))
    assert made["seeing"] == pytest.approx(made["value"] - left) and made["seeing"] > 0.3
    assert found["reasoning"]["verdict"] == "answers follow it"
    made, found = audited(capsys, tmp_path, shapes, "blind")
    for name in blind:
        assert found[name]["value"] == made["value"]
        expected = ("does not need the order", None) if name == "shuffled" else NOT_SEEN
        assert (found[name]["verdict"], found[name]["passed"]) == expected
    assert made["seeing"] == 0
    assert found["options"]["verdict"] == found["frames"]["verdict"] == "not applicable"
    for name in ("audit.html", "badge.svg"):
        text = (tmp_path / "blind" / name).read_text()
        assert f"{made['value']:.3f}" in text
    assert "does not see" in (tmp_path / "blind" / "audit.html").read_text()


def test_a_run_is_audited_as_it_was_made_and_the_controls_are_not_run_twice(
    capsys, tmp_path, shapes, backends
):
    first, _ = audited(capsys, tmp_path, shapes, "seer", "--controls", "grey", "--subset", "first4")
    (manifest,) = (tmp_path / "seer" / "runs").glob("*/*/manifest.json")
    capsys.readouterr()
    given = ["audit", str(manifest.parent), "--controls", "grey", "--json"]
    assert main([*given, "--out", str(tmp_path / "seer")]) == 0
    assert json.loads(capsys.readouterr().out) == first and first["n_samples"] == 4
    assert main([*given, "--out", str(tmp_path / "x"), "--tasks", "mevis"]) == 2
    assert main(["audit", str(manifest.parent), "--controls", "gray", "--out", "x"]) == 2


def scores(values):
    return [
        UnitScore(
            unit=str(place),
            group=str(place),
            samples=(str(place),),
            categories={},
            failed=0,
            scores={"accuracy": Mean(float(one))},
        )
        for place, one in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("control", "verdict"),
    [
        ([0] * 40, "sees"),
        ([1] * 25 + [0] * 15, "partly"),
        ([1] * 40, "does not see"),
        ([0, 1] * 2, "cannot tell"),
        ([1] * 9 + [0] * 3, "cannot tell"),
    ],
)
def test_verdicts_without_images(control, verdict):
    own = scores([1] * len(control))
    made = compare((Metric("accuracy"),), own, scores(control), name="accuracy")
    assert judge_blind(made)[0] == verdict


@pytest.mark.parametrize(
    ("better", "lost"), [("higher", {"grey": 0.5, "omitted": 0.25}), ("lower", {"grey": -0.5})]
)
def test_what_is_seeing_is_the_least_loss_whichever_way_is_better(better, lost):
    metric, own = Metric("accuracy", better=better), scores([1] * 4)
    other = {"grey": [1, 1, 0, 0], "omitted": [1, 1, 1, 0]}
    controls = tuple(
        Control(
            name=name,
            about="",
            value=sum(other[name]) / 4,
            comparison=compare((metric,), own, scores(other[name]), name="accuracy"),
            verdict="",
        )
        for name in other
    )
    made = Audit(
        model="m",
        task="t",
        protocol="p",
        headline="metric",
        n_samples=4,
        value=1.0,
        interval=None,
        controls=controls,
    )
    assert made.seeing == min(lost.values())
    assert made.best_blind.name == min(lost, key=lost.get)
    assert ("blind" if better == "lower" else "25% of it") in badge(made)


def test_options_are_shuffled_with_the_right_letter(shapes):
    task = plugins.build("tasks", parse("shapes_qa"), shapes)
    pairs = list(zip(samples_of(task), samples_of(shuffled_options(task)), strict=True))
    moved = [(one, other) for one, other in pairs if one.query.options]
    assert moved
    for one, other in moved:
        assert sorted(one.query.options) == sorted(other.query.options)
        assert one.query.options != other.query.options and one.query.id == other.query.id
        before, after = (
            each.query.options["ABCDEFGH".index(each.target.answer.choice)] for each in (one, other)
        )
        assert before == after and one.target.answer.choice != other.target.answer.choice
    numbers = [pair for pair in pairs if not pair[0].query.options]
    assert numbers and all(one.target == other.target for one, other in numbers)


def test_a_model_that_likes_a_letter_is_caught():
    own = scores([1] * 20)
    made = compare((Metric("accuracy"),), own, scores([0] * 12 + [1] * 8), name="accuracy")
    assert judge_options(made, [True] * 20, 20) == ("prefers positions", False)
    gain = compare((Metric("accuracy"),), scores([0] * 12 + [1] * 8), own, name="accuracy")
    assert judge_options(gain, [True] * 20, 20) == ("prefers positions", False)
    same = compare((Metric("accuracy"),), own, own, name="accuracy")
    assert judge_options(same, [True] * 20, 20) == ("stable", True)
    assert judge_options(same, [False] * 20, 20) == ("not stable", False)  # as right as before
    for few in ([True] * 3, [True] * 11 + [False] * 9, []):
        assert judge_options(same, few, len(few)) == ("cannot tell", None)


@pytest.mark.parametrize("name", ["shapes_qa", "blink", "mmvu", "video_mme"])
def test_options_of_a_model_that_always_says_a(name, capsys, tmp_path, shapes):
    task = plugins.build("tasks", parse(name), shapes)
    path = tmp_path / "said.jsonl"
    said = [json.dumps({"id": one.id, "response": "A"}) for one in samples_of(task)]
    path.write_text("\n".join(said) + "\n")
    given = ["--tasks", name, "--data", str(shapes), "--controls", "options", "--json"]
    model = f"qwen_vl(backend=stored(file={path}))"
    capsys.readouterr()
    assert main(["audit", model, *given, "--out", str(tmp_path / "a")]) == 0
    (control,) = json.loads(capsys.readouterr().out)["controls"]
    number = sum(bool(one.query.options) for one in samples_of(task))
    assert control["passed"] is not True and f"0 of {number}" in control["about"]


def test_options_that_a_scorer_reads_by_itself_are_not_turned(capsys, tmp_path, shapes):
    name = "tempcompass(split=multi-choice,prompt=question)"
    task = plugins.build("tasks", parse(name), shapes)
    path = tmp_path / "said.jsonl"
    said = [json.dumps({"id": one.id, "response": "A"}) for one in samples_of(task)]
    path.write_text("\n".join(said) + "\n")
    given = ["--tasks", name, "--data", str(shapes), "--controls", "options", "--json"]
    capsys.readouterr()
    model = f"qwen_vl(backend=stored(file={path}))"
    assert main(["audit", model, *given, "--out", str(tmp_path / "a")]) == 0
    (control,) = json.loads(capsys.readouterr().out)["controls"]
    assert (control["verdict"], control["value"]) == ("not applicable", None)


def test_options_that_stand_in_the_text_are_not_said_to_be_turned(shapes):
    task = plugins.build("tasks", parse("shapes_qa"), shapes)
    listed = [
        replace(one, query=replace(one.query, text="Which?\nA. red\nB. blue"))
        for one in samples_of(task)
    ]
    written = replace(task, samples=lambda: iter(listed))
    assert list(samples_of(shuffled_options(written))) == listed


@pytest.mark.parametrize("shape", [(2, 3), (1, 5), (3, 40)])
def test_a_small_image_is_shuffled_too(shape):
    image = np.arange(np.prod(shape) * 3, dtype=np.uint8).reshape(*shape, 3)
    other = _shuffled_tiles(np.random.default_rng(0), image)
    assert not np.array_equal(other, image)
    assert sorted(map(tuple, other.reshape(-1, 3))) == sorted(map(tuple, image.reshape(-1, 3)))
    dot = image[:1, :1]
    assert np.array_equal(_shuffled_tiles(np.random.default_rng(0), dot), dot)


def test_a_badge_is_green_where_seeing_is_shown(capsys, tmp_path, shapes, backends):
    given = ("--controls", "grey,omitted")
    audited(capsys, tmp_path, shapes, "seer", *given)
    assert COLOURS[True] in (tmp_path / "seer" / "badge.svg").read_text()
    _, found = audited(capsys, tmp_path / "few", shapes, "seer", *given, "--subset", "first1")
    assert found["grey"]["verdict"] == "cannot tell"
    assert COLOURS[None] in (tmp_path / "few" / "seer" / "badge.svg").read_text()


def test_without_images_the_turns_before_a_request_show_none_either(monkeypatch):
    image = pixels([np.zeros((4, 4, 3), np.uint8)], times=(0.0,), is_video=False, id="still")
    request = ChatRequest(
        key="a",
        text="And now?",
        media=(image, image),
        frames=((0,), (0,)),
        earlier=(EarlierTurn(text="What is there?", response="A dog.", media=1),),
    )
    chat, asked = AblationChat(chat=Seer({}, blind=True), images="omitted", reasoning="own"), []
    monkeypatch.setattr(
        Seer, "_response", lambda _, one: asked.append(one) or ChatResponse(text="x")
    )
    chat.generate([request])
    (sent,) = asked
    turns = list(conversation_of(sent, str))
    assert [text for _, text, _ in turns] == ["What is there?", "And now?"]
    assert not any(places for places, _, _ in turns) and not sent.media


def test_shuffled_images_hold_the_same_pixels_in_another_order():
    asked = []

    class Recorder(Seer):
        def generate(self, requests):
            asked.extend(requests)
            return [ChatResponse(text="x") for _ in requests]

    ramp = np.arange(17 * 18 * 3, dtype=np.uint32).reshape(17, 18, 3).astype(np.uint8)
    still = pixels([ramp], times=(0.0,), is_video=False, id="still")
    frames = [np.full((4, 4, 3), level, np.uint8) for level in range(5)]
    video = pixels(frames, times=(0.0, 1.0, 2.0, 3.0, 4.0), is_video=True, id="video")
    chat = AblationChat(chat=Recorder({}, blind=False), images="shuffled", reasoning="own")
    requests = [
        ChatRequest(key="a", text="?", media=(still,)),
        ChatRequest(key="b", text="?", media=(video,), frames=((0, 2, 4),)),
    ]
    chat.generate(requests)
    one, other = (each.media[0] for each in asked)
    assert one.size == still.size and not np.array_equal(one.frame(0), ramp)
    assert sorted(one.frame(0).flatten()) == sorted(ramp.flatten())
    levels = [int(other.frame(place)[0, 0, 0]) for place in range(len(other))]
    assert sorted(levels) == [0, 2, 4] and levels != [0, 2, 4]
    assert tuple(other.times()) == (0.0, 2.0, 4.0)
    again = asked[:]
    asked.clear()
    chat.generate(requests[::-1])  # whatever else is asked, the order is the same
    assert np.array_equal(asked[1].media[0].frame(0), again[0].media[0].frame(0))
