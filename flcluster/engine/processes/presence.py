"""Who of several processes is still there: a line to rank 0, which the system cuts when a process ends."""

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import TextIOWrapper

from lightning.fabric import Fabric

PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""How the kernels of two machines see that the other is there, in seconds and times; not every system has all."""


@dataclass(frozen=True)
class Gone:
    """A process that ended before the run did."""

    rank: int
    why: str | None = None
    """What it said, if it could."""


@dataclass(frozen=True)
class Word(Gone):
    """The last word of a process, or what rank 0 tells of another."""

    done: bool = False


class Presence:
    """Rank 0 holds a line to every other rank; ``lost`` is called on each rank when one has ended without being done.

    No clock runs: a rank that computes for an hour, or is suspended, keeps its line. The system cuts it when the
    process ends, also by ``kill -9``; of a machine that is gone TCP's own probes tell within half a minute. What a rank
    says before it fails reaches the others. Where no line can be had, nothing is noticed here.
    """

    def __init__(self, fabric: Fabric, lost: Callable[[Gone], None]) -> None:
        self.rank, self.size, self.lost = fabric.global_rank, fabric.world_size, lost
        self.lines: dict[int, socket.socket] = {}
        self.over = False
        self.guard = threading.Lock()
        server = _server() if self.rank == 0 else None
        told = (server.getsockname()[1], secrets.token_hex(16)) if server else None
        port, self.token = fabric.broadcast(told, src=0) or (None, "")
        if server is not None:
            _begin(self._take, server)
        elif self.rank > 0 and port is not None:
            self._call(port)

    @property
    def stands(self) -> bool:
        """Whether this rank has a line, or is the one that the others have lines to."""
        return self.rank == 0 or bool(self.lines)

    def leave(self, why: str | None = None) -> None:
        """Say that this rank is done, or why it is not and ends all the same."""
        self.over = True
        self._tell(Word(self.rank, why, done=why is None), list(self.lines.values()))

    def _call(self, port: int) -> None:
        """Make the line to rank 0."""
        try:
            line = _lasting(socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=20))
            line.sendall(f"{json.dumps({'rank': self.rank, 'token': self.token})}\n".encode())
        except (OSError, KeyError):
            return
        self.lines[0] = line
        _begin(self._learn, line, 0)

    def _take(self, server: socket.socket) -> None:
        """Take the lines of the others; whoever else calls is not listened to."""
        with server:
            while len(self.lines) < self.size - 1:
                line, _ = server.accept()
                _begin(self._greet, _lasting(line))

    def _greet(self, line: socket.socket) -> None:
        try:
            told = json.loads(line.makefile(encoding="utf-8").readline(200))
            known = secrets.compare_digest(str(told["token"]), self.token)
            rank = int(told["rank"])
        except (OSError, ValueError, KeyError, TypeError):
            known = False
        if not known:
            line.close()
            return
        self.lines[rank] = line
        self._learn(line, rank)

    def _learn(self, line: socket.socket, rank: int) -> None:
        """Wait for the last word of who is at the other end; an end without one is that of a process."""
        word = _heard(line.makefile(encoding="utf-8")) or Word(rank)
        with self.guard:
            if word.done or self.over:
                return
            self.over = True
            self._tell(word, [other for at, other in self.lines.items() if at != word.rank and self.rank == 0])
        self.lost(Gone(word.rank, word.why))

    @staticmethod
    def _tell(word: Word, lines: list[socket.socket]) -> None:
        for line in lines:
            try:
                line.sendall(f"{json.dumps(asdict(word))}\n".encode())
            except OSError:  # gone itself
                continue


def _heard(reader: TextIOWrapper) -> Word | None:
    try:
        return Word(**json.loads(reader.readline()))
    except (OSError, ValueError, TypeError):
        return None


def _server() -> socket.socket | None:
    """Listen where the others look for rank 0: on this machine alone if that is the loopback."""
    name = os.environ.get("MASTER_ADDR", "")
    here = name if name in ("127.0.0.1", "localhost") else ""
    try:
        if not here and socket.has_dualstack_ipv6():
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server((here, 0))
    except OSError:
        return None


def _lasting(line: socket.socket) -> socket.socket:
    """Let the kernel look now and then whether the other machine is there; reading waits for ever."""
    line.settimeout(None)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return line


def _begin(function: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()
