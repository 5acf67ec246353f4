"""Other programs, which also lie where the PATH of a user or of Bazel's tests does not lead."""

import os
import shutil
import subprocess

from cache import RigError

PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def find(program):
    path = shutil.which(program, path=PATH)
    if path is None:
        raise RigError(f"{program} is not installed: run tools/setup")
    return path


def output(program, *arguments, cwd=None):
    """Returns the program's output. It must succeed."""
    command = [find(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=dict(os.environ, PATH=PATH), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise RigError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
    return done.stdout
