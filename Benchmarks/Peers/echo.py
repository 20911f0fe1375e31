"""An echo server on Python's asyncio with uvloop, to compare with: `python3 echo.py [--port N]`."""

import asyncio
import signal
import sys

try:
    import uvloop
except ImportError:
    print("echo.py: needs the module uvloop", file=sys.stderr)
    sys.exit(69)


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport  # uvloop has set TCP_NODELAY.

    def data_received(self, data):
        self.transport.write(data)

    def pause_writing(self):  # Else the answers to a client that does not read pile up.
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


async def serve(port):
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(Echo, "127.0.0.1", port, backlog=4096)
    print("listening on 127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    await stopped.wait()


match sys.argv[1:] or ["--port", "7007"]:
    case ["--port", port] if port.isdecimal() and int(port) < 65536: uvloop.run(serve(int(port)))
    case _: sys.exit("usage: echo.py [--port N]")
