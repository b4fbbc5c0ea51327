"""Folders that tests push to a hub and pull from it."""

import json

from harness.record import RESULTS, SCORES
from harness.store.checksums import CHECKSUMS

TOKEN = "hf_a_secret"
NAME, MODEL = "org/runs", "models/org/net"


def weights(numbers=b"\0\0\0\0"):
    """A whole safetensors file of one number."""
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, len(numbers)]}})
    return len(head).to_bytes(8, "little") + head.encode() + numbers


def unfinished(run):
    for name in (RESULTS, SCORES, CHECKSUMS):
        (run / name).unlink()


def change(path, **fields):
    plain = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: one for key, one in plain.items() if one is not None}))


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def left(folder):
    """What a command left in a folder, hidden things too."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
