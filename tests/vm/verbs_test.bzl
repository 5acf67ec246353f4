"""Tests that run on real RDMA verbs, in a guest where this machine has no RDMA device.

    verbs_test(
        name = "conformance_verbs_test",
        program = ":conformance_verbs",     # a cc_binary (testonly, with gtest_main) or a cc_test
        data = ["//server/daemon:kv_server"],      # what the program opens, beside the data of its own
    )

makes the tests conformance_verbs_test_rxe and conformance_verbs_test_siw. Other layouts of the
guest are asked for with the arguments below, which are those of tests/vm/run --help; that page also tells what the
program finds in its environment: FARLOOK_RDMA_ADDRESS, where its servers listen, and others.

These tests are tagged "verbs" and "manual": `bazel test //...` leaves them to `tools/test --only=verbs`, which runs all
of them. They are not sandboxed, since a guest sees all files of its machine, and takes two processors. (On average it uses
a bit more than one. Two guests at once on two processors were tried: the stage took 511 s in place of 640, and one test
of 36 ran out of a time limit.)
"""

def verbs_test(
        name,
        program,
        args = [],
        data = [],
        devices = ["rxe", "siw"],
        by_hand = [],
        hosts = 1,
        links = 1,
        numa = 1,
        icount = False,
        memory_mib = None,
        hugepages = None,
        guest = False,
        ready = True,
        size = "medium",
        tags = [],
        **kwargs):
    """Makes a test for each device.

    Args:
      name: of the tests, which add _rxe and _siw.
      program: what is run, in its runfiles. It counts by the XML that gtest writes.
      args: of the program.
      data: further runfiles.
      devices: which of rxe (RoCE v2) and siw (iWARP).
      by_hand: those of them that only `tools/test --only=verbs_more` runs.
      hosts: 2, 3: further guests, that `peer` commands.
      links: 2: a second device in the guest, at the other end of a link that `link` disturbs.
      numa: 2: two nodes.
      icount: virtual time, one processor.
      memory_mib: of the guest.
      hugepages: of 2 MiB.
      guest: True for a guest even where there is a device (implied by what only a guest has).
      ready: False where a receiver may be found not ready, since somebody breaks the rules, or the device goes; else it is a
        failure, in a guest, if one was.
      size: its timeout holds for the guest and all.
      tags: beside those above.
      **kwargs: as of any test.
    """
    options = []
    for option, value, usual in [
        ("hosts", hosts, 1),
        ("links", links, 1),
        ("numa", numa, 1),
        ("memory", memory_mib, None),
        ("hugepages", hugepages, None),
    ]:
        if value != usual:
            options.append("--%s=%s" % (option, value))
    if icount:
        options.append("--icount")
    if guest:
        options.append("--guest")
    if ready:
        options.append("--ready")
    for device in devices:
        native.sh_test(
            name = "%s_%s" % (name, device),
            size = size,
            srcs = ["//tests/vm:run"],
            args = ["--device=" + device] + options + ["--", "$(rootpath %s)" % program] + args,
            data = [program, "//tests/vm:rig"] + data,
            tags = tags + ["verbs-more" if device in by_hand else "verbs", "manual", "local", "cpu:%d" % (1 if icount else 2)],
            **kwargs
        )
