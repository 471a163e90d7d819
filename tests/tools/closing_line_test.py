"""The closing line of ./dev test, from JUnit reports as ctest and pytest write them."""

import os
import unittest

from support import TreeTest

CMOCKA = "[==========] unit: Running {0} test(s).\n[==========] {0} test(s) run.\n"


def ctest(*cases):
    return "<testsuite>" + "".join(cases) + "</testsuite>"


def case(name, status, output="", inside=""):
    head = f'<testcase name="{name}" status="{status}">'
    return f"{head}{inside}<system-out>{output}</system-out></testcase>"


class ClosingLine(TreeTest):
    def close(self, *reports):
        paths = []
        for number, report in enumerate(reports):
            self.write(f"{number}.xml", report)
            paths.append(os.path.join(self.root, f"{number}.xml"))
        result = self.run_tool("closing_line", "9", *paths, os.path.join(self.root, "none.xml"))
        return result.returncode, result.stdout

    def test_cases_inside_a_program_are_counted(self):
        report = ctest(
            case("a", "run", CMOCKA.format(5)),
            case("b", "run"),
            case("c", "run", "Ran 7 tests in 1s\n"),
        )
        self.assertEqual(
            self.close(report), (0, "13 tests: 13 passed, 0 failed, 0 skipped in 9 s\n")
        )

    def test_a_failure_inside(self):
        output = CMOCKA.format(5) + "[  FAILED  ] unit: 2 test(s), listed below:\n"
        code, text = self.close(ctest(case("a", "fail", output, '<failure message=""/>')))
        self.assertEqual(
            (code, text), (1, "failed: a\n5 tests: 3 passed, 2 failed, 0 skipped in 9 s\n")
        )

    def test_a_crash_after_the_last_test_is_a_failure(self):
        code, text = self.close(ctest(case("a", "fail", CMOCKA.format(5))))
        self.assertEqual(code, 1)
        self.assertIn("4 passed, 1 failed", text)

    def test_skipped(self):
        output = CMOCKA.format(5) + "[  SKIPPED ] unit: 1 test(s), listed below:\n"
        code, text = self.close(
            ctest(case("a", "run", output), case("b", "notrun", "", "<skipped/>"))
        )
        self.assertEqual((code, text), (0, "6 tests: 4 passed, 0 failed, 2 skipped in 9 s\n"))

    def test_two_reports_are_summed(self):
        pytest = '<testsuites><testsuite><testcase name="t"/></testsuite></testsuites>'
        code, text = self.close(ctest(case("a", "run")), pytest)
        self.assertEqual((code, text), (0, "2 tests: 2 passed, 0 failed, 0 skipped in 9 s\n"))

    def test_nothing_ran(self):
        self.assertEqual(self.close(ctest())[0], 1)


if __name__ == "__main__":
    unittest.main()
