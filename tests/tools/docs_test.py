"""The pages: links lead somewhere, every ./dev command exists, the README's program compiles."""

import os
import re
import subprocess
import unittest

from support import ROOT

PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] + [
    os.path.relpath(os.path.join(base, name), ROOT)
    for folder in ("docs", "bench")
    for base, _, names in os.walk(os.path.join(ROOT, folder))
    for name in sorted(names)
    if name.endswith(".md")
]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as page:
        return page.read()


class Pages(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", read(page)):
                if "://" not in target:
                    place = os.path.join(ROOT, os.path.dirname(page), target)
                    self.assertTrue(os.path.exists(place), f"{page} links to {target}")

    def test_every_dev_command_exists(self):
        known = set(re.findall(r"^cmd_(\w+)\(\)", read("dev"), re.MULTILINE)) | {"help"}
        for page in PAGES:
            for command in re.findall(r"\./dev ([a-z]+)", read(page)):
                self.assertIn(command, known, page)

    def test_help_names_every_command(self):
        text = subprocess.run(
            [os.path.join(ROOT, "dev"), "help"], capture_output=True, text=True, check=True
        ).stdout
        for command in re.findall(r"^cmd_(\w+)\(\)", read("dev"), re.MULTILINE):
            self.assertIn(f"\n  {command} ", text)

    def test_an_unknown_command_is_a_usage_error(self):
        result = subprocess.run([os.path.join(ROOT, "dev"), "nonsense"], capture_output=True)
        self.assertEqual(result.returncode, 2)

    def test_the_program_in_the_readme_compiles(self):
        program = re.search(r"```c\n(.*?)```", read("README.md"), re.DOTALL).group(1)
        command = [os.environ.get("CC", "gcc"), "-std=gnu17", "-Wall", "-Wextra", "-Werror"]
        command += ["-fsyntax-only", "-I", os.path.join(ROOT, "include"), "-x", "c", "-"]
        result = subprocess.run(command, input=program, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_threat_model_names_what_exists(self):
        page, known = read("docs/threat-model.md"), set()
        for folder in ("src", "include", "tests"):
            for base, _, names in os.walk(os.path.join(ROOT, folder)):
                for name in names:
                    if name.endswith((".c", ".h", ".py")):
                        known |= set(re.findall(r"\w+", read(os.path.join(base, name))))
        for name in re.findall(r"`(?:enum |struct )?([a-z_0-9]+_[a-z_0-9]+)(?:\(\))?`", page):
            self.assertIn(name, known)
        for path in re.findall(r"tests/[\w/]+(?:\.\w+)?", page):
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)

    def test_the_numbers_of_the_coverage_page(self):
        page = read("docs/coverage.md")

        def here(folder, end):
            return [n for n in os.listdir(os.path.join(ROOT, "tests", folder)) if n.endswith(end)]

        cases = sum(
            len(re.findall(r'^ +\{"', read(f"tests/suite/{name}"), re.MULTILINE))
            for name in here("suite", ".c")
        )
        targets = sum(
            "LLVMFuzzerTestOneInput" in read(f"tests/fuzz/{name}")
            for name in here("fuzz", ".c")
            if name != "smoke.c"
        )

        def said(what):
            return int(re.search(r"(\d+) " + what, page)[1])

        self.assertEqual(said("builds with one defect"), len(here("planted", ".patch")))
        self.assertEqual(said("targets"), targets)
        self.assertLessEqual(said("cases over 19 pairs"), cases)


if __name__ == "__main__":
    unittest.main()
