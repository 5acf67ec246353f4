"""The report as one self-contained HTML page: no script, font or picture from elsewhere."""

from xml.sax.saxutils import escape

import svg
from cases import MODES, WORKLOADS, size_text
from stores import BY_MESSAGE, STORES
from text import cell, count, duration, server_cpu, times

STYLE = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:16px;background:var(--paper);color:var(--ink);
 font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{max-width:75ch}
code{font-size:.85em;overflow-wrap:anywhere}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:16px}
.plots svg{width:100%;height:auto;display:block}
.plots>div{border:1px solid var(--line);border-radius:6px;padding:6px;break-inside:avoid}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:3px 9px;text-align:right;border-bottom:1px solid var(--line)}
th{white-space:normal;vertical-align:bottom}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
tr.ours td{font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;font-size:.9rem;margin:0}
dt{opacity:.75}
dd{margin:0;min-width:0;overflow-wrap:anywhere}
small{display:block;opacity:.7;font-size:.85em;font-weight:400}
summary{cursor:pointer;padding:6px 0}
.bad{border:2px solid #dc2626;padding:8px}
@media (max-width:560px){th:first-child,td:first-child{white-space:normal;min-width:8.5em;padding-left:0}dl.facts{grid-template-columns:1fr}dd{margin-bottom:6px}}
@media print{details::details-content{content-visibility:visible;display:block}body{max-width:none;padding:0;font-size:10pt}.wide{overflow:visible}table{font-size:6.4pt}th,td{padding:2px 3px}
 h2,h3{break-after:avoid}section,table,tr{break-inside:avoid}.plots{grid-template-columns:1fr 1fr}}
"""


MOST_UNFOLDED = 24  # cases; with more, the contents of a heading are folded by the length of values


def plots(results):
    """(file's name, bytes of a value, SVG) of all plots that can be drawn."""
    drawn = []
    for result in results:
        case, rows = result["case"], result["rows"]
        if case.workload != "C":
            continue
        name = f"latency-{case.mode}-{case.value_bytes}-{case.threads}-{case.distribution}"
        title = f"Gets {MODES[case.mode][0].removeprefix('reads ')}: {size_text(case.value_bytes)}, {case.threads} thr., {case.distribution}"
        drawn.append((name, case.value_bytes, svg.distribution(title, {row["store"]: row["read_curve"] for row in rows})))
    groups = {}
    for result in results:
        case = result["case"]
        group = groups.setdefault((case.workload, case.value_bytes, case.mode, case.distribution), {})
        for row in result["rows"]:
            group.setdefault(row["store"], {})[case.threads] = row["ops_per_s"]["median"]
    for (workload, size, mode, distribution), series in groups.items():
        if len({threads for points in series.values() for threads in points}) > 1:
            drawn.append((f"threads-{workload}-{mode}-{size}-{distribution}", size, svg.throughput(
                f"{workload}, {size_text(size)}, {MODES[mode][0]}, {distribution}", series)))
    for result in results:
        case, rows = result["case"], result["rows"]
        served = {row["store"]: (row["server_cpu_ns"] or {}).get("median") for row in rows if row["has_server"]}
        drawn.append((f"server-cpu-{case.workload}-{case.mode}-{case.value_bytes}-{case.threads}-{case.distribution}",
                      case.value_bytes, svg.bars(case.title().replace(" thread,", " thr.,").replace(" threads,", " thr.,"),
                               "server CPU per operation", served, duration)))
    return [(name, size, plot) for name, size, plot in drawn if plot]


def by_size(parts, folded, wrapped):
    """HTML of (bytes of a value, part)s, in that order; folded, the parts of one length of values open together."""
    parts = list(parts)
    if not folded:
        return wrapped(part for _, part in parts)
    return "".join(f"<details><summary>Values of {size_text(size)}: {len(mine)}</summary>{wrapped(mine)}</details>"
                   for size in sorted({size for size, _ in parts})
                   for mine in [[part for of, part in parts if of == size]])


def pairs(entries, kind=""):
    return f'<dl class="{kind}">' + "".join(f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in entries) + "</dl>"


def html_table(headings, rows, classes):
    """Rows of texts, or of pairs of a figure and its ratio to the floor's."""

    def content(part):
        return escape(part) if isinstance(part, str) else f"{escape(part[0])}<small>{escape(part[1])}</small>"

    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f'<tr class="{kind}">' + "".join(f"<td>{content(part)}</td>" for part in row) + "</tr>"
                   for row, kind in zip(rows, classes))
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


FIGURES = (("get p50", "read_p50_ns"), ("p99", "read_p99_ns"), ("p99.9", "read_p99.9_ns"), ("write p50", "write_p50_ns"),
           ("p99", "write_p99_ns"), ("p99.9", "write_p99.9_ns"), ("client CPU", "client_cpu_ns"))
HEADINGS = ("store", "ops/s", "spread", *(heading for heading, _ in FIGURES), "server CPU", "B/key")


def figures(row):
    """One for each of HEADINGS."""
    def beside(shown, figure):
        ratio = row["to_floor"].get(figure)
        return shown if ratio is None else (shown, f"{times(ratio)} x")

    per_key = "-" if row["bytes_per_key"] is None else f"{row['bytes_per_key']:,.0f}"
    return (row["store"], beside(cell(row["ops_per_s"], count), "ops_per_s"), f"{row['ops_per_s']['spread'] * 100:.0f} %",
            *(beside(cell(row[figure], duration), figure) for _, figure in FIGURES), server_cpu(row),
            beside(per_key, "bytes_per_key"))


def ours(store):
    """Returns whether it is Farlook as its users have it."""
    return store.startswith("farlook-") and not store.endswith(BY_MESSAGE)


def headlines(results):
    """Farlook, over each transport that was measured, against each other store."""
    stores = [name for name in STORES if any(name == row["store"] for result in results for row in result["rows"])]
    if not any(map(ours, stores)):
        return "<p>Farlook was not measured.</p>"
    return "".join(f"<h3>{escape(STORES[store])}: {escape(store)}</h3>"
                   + by_size(((result["case"].value_bytes, result) for result in results), len(results) > MOST_UNFOLDED,
                             lambda some, store=store: headline(some, store, stores)) for store in filter(ours, stores))


def headline(results, store, stores):
    """The ratios to the others' operations per second, case by case."""
    others = [name for name in stores if name != store]
    rows = []
    for result in results:
        by_store = {row["store"]: row for row in result["rows"]}
        farlook = by_store.get(store)
        if not farlook:
            continue
        row = [result["case"].title(), cell(farlook["ops_per_s"], count), cell(farlook["read_p50_ns"], duration),
               server_cpu(farlook)]
        for other in others:
            row.append(compared(farlook, by_store.get(other)))
        rows.append(row)
    return html_table(["case", "ops/s", "get p50", "server CPU"] + [f"x {other}" for other in others], rows,
                      [""] * len(rows))


def compared(farlook, other):
    """The ratio to the other's operations per second, and the same with the driver's share subtracted from both."""
    if other is None or not other["ops_per_s"]["median"]:
        return "-"
    whole = times(farlook["ops_per_s"]["median"] / other["ops_per_s"]["median"])
    mine, theirs = farlook["less_driver_ops_per_s"], other["less_driver_ops_per_s"]
    return whole if mine is None or theirs is None else (whole, f"{times(mine / theirs)} less the driver")


def page(report, results):
    machine, run = report["machine"], report["run"]
    where, not_pinned, hosts = "on one machine", "Not pinned: server and client share the processors.", []
    if run["clients_on"]:
        where, not_pinned = "servers on one host, clients on another", "Not pinned."
        hosts = [("clients", f"on another host, by <code>{escape(run['clients_on'])}</code>, and the machine is theirs; the "
                  "load average and the RDMA devices are those of the servers' host")]
    drawn, folded = plots(results), len(results) > MOST_UNFOLDED

    def section(prefix):
        return by_size(((size, plot) for name, size, plot in drawn if name.startswith(prefix)), folded,
                       lambda some: '<div class="plots">' + "".join(f"<div>{plot}</div>" for plot in some) + "</div>")

    failures = "".join(f'<div class="bad"><b>{escape(f["store"])}, {escape(f["case"])} failed</b><br><code>'
                       f'{escape(f["why"])}</code></div>' for f in report["failures"])
    threads = ("<h2>Throughput by threads</h2>" + section("threads-")) if any(n.startswith("threads-") for n, _, _ in drawn) else ""
    tables = by_size((
        (result["case"].value_bytes, f"<section><h3>{escape(result['case'].title())}</h3>"
        + ("" if result["rows"][0]["pinned"] else f"<p>{not_pinned}</p>")
        + html_table(HEADINGS, [figures(row) for row in result["rows"]],
                     ["ours" if ours(row["store"]) else "" for row in result["rows"]]) + "</section>")
        for result in results), folded, "".join)
    facts = pairs([
        ("machine", escape(f"{machine.get('cpu')}, {machine.get('usable_cpus')} processors, "
                           f"{machine.get('memory_gib', 0):.0f} GiB")),
        ("RDMA devices", escape("; ".join(machine.get("rdma_devices", [])) or "none")),
        ("kernel", escape(str(machine.get("kernel")))),
        ("built by", escape(str(machine.get("compiler")))), ("commit", escape(str(machine.get("commit")))),
        *hosts,
        ("when", escape(f"{run['begun']}, {run['took_s']:.0f} s")),
        ("load average", escape(f"{run['load_before']:.1f} before, {run['load_after']:.1f} after "
                                "(with a quiet machine: near 0 before)")),
        ("runs", escape(f"{run['repeats']} repeats of {run['each']}, interleaved; medians")),
        ("command", f"<code>{escape(run['command'])}</code>")]
        + [(f"{name} {report['versions'].get(name, '')}", f"<code>{escape(settings)}</code>")
           for name, settings in report["settings"].items()]
        + ([("lmdb " + report["versions"]["lmdb"], "no sync, writable map, file in memory; reads copy")]
           if "lmdb" in report["versions"] else []), "facts")
    ran = pairs((name, escape(title)) for name, title in STORES.items()
                if any(name == row["store"] for result in results for row in result["rows"]))
    workloads = "; ".join(f"{name}: {words}" for name, (words, _) in WORKLOADS.items())
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Farlook compared</title>
<style>{svg.style()}{STYLE}</style></head><body>
<h1>Farlook compared</h1>
<p>The same YCSB workloads, keys, values and client program against each store, {where}, in one run.
{escape(workloads)}. A record is one value; a write replaces it whole.</p>
{failures}
<h2>What was measured</h2>{ran}
<p>{escape(run["coverage"])}.</p>
<h2>Operations per second: how many times the others'</h2>{headlines(results)}
<p>Above 1 Farlook does more, below 1 less. Stores in the client's process ask no other process and protect nothing
from it. The floor is what the machine takes for the loads and the copy alone; perftest, on RDMA, what the network takes
for one READ of the value. The driver alone is what the program that measures takes, which each store's figures contain;
below each ratio: with its share taken out of both. Lookups by message are gets that ask Farlook's server instead of reading its memory.</p>
<h2>Latency of gets</h2>{section("latency-")}
{threads}
<h2>Server CPU per operation</h2>{section("server-cpu-")}
<h2>All figures</h2>
<p>Below each figure: how many times the floor's in the same run (operations per second: a share of it; the floor has no
server); the floor is perftest where it was measured, for what it has figures of. Spread: greatest
less least of the repeats, as a share of the median. Latencies in batches are of whole batches. Server CPU is what the
scheduler counted, to the nanosecond, of all threads of the server's process; 0 ns says that none of them ran. B/key: memory for each key, key and value included.</p>{tables}
<h2>Where these figures come from</h2>{facts}
</body></html>
"""
