"""Running a command without a guest, on a machine that has an RDMA device."""

import json
import os
import pathlib
import subprocess
import sys

import programs

DEVICES = pathlib.Path("/sys/class/infiniband")


def device_here(kind):
    """(device, its IPv4 address) of this machine, for `rxe` (InfiniBand and RoCE) or `siw` (iWARP); None without."""
    for path in sorted(DEVICES.glob("*")):
        is_iwarp = _text(path / "node_type").startswith("4:")
        if is_iwarp != (kind == "siw") or "ACTIVE" not in _text(path / "ports/1/state"):
            continue
        for interface in _interfaces(path):
            for entry in json.loads(programs.output("ip", "-j", "-4", "addr", "show", "dev", interface) or "[]"):
                for info in entry.get("addr_info", []):
                    return path.name, info["local"]
    return None


def run(command, device, address, timeout_s):
    """The command's exit status."""
    environment = dict(os.environ, FARLOOK_RDMA_DEVICE=device, FARLOOK_RDMA_ADDRESS=address)
    try:
        code = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=timeout_s,
                              check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"vm: the command did not end within {timeout_s:g} s (--timeout)", file=sys.stderr)
        return 124
    except FileNotFoundError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 127
    return 128 - code if code < 0 else code


def _interfaces(device):
    names = {_text(path).strip() for path in device.glob("ports/1/gid_attrs/ndevs/*")}
    names |= {path.name for path in device.glob("device/net/*")} | {_text(device / "parent").strip()}
    return sorted(names - {""})


def _text(path):
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
