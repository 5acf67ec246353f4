"""The product's sources as the simulation compiles them (rewrite.py).

    rewritten(
        name = "rewritten_sources",
        libraries = ["//kv/layout"],               # targets whose srcs and hdrs are taken
        suffix = ".cc",
        without = ["kv/layout/some_threads.cc"],   # files that are left out
    )

makes rewritten/PATH for each file that ends with the suffix. The product's targets list their files once, and a new file
is simulated unless it is left out here.
"""

_Files = provider(doc = "Files that a library compiles or declares.", fields = ["files"])

def _files_impl(target, ctx):
    lists = [getattr(ctx.rule.files, name, []) for name in ("srcs", "hdrs")]
    return [_Files(files = lists[0] + lists[1])]

_files_of = aspect(implementation = _files_impl)

def _rewritten_impl(ctx):
    outputs = []
    for library in ctx.attr.libraries:
        inputs = [f for f in library[_Files].files if f.path.endswith(ctx.attr.suffix) and f.short_path not in ctx.attr.without]
        if not inputs:
            continue
        outs = [ctx.actions.declare_file("rewritten/" + f.short_path) for f in inputs]
        root = outs[0].path[:-len(inputs[0].short_path)]
        ctx.actions.run(
            executable = ctx.file._rewrite,
            arguments = [root] + [f.path for f in inputs],
            inputs = inputs,
            outputs = outs,
            mnemonic = "Rewrite",
        )
        outputs += outs
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(outputs))]

rewritten = rule(
    implementation = _rewritten_impl,
    attrs = {
        "libraries": attr.label_list(aspects = [_files_of], mandatory = True),
        "suffix": attr.string(mandatory = True),
        "without": attr.string_list(),
        "_rewrite": attr.label(allow_single_file = True, default = "//tests/sim:rewrite.py"),
    },
)
