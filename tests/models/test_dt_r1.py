"""DT-R1 end to end with a scripted network: real twins, a real sandbox, no weights."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.errors import HarnessError, SandboxFault, SandboxUnavailable, UsageError
from harness.masks import Rle, Track
from harness.models.dt_r1 import environment
from harness.models.dt_r1.catalog import catalog
from harness.models.dt_r1.code import _canonical, _saved_masks
from harness.models.dt_r1.environment import Limits
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.model import DTR1
from harness.models.dt_r1.plan import parse_plan
from harness.models.jit.model import JiT, plan_of
from harness.models.jit.smoothing import smoothed
from harness.models.multi_turn import converse
from harness.responses import storable
from harness.spec import parse
from harness.types import Answer, AnswerForm, Box, FailureKind

from .dt_r1_script import PLAN, Blocked, answered, execute, perceiving, scene, scripted

RED_MASK = '{"instances": [{"name": "red square", "mask": "%s"}]}'


@pytest.fixture(scope="module")
def perception():
    made = perceiving()
    try:
        made.prepare()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield made
    made.close()


def red(perception, query):
    """The path of the red square in the query's twin."""
    episode = scripted({}, perception=perception).environment(query)
    episode(PLAN).result()
    return next(one["mask"] for one in episode.twin.data["instances"] if "red" in one["name"])


def predicted(model, *queries):
    return [
        model.begin(query, one)()
        for query, one in zip(queries, model.generate(queries), strict=True)
    ]


def overlap(found, ground_truth):
    return (found & ground_truth).sum() / (found | ground_truth).sum()


@pytest.mark.parametrize("as_tokens", [True, False])
@pytest.mark.parametrize("frames", [1, 5])
def test_a_mask_is_found_by_its_path_in_the_twin(perception, frames, as_tokens):
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    query = scene(f"mask{frames}", frames=frames, form=form)
    turns = [
        PLAN + "never read",
        execute("print(len(dt['instances']))") + "nor this",
        answered("reasoning segmentation", RED_MASK % red(perception, query)),
    ]
    model = scripted({query.id: turns}, perception=perception, as_tokens=as_tokens)
    (found,) = predicted(model, query)
    assert found.failure is None and not found.notes[:-1]
    masks = found.answer.masks
    assert len(masks) == frames
    for index, mask in enumerate(masks):
        ground_truth = np.zeros((60, 80), dtype=bool)
        ground_truth[10:30, 10 + 2 * index : 30 + 2 * index] = True
        assert overlap(mask.to_array(), ground_truth) > 0.7
    # The record: the network's turns, and before each all that stood there.
    assert found.responses == (PLAN, execute("print(len(dt['instances']))"), turns[2])
    last = found.calls[-1]
    assert last.request.prefix.startswith(f"{PLAN}<dt_rep>{{")
    assert last.request.prefix.endswith("</execute><results>2</results>")
    assert last.response == last.request.prefix + turns[2]
    again = model.read(query, found.responses, found.calls)
    assert (again.answer, again.parsed) == (found.answer, found.parsed)


def test_injected_tokens_are_put_after_the_networks_own(perception):
    query = scene("tokens")
    model = scripted({query.id: [PLAN, answered("vqa", "two")]}, perception=perception)
    (result,) = model.generate([query])
    first, second = model.chat.requests
    assert second.written[: len(PLAN)] == tuple(PLAN.encode()) and second.prefix == ""
    assert bytes(second.written[len(PLAN) :]).decode() == result.episode.spans[1].text
    assert second.max_new_tokens == first.max_new_tokens - len(second.written)


