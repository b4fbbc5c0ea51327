"""The card of a checkpoint: a README.md in the Hugging Face hub's form, and a figure of curves.

`harness train` and `harness hub card` write it from the training's manifest and finished runs.
Equal trainings and runs give equal cards: they have no time and no path of this machine.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import checkpoint_config, papers, plugins
from harness.errors import HarnessError, UsageError, counted
from harness.files import read_text
from harness.hub.fetch import fetched_sources, repositories
from harness.hub.local_paths import without_paths
from harness.leaderboards import formatting
from harness.leaderboards.curves import draw_curves
from harness.leaderboards.export.hub import BOARD_NAME, metadata, model_index
from harness.leaderboards.render.markdown import escape, grid
from harness.leaderboards.row import Row, row
from harness.record import Run
from harness.run.checkpoint_provenance import read_origins
from harness.run.training_record import Training
from harness.store.atomic import write_bytes

CARD, CURVES = "README.md", "curves.svg"
WRITTEN_MARK = "<!-- Written by harness; a card without this line is left as it is. -->"
DRAWN_NUMBERS = re.compile(r"rewards?(/.*)?|eval/.*|loss")
"""Logged numbers whose curves a card shows: `reward`, `rewards/accuracy`, `eval/…`, `loss`."""


def write_card(training: Training, runs: Sequence[Run]) -> Path:
    """Write the card of a finished training's checkpoint, and its curves; return the card's path.

    Raises:
        UsageError: the training is not finished, the checkpoint has a card that harness did not
            write, or a run is of another model.
    """
    path = training.checkpoint / CARD
    if not training.is_finished or not training.checkpoint.is_dir():
        raise UsageError(
            f"training {training.folder}",
            expected="a finished one, with its checkpoint",
            found="none",
        )
    if path.exists() and WRITTEN_MARK not in read_text(path):
        raise UsageError(
            f"card {path}",
            expected="none, or one that harness wrote",
            found="another one",
            fix="Move it away to have one written.",
        )
    rows = [_row_of(training, run) for run in runs]
    curves = draw_curves(training, DRAWN_NUMBERS)
    if curves is not None:
        write_bytes(training.checkpoint / CURVES, curves.encode())
    text = "\n".join(_body(training, rows, curves=curves is not None))
    write_bytes(path, f"{_metadata(training, runs)}\n{WRITTEN_MARK}\n\n{text}\n".encode())
    return path


def _row_of(training: Training, run: Run) -> Row:
    """Return the board row of a run; raise UsageError unless its model uses the checkpoint."""
    board_row, config_hash = row(run), training.manifest["config_hash"]
    hashes = {origin.config_hash for origin in read_origins(run.folder)}
    if board_row.training is not None:
        hashes.add(board_row.training.config_hash)
    if config_hash not in hashes:
        raise UsageError(
            f"run {run.folder}",
            expected=f"one of a checkpoint of {training.folder}, config_hash {config_hash}",
            found=f"{board_row.model_spec}, "
            f"{', '.join(sorted(hashes)) or 'of no recorded training'}",
            fix="Evaluate the checkpoint, and give that run.",
        )
    return board_row


def _metadata(training: Training, runs: Sequence[Run]) -> str:
    """Return the card's YAML header; it names only data sets that were fetched from the hub."""
    manifest = training.manifest
    base = _base_checkpoint(manifest)
    root = manifest.get("data_root", "")
    trained_on = {_hub_source(task["name"], root)[0] for task in manifest["tasks"]} - {""}
    sources = {
        run: _hub_source(run.results["task"], run.manifest["data"]["root"])[0] for run in runs
    }
    from_hub = [run for run, repository in sources.items() if repository]
    boards = {run.results["task"]: sources[run] for run in from_hub}
    loads_with_transformers = (training.checkpoint / "config.json").is_file()
    is_base_on_hub = BOARD_NAME.fullmatch(base) and manifest.get("base_is_folder") is False
    return metadata(
        {
            "base_model": base if is_base_on_hub else None,
            "library_name": "transformers" if loads_with_transformers else None,
            "pipeline_tag": "image-text-to-text" if _chats(manifest) else None,
            "tags": ["visual-reasoning-harness", str(manifest["method"]["name"])],
            "datasets": sorted(trained_on),
            "model-index": from_hub
            and model_index(training.folder.resolve().name, from_hub, boards),
        }
    )


def _chats(manifest: Mapping[str, Any]) -> bool:
    """Return True if the model of a training writes text about images."""
    description = (manifest["model"] or {}).get("description", {})
    return isinstance(description.get("chat"), Mapping)


