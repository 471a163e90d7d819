"""Checks how the harness judges: verdicts, ratchets, retries, and that sysctls come back."""

import contextlib
import copy
import io
import json
import os
import socket
import tempfile
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

import cases
import harness
import idle
import instructions
import offload
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
    return run.judge(claim, data)["verdict"]


def without(data, *names):
    return [{name: got for name, got in line.items() if name not in names} for line in data]


class Judge(unittest.TestCase):
    CLAIM = cases.Claim("weir-epoll", cases.BASE, 1.08, goal=1.03)

    def test_held_and_missed(self):
        self.assertEqual(verdict(self.CLAIM, slices(weir_epoll=4.3)), "held")
        self.assertEqual(verdict(self.CLAIM, slices(weir_epoll=4.4)), "missed")

    def test_too_few_slices_judge_nothing(self):
        self.assertEqual(verdict(self.CLAIM, slices(COUNT - 1, weir_epoll=4.4)),
                         f"not judged ({COUNT - 1} slices)")

    def test_the_slices_of_the_claims_own_pair_count(self):
        claim = cases.Claim("weir-epoll", "uv", 1.03, by="high")
        both = slices(weir_epoll=4.0, uv=4.0)
        apart = without(both[:10], "uv") + without(both[:10], "weir-epoll") + both[:COUNT - 1]
        for name in ("weir-epoll", "uv"):  # each has enough beside the base
            self.assertTrue(run.row(apart, name)["judged"])
        self.assertEqual(verdict(claim, apart), f"not judged ({COUNT - 1} slices)")
        together = without(both[:5], cases.BASE) + both[5:] + slices(5)
        self.assertFalse(run.row(together, "uv")["judged"])
        self.assertEqual(verdict(claim, together), "held")

    def test_a_pair_that_never_met(self):
        data = without(slices(weir_epoll=4.0), cases.BASE) + slices(uv=4.0)
        got = run.judge(self.CLAIM, data)
        self.assertEqual(got["verdict"], "not judged (0 slices)")
        self.assertIsNone(got["ratio"])
        self.assertFalse(got["goal_reached"])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run.report_case(cases.ECHO[0], {}, [got])
        self.assertIn("not judged (0 slices)", printed.getvalue())

    def test_without_a_twin_nothing_is_judged(self):
        data = without(slices(weir_epoll=4.4), cases.TWIN)
        self.assertEqual(verdict(self.CLAIM, data), "not judged (no twin)")
        data = without(data[:1], cases.TWIN) + slices(COUNT - 1, weir_epoll=4.4)
        self.assertEqual(verdict(self.CLAIM, data), "not judged (no twin)")

    def test_an_idle_server_is_judged_only_with_a_spinning_client(self):
        idle = slices(weir_epoll=4.4, busy=20.0, client=60.0)
        self.assertEqual(verdict(self.CLAIM, idle),
                         "not judged (neither server nor client was busy)")
        spinning = slices(weir_epoll=4.4, busy=20.0, client=99.0)
        self.assertEqual(verdict(self.CLAIM, spinning), "missed")

    def test_a_straying_twin_takes_the_verdict_away(self):
        data = slices(twin=4.2, weir_epoll=4.0)
        self.assertEqual(verdict(self.CLAIM, data), "not judged (twin strays)")

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


def result(*verdicts):
    return {"claims": [{"verdict": one} for one in verdicts]}


class ExitCode(unittest.TestCase):
    def test_comes_from_the_verdicts(self):
        self.assertEqual(run.exit_code([result("held", "not judged (no twin)"), result()]), 0)
        self.assertEqual(run.exit_code([result("held"), result("missed")]), 1)
        self.assertEqual(run.exit_code([result("not judged (no twin)"), result()]), 3)
        self.assertEqual(run.exit_code([]), 3)


class Keeping(unittest.TestCase):
    def main(self, folder, run_case):
        options = types.SimpleNamespace(
            seed=1, slices=COUNT, seconds=0.25, warm_ms=50, foreign_max=12.0, group="linkd",
            name=None, case=None, names=[cases.BASE, cases.TWIN], bin=Path(folder),
            out=Path(folder) / "out")
        with mock.patch.object(run, "arguments", lambda: options), \
                mock.patch.object(run, "run_case", run_case), \
                mock.patch.object(run, "run_twins", lambda *_: "twins"), \
                mock.patch.object(run.harness, "cpus", lambda: (0, 1)), \
                mock.patch.dict(cases.GROUPS, linkd=cases.LINKD + cases.DIGEST), \
                mock.patch.object(run.sys, "argv", ["run.py"]), \
                mock.patch.object(run.harness, "exit_on_signals"), \
                mock.patch.object(run.harness, "raise_file_limit"), \
                contextlib.redirect_stdout(io.StringIO()):
            return run.main()

    def kept(self, folder):
        self.assertEqual(os.listdir(Path(folder) / "out"), ["linkd.json"])
        return json.loads((Path(folder) / "out/linkd.json").read_text())

    def test_an_interruption_loses_no_finished_case(self):
        def run_case(case, *_):
            if case.name == "digest-100":
                raise KeyboardInterrupt
            return {"name": case.name, **result("held")}

        with tempfile.TemporaryDirectory() as folder:
            self.assertRaises(KeyboardInterrupt, self.main, folder, run_case)
            kept = self.kept(folder)
        self.assertEqual([one["name"] for one in kept["cases"]], ["linkd-100"])
        self.assertEqual((kept["complete"], kept["aa"]), (False, "twins"))

    def test_a_whole_run(self):
        with tempfile.TemporaryDirectory() as folder:
            code = self.main(folder, lambda case, *_: {"name": case.name, **result("missed")})
            kept = self.kept(folder)
        self.assertEqual((code, len(kept["cases"]), kept["complete"]), (1, 2, True))