@pytest.mark.parametrize(
    ("form", "task", "answer", "expected"),
    [
        (AnswerForm.TEXT, "visual question answering", "A red square.", {"text": "A red square."}),
        (AnswerForm.TEXT, "summarization", "Two things.", {"text": "Two things."}),
        (AnswerForm.CHOICE, "vqa", "B", {"choice": "B"}),
        (AnswerForm.NUMBER, "vqa", "about 2.5 m", {"number": 2.5}),
        (AnswerForm.COUNT, "vqa", "2", {"count": 2}),
        (
            AnswerForm.BOXES,
            "grounding",
            '{"instances": [{"name": "a", "bbox": [10, 10, 30, 30]}]}',
            {"boxes": (Box(10, 10, 30, 30),)},
        ),
        (AnswerForm.BOXES, "grounding", '{"instances": []}', {"boxes": (), "no_target": True}),
    ],
)
def test_the_other_tasks_are_answered_in_their_forms(perception, form, task, answer, expected):
    query = scene(form=form, options=("red", "blue") if form is AnswerForm.CHOICE else ())
    model = scripted({query.id: [PLAN, answered(task, answer)]}, perception=perception)
    (found,) = predicted(model, query)
    assert {name: getattr(found.answer, name) for name in expected} == expected


def test_boxes_of_a_video_move_in_a_straight_line_between_the_frames_that_are_named(perception):
    query = scene("boxes", frames=5, form=AnswerForm.BOX_TRACK)
    named = [
        {"name": "a", "bbox": [10, 10, 30, 30], "frame": 1},
        {"name": "a", "bbox": [14, 10, 34, 30], "frame": 3},
    ]
    turns = [PLAN, answered("grounding", json.dumps({"instances": named}))]
    (found,) = predicted(scripted({query.id: turns}, perception=perception), query)
    assert [box.left for box in found.answer.box_track] == [10, 10, 12, 14, 14]


def test_the_form_of_answer_changes_no_request_and_no_response(perception):
    turns = [PLAN, execute("print(1)"), answered("segmentation", RED_MASK % "masks/1")]
    seen = []
    for form in (AnswerForm.MASK, AnswerForm.TEXT, AnswerForm.BOXES, AnswerForm.POINTS):
        query = replace(scene("law"), forms=(form,))
        model = scripted({query.id: turns}, perception=perception)
        (found,) = predicted(model, query)
        seen.append((model.chat.requests, found.responses, found.calls))
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize(
    "path",
    ["../masks/1", "/etc/passwd", "masks/1/", "masks/99", "masks/code/none", "", "./masks/1"],
)
def test_what_is_no_path_of_the_twin_is_no_mask_and_is_not_opened(perception, path, monkeypatch):
    query = scene()
    turns = [PLAN, answered("segmentation", RED_MASK % path)]
    model = scripted({query.id: turns}, perception=perception)
    results = model.generate([query])
    monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("a file was opened"))
    found = model.begin(query, results[0])()
    assert found.failure.kind is FailureKind.PARSE and "mask" in found.failure.message


def test_a_mask_that_code_made_is_found_by_its_path(perception):
    query = scene("made", frames=3, form=AnswerForm.MASK_TRACK)
    code = "print(save_mask(load_mask('masks/1', 0) | load_mask('masks/2', 0), 'both'))"
    turns = [PLAN, execute(code), answered("segmentation", RED_MASK % "masks/code/both")]
    (found,) = predicted(scripted({query.id: turns}, perception=perception), query)
    assert found.failure is None and all(mask.area > 700 for mask in found.answer.masks)
    wrong = "save_mask(np.ones((3, 3)), 'x')"
    turns = [PLAN, execute(f"import numpy as np\n{wrong}"), answered("vqa", "x")]
    model = scripted({query.id: turns}, perception=perception)
    (result,) = model.generate([query])
    assert "ValueError" in result.episode.results[0].error


def test_more_masks_than_an_answer_can_name_are_an_error_of_the_code(perception):
    query = scene(form=AnswerForm.TEXT)
    code = "[save_mask(dt['instances'] and load_mask('masks/1'), str(one)) for one in range(%d)]"
    turns = [PLAN, execute(code % 256), execute(code % 257), answered("vqa", "x")]
    model = scripted({query.id: turns}, perception=perception)
    (result,) = model.generate([query])
    whole, over = result.episode.results
    assert whole.error is None and len(whole.masks) == 256
    assert "more than 256 masks" in over.error and not over.masks


