"""Execution of plans, with nodes that compute by OpenCV."""

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import media
from harness.models.dt_r1 import executor
from harness.models.dt_r1.executor import TwinBuilder, code_hash
from harness.models.dt_r1.output_cache import OutputCache
from harness.models.dt_r1.plan import parse_plan
from harness.node import (
    Detection,
    Detections,
    FrameFacts,
    Instances,
    Node,
    Output,
    Semantics,
    Word,
    Words,
)
from harness.spec import parse
from harness.types import Box

from .twin_media import EXAMPLE_STATS, Toy, toy_nodes, toy_video

SINGLE: Any = np.float32(1)
A_LIST: Any = ["a"]


class Fixed(Node):
    """Stands for a node that gives this output."""

    def __init__(self, output: Output) -> None:
        self.output = output

    def describe(self) -> dict[str, Any]:
        return {}

    def run(self, *_: object) -> Output:
        return self.output


class TestExecutor:
    @pytest.fixture
    def spec(self) -> Iterator[Any]:
        Toy.reset()
        with toy_nodes() as spec:
            yield spec

    @pytest.mark.parametrize(
        ("what", "words"),
        [
            ("raise", "no idea"),
            ("exit", "SystemExit"),
            ("memory", "out of memory"),
            ("wrong", "Semantics"),
            ("small", "2 × 2"),
        ],
    )
    def test_a_node_that_fails_is_an_error_of_the_twin(
        self, spec: Any, what: str, words: str
    ) -> None:
        Toy.state["masks"] = what
        builder = TwinBuilder(spec)
        twin = builder.build(toy_video(), parse_plan(EXAMPLE_STATS, builder.catalog))
        assert words in twin.data["errors"]["SAM2"]
        assert "SAM2" in twin.data["errors"]["DepthStats"]
        assert twin.data["instances"] == [] and twin.depth is not None
        assert not twin.faults["SAM2"].infrastructure
        assert "Traceback" not in json.dumps(twin.data) and "/" not in twin.data["errors"]["SAM2"]

    @pytest.mark.parametrize(
        ("role", "output", "words"),
        [
            ("OWLv2", Detections((Detection(0, Box(math.nan, 0, 1, 1), "", 0.5),)), "nan"),
            ("OWLv2", Detections((Detection(0, Box(0, 0, 1, 1), "", SINGLE),)), "float32"),
            ("OWLv2", Detections((Detection(0, Box("a", 0, 1, 1), "", 0.5),)), "str"),
            ("OWLv2", Detections((Detection(0, Box(0, 0, 1, 1), "", None),)), "NoneType"),
            ("OWLv2", Detections((Detection(2, Box(0, 0, 1, 1), "", 0.5),)), "frames below 2"),
            ("OCR", Words((Word(0, Box(0, 0, 1, math.inf), "x", 0.5),)), "inf"),
            ("OCR", Words((Word(0, Box(0, 0, 1, 1), "\ud800", 0.5),)), "ud800"),
            ("OpenCV", FrameFacts({0: {"light": SINGLE}}, {}), "float32"),
            ("OpenCV", FrameFacts({}, {"light": math.nan}), "nan"),
            ("SemanticAnalysis", Semantics(instances={"": {"parts": A_LIST}}), "list"),
        ],
    )
    def test_what_json_cannot_hold_is_an_error_of_the_twin(
        self, role: str, output: Output, words: str, tmp_path: Path
    ) -> None:
        builder = TwinBuilder(parse("local(OCR=ocr)"), cache=OutputCache(folder=tmp_path))
        builder._worker(role)._built["node"] = Fixed(output)
        twin = builder.build(toy_video(), parse_plan(json.dumps({role: []}), builder.catalog))
        assert words in twin.data["errors"][role]
        json.loads(twin.text(len, 10**6))

    def test_an_attribute_never_replaces_the_number_of_an_instance(self) -> None:
        builder = TwinBuilder("local")
        box = Detections((Detection(0, Box(0, 0, 4, 4), "cup", 0.5),))
        builder._worker("OWLv2")._built["node"] = Fixed(box)
        named = Semantics(instances={"": {"id": "first", "made_of": "tin"}})
        builder._worker("SemanticAnalysis")._built["node"] = Fixed(named)
        plan = parse_plan('{"OWLv2": [], "SemanticAnalysis": ["OWLv2"]}', builder.catalog)
        (instance,) = builder.build(toy_video(), plan).data["instances"]
        assert (instance["id"], instance["made_of"]) == (1, "tin")

    def test_a_server_that_is_down_is_asked_again(self, spec: Any) -> None:
        Toy.state["masks"] = "server"
        builder = TwinBuilder(spec)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        assert builder.build(toy_video(), plan).faults["SAM2"].infrastructure
        Toy.state["masks"] = None
        assert not builder.build(toy_video(), plan).faults

    def test_a_node_has_longer_to_load_than_for_a_medium(self, spec: Any, monkeypatch: Any) -> None:
        loaded: list[float] = []
        monkeypatch.setattr(Toy, "prepare", lambda self: loaded.append(time.sleep(0.6) or 1.0))
        builder = TwinBuilder(spec, timeout=0.3)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        other = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="other")
        assert not builder.build(toy_video(), plan).faults
        assert not builder.build(other, plan).faults
        assert len(loaded) == 1

    def test_a_node_that_cannot_be_loaded_is_no_fault_of_the_plan(
        self, spec: Any, monkeypatch: Any
    ) -> None:
        def missing(self: Toy) -> None:
            raise OSError("no weights are here")

        monkeypatch.setattr(Toy, "prepare", missing)
        builder = TwinBuilder(spec)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        fault = builder.build(toy_video(), plan).faults["SAM2"]
        assert fault.infrastructure and "no weights" in fault.reason
        monkeypatch.setattr(Toy, "prepare", lambda self: None)
        assert not builder.build(toy_video(), plan).faults

    def test_a_node_that_hangs_is_left_behind(self, spec: Any) -> None:
        Toy.state.update(masks="hang", released=threading.Event())
        builder = TwinBuilder(spec, timeout=0.2)
        plan = parse_plan(EXAMPLE_STATS, builder.catalog)
        assert "0.2 s" in builder.build(toy_video(), plan).data["errors"]["SAM2"]
        other = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="other")
        assert "SAM2" in builder.build(other, plan).faults
        third = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="third")
        before = Toy.state["runs"]
        assert "not run again" in builder.build(third, plan).data["errors"]["SAM2"]
        assert Toy.state["runs"] == before
        Toy.state["released"].set()

    def test_a_thread_that_was_left_behind_never_uses_the_next_node(
        self, spec: Any, monkeypatch: Any
    ) -> None:
        released, ended = threading.Event(), threading.Event()
        ran: list[Toy] = []

        def slow(self: Toy) -> None:
            if not prepared:
                prepared.append(self)
                released.wait(30)

        def run(self: Toy, *given: Any) -> Any:
            ran.append(self)
            if self is prepared[0]:
                ended.set()
            return Instances(())

        prepared: list[Toy] = []
        monkeypatch.setattr(executor, "LOADING_SECONDS", 0.2)
        monkeypatch.setattr(Toy, "prepare", slow)
        monkeypatch.setattr(Toy, "run", run)
        builder = TwinBuilder(spec, timeout=0.2)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        assert "SAM2" in builder.build(toy_video(), plan).faults
        other = media.pixels(toy_video().frames(), times=(0.0, 1.0), is_video=True, id="other")
        assert not builder.build(other, plan).faults
        released.set()
        assert ended.wait(10)
        assert [one is prepared[0] for one in ran] == [False, True]

    def test_hangs_of_a_process_count_until_it_answers(self, spec: Any, monkeypatch: Any) -> None:
        builder = TwinBuilder(spec, timeout=0.2)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        frames = toy_video().frames()
        monkeypatch.setattr(Toy, "close", lambda self: None, raising=False)
        Toy.state["released"] = threading.Event()
        reasons = []
        for number, what in enumerate(["hang", "", "hang", "", "hang", "hang", ""]):
            Toy.state["masks"] = what
            one = media.pixels(frames, times=(0, 1), is_video=True, id=str(number))
            faults = builder.build(one, plan).faults
            reasons.append("SAM2" in faults and faults["SAM2"].reason[-13:])
        Toy.state["released"].set()
        assert [bool(reason) for reason in reasons] == [True, False, True, False, True, True, True]
        assert reasons[-1] == "not run again" and reasons[-2] != reasons[-1]

    def test_a_group_shares_outputs_of_different_plans(self, spec: Any) -> None:
        Toy.state["pause"] = 0.05
        builder = TwinBuilder(spec)
        texts = ['{"SAM2": []}', EXAMPLE_STATS, '{"SAM2": [], "SemanticAnalysis": ["SAM2"]}']
        twins: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda text=text: twins.append(
                    builder.build(toy_video(), parse_plan(text, builder.catalog))
                )
            )
            for text in texts * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Toy.state["runs"] == 1 and len(twins) == 9
        assert not any(twin.faults for twin in twins)

    def test_who_waits_for_an_output_gets_it_also_if_it_is_too_large_to_hold(self) -> None:
        cache, begun, go_on = OutputCache(max_bytes=0), threading.Event(), threading.Event()
        runs: list[int] = []
        words = Words((Word(0, Box(0, 0, 1, 1), "a", 0.5),))

        def compute() -> Output:
            runs.append(1)
            begun.set()
            go_on.wait(10)
            return words

        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append(cache.get("key", compute)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        begun.wait(10)
        time.sleep(0.2)
        go_on.set()
        for thread in threads:
            thread.join(10)
        assert found == [words] * 4 and len(runs) == 1 and cache._bytes == 0

    def test_independent_nodes_run_side_by_side(self, spec: Any) -> None:
        together = threading.Barrier(2, timeout=10)
        builder = TwinBuilder(spec)
        plan = parse_plan('{"SAM2": [], "DepthAnything2": []}', builder.catalog)
        for role in plan.nodes:
            node = builder._worker(role).node
            real = type(node).run

            def run(*given: Any, real: Any = real, node: Any = node) -> Any:
                together.wait()
                return real(node, *given)

            builder._worker(role).node.__dict__["run"] = run
        assert not builder.build(toy_video(), plan).faults

    def test_memory_is_bounded_and_a_folder_keeps_the_rest(self, spec: Any, tmp_path: Path) -> None:
        cache = OutputCache(max_bytes=1000, folder=tmp_path)
        builder = TwinBuilder(spec, cache=cache)
        plan = parse_plan('{"SAM2": []}', builder.catalog)
        frames = toy_video().frames()
        for number in range(12):
            one = media.pixels(frames, times=(0, 1), is_video=True, id=str(number))
            first = builder.build(one, plan).fingerprint
            assert cache._bytes <= 1000
        again = TwinBuilder(spec, cache=OutputCache(folder=tmp_path))
        assert again.build(one, plan).fingerprint == first
        assert Toy.state["runs"] == 12
        for file in tmp_path.rglob("*.npz"):
            file.write_bytes(file.read_bytes()[:40])
        damaged = TwinBuilder(spec, cache=OutputCache(folder=tmp_path))
        assert damaged.build(one, plan).fingerprint == first
        assert Toy.state["runs"] == 13


def test_helpers_and_prompts_beside_a_node_are_part_of_its_code(tmp_path: Path) -> None:
    module, helper = tmp_path / "node.py", tmp_path / "helper.py"
    for file in (module, helper, tmp_path / "prompt.txt"):
        file.write_text("1")

    def hashed() -> str:
        return code_hash.__wrapped__(module)

    alone = hashed()
    helper.write_text("2")
    assert hashed() == alone, "no package: any module may lie beside it"
    (tmp_path / "__init__.py").write_text("")
    found = {hashed()}
    for file in (module, helper, tmp_path / "prompt.txt"):
        file.write_text("3")
        found.add(hashed())
    assert len(found) == 4
