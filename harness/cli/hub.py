"""`harness hub`: runs, checkpoints and data sets to the Hugging Face hub and back."""

from argparse import Namespace

from harness.cli.output import tell
from harness.record import Run, runs_below
from harness.run.training_record import Training
from harness.trainer import EVALUATIONS


def card(arguments: Namespace) -> int:
    """Write the card of a training's checkpoint, with the scores of runs."""
    from harness.hub.model_card import write_card

    training = Training.open(arguments.training)
    evaluations = arguments.training / EVALUATIONS
    folders = arguments.runs or ([evaluations] if evaluations.is_dir() else [])
    print(write_card(training, [Run.open(run) for folder in folders for run in runs_below(folder)]))
    return 0


def push(arguments: Namespace) -> int:
    """Upload a folder in one commit."""
    from harness.hub.push import push

    pushed = push(
        arguments.path,
        arguments.repository,
        public=arguments.public,
        replace=arguments.replace,
        quiet=arguments.quiet or arguments.json,
    )
    repository, commit = str(pushed.repository), pushed.commit
    tell(
        arguments,
        {"repository": repository, "commit": commit, "files": pushed.files, "what": pushed.what},
        f"{pushed.what}, {pushed.files} file(s) → {repository}, commit {commit}",
        f"harness hub pull {repository} DIR --revision {commit}",
    )
    return 0


def pull(arguments: Namespace) -> int:
    """Download a repository into a new folder."""
    from harness.hub.pull import pull

    pulled = pull(
        arguments.repository,
        arguments.out,
        revision=arguments.revision,
        max_gb=arguments.max_gb,
        quiet=arguments.quiet or arguments.json,
    )
    repository, commit, files = str(pulled.repository), pulled.commit, pulled.files
    plain = {"repository": repository, "commit": commit, "files": files, "bytes": pulled.bytes}
    text = f"{repository}: commit {commit}, {files} file(s) → {arguments.out}"
    tell(arguments, {**plain, "folder": str(arguments.out)}, text)
    return 0
