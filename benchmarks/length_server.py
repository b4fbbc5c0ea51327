"""A server of chat completions whose answers take as long as their lengths say.

    python benchmarks/length_server.py --answer TEXT [--lengths FILE NAME] [--seconds 0.1] …

An answer's number of tokens is drawn from the lengths of a family in FILE by a hash of the request,
so that it depends on nothing else. Once one of `--slots` is free, it takes `--seconds`, and its
tokens at `--rate` and its prompt's bytes at `--bytes` a second. Prints the port.
"""

import argparse
import asyncio
import hashlib
import json
from pathlib import Path
from random import Random

from fixed_time_server import completion, serve_json


async def serve(given: argparse.Namespace) -> None:
    """Answer until the process is ended."""
    lengths = [1]
    if given.lengths:
        lengths = json.loads(Path(given.lengths[0]).read_text("utf-8"))[given.lengths[1]]
    slots = asyncio.Semaphore(given.slots)

    async def respond(path: str, body: bytes) -> object:
        del path
        length = Random(hashlib.sha256(body).digest()).choice(lengths)
        async with slots:
            seconds = given.seconds + length / given.rate + len(body) / given.bytes
            await asyncio.sleep(seconds)
        return completion(given.answer, len(body) // 1000, length)

    await serve_json(respond)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--answer", required=True)
    parser.add_argument("--lengths", nargs=2, metavar=("FILE", "NAME"))
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=1e9, help="tokens a second of one answer")
    parser.add_argument("--bytes", type=float, default=1e12, help="bytes of a prompt a second")
    parser.add_argument("--slots", type=int, default=10_000)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
