"""Two machines in one: network namespaces with addresses of their own, joined by a cable.

Where namespaces cannot be made, both are this machine, on its loopback interface.
"""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from processes import call


@dataclass(frozen=True)
class Machine:
    address: str
    interface: str
    namespace: str | None = None

    def command(self, *arguments: object) -> list[str]:
        """Returns a command that runs on this machine."""
        prefix = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        return [*prefix, *map(str, arguments)]


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Makes the machines, and leaves no process and no interface of them."""
    # Nobody else can see these addresses: any pair will do, in every test process.
    machines = [
        Machine(f"192.0.2.{number}", "eth0", f"torch-tricks-{os.getpid()}-{number}")
        for number in (1, 2)
    ]
    with ExitStack() as stack:
        try:
            for machine in machines:
                call("ip", "netns", "add", machine.namespace)
                stack.callback(remove, machine.namespace)
            ends = [["name", m.interface, "netns", m.namespace] for m in machines]
            call("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
            for machine in machines:
                own = ("-n", machine.namespace)
                device = ("dev", machine.interface)
                call("ip", *own, "address", "add", f"{machine.address}/30", *device)
                call("ip", *own, "link", "set", *device, "up")
                call("ip", *own, "link", "set", "dev", "lo", "up")
        except (OSError, AssertionError):
            machines = [Machine("127.0.0.1", "lo")] * 2
        yield machines[0], machines[1]


def remove(namespace: str) -> None:
    """Removes a network namespace with all processes in it."""
    for process in call("ip", "netns", "pids", namespace).split():
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    call("ip", "netns", "delete", namespace)


def free_port() -> int:
    """Returns a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_free(port: int) -> bool:
    """Returns whether nothing listens on a port now."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
