"""Plots as SVG: small, without script, in the colours of the surrounding page or, as files, in their own.

A plot is 360 units wide, about a phone's screen, so that its text has the right size there; on a wider screen several
fit side by side.
"""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 360, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 34, 40

# Distinguishable for most colour-blind people, and by dashes: Unix sockets have solid lines, TCP is dashed.
COLOURS = {  # light, dark, dashes
    "farlook-shm": ("#c2410c", "#fb923c", ""),
    "farlook-shm-msg": ("#a16207", "#fde047", ""),
    "farlook-rdma": ("#c2410c", "#fb923c", "5 3"),
    "farlook-rdma-msg": ("#a16207", "#fde047", "5 3"),
    "farlook-tcp": ("#ea580c", "#fdba74", "2 3"),
    "redis-unix": ("#be123c", "#fb7185", ""),
    "redis-tcp": ("#be123c", "#fb7185", "5 3"),
    "memcached-unix": ("#15803d", "#4ade80", ""),
    "memcached-tcp": ("#15803d", "#4ade80", "5 3"),
    "lmdb": ("#6d28d9", "#c4b5fd", ""),
    "map": ("#0369a1", "#7dd3fc", ""),
    "floor": ("#6b7280", "#9ca3af", "2 2"),
    "driver": ("#6b7280", "#9ca3af", "1 4"),
    "perftest": ("#111827", "#f9fafb", "2 2"),
}

SHARED_STYLE = """
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}
svg .title{font-weight:600;font-size:12px}
svg .grid{stroke:var(--line);stroke-width:1;fill:none}
svg .curve{fill:none;stroke-width:2}
svg .end{text-anchor:end}
svg .middle{text-anchor:middle}
"""


def variables(dark):
    colours = ";".join(f"--{name}:{colour[1 if dark else 0]}" for name, colour in COLOURS.items())
    return (f"--ink:{'#e5e7eb' if dark else '#1f2937'};--line:{'#374151' if dark else '#e5e7eb'};"
            f"--paper:{'#111827' if dark else '#ffffff'};{colours}")


def style():
    """The style of the page, and of a plot that is a file."""
    return (f":root{{{variables(False)}}}@media (prefers-color-scheme:dark){{:root{{{variables(True)}}}}}"
            f"@media print{{:root{{{variables(False)}}}}}{SHARED_STYLE}")


def alone(plot):
    """The plot as a separate file."""
    head, _, body = plot.partition(">")
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n{head} xmlns="http://www.w3.org/2000/svg" width="{WIDTH * 2}">'
            f'<style>{style()}</style><rect width="100%" height="100%" style="fill:var(--paper)"/>{body}\n')


def frame(title, label, height=HEIGHT):
    return [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">',
            f'<text class="title" x="6" y="16">{escape(title)}</text>']


def text(x, y, words, kind=""):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def line(x1, y1, x2, y2):
    return f'<path class="grid" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def curve(name, points):
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return (f'<path class="curve" style="stroke:var(--{name})" stroke-dasharray="{COLOURS[name][2]}" d="M{path}">'
            f"<title>{escape(name)}</title></path>")


def legend(names, y):
    """Two columns, from `y` on. Returns (marks, height)."""
    marks = []
    for i, name in enumerate(names):
        x, at = 8 + i % 2 * (WIDTH / 2), y + i // 2 * 16
        marks.append(f'<path class="curve" style="stroke:var(--{name})" stroke-dasharray="{COLOURS[name][2]}" '
                     f'd="M{x:.0f} {at - 4:.0f}h22"/>')
        marks.append(text(x + 28, at, name))
    return marks, (len(names) + 1) // 2 * 16


