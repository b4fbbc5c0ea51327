"""Whether rewards in verifiers are the numbers of `harness score`, to the last bit.

    harness data make shapes --out data --size 100
    python benchmarks/environments.py --data data [--responses 1000] [--families load,mask,text]

Every benchmark of the folder is exported and loaded by verifiers. Then responses to one task of
each form of answer (right, malformed and random ones, of `pocket`'s grammar) are rewarded as
verifiers does it, and scored by the command from a file. Rewards are compared with the record's.
"""

import argparse
import asyncio
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import verifiers
import verifiers.v1 as vf

from harness.cli.main import main as command
from harness.environments.rewards import ProtocolReward
from harness.environments.session import RewardEnvironment, open_environment
from harness.environments.verifiers import (
    RESPONSES_KEY,
    EpisodeState,
    HarnessTaskset,
    HarnessTasksetConfig,
    UnitData,
    UnitTask,
)
from harness.model import ResponseReader
from harness.record import Run
from harness.rehearsal.responses import draw
from harness.rehearsal.server import asked_of
from harness.run.verify import perfect
from harness.scores import value_of
from harness.types import Sample

FAMILIES = {
    "mask": "reason_seg",
    "mask_track": "mevis",
    "boxes": "coco_detection",
    "box_track": "rvtbench_grounding",
    "points": "where2place",
    "count": "counting",
    "choice": "mmsi_bench",
    "number": "vsi_bench",
    "interval": "charades_sta",
    "text": "rvtbench_vqa",
    "units of several": "ref_davis17",
    "ratio over categories": "revos",
    "product with a corpus": "saco",
}
MODEL, LOAD = "pocket", "load"


def response(environment: RewardEnvironment, sample: Sample, number: int) -> str:
    """Return the right response, or one that is drawn by number."""
    answer = perfect(sample).answer
    assert isinstance(environment.model, ResponseReader) and answer is not None
    if number % 3 == 0:
        return environment.model.write(sample.query, answer)[0]
    (request,) = environment.model.requests(sample.query)
    return draw(asked_of(environment.fields(request, MODEL)), seed=number).text


def rounds(environment: RewardEnvironment, total: int) -> Iterator[dict[str, str]]:
    """Yield responses by sample id, a round of all samples at a time, until there are enough."""
    samples = [sample for unit in environment.units.values() for sample in unit]
    left = total
    for number in count():
        if left <= 0:
            return
        yield {s.id: response(environment, s, number + at) for at, s in enumerate(samples)}
        left -= len(samples)


async def rewards(taskset: HarnessTaskset, said: dict[str, str]) -> dict[str, float]:
    """Return verifiers' reward of each unit."""
    given = {}
    for task in taskset:
        unit = task.data.open().units[task.data.unit]
        trace: vf.Trace = vf.Trace[UnitData, EpisodeState](
            task=vf.TraceTask(type="UnitTask", data=task.data),
            agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig())),
            state=EpisodeState(),
            info={RESPONSES_KEY: [[said[sample.id]] for sample in unit]},
        )
        await task.score(trace)
        given[task.data.unit] = trace.reward
    return given


def recorded(
    environment: RewardEnvironment, data: Path, said: dict[str, str], place: Path
) -> dict[str, float | None]:
    """Return the metric of each unit by the record that `harness score` writes."""
    file = place / "responses.jsonl"
    rows = [json.dumps({"id": name, "response": text}) for name, text in said.items()]
    file.write_text("\n".join(rows))
    options = ["--tasks", environment.settings.task, "--data", str(data), "--out", str(place)]
    reader = f"{MODEL}(backend=stored)"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = command(["score", *options, "--predictions", str(file), "--model", reader])
    assert code == 0, f"harness score: exit code {code}"
    (folder,) = {path.parent for path in place.rglob("results.json")}
    assert isinstance(environment.reward, ProtocolReward)
    metrics, names = environment.task.protocol.metrics, environment.reward.metrics
    numbers = {}
    for unit in Run.open(folder).units():
        values = [value_of(metrics, [unit], name) for name in names]
        counted = [value for value in values if value is not None]
        numbers[unit.unit] = sum(counted) / len(counted) if counted else None
    return numbers


def compare(task: str, data: Path, total: int) -> str:
    """Return how many rewards of a task equal the record."""
    config = HarnessTasksetConfig(spec=task, data=str(data), model=MODEL, images=False)
    environment = open_environment(config.settings())
    equal = uncounted = units = responses = 0
    distinct = set[float]()
    for said in rounds(environment, total):
        given = asyncio.run(rewards(HarnessTaskset(config), said))
        with tempfile.TemporaryDirectory() as place:
            scored = recorded(environment, data, said, Path(place))
        responses += len(said)
        for name, reward in given.items():
            units += 1
            distinct.add(reward)
            uncounted += scored[name] is None
            equal += reward == (0.0 if scored[name] is None else scored[name])
    metrics = environment.reward.metrics if isinstance(environment.reward, ProtocolReward) else ()
    return (
        f"{responses} responses, {equal} of {units} rewards equal ({len(distinct)} different, "
        f"{uncounted} of units that do not count); {', '.join(metrics)[:60]}"
    )


def load_all(data: Path) -> str:
    """Export all benchmarks and return how many verifiers loads."""
    with tempfile.TemporaryDirectory() as place:
        with contextlib.redirect_stdout(io.StringIO()):
            command(["env", "export", "--data", str(data), "--out", place, "--model", MODEL])
        names = sorted(path.name for path in Path(place).iterdir())
        loaded = 0
        for name in names:
            sys.path.insert(0, str(Path(place) / name))
            config = vf.resolve_env_config({"taskset": {"id": name.replace("_", "-")}})
            environment = vf.load_environment(config)
            loaded += all(isinstance(task, UnitTask) for task in islice(environment.taskset, 3))
        return f"{loaded} of {len(names)} exported tasks load in verifiers {verifiers.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--responses", type=int, default=1000)
    parser.add_argument("--families", default=",".join((LOAD, *FAMILIES)))
    given = parser.parse_args()
    for family in given.families.split(","):
        if family == LOAD:
            print(load_all(given.data), flush=True)
            continue
        outcome = compare(FAMILIES[family], given.data, given.responses)
        print(f"{family} ({FAMILIES[family]}): {outcome}", flush=True)


if __name__ == "__main__":
    main()
