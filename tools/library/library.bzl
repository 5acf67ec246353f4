"""A library that is used outside of the tree: position independent in every config, and without sanitizers.

    shared_library   one .so, with a soname, a list of what it exports, and all that it needs found when it is linked
    static_archive   the objects of all that a target depends on, as one .a

Both compile what they depend on for themselves, with //tools/library:installed set, which select() can ask for: Abseil is
linked shared then, since Debian's archives of it are not position independent.
"""

def _installed_impl(settings, attr):
    # Flags that --config=opt leaves out for programs. A compiler may inline functions that could otherwise be
    # interposed, as none are.
    features = [f for f in settings["//command_line_option:features"] if f != "-supports_pic"]
    copts = [c for c in settings["//command_line_option:copt"] if c != "-fno-semantic-interposition"]
    return {
        "//tools/library:installed": True,
        "//command_line_option:compilation_mode": "opt",
        "//command_line_option:force_pic": True,
        "//command_line_option:features": features,
        "//command_line_option:copt": copts + ["-fno-semantic-interposition", "-g1"],
    }

_installed = transition(
    implementation = _installed_impl,
    inputs = [
        "//command_line_option:copt",
        "//command_line_option:features",
    ],
    outputs = [
        "//command_line_option:compilation_mode",
        "//command_line_option:copt",
        "//command_line_option:features",
        "//command_line_option:force_pic",
        "//tools/library:installed",
    ],
)

_ALLOW = attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist")

def _setting_impl(ctx):
    return []

installed_setting = rule(
    implementation = _setting_impl,
    build_setting = config.bool(),
)

def _shared_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    if ctx.attr.linked:
        linked = ctx.attr.linked[0][DefaultInfo].files.to_list()[0]
        ctx.actions.symlink(output = output, target_file = linked)
    else:
        ctx.actions.write(output, "")
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

_shared = rule(
    implementation = _shared_impl,
    attrs = {
        "linked": attr.label(cfg = _installed),
        "_allowlist_function_transition": _ALLOW,
    },
)

# A program without the sanitizer cannot load a library with it: where there is one, the files are empty, and tests that use
# them are tagged no-sanitizer.
def _unless_sanitized(value, nothing):
    return select({
        "//tools/library:sanitized": nothing,
        "//conditions:default": value,
    })

def shared_library(name, soname, exports, deps, **kwargs):
    """`name`: the file's. `exports`: the version script."""
    native.cc_binary(
        name = "linked-" + name,
        deps = deps + [exports],
        linkopts = [
            "-Wl,-soname," + soname,
            "-Wl,--version-script,$(location %s)" % exports,
            "-Wl,-z,defs",
            "-Wl,-z,nodelete",  # a thread that looks up a name may outlive the last client
            "-Wl,--as-needed",
            "-Wl,--gc-sections",
        ],
        linkshared = True,
        # By default it would be linked with archives that are not position independent.
        tags = ["manual"],
    )
    _shared(name = name, linked = _unless_sanitized(":linked-" + name, None), **kwargs)

def _archive_impl(ctx):
    libraries = []
    for target in ctx.attr.deps:
        for linked in target[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                archive = library.pic_static_library or library.static_library
                if archive and archive not in libraries:
                    libraries.append(archive)
    output = ctx.actions.declare_file(ctx.label.name)
    script = ctx.actions.declare_file(ctx.label.name + ".ar")
    ctx.actions.write(script, "\n".join(
        ["CREATE " + output.path] + ["ADDLIB " + library.path for library in libraries] + ["SAVE", "END", ""],
    ))
    ctx.actions.run_shell(
        command = "ar -M <$1 && ranlib -D $2",
        arguments = [script.path, output.path],
        inputs = libraries + [script],
        outputs = [output],
        mnemonic = "MergeArchives",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

_archive = rule(
    implementation = _archive_impl,
    attrs = {
        "deps": attr.label_list(
            cfg = _installed,
            providers = [CcInfo],
        ),
        "_allowlist_function_transition": _ALLOW,
    },
)

def static_archive(name, deps, **kwargs):
    _archive(name = name, deps = _unless_sanitized(deps, []), **kwargs)