def test_a_frame_that_code_did_not_give_has_the_mask_of_the_nearest_one(monkeypatch):
    query = scene("nearest", frames=9)
    decoded, decode = [], Rle.to_array
    monkeypatch.setattr(Rle, "to_array", lambda rle: decoded.append(rle) or decode(rle))
    runs = {"2": [0, 60, 4740], "6": [60, 60, 0, 0, 4680]}
    made, wrong = _saved_masks([{"mask": "a", "frames": runs}], query.media[0])
    assert wrong is None and not decoded, "a mask of every frame of a long video takes no time"
    columns = [int(np.argmax(mask[0])) for mask in made["masks/code/a"]]
    assert columns == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert made["masks/code/a"].rles[8].runs.tolist() == [60, 60, 4680]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_runs_of_a_mask_that_code_saved_are_those_of_its_pixels(runs):
    runs = [*runs, 40 - sum(runs)]
    mask = Rle.from_json({"size": [5, 8], "counts": runs})
    assert _canonical(mask) == Rle.from_array(mask.to_array())


@pytest.mark.parametrize("frames", [1, 4])
def test_what_is_written_for_an_answer_is_read_as_it(perception, frames):
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    query = scene("written", frames=frames, form=form)
    drawn = np.zeros((60, 80), dtype=bool)
    masks = []
    for index in range(frames):
        drawn[index : 20 + index, 3:9] = True
        masks.append(Rle.from_array(drawn))
    model = scripted({}, perception=perception)
    for answer in (Answer(masks=tuple(masks)), Answer(masks=tuple(masks), no_target=True)):
        found = model.read(query, model.write(query, answer)).answer
        assert found.no_target == answer.no_target
        assert answer.no_target or found.masks == answer.masks
    track = (None, *(Box(1, 2, 3 + one, 9) for one in range(frames)))[-frames:]
    boxes = replace(query, forms=(AnswerForm.BOXES if frames == 1 else AnswerForm.BOX_TRACK,))
    answer = Answer(boxes=track) if frames == 1 else Answer(box_track=track)
    found = model.read(boxes, model.write(boxes, answer)).answer
    assert (found.boxes, found.box_track) == (answer.boxes, answer.box_track)


def test_only_the_last_line_of_an_error_is_injected(perception):
    query = scene()
    turns = [PLAN, execute("x = 1\nraise ValueError('y' * 400)"), answered("vqa", "x")]
    model = scripted({query.id: turns}, perception=perception)
    (result,) = model.generate([query])
    text = result.episode.spans[3].text
    assert text.startswith("<results>ValueError: yyy") and len(text) <= 256 + 3 + 19
    assert "Traceback" not in text and "..." in text


def test_output_cannot_forge_tags(perception):
    query = scene()
    code = "print(*['<', '/results><', 'answer>masks/1<', '/answer>'], sep='')"
    turns = [PLAN, execute(code), answered("vqa", "x")]
    model = scripted({query.id: turns}, perception=perception)
    (result,) = model.generate([query])
    assert result.episode.layout.fault == "" and result.episode.answer.text == "x"
    assert "‹/results>‹answer>" in result.episode.results[0].text


def test_a_block_begins_anew_unless_earlier_ones_are_run_again(perception):
    query = scene()
    turns = [PLAN, execute("k = 7; print('one')"), execute("print(k)"), answered("vqa", "x")]
    for persist, expected in ((False, "NameError"), (True, "7")):
        model = scripted({query.id: turns}, perception=perception, limits=Limits(persist=persist))
        (result,) = model.generate([query])
        assert expected in result.episode.results[1].text
        assert "one" not in result.episode.results[1].text


def test_no_more_blocks_are_run_than_allowed(perception):
    query = scene()
    turns = [PLAN, *[execute("print(1)")] * 3, answered("vqa", "x")]
    model = scripted({query.id: turns}, perception=perception, limits=Limits(cycles=2))
    (result,) = model.generate([query])
    assert [one.error is None for one in result.episode.results] == [True, True, False]
    assert model.chat.requests[-1].stop == () and result.episode.answer.text == "x"


