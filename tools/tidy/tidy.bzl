"""clang-tidy over the sources of a target, one action for each, so that Bazel caches what did not change.

    bazel build --config=tidy //kv/...
"""

def _sources(ctx):
    if not hasattr(ctx.rule.attr, "srcs"):
        return []
    return [
        file
        for src in ctx.rule.attr.srcs
        for file in src.files.to_list()
        if file.is_source and file.extension == "cc"
    ]

def _clang_tidy_impl(target, ctx):
    if CcInfo not in target:
        return []
    context = target[CcInfo].compilation_context
    private_headers = [
        file
        for src in getattr(ctx.rule.attr, "srcs", [])
        for file in src.files.to_list()
        if file.extension == "h"
    ]
    deps = [
        dep[CcInfo].compilation_context
        for dep in getattr(ctx.rule.attr, "deps", [])
        if CcInfo in dep
    ]

    # Directories of headers to which a target gives another path (strip_include_prefix).
    includes = depset(transitive = [each.includes for each in [context] + deps]).to_list()
    reports = []
    for source in _sources(ctx):
        report = ctx.actions.declare_file("%s.%s.tidy" % (ctx.label.name, source.basename))
        ctx.actions.run_shell(
            # On success it still counts, on stderr, the warnings of the system's headers that it did not show.
            command = """
              config=$1 source=$2 report=$3
              shift 3
              if ! clang-tidy-14 --quiet --config-file="$config" "$source" -- \
                  -std=c++20 -iquote . "$@" >"$report" 2>"$report.err"; then
                cat "$report"; grep -v ' generated\\.$' "$report.err"; exit 1
              fi""",
            arguments = [ctx.file._config.path, source.path, report.path] +
                        ["-I" + directory for directory in includes] + getattr(ctx.rule.attr, "copts", []),
            inputs = depset(
                [source, ctx.file._config] + private_headers,
                transitive = [each.headers for each in [context] + deps],
            ),
            outputs = [report],
            mnemonic = "ClangTidy",
            progress_message = "clang-tidy %s" % source.short_path,
            use_default_shell_env = True,
        )
        reports.append(report)
    return [OutputGroupInfo(tidy = depset(reports))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_config": attr.label(
            default = Label("//:.clang-tidy"),
            allow_single_file = True,
        ),
    },
)
