"""Work for the processes that read uploads: what a flaw in a decoder could try."""

import json
import os
import socket
import subprocess
from pathlib import Path


def attempts(task, *, secret, port):
    """Return which actions a confined process can carry out, as JSON."""
    label = task.annotations[0]
    actions = {
        "read the labels": lambda: label.read_bytes(),
        "write into its folder": lambda: Path("x").write_bytes(b"1"),
        "read another file": lambda: Path(secret).read_bytes(),
        "read the passwords": lambda: Path("/etc/passwd").read_bytes(),
        "write another file": lambda: Path(secret).write_bytes(b"1"),
        "write the labels": lambda: label.open("ab"),
        "link to another file": lambda: os.link(secret, "y"),
        "connect": lambda: socket.create_connection(("127.0.0.1", port), 5),
        "start a program": lambda: subprocess.run(["/bin/true"], check=True),
    }
    done = {}
    for name, action in actions.items():
        try:
            action()
            done[name] = True
        except OSError:
            done[name] = False
    return json.dumps(done)


def spin(task):
    while True:
        pass


def fill(task):
    return str(len(bytearray(2**34)))


def crash(task):
    os.abort()


def fault(task):
    raise RuntimeError("a secret of the server")