class LogScale:
    """Powers of ten to a range of units."""

    def __init__(self, values, begin, end):
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(values))))
        self.begin, self.end = begin, end

    def __call__(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        step = max(1, (self.high - self.low + 4) // 5)
        return [10 ** power for power in range(self.low, self.high + 1, step)]


def duration_tick(ns):
    for limit, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= limit:
            return f"{ns / limit:g} {unit}"
    return f"{ns:g} ns"


def rate_tick(value):
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g} {unit}"
    return f"{value:g}"


def distribution(title, curves):
    """Latencies: the share of operations that took no longer. The upper half of the plot is the slowest tenth, each
    step a tenth of the previous one. `curves` is {store: [(percentile, ns)]}."""
    curves = {name: [(p, max(1.0, ns)) for p, ns in points] for name, points in curves.items() if points}
    if not curves:
        return None
    marks, rows = legend(curves, HEIGHT + 12)
    out = frame(title, f"{title}: distribution of latencies", HEIGHT + rows + 8)
    x = LogScale([ns for points in curves.values() for _, ns in points], LEFT, WIDTH - RIGHT)
    steps = 4.0  # 99.99 %

    def y(percentile):
        nines = -math.log10(max(1e-4, 1 - percentile / 100))
        return HEIGHT - BOTTOM - nines / steps * (HEIGHT - BOTTOM - TOP)

    for percentile in (0, 50, 90, 99, 99.9, 99.99):
        out += [line(LEFT, y(percentile), WIDTH - RIGHT, y(percentile)),
                text(LEFT - 5, y(percentile) + 4, f"{percentile:g} %", "end")]
    for tick in x.ticks():
        out += [line(x(tick), TOP, x(tick), HEIGHT - BOTTOM), text(x(tick), HEIGHT - BOTTOM + 15, duration_tick(tick), "middle")]
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "latency (logarithmic); as fast or faster", "middle"))
    for name, points in curves.items():
        out.append(curve(name, [(x(ns), y(percentile)) for percentile, ns in points]))
    return "".join(out + marks) + "</svg>"


def throughput(title, series):
    """Operations per second by threads. `series` is {store: {threads: ops/s}}."""
    values = [value for points in series.values() for value in points.values() if value > 0]
    if not values:
        return None
    marks, rows = legend(series, HEIGHT + 12)
    out = frame(title, f"{title}: operations per second by threads", HEIGHT + rows + 8)
    threads = sorted({n for points in series.values() for n in points})
    y = LogScale(values, HEIGHT - BOTTOM, TOP)

    def x(count):
        return LEFT + 16 + threads.index(count) / max(1, len(threads) - 1) * (WIDTH - RIGHT - LEFT - 32)

    for tick in y.ticks():
        out += [line(LEFT, y(tick), WIDTH - RIGHT, y(tick)), text(LEFT - 5, y(tick) + 4, rate_tick(tick), "end")]
    for count in threads:
        out.append(text(x(count), HEIGHT - BOTTOM + 15, str(count), "middle"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "client threads; operations per second (logarithmic)", "middle"))
    for name, points in series.items():
        places = [(x(n), y(value)) for n, value in sorted(points.items()) if value > 0]
        out.append(curve(name, places))
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" style="fill:var(--{name})"/>' for px, py in places]
    return "".join(out + marks) + "</svg>"


def bars(title, label, values, show):
    """One bar for each store, from 0. `values` is {store: value or None}."""
    values = {name: value for name, value in values.items() if value is not None}
    if not values:
        return None
    row = 24
    height = TOP + row * len(values) + 24
    out = frame(title, f"{title}: {label}", height)
    most = max(max(values.values()), 1e-9)
    left = 104
    for i, (name, value) in enumerate(values.items()):
        top = TOP + i * row
        length = value / most * (WIDTH - left - 66)
        out += [text(left - 6, top + 12, name, "end"),
                f'<rect x="{left}" y="{top}" width="{length:.1f}" height="16" style="fill:var(--{name})"/>',
                text(left + length + 5, top + 12, show(value))]
    out.append(text(WIDTH / 2, height - 8, label, "middle"))
    return "".join(out) + "</svg>"
