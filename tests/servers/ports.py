"""Ports for servers that must be told theirs."""

import socket


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
