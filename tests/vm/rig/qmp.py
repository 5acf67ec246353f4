"""QEMU's control socket, as far as the rig needs it."""

import json
import socket
import time

from cache import RigError


class Qmp:
    def __init__(self, connection):
        self._stream = connection.makefile("rw", encoding="utf-8")
        connection.settimeout(120)
        self._stream.readline()  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        """The answer to one command; events that arrive in between are dropped."""
        try:
            self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._stream.flush()
            while line := self._stream.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise RigError(f"QEMU refuses {command}: {answer['error'].get('desc')}")
                if "return" in answer:
                    return answer["return"]
        except OSError as error:
            raise RigError(f"QEMU does not answer {command}: {error}") from error
        raise RigError(f"QEMU ended instead of answering {command}")

    def migrate(self, way, uri, seconds):
        """Saves (way "migrate") or loads ("migrate-incoming") a guest's state, except for its memory, which is a
        file."""
        self.ask("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])
        self.ask(way, uri=uri)
        end = time.monotonic() + seconds
        while (state := self.ask("query-migrate")).get("status") != "completed":
            if state.get("status") == "failed" or time.monotonic() > end:
                raise RigError(f"{way}: {state.get('status')}: {state.get('error-desc', '')}")
            time.sleep(0.01)


def listen(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    return listener
