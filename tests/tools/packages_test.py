"""How ./dev finds what is missing and asks apt for it, with an apt-get that only takes notes."""

import os
import shutil
import subprocess
import unittest

from support import ROOT, TreeTest

NEEDED = ("bash", "env", "cut", "sed", "head", "id", "touch", "chmod")

APT_GET = """#!/bin/bash
echo "$*" >>"$NOTES"
for word in "$@"; do
    case $word in
    update | install | -*) ;;
    broken) exit 100 ;;
    *) echo '#!/bin/bash' >"$BIN/$word" && chmod +x "$BIN/$word" ;;
    esac
done
"""

SUDO = """#!/bin/bash
echo "sudo" >>"$NOTES"
exec "$@"
"""

PRELUDE = """set -euo pipefail
say() { echo "== $*"; }
die() { echo "dev: $*"; exit 1; }
. "$TOOLS/dev_packages.sh"
"""


class Packages(TreeTest):
    """Runs pieces of tools/dev_packages.sh on a machine that has nothing but NEEDED and apt-get."""

    def setUp(self):
        super().setUp()
        self.bin = os.path.join(self.root, "bin")
        os.mkdir(self.bin)
        for name in NEEDED:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        self.program("apt-get", APT_GET)
        self.program("apt-cache", "#!/bin/bash\necho '  Candidate: 4:11.2.0-1ubuntu1'\n")

    def program(self, name, text):
        path = os.path.join(self.bin, name)
        if os.path.lexists(path):
            os.remove(path)
        self.write("bin/" + name, text)
        os.chmod(path, 0o755)

    def gcc(self, name, version):
        self.program(name, f"#!/bin/bash\necho {version}\n")

    def run_piece(self, piece):
        """(exit code, what was said, what apt-get was asked)."""
        notes = os.path.join(self.root, "notes")
        environment = {
            "PATH": self.bin,
            "BIN": self.bin,
            "NOTES": notes,
            "TOOLS": os.path.join(ROOT, "tools"),
        }
        command = ["bash", "-c", PRELUDE + piece]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        asked = ""
        if os.path.exists(notes):
            with open(notes, encoding="utf-8") as file:
                asked = file.read()
        return result.returncode, result.stdout + result.stderr, asked

    def as_root(self):
        self.program("id", "#!/bin/bash\necho 0\n")

    def test_nothing_missing_asks_nobody(self):
        code, said, asked = self.run_piece("need 'a test' cmd:bash=bash file:/etc=etc")
        self.assertEqual((code, said, asked), (0, "", ""))

    def test_what_is_missing_is_said_and_installed(self):
        self.as_root()
        code, said, asked = self.run_piece("need 'a test' cmd:bash=bash cmd:one=one cmd:two=two")
        self.assertEqual(code, 0)
        self.assertLess(said.index("a test needs one two"), said.index("apt-get update"))
        install = "install -y -qq --no-install-recommends one two"
        self.assertEqual(asked.splitlines(), ["update -qq", install])

    def test_lists_are_updated_once(self):
        self.as_root()
        _, _, asked = self.run_piece("need a cmd:one=one; need b cmd:two=two")
        self.assertEqual(asked.count("update"), 1)

    def test_sudo_when_not_root(self):
        self.program("id", "#!/bin/bash\necho 1000\n")
        self.program("sudo", SUDO)
        code, _, asked = self.run_piece("need a cmd:one=one")
        self.assertEqual((code, asked.count("sudo")), (0, 2))

    def test_neither_root_nor_sudo(self):
        self.program("id", "#!/bin/bash\necho 1000\n")
        code, said, asked = self.run_piece("need a cmd:one=one")
        self.assertEqual((code, asked), (1, ""))
        self.assertIn("root or sudo", said)

    def test_a_package_that_cannot_be_had(self):
        self.as_root()
        code, said, _ = self.run_piece("need a cmd:broken=broken")
        self.assertEqual(code, 1)
        self.assertIn("could not install: broken", said)

    def test_a_gcc_that_is_too_old_gets_a_neighbour(self):
        self.as_root()
        self.gcc("gcc", "11")
        self.gcc("g++", "11")
        code, said, _ = self.run_piece("need_compiler; echo $WEIR_CC $WEIR_CXX")
        self.assertEqual((code, said.splitlines()[-1]), (0, "gcc-12 g++-12"))

    def test_no_gcc_where_the_default_is_too_old(self):
        self.as_root()
        code, said, _ = self.run_piece("need_compiler; echo $WEIR_CC $WEIR_CXX")
        self.assertEqual((code, said.splitlines()[-1]), (0, "gcc-12 g++-12"))

    def test_no_gcc_where_the_default_will_do(self):
        self.as_root()
        self.program("apt-cache", "#!/bin/bash\necho '  Candidate: 4:13.2.0-7ubuntu1'\n")
        code, said, asked = self.run_piece("need_compiler; echo $WEIR_CC $WEIR_CXX")
        self.assertEqual((code, said.splitlines()[-1]), (0, "gcc g++"))
        self.assertIn("gcc g++", asked)

    def test_a_gcc_that_will_do(self):
        self.gcc("gcc", "14")
        self.gcc("g++", "14")
        code, _, asked = self.run_piece("need_compiler")
        self.assertEqual((code, asked), (0, ""))

    def test_clang_14_before_a_newer_one(self):
        self.program("clang-14", "")
        self.program("clang-18", "")
        self.assertEqual(self.run_piece("pick_clang; echo $CLANG")[1], "14\n")

    def test_the_newest_clang_without_14(self):
        self.program("clang-17", "")
        self.program("clang-19", "")
        self.assertEqual(self.run_piece("pick_clang; echo $CLANG")[1], "19\n")


if __name__ == "__main__":
    unittest.main()
