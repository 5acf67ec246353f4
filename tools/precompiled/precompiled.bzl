"""A header that includes others and is compiled once for each config; a source reads the result.

    precompiled_header(
        name = "precompiled",
        headers = ["string"],
    )

makes precompiled.h. With --define=precompiled=gcc or =clang it also makes a directory precompiled.h.gch beside it, with one
result for each set of flags that .bazelrc gives to sources (VARIANTS); the compiler takes one that fits. GCC finds the
directory by the header's name (-include precompiled.h), and compiles the header's text if nothing fits. Clang is told the
path (-include-pch), and refuses a source for which nothing fits. Without the define the rule makes nothing.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# The copts of targets that run much, in tests of all configs.
OWN_LEVEL_2 = [
    "-O2",
    "-DFARLOOK_OWN_LEVEL=2",
]

# By compiler, and whether for tests. GCC sees which macros differ, but not that two levels above -O0 do, and crashes then:
# a target with a level of its own defines FARLOOK_OWN_LEVEL too, which the header asks for.
VARIANTS = {
    ("gcc", False): {
        "O3": [],
        "O2": OWN_LEVEL_2,
    },
    ("gcc", True): {
        "O1": ["-O1"],
        "O0": ["-O0", "-U_FORTIFY_SOURCE"],
    },
    ("clang", False): {
        "O1": [],
        "O0": ["-O0"],
    },
    ("clang", True): {
        "O0": ["-O0", "-fno-sanitize=fuzzer-no-link"],
    },
}

# The command that compiles the file $header. Clang notes times, and absolute paths, which are those of a sandbox: it
# reads its standard input.
_COMMAND = {
    "gcc": '"$@" -x c++-header "$header"',
    "clang": '"$@" -Xclang -fno-pch-timestamp -x c++-header - <"$header"',
}

# GCC compares only macros that the header asks for.
_TEXT = "#ifdef FARLOOK_OWN_LEVEL\n#endif\n"

def _precompiled_impl(ctx):
    compiler = ctx.var.get("precompiled")
    if not compiler:
        return [CcInfo()]
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, _TEXT + "".join(["#include <%s>\n" % name for name in ctx.attr.headers]))

    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts,
        use_pic = toolchain.needs_pic_for_dynamic_libraries(feature_configuration = features),
    )
    action = {"feature_configuration": features, "action_name": "c++-compile"}
    tool = cc_common.get_tool_for_action(**action)
    flags = cc_common.get_memory_inefficient_command_line(variables = variables, **action)
    environment = cc_common.get_environment_variables(variables = variables, **action)
    outputs = []
    for name, more in VARIANTS[(compiler, ctx.attr.of_tests)].items():
        output = ctx.actions.declare_file("%s.gch/%s" % (header.basename, name))
        ctx.actions.run_shell(
            command = "header=$1; shift; exec " + _COMMAND[compiler],
            arguments = [header.path, tool] + flags + more + ["-o", output.path],
            env = environment,
            inputs = depset([header], transitive = [toolchain.all_files]),
            outputs = [output],
            mnemonic = "Precompile",
            progress_message = "Precompiling %s, %s" % (ctx.label, name),
        )
        outputs.append(output)
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset(outputs + [header]),
        system_includes = depset([header.dirname]),
    ))]

precompiled_header = rule(
    implementation = _precompiled_impl,
    attrs = {
        "headers": attr.string_list(mandatory = True),
        # Tests are compiled with other flags.
        "of_tests": attr.bool(),
        "_cc_toolchain": attr.label(default = Label("@bazel_tools//tools/cpp:current_cc_toolchain")),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
