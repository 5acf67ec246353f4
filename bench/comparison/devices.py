"""The kernel's information about this machine's RDMA devices."""

import pathlib

CLASS = "/sys/class/infiniband"


def read(path):
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def is_roce(device, root=CLASS):
    """Returns False for iWARP, and for a missing device."""
    kind = read(pathlib.Path(root) / device / "node_type")
    return bool(device and kind) and not kind.startswith("4:")


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
