"""Signed receipts of uploads, which anybody can verify elsewhere with the server's public key.

The signature is Ed25519 over the receipt as JSON with sorted keys and no blanks.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from harness.errors import StoreError, raised_as
from harness.store.atomic import read_json, write_bytes

if TYPE_CHECKING:  # a participant's machine needs neither a database nor a task
    from harness.leaderboards.server.hosted import Hosted
    from harness.leaderboards.server.store import Upload

VERSION = 1  # of a receipt
SECRET, PUBLIC = "server.key", "server.pub"
MAX_SHOWN = 120  # characters that an error shows of a file that is not a receipt


class Signer:
    """The server's key, made at its first start."""

    def __init__(self, folder: Path) -> None:
        """Read the key in a folder, or make one; write its public half beside it."""
        path = folder / SECRET
        if not path.exists():
            write_bytes(path, Ed25519PrivateKey.generate().private_bytes_raw())
        path.chmod(0o600)
        with raised_as(StoreError, f"file {path}", "the 32 bytes of a key", OSError, ValueError):
            self._key = Ed25519PrivateKey.from_private_bytes(path.read_bytes())
        self.public = self._key.public_key().public_bytes_raw().hex()
        write_bytes(folder / PUBLIC, f"{self.public}\n".encode())

    def receipt(self, upload: "Upload", hosted: "Hosted") -> dict[str, Any]:
        """Return the signed receipt of an upload, with the score shown once it is scored."""
        received = datetime.fromtimestamp(upload.received_at, UTC)
        plain: dict[str, Any] = {
            "version": VERSION,
            "number": upload.number,
            "account": upload.account,
            "method": upload.method,
            "task": hosted.name,
            "split": hosted.split,
            "protocol": hosted.protocol,
            "sha256": upload.sha256,
            "content": upload.content,
            "received_at": received.isoformat(timespec="seconds"),
        }
        if upload.moved is not None:
            plain["shown"] = {hosted.headline: upload.shown}
        return {"receipt": plain, "signature": self._key.sign(_signed(plain)).hex()}


def read_receipt(path: Path, key: Path) -> dict[str, Any]:
    """Verify the signature of a receipt and return its content.

    Args:
        path: A receipt, as the server sent it.
        key: The server's public key, the file `server.pub`.

    Raises:
        StoreError: it is not a receipt of this server, or it was edited.
    """
    plain = read_json(path)
    with raised_as(StoreError, f"key {key}", "a public key in 64 digits", OSError, ValueError):
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.read_text("utf-8").strip()))
    if not isinstance(plain, dict) or "receipt" not in plain:  # such as an error that curl stored
        raise StoreError(
            f"receipt {path}",
            expected="the receipt of one upload, as the server sends it",
            found=json.dumps(plain)[:MAX_SHOWN],
        )
    try:
        receipt: dict[str, Any] = dict(plain["receipt"])
        public.verify(bytes.fromhex(plain["signature"]), _signed(receipt))
    except (InvalidSignature, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"receipt {path}",
            expected=f"one that was signed with the key in {key}",
            found="another signature, or other content",
        ) from error
    return receipt


def _signed(plain: Mapping[str, Any]) -> bytes:
    """Return the bytes of a receipt that are signed."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
