#!/usr/bin/env python3
"""Draws what tests/scale:scale prints: docs/reports/2026-11-26-scale/*.svg.

    bazel build --config=opt //tests/scale:scale
    bazel-bin/tests/scale/scale 100 | tests/scale/plot.py docs/reports/2026-11-26-scale
"""

import collections
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/comparison"))
import svg  # noqa: E402  pylint: disable=wrong-import-position

SERVERS = (1, 8, 64)
TITLES = {"cold": "keys never read before"}
HUES = {1: ("#c2410c", "#fb923c"), 8: ("#15803d", "#4ade80"), 64: ("#0369a1", "#7dd3fc")}
svg.COLOURS.clear()
for servers in SERVERS:
    svg.COLOURS[f"READ-{servers}"] = (*HUES[servers], "")
    svg.COLOURS[f"message-{servers}"] = (*HUES[servers], "5 3")
    svg.COLOURS[f"warmed-{servers}"] = (*HUES[servers], "1 2")


def read(lines):
    """{(nic, workload): {name of a curve: [(clients, operations/s, median ns)]}}"""
    plots = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in lines:
        fields = row.rstrip("\n").split("\t")
        if fields[0] != "model" or fields[1] == "nic":
            continue
        _, nic, workload, lookups, servers, clients, rate, median, _ = fields
        if workload == "warmed":  # a third curve beside those of gets that know nothing
            workload, lookups = "cold", "warmed"
        plots[nic, workload][f"{lookups}-{servers}"].append((int(clients), float(rate), float(median)))
    return plots


def plot(title, label, curves, column, tick):
    marks, rows = svg.legend(curves, svg.HEIGHT + 12)
    out = svg.frame(title, f"{title}: {label}", svg.HEIGHT + rows + 8)
    points = [point for curve in curves.values() for point in curve]
    x = svg.LogScale([p[0] for p in points], svg.LEFT, svg.WIDTH - svg.RIGHT)
    y = svg.LogScale([p[column] for p in points], svg.HEIGHT - svg.BOTTOM, svg.TOP)
    for value in y.ticks():
        out += [svg.line(svg.LEFT, y(value), svg.WIDTH - svg.RIGHT, y(value)),
                svg.text(svg.LEFT - 5, y(value) + 4, tick(value), "end")]
    for value in x.ticks():
        out += [svg.line(x(value), svg.TOP, x(value), svg.HEIGHT - svg.BOTTOM),
                svg.text(x(value), svg.HEIGHT - svg.BOTTOM + 15, f"{value:g}", "middle")]
    out.append(svg.text((svg.LEFT + svg.WIDTH - svg.RIGHT) / 2, svg.HEIGHT - 8, f"clients; {label}", "middle"))
    for name, curve in curves.items():
        out.append(svg.curve(name, [(x(p[0]), y(p[column])) for p in curve]))
    return svg.alone("".join(out + marks) + "</svg>")


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(exist_ok=True)
    plots = read(sys.stdin)
    if len(plots) != 8:
        sys.exit(f"plot: {len(plots)} pairs of adapter and workload, not 8")
    for (nic, workload), curves in plots.items():
        for kind, label, column, tick in (("throughput", "operations a second", 1, svg.rate_tick),
                                          ("latency", "median latency", 2, svg.duration_tick)):
            text = plot(f"{nic}, {TITLES.get(workload, 'YCSB ' + workload)}, model", label, curves, column, tick)
            (directory / f"{kind}-{nic}-{workload}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
