"""Figures in readable form, and the table in the terminal."""

from stores import STORES


def three_digits(value):
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def count(value):
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit * 0.9995:
            return f"{three_digits(value / limit)} {unit}"
    return f"{value:,.0f}"


def duration(ns):
    for limit, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= limit * 0.9995:
            return f"{three_digits(ns / limit)} {unit}"
    return f"{ns:.0f} ns" if ns == 0 or ns >= 9.5 else f"{ns:.2g} ns" if ns >= 0.001 else "< 0.001 ns"


def cell(figure, show):
    return "-" if figure is None else show(figure["median"])


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2g}" if ratio < 10 else f"{ratio:,.0f}"


def server_cpu(row):
    """A store in the client's process has no server."""
    if not row["has_server"]:
        return "no server"
    return cell(row["server_cpu_ns"], duration)


HEADINGS = ("ops/s", "spread", "- driver", "x floor", "get p50", "x floor", "p99", "p99.9", "write p50", "p99", "client CPU",
            "x floor", "server CPU", "B/key")


def columns(row):
    """One for each of HEADINGS."""
    floor = row["to_floor"]
    return (cell(row["ops_per_s"], count),
            f"{row['ops_per_s']['spread'] * 100:.0f} %",
            "-" if row["less_driver_ops_per_s"] is None else count(row["less_driver_ops_per_s"]), times(floor.get("ops_per_s")),
            cell(row["read_p50_ns"], duration), times(floor.get("read_p50_ns")),
            cell(row["read_p99_ns"], duration), cell(row["read_p99.9_ns"], duration),
            cell(row["write_p50_ns"], duration), cell(row["write_p99_ns"], duration),
            cell(row["client_cpu_ns"], duration), times(floor.get("client_cpu_ns")), server_cpu(row),
            "-" if row["bytes_per_key"] is None else f"{row['bytes_per_key']:,.0f}")


def table(results):
    width = max(map(len, STORES))
    lines = []
    for result in results:
        lines += ["", f"{result['case'].title()}{'' if result['rows'][0]['pinned'] else ' (not pinned)'}",
                  " " * width + "".join(f"{heading:>11}" for heading in HEADINGS)]
        for row in result["rows"]:
            lines.append(f"{row['store']:<{width}}" + "".join(f"{text:>11}" for text in columns(row)))
    return "\n".join(lines) + "\n"
