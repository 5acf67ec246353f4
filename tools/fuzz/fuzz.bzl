"""Fuzz targets.

A target's source defines LLVMFuzzerTestOneInput().  With --config=fuzz it links
with libFuzzer:

    bazel run --config=fuzz //kv:slot_fuzz -- -max_total_time=60 /tmp/corpus

As a test it is run for a token time, starting from its checked-in corpus; tools/test
gives it longer. With any other config it is a test that replays the corpus, then a
few seeded random inputs, so that a target cannot rot and a finding stays found.
"""

def _directories(files):
    directories = {native.package_name() + "/" + file.rpartition("/")[0]: None for file in files}
    return sorted(directories.keys())

def cc_fuzz_test(name, srcs, deps, corpus = [], args = [], **kwargs):
    """Declares the fuzz target `name`.

    Args:
      name: ends in _fuzz.
      srcs: defines LLVMFuzzerTestOneInput().
      deps: as in cc_test; the driver is added.
      corpus: files of this package, each one input, in directories of their own.
      args: further arguments in every config.
      **kwargs: passed on to cc_test.
    """
    for file in corpus:
        if ":" in file or "/" not in file:
            fail("%s: corpus files stand in a directory of their own: %s" % (name, file))
    native.cc_test(
        name = name,
        size = kwargs.pop("size", "small"),
        tags = kwargs.pop("tags", []) + ["fuzz"],
        srcs = srcs,
        args = args + select({
            # libFuzzer fuzzes from directories; given files, it would only run each.
            "//tools:fuzz": ["-runs=10000", "-seed=1"] + _directories(corpus),
            "//conditions:default": ["$(location %s)" % file for file in corpus],
        }),
        data = corpus + kwargs.pop("data", []),
        deps = deps + select({
            "//tools:fuzz": ["//tools/fuzz:libfuzzer"],
            "//conditions:default": ["//tools/fuzz:replay"],
        }),
        **kwargs
    )
