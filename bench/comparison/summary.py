"""From runs to figures: medians of the repeats, their spread, and ratios to the floor of the same run."""

import statistics

from stores import DRIVER, FLOORS

FIGURES = ("ops_per_s", "read_p50_ns", "read_p99_ns", "read_p99.9_ns", "write_p50_ns", "write_p99_ns", "write_p99.9_ns",
           "client_cpu_ns", "server_cpu_ns")


def median_and_spread(values):
    """Spread: from the least to the greatest, as a share of the median. None without values."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    median = statistics.median(values)
    return {"median": median, "least": min(values), "greatest": max(values),
            "spread": (max(values) - min(values)) / median if median else 0.0, "repeats": len(values)}


def median_curve(curves):
    """The median at each percentile."""
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    return [(points[0][0], statistics.median(value for _, value in points)) for points in zip(*curves)]


def summarize(runs, memory, stores):
    """A list of {"case", "rows"}; a row has the store, its figures, and their ratios to the floor's."""
    per_key = {(entry["store"], entry["value_bytes"]): entry["bytes_per_key"] for entry in memory}
    results = []
    for case in sorted({run["case"] for run in runs}):
        rows = []
        for store in stores:
            mine = [run for run in runs if run["case"] == case and run["store"] == store]
            if not mine:
                continue
            row = {"store": store, "pinned": all(run["pinned"] for run in mine), "has_server": mine[0]["has_server"],
                   "operations": median_and_spread([run["operations"] for run in mine]),
                   "bytes_per_key": per_key.get((store, case.value_bytes)),
                   "read_curve": median_curve([run["read_curve"] for run in mine])}
            for figure in FIGURES:
                row[figure] = median_and_spread([run[figure] for run in mine])
            rows.append(row)
        floor = floor_of(rows)
        for row in rows:
            row["to_floor"] = {figure: ratio(row[figure], floor[figure]) for figure in FIGURES}
            if row["bytes_per_key"] and floor["bytes_per_key"]:
                row["to_floor"]["bytes_per_key"] = row["bytes_per_key"] / floor["bytes_per_key"]
        driver = next((row["ops_per_s"]["median"] for row in rows if row["store"] == DRIVER), None)
        for row in rows:
            row["less_driver_ops_per_s"] = less_driver(row, driver)
        results.append({"case": case, "rows": rows})
    return results


def less_driver(row, driver):
    """Operations per second if the driver took no time: its share of an operation's time is subtracted. None if the
    driver was not measured, or takes as long: then the rest could not be distinguished from noise."""
    rate = row["ops_per_s"]["median"]
    if not driver or not rate or row["store"] == DRIVER or 1 / rate <= 1 / driver:
        return None
    return 1 / (1 / rate - 1 / driver)


def floor_of(rows):
    """Each figure of the first of FLOORS that was measured and has it: perftest, which has no CPU figures, before loads
    and copies."""
    floors = [row for name in FLOORS for row in rows if row["store"] == name]
    return {figure: next((row[figure] for row in floors if row[figure]), None) for figure in (*FIGURES, "bytes_per_key")}


def ratio(figure, floor):
    """The ratio to the floor's figure; None if there is no such figure, or the floor's is 0."""
    if not figure or not floor or not floor["median"]:
        return None
    return figure["median"] / floor["median"]