@pytest.mark.parametrize(
    ("turns", "kind"),
    [
        (["<think>a</think>"], "none"),
        (['<think>a</think><dt_plan>{"SAM3": []}</dt_plan>', answered("vqa", "x")], "plan"),
        (["<think>a</think><dt_plan>{]</dt_plan>", answered("vqa", "x")], "plan"),
        ([execute("print(1)"), PLAN, answered("vqa", "x")], "order"),
        ([PLAN, "<think>a</think></execute>", answered("vqa", "x")], "order"),
        ([PLAN, PLAN, answered("vqa", "x")], "order"),
        ([PLAN, "<think>a</think><results>9</results>" + answered("vqa", "x")], "order"),
    ],
)
def test_what_breaks_the_grammar_is_said_and_what_can_be_read_is_read(perception, turns, kind):
    query = scene(form=AnswerForm.TEXT)
    model = scripted({query.id: turns}, perception=perception)
    (result,) = model.generate([query])
    facts = result.episode.facts()
    (found,) = predicted(model, query)
    if kind == "none":
        assert found.failure.kind is FailureKind.PARSE
        return
    assert found.answer.text == "x"
    assert (facts["plan_error"] is not None) == (kind == "plan")
    assert (facts["fault"] != "") == (kind == "order")
    if kind == "plan":
        injected = json.loads(result.episode.spans[1].text[len("<dt_rep>") : -len("</dt_rep>")])
        assert set(injected) == {"error"}


def test_a_rollout_that_the_twin_does_not_fit_in_is_cut(perception):
    query = scene()
    model = scripted({query.id: [PLAN]}, perception=perception, max_new_tokens=len(PLAN) + 20)
    (result,) = model.generate([query])
    assert result.cut and len(model.chat.requests) == 1


def test_a_twin_is_shortened_to_its_limit(perception):
    query = scene("long", frames=5, form=AnswerForm.TEXT)
    turns = {query.id: [PLAN, answered("vqa", "x")]}
    model = scripted(turns, perception=perception, limits=Limits(twin_tokens=400))
    (result,) = model.generate([query])
    assert len(result.episode.spans[1].text) <= 400 + len("<dt_rep></dt_rep>")


def test_a_template_that_opens_the_reasoning_is_understood(perception):
    query = scene(form=AnswerForm.TEXT)
    turns = [PLAN.removeprefix("<think>"), answered("vqa", "x")]
    for known in ({"opened": "<think>\n"}, {"as_tokens": False}):  # here, or by a server
        model = scripted({query.id: turns}, perception=perception, **known)
        (found,) = predicted(model, query)
        assert found.answer.text == "x" and not any("grammar" in note for note in found.notes)
        assert found.responses[0].startswith("<think>") and found.usage.reasoning_tokens >= 6


@pytest.mark.parametrize("kind", [DTR1, JiT])
def test_nodes_are_given_what_the_text_names_and_no_option_form_or_object(kind, monkeypatch):
    builder, given = TwinBuilder(), []
    build = builder.build
    monkeypatch.setattr(
        builder, "build", lambda media, plan, phrases: given.append(phrases) or build(media, plan)
    )
    asked = {"text": "Which of the animals sits on the green sofa?", "options": ("cat", "dog")}
    for form in (AnswerForm.CHOICE, AnswerForm.TEXT):
        query = scene(str(form), form=form, objects=("cat",), **asked)
        turns = {query.id: [PLAN, answered("vqa", "A")]}
        scripted(turns, perception=perceiving(builder), kind=kind, as_tokens=kind is DTR1).generate(
            [query]
        )
    assert given == [("animals sits", "green sofa")] * 2


