"""Run a worker process (`python -m harness.run.worker_main FD`) in a model's own environment.

`interpreter.InterpreterProcess` starts it with the file descriptor of its pipe.
"""

import sys
from multiprocessing.connection import Connection

from harness.run.processes import serve


def main() -> None:
    """Run a worker; the first message of the pipe has the arguments of `serve`."""
    pipe = Connection(int(sys.argv[1]))
    serve(pipe, *pipe.recv())


if __name__ == "__main__":
    main()
