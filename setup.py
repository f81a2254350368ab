"""The wheel: the command in bin/ and the plugin in lib/muster/ of the environment. No Python.

`python3 -m build --wheel --no-isolation` builds with cmake; MUSTER_INSTALLED=PREFIX takes what
`cmake --install` has put there instead.
"""
import os
import pathlib
import re
import subprocess

from setuptools import setup
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

SOURCE = pathlib.Path(__file__).resolve().parent
BUILD = SOURCE / "build-wheel"


def version():
    text = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(muster VERSION ([0-9.]+)", text)[1]


def installed():
    """A prefix with bin/muster and lib/muster, built if none is given."""
    if "MUSTER_INSTALLED" in os.environ:
        return pathlib.Path(os.environ["MUSTER_INSTALLED"])
    prefix = BUILD / "prefix"
    for command in (["-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DMUSTER_STATIC=ON",
                     "-DMUSTER_TESTS=OFF", "-DMUSTER_BENCH=OFF", "-DCMAKE_INSTALL_LIBDIR=lib"],
                    ["--build", BUILD], ["--install", BUILD, "--strip", "--prefix", prefix]):
        subprocess.run(["cmake", *command], check=True)
    return prefix


def glibc_needed(files):
    """The newest version of glibc's symbols that the files ask for: what the tag has to promise."""
    found = set()
    for file in files:
        found |= set(re.findall(rb"GLIBC_(\d+)\.(\d+)", file.read_bytes()))
    return max((int(major), int(minor)) for major, minor in found)


class Wheel(bdist_wheel):
    """Of no Python version, but of a processor and a glibc."""

    def get_tag(self):
        machine = super().get_tag()[2].split("_", 1)[1]
        return "py3", "none", "manylinux_%d_%d_%s" % (*glibc_needed(PROGRAMS), machine)


class Binary(Distribution):
    def has_ext_modules(self):
        return True


PREFIX = installed()
PLUGIN = next(PREFIX.glob("lib/**/muster/libnccl-profiler-muster.so"))
PROGRAMS = [PREFIX / "bin" / "muster", PLUGIN]


def data_files():
    rows = {"bin": [PROGRAMS[0]], "lib/muster": [PLUGIN]}
    for folder in ("share/man", "share/bash-completion", "share/muster"):
        for file in sorted((PREFIX / folder).rglob("*")):
            if file.is_file():
                rows.setdefault(str(file.parent.relative_to(PREFIX)), []).append(file)
    return [(place, [os.path.relpath(file, SOURCE) for file in files])
            for place, files in rows.items()]


BUILD.mkdir(exist_ok=True)
setup(version=version(), distclass=Binary, cmdclass={"bdist_wheel": Wheel}, data_files=data_files(),
      options={"build": {"build_base": "build-wheel/python"}, "egg_info": {"egg_base": "build-wheel"}})