def test_other_conversations_go_on_while_one_waits_for_its_twin():
    blocked = Blocked(TwinBuilder(), "slow")
    slow, fast = scene("slow", form=AnswerForm.TEXT), scene("fast", form=AnswerForm.TEXT)
    turns = {
        slow.id: [PLAN, answered("vqa", "slow")],
        fast.id: [PLAN, answered("vqa", "fast")],
    }
    model = scripted(turns, perception=perceiving(blocked))
    respond = model.chat.responses

    def watched(request):
        if request.key == f"{fast.id}/turn1":
            blocked.go_on.set()  # the fast one answers before the slow one has its twin
        return respond(request)

    model.chat.responses = watched
    ends = converse(model.chat, [model.conversation(one) for one in (slow, fast)])
    assert blocked.waited and [one.episode.answer.text for one in ends] == ["slow", "fast"]


class Broken:
    """A sandbox whose workers are lost."""

    def run(self, *_, **__):
        raise SandboxFault("the sandbox", expected="an answer", found="two workers lost")


def test_threads_that_run_code_at_once_open_one_sandbox(monkeypatch):
    opened = []

    def opening(**_):
        time.sleep(0.05)  # the second thread asks meanwhile
        opened.append(Broken())
        return opened[-1]

    monkeypatch.setattr(environment, "open_sandbox", opening)
    shared = perceiving()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: shared.sandbox, range(4))) == set(opened)
    assert len(opened) == 1


def test_a_sandbox_that_is_lost_is_no_fault_of_the_model():
    query, broken = scene(form=AnswerForm.TEXT), perceiving()
    broken._sandbox = Broken()
    turns = {query.id: [PLAN, execute("print(1)"), answered("vqa", "x")]}
    model = scripted(turns, perception=broken)
    (result,) = model.generate([query])
    (block,) = result.episode.facts()["blocks"]
    assert block["error"] is None and block["unavailable"]
    (found,) = predicted(model, query)
    assert found.failure.kind is FailureKind.INFRASTRUCTURE


class Blind:
    """A builder whose media cannot be read."""

    def __init__(self):
        self.catalog = TwinBuilder().catalog

    def build(self, medium, plan):
        raise OSError("gone")


def test_code_over_a_twin_that_could_not_be_built_is_no_fault_of_the_model():
    query = scene(form=AnswerForm.TEXT)
    turns = {query.id: [PLAN, execute("print(1)"), answered("vqa", "x")]}
    (result,) = scripted(turns, perception=perceiving(Blind())).generate([query])
    (block,) = result.episode.facts()["blocks"]
    assert block["error"] is None and block["unavailable"]
    assert "perception failed" in result.episode.spans[3].text


def test_code_without_a_twin_is_told_why_there_is_none(perception):
    query = scene(form=AnswerForm.TEXT)
    refused = '<think>a</think><dt_plan>{"SAM3": []}</dt_plan>'
    for first, why in (([refused], "the plan was refused"), ([], "there is no plan yet")):
        turns = [*first, execute("print(1)"), answered("vqa", "x")]
        (result,) = scripted({query.id: turns}, perception=perception).generate([query])
        (block,) = result.episode.facts()["blocks"]
        assert why in block["error"] and "<" not in block["error"]


def test_what_stands_behind_a_stop_string_in_its_token_does_not_end_the_rollout(perception):
    query = scene(form=AnswerForm.TEXT)
    episode = scripted({}, perception=perception).environment(query)
    assert episode(PLAN + "<").result().inject.startswith("<dt_rep>")
    assert episode.twin is not None
    assert episode(execute("print(1)") + "<").result().inject == "<results>1</results>"
    assert episode(answered("vqa", "x")).inject is None


def test_a_response_is_stored_as_it_is_read(perception):
    query = scene(form=AnswerForm.TEXT)
    turns = {query.id: [PLAN, answered("vqa", "x\x00y")]}
    model = scripted(turns, perception=perception)
    (found,) = predicted(model, query)
    assert all(one == storable(one) for one in found.responses)


# JiT


def jit_turns(*responses):
    keys = ["", *[f"/turn{number}" for number in range(1, 9)]]
    return dict(zip(keys, responses, strict=False))


