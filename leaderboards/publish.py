"""Publications: runs that anybody with the benchmark can score again, without the model.

A publication is a run folder without paths of the machine that it was made on, and with
`publication.json`: a hash chain over the lines of its files. Each link hashes the link before and
one line; the link after each file is kept, so that the first file that was edited can be named. The
last link, the *head*, stands for the whole: who quotes it elsewhere (a paper, a pull request)
makes every later change visible, also by somebody who computes the chain anew.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
VERSION = 1
START = "harness publication 1"


def publish(run: Run, place: Path) -> str:
    """Copy a finished run as a publication into a new folder; return the head of its chain.

    Raises:
        StoreError: the folder exists, the run is not finished, or files of it were changed since.
    """
    journals = [path.name for path in files(run.folder)]
    if place.exists() or not journals:
        raise StoreError(
            f"publication {place} of {run.folder}",
            expected="a new folder, and a run with predictions",
            found="a folder that exists" if place.exists() else "a copy without predictions",
        )
    verdicts = [VERDICTS] if (run.folder / VERDICTS).exists() else []
    keep(run, place, files=(*journals, *verdicts))
    chain = _chain(place)
    write_json(place / PUBLICATION, {"version": VERSION, "chain": chain, "head": chain[-1][1]})
    return chain[-1][1]


def _chain(folder: Path) -> list[tuple[str, str]]:
    """Return each file of a publication with the link after its last line, in a fixed order."""
    first = [name for name in (MANIFEST, SCORES, RESULTS, CHECKSUMS) if (folder / name).exists()]
    others = {path.name for path in folder.iterdir() if path.name != PUBLICATION}
    link, links = START.encode(), []
    for name in (*first, *sorted(others - set(first))):
        link = _hash(link, name.encode())
        with open_regular(folder / name) as lines:
            for line in lines:
                link = _hash(link, line)
        links.append((name, link.hex()))
    return links


def _hash(link: bytes, part: bytes) -> bytes:
    return hashlib.blake2b(link + part, digest_size=32).digest()


def check_chain(folder: Path) -> str:
    """Return the head of a publication's chain.

    Raises:
        StoreError: the chain does not fit: the first file that differs is named.
    """
    plain = read_json(folder / PUBLICATION)
    try:
        kept = [(str(name), str(link)) for name, link in plain["chain"]]
        version, head = plain["version"], plain["head"]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"file {folder / PUBLICATION}", expected="a hash chain", found=type(error).__name__
        ) from error
    links = _chain(folder)
    before, now = dict(kept), dict(links)
    faults = {name: "none" for name in before if name not in now}
    faults |= {name: "added" for name in now if name not in before}
    faults |= {name: "edited" for name in now if name in before and now[name] != before[name]}
    for name, fault in faults.items():
        raise StoreError(f"file {folder / name}", expected="what was published", found=fault)
    if version != VERSION or head != links[-1][1] or kept != links:
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
    faults: tuple[str, ...] = ()
    """Differences and refusals; empty if it is what it says."""


def check(folders: Sequence[Path], data_root: Path, *, heads: Sequence[str] = ()) -> list[Checked]:
    """Check the chain of each publication at or below some folders, and score it again.

    With `heads`, which were quoted elsewhere, others are faults.

    Raises:
        StoreError: there is no publication.
    """
    places = sorted({path.parent for folder in folders for path in folder.rglob(PUBLICATION)})
    if not places:
        raise StoreError(
            f"folder {', '.join(map(str, folders))}", expected=PUBLICATION, found="none"
        )
    return [_check(place, data_root, heads) for place in places]


def _check(folder: Path, data_root: Path, heads: Sequence[str]) -> Checked:
    head = ""
    try:
        head = check_chain(folder)
        if heads and head not in heads:
            return Checked(folder, head, faults=(f"head {head} is none of those that are quoted",))
        run = Run.open(folder)
        run.check_files()
        source = TaskSource(run.manifest["task"]["spec"], data_root, (), verdicts_of(run))
        results, differing = rescore(source, run)
    except (HarnessError, OSError) as error:
        return Checked(folder, head, faults=(f"refused: {error}",))
    value = results["metrics"][results["headline"]]  # type: ignore[index]
    what = f"{results['task']} {results['split']} {results['subset'] or ''}".strip()
    name = f"{results['model']} on {what} by {results['protocol']}: {results['headline']} {value}"
    return Checked(folder, head, name, tuple(differing))
