"""The probe points of the build that WEIR_BUILD names, as the tools of the system see them."""

import os
import re
import shutil
import subprocess
import unittest

WANTED = {"accept": 2, "read": 2, "write": 2, "flush": 2, "close": 3}  # and how many arguments


def cached(name):
    with open(os.path.join(os.environ["WEIR_BUILD"], "CMakeCache.txt"), encoding="utf-8") as cache:
        found = re.search(rf"^{name}:\w+=(.*)$", cache.read(), re.MULTILINE)
    return found.group(1) if found else ""


@unittest.skipUnless("WEIR_BUILD" in os.environ, "no build folder given")
class Probes(unittest.TestCase):
    def notes(self):
        """Probe name -> the numbers of arguments it is found with."""
        readelf = shutil.which("readelf")
        if not readelf:
            self.skipTest("no readelf")
        library = os.path.join(os.environ["WEIR_BUILD"], "libweir.so")
        text = subprocess.run(
            [readelf, "-n", library], capture_output=True, text=True, check=True
        ).stdout
        found = {}
        for name, arguments in re.findall(
            r"Provider: weir\s+Name: (\w+)\s+Location:.*\s+Arguments: (.*)", text
        ):
            found.setdefault(name, set()).add(len(re.findall(r"-?\d+@", arguments)))
        return found

    def test_the_library_has_all_or_none(self):
        there = cached("WEIR_HAVE_SDT") == "1" and cached("WEIR_PROBES") != "OFF"
        wanted = {name: {n} for name, n in WANTED.items()} if there else {}
        self.assertEqual(self.notes(), wanted)


if __name__ == "__main__":
    unittest.main()
