"""Installs the build that WEIR_BUILD names and builds a user program against it."""

import os
import re
import subprocess
import unittest

from support import ROOT, TreeTest

PROGRAM = """#include <stdio.h>
#include "weir/error.h"
int main(void) {
    puts(weir_strerror(WEIR_EGONE));
    return 0;
}
"""

PROJECT = """cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(weir REQUIRED)
foreach(kind weir static)
  add_executable(with_${kind} main.c)
  target_link_libraries(with_${kind} PRIVATE weir::${kind})
endforeach()
"""


def sanitized():
    with open(os.path.join(os.environ["WEIR_BUILD"], "CMakeCache.txt"), encoding="utf-8") as cache:
        return any(line.startswith("WEIR_SANITIZE:") and line.strip()[-1] != "=" for line in cache)


@unittest.skipUnless("WEIR_BUILD" in os.environ, "no build folder given")
class Install(TreeTest):
    def setUp(self):
        super().setUp()
        if sanitized():
            self.skipTest("a sanitized library is not for installing")
        self.prefix = os.path.join(self.root, "prefix")
        self.run_ok("cmake", "--install", os.environ["WEIR_BUILD"], "--prefix", self.prefix)
        self.write("user/main.c", PROGRAM)

    def run_ok(self, *command, **more):
        result = subprocess.run(command, capture_output=True, text=True, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def library_folder(self):
        for base, _, names in os.walk(self.prefix):
            if "libweir.a" in names:
                return base
        self.fail("no libweir.a was installed")

    def test_every_public_header_is_there(self):
        for name in os.listdir(os.path.join(ROOT, "include", "weir")):
            self.assertTrue(
                os.path.exists(os.path.join(self.prefix, "include", "weir", name)), name
            )

    def test_a_program_through_pkg_config(self):
        folder = self.library_folder()
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(folder, "pkgconfig"))
        flags = self.run_ok("pkg-config", "--cflags", "--libs", "weir", env=environment).split()
        program = os.path.join(self.root, "user", "program")
        self.run_ok(
            os.environ.get("CC", "gcc"),
            os.path.join(self.root, "user/main.c"),
            "-o",
            program,
            *flags,
        )
        self.assertTrue(self.run_ok(program, env=dict(os.environ, LD_LIBRARY_PATH=folder)).strip())

    def test_the_lines_of_the_readme(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as page:
            lines = re.search(r"```sh\n(export PKG_CONFIG_PATH.*?)```", page.read(), re.DOTALL)[1]
        home = os.path.join(self.root, "home")
        os.mkdir(home)
        os.symlink(self.prefix, os.path.join(home, "weir"))
        folder = os.path.relpath(self.library_folder(), self.prefix)
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(home, "examples"))
        exported, *compiling = lines.replace("weir/lib", "weir/" + folder).splitlines()
        self.assertEqual(len(compiling), 2)
        for line in compiling:
            script = exported + "\n" + line
            self.run_ok("sh", "-ec", script, cwd=home, env=dict(os.environ, HOME=home))
            refused = subprocess.run(
                ["./echo", "nonsense"], cwd=home, capture_output=True, text=True, check=False
            )
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("no address", refused.stderr)

    def test_a_program_through_cmake(self):
        build = os.path.join(self.root, "user", "build")
        self.write("user/CMakeLists.txt", PROJECT)
        self.run_ok(
            "cmake",
            "-S",
            os.path.join(self.root, "user"),
            "-B",
            build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
        )
        self.run_ok("cmake", "--build", build)
        for kind in ("weir", "static"):
            self.assertTrue(self.run_ok(os.path.join(build, "with_" + kind)).strip())


if __name__ == "__main__":
    unittest.main()