def test_jit_plans_in_one_request_and_answers_in_another(perception):
    query = scene("jit")
    path = red(perception, query)
    turns = ['```json\n{"SAM2": [], "SemanticAnalysis": ["SAM2"]}\n```']
    turns += [execute("print(2)"), answered("segmentation", RED_MASK % path)]
    model = scripted({query.id: turns}, perception=perception, kind=JiT, as_tokens=False)
    (found,) = predicted(model, query)
    assert found.failure is None and found.answer.masks[0].area > 300
    plan, first, second = model.chat.requests
    assert "<dt_rep>" not in plan.text and "<dt_rep>{" in first.text
    assert "<results>2</results>" in second.text and not (first.prefix or first.written)
    again = model.read(query, found.responses)
    assert again.answer == found.answer


def test_jit_asks_once_more_for_a_plan(perception):
    query = scene("again", form=AnswerForm.TEXT)
    turns = {
        query.id: ["no plan", answered("vqa", "x")],
        f"{query.id}/again": ['<dt_plan>{"SAM2": []}</dt_plan>'],
    }
    model = scripted(turns, perception=perception, kind=JiT, as_tokens=False)
    (found,) = predicted(model, query)
    assert found.answer.text == "x"
    assert [one.key for one in model.chat.requests][1] == f"{query.id}/again"
    assert "refused" in model.chat.requests[1].text


def test_jit_smooths_masks_once_however_often_a_result_is_read(perception):
    query = scene("smooth", frames=6, form=AnswerForm.MASK_TRACK)
    turns = ['{"SAM2": []}', answered("segmentation", RED_MASK % "masks/1")]
    plain = scripted({query.id: turns}, perception=perception, kind=JiT, as_tokens=False)
    model = replace(plain, alpha=0.2)
    (result,) = model.generate([query])
    read, again, as_it_is = (one.begin(query, result)().answer for one in (model, model, plain))
    assert read.masks == again.masks != as_it_is.masks


def test_plans_are_taken_from_tags_fences_or_all_of_a_response():
    plan = '{"SAM2": []}'
    for text in (
        plan,
        f"<dt_plan>{plan}</dt_plan>",
        f"a <dt_plan>{plan}",
        f"x ```json\n{plan}\n```",
    ):
        assert parse_plan(plan_of(text), catalog()).nodes == {"SAM2": ()}


def test_masks_are_smoothed_over_a_window_of_frames():
    track = Track(4, 1, 3)
    for index, row in enumerate(([1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0])):
        track[index] = np.array([row], dtype=bool)
    same = smoothed(track, alpha=1.0)
    assert [one.tolist() for one in same] == [one.tolist() for one in track]
    # alpha ½ over two frames: weights 1 and ½, of which the half is ¾.
    assert [one[0].tolist() for one in smoothed(track, alpha=0.5, window=2)] == [
        [True, False, True],
        [True, False, False],
        [False, True, False],
        [False, False, False],
    ]
    # Without a limit the third frame's weights are 1, ½, ¼.
    assert smoothed(track, alpha=0.01)[2][0].tolist() == [True, False, False]


@pytest.mark.parametrize(
    "spec",
    [
        "jit(alpha=0)",
        "jit(alpha=1.5)",
        "jit(window=3)",
        "dt_r1(cycles=-1)",
        "dt_r1(workers=0)",
        "dt_r1(twin_tokens=1)",
        "dt_r1(nodes=unknown)",
    ],
)
def test_settings_that_make_no_sense_are_refused(spec):
    name, _, rest = spec.partition("(")
    with pytest.raises(UsageError):
        plugins.build("models", parse(f"{name}(backend=stored,{rest}"))


def test_a_backend_that_cannot_go_on_is_refused_before_it_is_asked(perception):
    model = scripted({}, perception=perception)
    chat = type("Anew", (type(model.chat),), {"goes_on": property(lambda _: False)})(script={})
    with pytest.raises(HarnessError, match="jit"):
        replace(model, chat=chat).prepare()
