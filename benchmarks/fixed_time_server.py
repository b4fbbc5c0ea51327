"""A server of chat completions that answers every request after a fixed time, however many ask.

    python benchmarks/fixed_time_server.py --answer TEXT [--seconds 0.5]

Prints its port. `GET /counts` returns what was measured since the last `GET /reset`: requests,
their bytes, and the mean number in flight between the first and the last fifth of the arrivals.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from time import perf_counter

BLOCK = 1 << 20


class Counts:
    """Times at which requests arrived and were answered, in seconds."""

    def __init__(self) -> None:
        self.arrived: list[float] = []
        self.answered: list[float] = []
        self.bytes = 0

    def summary(self) -> dict[str, float]:
        """Requests, bytes a request, seconds, and requests in flight in steady state."""
        arrived, answered = sorted(self.arrived), sorted(self.answered)
        if len(arrived) < 10:
            return {"requests": len(arrived)}
        fifth = len(arrived) // 5
        start, end = arrived[fifth], arrived[-fifth]
        area = sum(
            max(0.0, min(leaves, end) - max(enters, start))
            for enters, leaves in zip(self.arrived, self.answered, strict=False)
        )
        return {
            "requests": len(arrived),
            "bytes": self.bytes / len(arrived),
            "seconds": answered[-1] - arrived[0],
            "in_flight": area / max(end - start, 1e-9),
            "steady": (len(arrived) - 2 * fifth) / max(end - start, 1e-9),
        }


def completion(answer: str, prompt_tokens: int = 1, completion_tokens: int = 1) -> object:
    """Return a chat completion."""
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": answer},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


async def serve_json(respond: Callable[[str, bytes], Awaitable[object]]) -> None:
    """Print a port of this machine, and answer there by path and body until the process ends."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                fields = dict(
                    line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line
                )
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                path = head.split(" ", 2)[1]
                if path.endswith("/models"):
                    reply: object = {"object": "list", "data": [{"id": "model", "object": "model"}]}
                else:
                    reply = await respond(path, body)
                data = json.dumps(reply).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(data) + data
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0, limit=BLOCK, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def serve(answer: str, seconds: float) -> None:
    """Answer after a fixed time until the process ends."""
    counts = Counts()

    async def respond(path: str, body: bytes) -> object:
        nonlocal counts
        if path.endswith("/chat/completions"):
            now = counts
            place = len(now.arrived)
            now.arrived.append(perf_counter())
            now.answered.append(float("inf"))
            now.bytes += len(body)
            await asyncio.sleep(seconds)
            now.answered[place] = perf_counter()
            return completion(answer)
        if path.endswith("/reset"):
            counts = Counts()
            return {}
        return counts.summary()

    await serve_json(respond)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--answer", required=True)
    parser.add_argument("--seconds", type=float, default=0.5)
    given = parser.parse_args()
    asyncio.run(serve(given.answer, given.seconds))


if __name__ == "__main__":
    main()
