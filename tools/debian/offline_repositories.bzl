"""The repositories that Bazel itself asks for, written on the spot.

Bazel 4.2.3 loads @rules_cc and @remote_coverage_tools from its own BUILD files
and would download both.  Debian's rules_cc does not load under it.  Here the
first re-exports the native rules and the second is empty, so that no build of
this project needs a network.
"""

_CC_RULES = [
    "cc_binary",
    "cc_import",
    "cc_library",
    "cc_proto_library",
    "cc_test",
    "cc_toolchain",
    "cc_toolchain_suite",
    "fdo_prefetch_hints",
    "fdo_profile",
    "objc_import",
    "objc_library",
]

def _rules_cc_impl(repository_ctx):
    repository_ctx.file("WORKSPACE", 'workspace(name = "rules_cc")\n')
    repository_ctx.file("BUILD")
    repository_ctx.file("cc/BUILD", 'exports_files(["defs.bzl"])\n')
    repository_ctx.file(
        "cc/defs.bzl",
        "".join(["%s = native.%s\n" % (rule, rule) for rule in _CC_RULES]),
    )

rules_cc_repository = repository_rule(implementation = _rules_cc_impl)

def _no_coverage_tools_impl(repository_ctx):
    repository_ctx.file("WORKSPACE", 'workspace(name = "remote_coverage_tools")\n')
    repository_ctx.file("none.sh", "#!/bin/sh\nexit 0\n", executable = True)
    repository_ctx.file("BUILD", "\n".join([
        'sh_binary(name = "%s", srcs = ["none.sh"], visibility = ["//visibility:public"])' % name
        for name in ["coverage_report_generator", "lcov_merger"]
    ]) + "\n")

no_coverage_tools_repository = repository_rule(implementation = _no_coverage_tools_impl)
