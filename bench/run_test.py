"""Checks how the harness judges: verdicts, ratchets, retries, and that sysctls come back."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import cases
import harness
import instructions
import run

COUNT = run.SLICES_MIN


def one(cost, busy=100.0, client=100.0):
    return {"server_cpu_us": cost, "rate": 1e6 / cost, "server_busy_pct": busy,
            "client_busy_pct": client}


def slices(count=COUNT, twin=4.0, busy=100.0, client=100.0, **costs):
    line = {cases.BASE: one(4.0), cases.TWIN: one(twin)}
    line.update({name.replace("_", "-"): one(cost, busy, client) for name, cost in costs.items()})
    return [line] * count


def verdict(claim, data):
    rows = {name: run.row(data, name) for name in data[0]}
    got = run.judge(claim, data, rows)
    return got and got["verdict"]


class Judge(unittest.TestCase):
    CLAIM = cases.Claim("weir-epoll", cases.BASE, 1.08, goal=1.03)

    def test_held_and_missed(self):
        self.assertEqual(verdict(self.CLAIM, slices(weir_epoll=4.3)), "held")
        self.assertEqual(verdict(self.CLAIM, slices(weir_epoll=4.4)), "missed")

    def test_too_few_slices_judge_nothing(self):
        self.assertEqual(verdict(self.CLAIM, slices(COUNT - 1, weir_epoll=4.4)), "not judged")

    def test_an_idle_server_is_judged_only_with_a_spinning_client(self):
        idle = slices(weir_epoll=4.4, busy=20.0, client=60.0)
        self.assertEqual(verdict(self.CLAIM, idle), "not judged")
        spinning = slices(weir_epoll=4.4, busy=20.0, client=99.0)
        self.assertEqual(verdict(self.CLAIM, spinning), "missed")

    def test_a_straying_twin_takes_the_verdict_away(self):
        data = slices(twin=4.2, weir_epoll=4.0)
        self.assertEqual(verdict(self.CLAIM, data), "not judged (twin strays)")

    def test_no_claim_without_both_servers(self):
        self.assertIsNone(verdict(self.CLAIM, slices(uv=4.0)))

    def test_upper_end_is_stricter_than_the_median(self):
        data = slices(COUNT // 2, weir_epoll=4.0) + slices(COUNT // 2, weir_epoll=4.2)
        claim = cases.Claim("weir-epoll", cases.BASE, 1.03, by="high")
        self.assertEqual(verdict(claim, data), "missed")
        claim = cases.Claim("weir-epoll", cases.BASE, 1.03)
        self.assertEqual(verdict(claim, data), "held")

    def test_goal_that_follows_the_bare_loops(self):
        claim = cases.Claim("weir-uring", cases.BASE, 1.03, goal_server="bare-uring",
                            goal_base=cases.BASE)
        goal = run.goal_of(claim, slices(bare_uring=3.6))
        self.assertAlmostEqual(goal, 0.9 + cases.GOAL_SLACK)
        self.assertIsNone(run.goal_of(claim, slices()))


class Ratchets(unittest.TestCase):
    RATCHET = {"max": 550, "goal": 400}

    def test_above_fails_and_far_below_can_be_tightened(self):
        self.assertFalse(instructions.against_ratchet(551, self.RATCHET)[1])
        text, held = instructions.against_ratchet(450, self.RATCHET)
        self.assertTrue(held)
        self.assertIn("tightened to 461", text)
        self.assertNotIn("tightened", instructions.against_ratchet(540, self.RATCHET)[0])
        self.assertEqual(instructions.against_ratchet(9999, None), ("", True))


class Machine(unittest.TestCase):
    def test_time_wait_limit_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            limit = Path(folder) / "tcp_max_tw_buckets"
            limit.write_text("131072\n")
            with mock.patch.object(harness, "TW_BUCKETS", limit):
                with self.assertRaises(SystemExit), harness.no_time_wait() as allowed:
                    self.assertTrue(allowed)
                    self.assertEqual(limit.read_text(), "0")
                    raise SystemExit(143)
            self.assertEqual(limit.read_text(), "131072\n")

    def test_time_wait_limit_that_cannot_be_written(self):
        with mock.patch.object(harness, "TW_BUCKETS", Path("/nonexistent/limit")):
            with harness.no_time_wait() as allowed:
                self.assertFalse(allowed)

    def test_noisy_measurements_are_done_again_and_then_given_up(self):
        def client(foreign):
            got = iter(foreign)
            fake = harness.Client("client", 0, 1)
            fake.run = lambda *_, **__: {key: next_value for next_value in [next(got)]
                                         for key in harness.FOREIGN_KEYS}
            return fake

        with mock.patch.object(harness.time, "sleep"):
            good = client([50, 50, 3]).run_quiet(None, None, 12)
            self.assertEqual(good["server_cpu_foreign_pct"], 3)
            self.assertIsNone(client([50] * 4).run_quiet(None, None, 12))

    def test_client_line(self):
        got = harness.parse_line("mode=long rate=12.5\n")
        self.assertEqual(got, {"mode": "long", "rate": 12.5})


if __name__ == "__main__":
    unittest.main(argv=["run_test"])