def _hub_source(task: str, root: str) -> tuple[str, str]:
    """Return the (repository, commit) of the hub from which a task's files below `root` came.

    Both are "" for files of another source, and for tasks of several repositories.
    """
    card = plugins.find_card(task)
    if card is None or not root or len(set(repositories(card).values())) != 1:
        return "", ""
    sources = [source for source in fetched_sources(Path(root), card) if source.get("files")]
    return (str(sources[0]["repository"]), str(sources[0]["commit"])) if sources else ("", "")


def _base_checkpoint(manifest: Mapping[str, Any]) -> str:
    """Return the checkpoint that a training started from; "" for one from scratch."""
    return str(((manifest["model"] or {}).get("base") or {}).get("checkpoint") or "")


def _body(training: Training, rows: Sequence[Row], *, curves: bool) -> Iterator[str]:
    """Yield the lines of the card below its header; `curves`: there is a figure to show."""
    manifest = training.manifest
    method, provenance = manifest["method"], manifest["provenance"]
    base = without_paths(_base_checkpoint(manifest))
    weights = ((manifest["model"] or {}).get("base") or {}).get("weights")
    steps = manifest["result"].get("steps") if isinstance(manifest["result"], dict) else None
    steps_text = "" if steps is None else f", {counted(steps, 'step')}"
    yield f"# {escape(str(method['name']))}{f' on {escape(base)}' if base else ''}"
    yield ""
    yield (
        f"Trained by harness {escape(str(manifest['harness']))} "
        f"(commit {str(provenance.get('commit'))[:12]}){steps_text}, seed {manifest['seed']}, from "
        f"{escape(base) or 'no weights'}{f' (weights {weights})' if weights else ''}. "
        f"`config_hash` of the training: `{manifest['config_hash']}`."
    )
    yield from ("", "## Method", "")
    if paper := _paper(str(method["name"])):
        yield from (f"Paper: {escape(paper)}.", "")
    yield f"`{without_paths(str(method['spec']))}`, which with its defaults is"
    yield ""
    settings = [
        [escape(key), escape(without_paths(str(value)))]
        for key, value in method["settings"].items()
    ]
    yield from grid(["setting", "value"], settings, left=2)
    yield from ("", "## Training data", "")
    yield from _data(manifest)
    if curves:
        yield from ("", "## Curves", "", f"![Logged numbers by step]({CURVES})")
    yield from ("", "## Scores", "")
    yield from _scores(rows)
    yield from ("", "## Use", "")
    yield from _use(training, manifest)


def _paper(method: str) -> str:
    """Return the paper of a method; "" if it declares none."""
    try:
        return papers.declared_settings(method)[0]
    except HarnessError:
        return ""


def _data(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the section on training data: each task with its source and hashes of its content."""
    if not manifest["tasks"]:
        yield "None: the trainer draws its own scenes."
        return
    root = manifest.get("data_root", "")
    hashes = ("fingerprint", "images", "ids")
    rows = [
        [
            escape(without_paths(str(task["spec"]))),
            escape("@".join(filter(None, _hub_source(task["name"], root))) or formatting.NOTHING),
            *(str(task.get(key, "")) for key in ("version", "n_total", *hashes)),
        ]
        for task in manifest["tasks"]
    ]
    head = ["task", "fetched from the hub", "version", "samples", "annotations", "images", "ids"]
    yield from grid(head, rows, left=2)
    yield ""
    yield "The last three columns are hashes of the content. `harness_samples.jsonl` has the id of"
    yield "every sample, so that harness finds evaluated samples that were trained on."


def _scores(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of scores, one line for each run."""
    if not rows:
        yield "Not evaluated."
        return
    head = ["task", "split", "protocol", "metric", "note", "value", "95 % interval", "scored"]
    cells = [
        [
            escape(board_row.task),
            escape(" ".join(filter(None, (board_row.split, board_row.subset)))),
            escape(board_row.protocol),
            escape(board_row.headline),
            escape(_notes(board_row)),
            formatting.number(board_row.value),
            formatting.span(board_row.interval),
            f"{board_row.n_scored} of {board_row.n_total}",
        ]
        for board_row in rows
    ]
    yield from grid(head, cells, left=5)


def _notes(board_row: Row) -> str:
    """Return the warnings beside a score: samples that were trained on, and badges of the row."""
    trained = board_row.trained_on
    return "; ".join([*([str(trained)] if trained and trained.is_any else []), *board_row.badges])


def _use(training: Training, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that pull the checkpoint and evaluate it."""
    model = checkpoint_config.read(training.checkpoint)
    yield from ("```sh", "harness hub pull ORG/NAME DIR   # checks every file's hash")
    if model is not None:
        task = manifest["tasks"][0]["name"] if manifest["tasks"] else "TASK"
        yield f'harness eval --model "{model.name}(checkpoint=DIR)" --tasks {task} --data ROOT'
    yield from ("```", "")
    yield "`harness_inference.json` says how it is asked; what is typed wins."
