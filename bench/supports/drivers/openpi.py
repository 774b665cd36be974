"""openpi-client, and a server of its kind: a plain WebSocket, MessagePack, answered by 16 rows of 7 zeros.

`openpi.py serve` serves and prints its port; without an argument it drives.
"""

import asyncio
import sys
import time
from importlib import metadata
from typing import Any

import lines
import numpy as np
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.asyncio.server import serve as listen

now = time.perf_counter


class OpenPi:
    """One open socket, and an observation of each size."""

    def open(self, port: int, sizes: dict[str, int]) -> str:
        """`sizes` are bytes of frames; a state vector of 8 comes on top."""
        self.policy = WebsocketClientPolicy("127.0.0.1", port)
        state = np.zeros(8, np.float32)
        self.parts = {
            size: {"image": np.zeros(count, np.uint8), "state": state, "prompt": "hold still"}
            for size, count in sizes.items()
        }
        return metadata.version("openpi-client")

    def predict(self, size: str, calls: int) -> dict[str, list[float]]:
        """Milliseconds of each call."""
        took: list[float] = []
        for _ in range(calls):
            begun = now()
            self.policy.infer(self.parts[size])
            took.append((now() - begun) * 1000)
        return {"ms": took}


async def serve() -> None:
    """As openpi's own server: its metadata first, then an answer to every message."""
    pack = msgpack_numpy.Packer().pack

    async def answer(socket: Any) -> None:
        await socket.send(pack({}))
        async for message in socket:
            msgpack_numpy.unpackb(message)
            await socket.send(pack({"actions": np.zeros((16, 7))}))

    async with listen(answer, "127.0.0.1", 0, compression=None, max_size=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until whoever started it lets go
        server.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        pi = OpenPi()
        lines.serve({"open": pi.open, "predict": pi.predict})