class Ratchets(unittest.TestCase):
    RATCHET = {"target": 550, "goal": 400, "measured": 600.0}

    def test_a_missed_target_is_shown_and_a_regression_fails(self):
        text, held = instructions.against_ratchet(617.9, self.RATCHET)
        self.assertTrue(held)
        self.assertIn("target 550 MISSED", text)
        self.assertFalse(instructions.against_ratchet(618.1, self.RATCHET)[1])

    def test_well_below_asks_to_be_recorded(self):
        self.assertNotIn("--tighten", instructions.against_ratchet(582.1, self.RATCHET)[0])
        text, held = instructions.against_ratchet(540, self.RATCHET)
        self.assertTrue(held)
        self.assertIn("target 550 met, goal 400 not reached", text)
        self.assertIn("--tighten", text)
        self.assertIn("goal 400 reached", instructions.against_ratchet(400, self.RATCHET)[0])

    def test_no_ratchet_no_verdict(self):
        self.assertEqual(instructions.against_ratchet(9999, None), ("", True))

    def test_a_met_target_may_not_be_lost(self):
        ratchet = {"target": 550, "goal": 400, "measured": 549.0}
        self.assertFalse(instructions.against_ratchet(566, ratchet)[1])

    def test_tightening_only_lowers(self):
        ratchets = {"echo": {"a": dict(self.RATCHET), "b": dict(self.RATCHET)},
                    "linkd": {"a": dict(self.RATCHET)}}
        figures = {"echo": {"a": {8: 512.34, 1: 300.0}, "b": {8: 700.0, 1: 300.0}}}
        want = copy.deepcopy(ratchets)
        want["echo"]["a"]["measured"] = 512.3
        instructions.tighten(ratchets, figures)
        self.assertEqual(ratchets, want)

    def test_the_file_keeps_its_form(self):
        path = Path(instructions.__file__).with_name("ratchets.json")
        text = path.read_text()
        self.assertEqual(instructions.ratchets_text(json.loads(text)) + "\n", text)


class Machine(unittest.TestCase):
    def test_the_kernel_knows_the_port(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.assertEqual(harness.listening_port(os.getpid()), listener.getsockname()[1])
        self.assertIsNone(harness.listening_port(os.getpid()))
        self.assertIsNone(harness.listening_port(2**30))

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


class Offload(unittest.TestCase):
    @staticmethod
    def slices(inline, offloaded, busy=0.05, count=12):
        return [{offload.INLINE: {"rate": inline, "loop_busy": 0.99, "loop_us": 98.0,
                                  "server_us": 100.0, "client_us": 5.0},
                 offload.OFFLOAD: {"rate": offloaded, "loop_busy": busy, "loop_us": 5.0,
                                   "server_us": 105.0, "client_us": 5.0}}] * count

    def test_what_the_cpus_allow(self):
        self.assertAlmostEqual(offload.allowed(self.slices(1, 1), 2), 2 / 110 * 100)

    def test_the_gain_is_judged(self):
        self.assertEqual(offload.report(self.slices(1000, 1700), 2)[1], 0)
        self.assertEqual(offload.report(self.slices(1000, 1500), 2)[1], 1)
        self.assertEqual(offload.report(self.slices(1000, 1700, busy=0.3), 2)[1], 1)

    def test_what_cannot_be_judged_is_not(self):
        self.assertEqual(offload.report(self.slices(1000, 1700, count=3), 2)[1], 3)
        self.assertEqual(offload.report(self.slices(1000, 1000), 1)[1], 3)


class Idle(unittest.TestCase):
    def test_the_slope_is_between_its_two_steps(self):
        self.assertEqual(idle.slope({1_000: 5_000, 9_000: 13_000, 19_000: 99_999}), 1.0)

    def test_a_connection_is_counted_once_it_has_its_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def refuse():
                peer, _ = listener.accept()
                peer.recv(100)
                peer.close()
            thread = threading.Thread(target=refuse)
            thread.start()
            with self.assertRaises(harness.HarnessError):
                idle.connect(listener.getsockname()[1], b"hello")
            thread.join()

    def test_memory_is_read_from_the_kernel(self):
        self.assertGreater(idle.anonymous_kib(os.getpid()), 1000)

    def test_steps_beyond_the_file_limit_are_left_out(self):
        with mock.patch.object(harness.resource, "getrlimit", return_value=(10_000, 10_000)), \
                mock.patch.object(harness, "raise_file_limit"):
            self.assertEqual(idle.reachable(idle.STEPS), [1_000, 9_000])


if __name__ == "__main__":
    unittest.main(argv=["run_test"])
