"""What the kernel tells of this machine's RDMA devices."""

import json
import pathlib
import subprocess

CLASS = "/sys/class/infiniband"


def read(path):
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def roce_device_at(address, root=CLASS, interface=None):
    """The device over the network interface that has this address; None without one, and for iWARP."""
    if interface is None:
        done = subprocess.run(["ip", "-j", "addr", "show", "to", address], stdout=subprocess.PIPE, text=True, check=False)
        interface = next((entry["ifname"] for entry in json.loads(done.stdout or "[]") if "ifname" in entry), None)
    for device in sorted(pathlib.Path(root).glob("*")):
        names = {read(path) for path in device.glob("ports/1/gid_attrs/ndevs/*")}
        if interface in names and not read(device / "node_type").startswith("4:"):
            return device.name
    return None


def rdma_devices(root=CLASS):
    """One line for each device: its name, driver or interface, link, rate and firmware, as far as they are known."""

    lines = []
    for device in sorted(pathlib.Path(root).glob("*")):
        driver = device / "device" / "driver"
        port = device / "ports" / "1"
        over = read(device / "parent") and f"over {read(device / 'parent')}"
        facts = [driver.resolve().name if driver.exists() else over,
                 read(port / "link_layer"), read(port / "rate"),
                 read(device / "fw_ver") and f"firmware {read(device / 'fw_ver')}"]
        lines.append(f"{device.name}: {', '.join(fact for fact in facts if fact) or 'nothing is known of it'}")
    return lines
