"""Publications: copies of runs that anybody with the benchmark can score again, without the model.

`publish` copies a run folder without paths of its machine and adds `publication.json`: a hash chain
over the lines of its files. Each link hashes the previous link and one line; the link after each
file is stored, so that the first edited file can be named. The last link is the *head*: if it is
quoted elsewhere (in a paper, a pull request), every later change is visible, even one by somebody
who computes the chain again. `check` verifies publications and scores them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, StoreError
from harness.files import open_regular
from harness.leaderboards.baseline import keep
from harness.record import MANIFEST, RESULTS, SCORES, Run
from harness.run.judging import VERDICTS, TaskSource, verdicts_of
from harness.run.rescore import rescore
from harness.store.atomic import read_json, write_json
from harness.store.checksums import CHECKSUMS
from harness.store.journal import files

PUBLICATION = "publication.json"
VERSION = 1  # of publication.json
START = "harness publication 1"  # first link of the chain


def publish(run: Run, folder: Path) -> str:
    """Copy a finished run as a publication into a new folder; return the head of its chain.

    Raises:
        StoreError: the folder exists, the run is not finished, or files of it were changed since.
    """
    journals = [path.name for path in files(run.folder)]
    if folder.exists() or not journals:
        raise StoreError(
            f"publication {folder} of {run.folder}",
            expected="a new folder, and a run with predictions",
            found="a folder that exists" if folder.exists() else "a copy without predictions",
        )
    verdicts = [VERDICTS] if (run.folder / VERDICTS).exists() else []
    keep(run, folder, files=(*journals, *verdicts))
    chain = _chain(folder)
    write_json(folder / PUBLICATION, {"version": VERSION, "chain": chain, "head": chain[-1][1]})
    return chain[-1][1]


def _chain(folder: Path) -> list[tuple[str, str]]:
    """Return each file of a publication with the link after its last line, in a fixed order."""
    first = [name for name in (MANIFEST, SCORES, RESULTS, CHECKSUMS) if (folder / name).exists()]
    remaining = {path.name for path in folder.iterdir() if path.name != PUBLICATION}
    link, links = START.encode(), []
    for name in (*first, *sorted(remaining - set(first))):
        link = _hash(link, name.encode())
        with open_regular(folder / name) as lines:
            for line in lines:
                link = _hash(link, line)
        links.append((name, link.hex()))
    return links


def _hash(link: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(link + content, digest_size=32).digest()


def check_chain(folder: Path) -> str:
    """Return the head of a publication's chain.

    Raises:
        StoreError: a file was edited, added or removed (the first is named), or the chain itself.
    """
    plain = read_json(folder / PUBLICATION)
    try:
        recorded = [(str(name), str(link)) for name, link in plain["chain"]]
        version, head = plain["version"], plain["head"]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"file {folder / PUBLICATION}", expected="a hash chain", found=type(error).__name__
        ) from error
    links = _chain(folder)
    before, now = dict(recorded), dict(links)
    faults = {name: "none" for name in before if name not in now}
    faults |= {name: "added" for name in now if name not in before}
    faults |= {name: "edited" for name in now if name in before and now[name] != before[name]}
    if faults:
        name, fault = next(iter(faults.items()))
        raise StoreError(f"file {folder / name}", expected="what was published", found=fault)
    if version != VERSION or head != links[-1][1] or recorded != links:
        raise StoreError(
            f"file {folder / PUBLICATION}",
            expected=f"version {VERSION} and head {links[-1][1][:16]}…",
            found=f"version {version!r} and head {str(head)[:16]}…",
        )
    return links[-1][1]


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of checking a publication and scoring it again."""

    folder: Path
    head: str = ""
    name: str = ""
    """Model, task, protocol, headline and its number, as scored now."""
    received: str = ""
    """Number and account of the receipt that is of its predictions, if receipts were given."""
    faults: tuple[str, ...] = ()
    """Differences and refusals; empty if chain and scores are as published."""


def check(
    folders: Sequence[Path],
    data_root: Path,
    *,
    heads: Sequence[str] = (),
    receipts: Sequence[Mapping[str, Any]] = (),
) -> list[Checked]:
    """Check the chain of each publication at or below some folders, and score it again.

    Args:
        folders: The folders.
        data_root: The folder of the benchmarks' data.
        heads: Heads that were quoted elsewhere; any other head is a fault. Empty: not checked.
        receipts: Receipts of a test server with verified signatures; a publication of other
            predictions is a fault. Empty: not checked.

    Raises:
        StoreError: there is no publication.
    """
    paths = sorted({path.parent for folder in folders for path in folder.rglob(PUBLICATION)})
    if not paths:
        raise StoreError(
            f"folder {', '.join(map(str, folders))}", expected=PUBLICATION, found="none"
        )
    return [_check_publication(path, data_root, heads, receipts) for path in paths]


def _check_publication(
    folder: Path,
    data_root: Path,
    heads: Sequence[str],
    receipts: Sequence[Mapping[str, Any]],
) -> Checked:
    """Check one publication, and score it again from its responses and predictions."""
    head = ""
    try:
        head = check_chain(folder)
        if heads and head not in heads:
            return Checked(folder, head, faults=(f"head {head} is not among the quoted ones",))
        run = Run.open(folder)
        run.check_files()
        receipt = next((receipt for receipt in receipts if _is_of(receipt, run)), None)
        if receipts and receipt is None:
            return Checked(folder, head, faults=("no receipt is of these predictions",))
        task = run.manifest["task"]
        source = TaskSource(task["spec"], data_root, (), verdicts_of(run), task["protocol"])
        results, differing = rescore(source, run)
    except (HarnessError, OSError) as error:
        return Checked(folder, head, faults=(f"refused: {error}",))
    value = results["metrics"][results["headline"]]  # type: ignore[index]
    scored = f"{results['task']} {results['split']} {results['subset'] or ''}".strip()
    name = f"{results['model']} on {scored} by {results['protocol']}: {results['headline']} {value}"
    received = f"{receipt['number']} of account {receipt['account']}" if receipt else ""
    return Checked(folder, head, name, received, tuple(differing))


def _is_of(receipt: Mapping[str, Any], run: Run) -> bool:
    """Return True if a receipt names a run's predictions, task, split and protocol."""
    task = run.manifest["task"]
    content = run.manifest["model"]["description"].get("content")
    of_run = (content, task["name"], task["split"], task["protocol"])
    of_receipt = tuple(receipt.get(name) for name in ("content", "task", "split", "protocol"))
    return content is not None and of_receipt == of_run
