"""Ports for tests in which hosts meet."""
import socket


def two_free_ports():
    """The first of two in a row that were free a moment ago."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("", 0))
            try:
                other.bind(("", one.getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return one.getsockname()[1]
