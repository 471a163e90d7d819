"""Every ban of tools/tidy on a line that breaks it, and on one that only looks like it."""

import unittest

from support import TreeTest, load_tool

tidy = load_tool("tidy")


class Lines(unittest.TestCase):
    def breaches(self, path, text):
        return [breach for _, breach in tidy.breaches_of(path, text)]

    def assert_banned(self, path, line):
        found = self.breaches(path, line + "\n")
        self.assertEqual(len(found), 1, (line, found))
        self.assertIn("banned", found[0])

    def assert_clean(self, path, text):
        self.assertEqual(self.breaches(path, text), [])

    def test_banned_calls(self):
        for call in (
            "strcpy(a, b)",
            "strcat (a, b)",
            "strncpy(a, b, 3)",
            "sprintf(a, b)",
            "vsprintf(a, b, c)",
            "gets(a)",
            "atoi(a)",
            "strtok(a, b)",
            "rand()",
            "alloca(3)",
            "signal(2, f)",
            "strerror(e)",
            "assert(x)",
        ):
            with self.subTest(call):
                self.assert_banned("src/base/a.c", f"    x = {call};")

    def test_calls_that_resemble_them(self):
        for call in (
            "snprintf(a, n, b)",
            "_Static_assert(x)",
            "static_assert(x)",
            "fgets(a, n, f)",
            "weir_strerror(e)",
            "my_rand()",
            "strtok_r(a, b, c)",
            "must(x)",
        ):
            with self.subTest(call):
                self.assert_clean("src/base/a.c", f"    x = {call};\n")

    def test_bans_that_hold_in_some_places_only(self):
        self.assert_banned("tests/unit/base/a_test.c", "usleep(10);")
        self.assert_banned("tests/e2e/echo_test.py", "time.sleep(1)")
        self.assert_clean("apps/top/top.c", "nanosleep(&t, NULL);\n")
        self.assert_clean("tests/unit/base/a_test.c", "assert(x);\n")

    def test_words_of_unfinished_work(self):
        for word in ("TODO", "FIXME", "for now", "XXX"):
            with self.subTest(word):
                self.assert_banned("docs/a.md", f"This is {word} enough.")

    def test_a_machine_path(self):
        self.assert_banned("docs/a.md", "see /" + "root/x")
        self.assert_clean("docs/a.md", "see src/work/x\n")

    def test_a_line_with_a_reason(self):
        self.assert_clean(
            "tests/a.c", "usleep(1); /* tidy-ok: the kernel's own timer is under test */\n"
        )

    def test_columns(self):
        self.assert_clean("src/base/a.c", "x" * 100 + "\n")
        self.assertEqual(
            self.breaches("src/base/a.c", "x" * 101 + "\n"), ["101 columns, over 100"]
        )
        self.assert_clean("docs/a.md", "x" * 300 + "\n")

    def test_white_space(self):
        self.assertIn("white space", self.breaches("a.md", "x \n")[0])
        self.assertIn("tab", self.breaches("a.md", "x\ty\n")[0])
        self.assertIn("newline", self.breaches("a.md", "x")[0])
        self.assertIn("empty line", self.breaches("a.md", "x\n\n")[0])
        self.assert_clean("a.md", "")


class Program(TreeTest):
    def test_exit_codes(self):
        self.write("src/base/a.c", "int x;\n")
        self.write("build/a.c", "int x; \n")
        self.assertEqual(self.run_tool("tidy", "--root", self.root).returncode, 0)
        self.write("src/base/b.c", "int x; \n")
        result = self.run_tool("tidy", "--root", self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/base/b.c:1: white space", result.stdout)


if __name__ == "__main__":
    unittest.main()
