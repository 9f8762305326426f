"""Processes that torchrun starts again find each other, not those that are gone."""

import os
import socket


def meet_anew() -> None:
    """Agree on a new place to meet at, where processes were started again.

    Torchrun's static rendezvous keeps its store over restarts, with the addresses of the processes that have ended;
    whoever is first would wait for those. So the first rank opens a store of its own and says so in the old one.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0" or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    old = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    key = f"flcluster/start_{attempt}"
    if os.environ["RANK"] == "0":
        with socket.socket() as probe:
            probe.bind(("", 0))
            old.set(key, str(probe.getsockname()[1]))
    os.environ |= {"MASTER_PORT": old.get(key).decode(), "TORCHELASTIC_USE_AGENT_STORE": "False"}
