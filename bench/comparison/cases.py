"""Cases of the comparison: a workload with a size of values, threads, a mode of requests and a distribution."""

import dataclasses
import itertools

WORKLOADS = {
    "A": ("half reads, half updates", {"readproportion": 0.5, "updateproportion": 0.5}),
    "B": ("95 % reads, 5 % updates", {"readproportion": 0.95, "updateproportion": 0.05}),
    "C": ("reads only", {"readproportion": 1, "updateproportion": 0}),
    "D": ("95 % reads of the latest, 5 % inserts",
          {"readproportion": 0.95, "updateproportion": 0, "insertproportion": 0.05}),
    "F": ("half reads, half read-modify-writes",
          {"readproportion": 0.5, "updateproportion": 0, "readmodifywriteproportion": 0.5}),
}
MODES = {
    "single": ("one at a time", {}),
    "batch16": ("reads in batches of 16", {"batchsize": 16}),
    "batch64": ("reads in batches of 64", {"batchsize": 64}),
    "inflight16": ("16 in flight", {"inflight": 16}),
}
DISTRIBUTIONS = ("uniform", "zipfian", "latest")
MOST_VALUE_BYTES = 16 << 20
MOST_THREADS = 1024


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    value_bytes: int
    workload: str
    mode: str
    threads: int
    distribution: str

    def title(self):
        return (f"{self.workload}, {size_text(self.value_bytes)}, {self.threads} thread{'s' if self.threads > 1 else ''}, "
                f"{MODES[self.mode][0]}, {self.distribution}")

    def properties(self):
        """The properties for ycsb. A record is one field, and a write replaces it whole: every store then does the
        same, one message with the whole value."""
        properties = {"fieldcount": 1, "fieldlength": field_bytes(self.value_bytes), "writeallfields": "true",
                      "requestdistribution": self.distribution, "threadcount": self.threads}
        properties.update(WORKLOADS[self.workload][1])
        properties.update(MODES[self.mode][1])
        return properties


def size_text(size):
    return f"{size // 1024} KiB" if size >= 1024 and size % 1024 == 0 else f"{size:,} B"


def field_bytes(value_bytes):
    """The length of the only field of a record of this size: see bench/stores/record.h for the 2 to 4 other bytes."""
    for overhead in (2, 3, 4):
        length = value_bytes - overhead
        if length >= 0 and 1 + (1 if length < 128 else 2 if length < 16384 else 3) == overhead:
            return length
    raise ValueError(f"no record has {value_bytes} bytes")


def whole(text, what, most):
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise ValueError(f"{what}: {text!r} is not a number from 1 to {most}")
    return int(text)


def parse(text):
    """Cases of "WORKLOADS:SIZES:THREADS:MODES:DISTRIBUTIONS", each a list with commas."""
    parts = [part.split(",") for part in text.split(":")]
    if len(parts) != 5:
        raise ValueError(f"{text!r} is not WORKLOADS:SIZES:THREADS:MODES:DISTRIBUTIONS")
    for names, known in ((parts[0], WORKLOADS), (parts[3], MODES), (parts[4], DISTRIBUTIONS)):
        for name in names:
            if name not in known:
                raise ValueError(f"{name!r} is not one of {', '.join(known)}")
    numbers = [[whole(number, what, most) for number in part] for part, what, most in (
        (parts[1], "bytes of a value", MOST_VALUE_BYTES), (parts[2], "client threads", MOST_THREADS))]
    parts = [parts[0], *numbers, *parts[3:]]
    cases = []
    for workload, size, threads, mode, distribution in itertools.product(*parts):
        # Workload D reads the latest inserts: it has no other distribution.
        case = Case(size, workload, mode, threads, "latest" if workload == "D" else distribution)
        field_bytes(case.value_bytes)
        cases.append(case)
    return cases


def select(specifications, replaced):
    """The cases of all specifications, sorted, without duplicates. `replaced` has a list or None for each part."""
    cases = {}
    for specification in specifications:
        parts = [given or part for part, given in zip(specification.split(":"), replaced)]
        for case in parse(":".join(parts)):
            cases[case] = True
    return sorted(cases)


def quick(_cpus):
    return ["A:1000:1:single,inflight16:zipfian", "C:64,1000:1:single,batch64:zipfian"]


def coverage(chosen, cpus):
    """Describes the part of the full choice that was measured."""
    def listed(values):
        return ", ".join(str(value) for value in dict.fromkeys(values))

    everything = select(full(cpus), (None,) * 5)
    return (f"{len(chosen)} cases, {len(set(chosen) & set(everything))} of them of the {len(everything)} of the full choice "
            f"(--full): workloads {listed(case.workload for case in sorted(chosen, key=lambda case: case.workload))}; values of "
            f"{listed(size_text(case.value_bytes) for case in chosen)}; "
            f"{listed(sorted(case.threads for case in chosen))} client threads; "
            f"{listed(MODES[mode][0] for mode in MODES if mode in {case.mode for case in chosen})}; "
            f"{listed(sorted(case.distribution for case in chosen))}")


def full(cpus):
    threads = ",".join(str(n) for n in sorted({1, 2, max(1, cpus // 2), cpus}))
    return [f"A,B,C,D,F:64,1000,4096,65536:{threads}:single,batch16,batch64,inflight16:uniform,zipfian"]
