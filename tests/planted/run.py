#!/usr/bin/env python3
"""Plants one defect after the other into the library and sees that the engine's seeds find it.

Each tests/planted/NAME.patch breaks one thing in one or two source files; its first line says what.
The patched files are compiled apart, with the flags of a checked build, and linked in front of the
untouched library, with the program of tests/sim/engine_test.c. That program then runs up to --seeds
seeds. A defect that no seed finds fails this test, and so does the library without a defect.

  run.py                 all of them
  run.py mark hold       those whose name contains one of these words
  run.py --refresh       rewrites patches that still apply, but not at their lines any more
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = "sim.engine"
SECONDS_MAX = 60


class Broken(Exception):
    """The test itself cannot go on: not a verdict about a defect."""


def run(command, **more):
    return subprocess.run(
        command, text=True, errors="replace", check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def need(command, what, **more):
    done = run(command, **more)
    if done.returncode != 0:
        raise Broken(f"{what}:\n{done.stdout}")
    return done.stdout


# --- the build without a defect ----------------------------------------------------------------


class Base:
    """A checked build of the library and the program.

    It knows how each file is compiled and how the program is linked."""

    def __init__(self, where, compiler, jobs):
        self.where = where
        configure = ["cmake", "-S", ROOT, "-B", where, "-G", "Ninja"]
        configure += ["-DCMAKE_C_FLAGS=-O1", "-DWEIR_CHECKED=ON"]
        if compiler:
            configure.append(f"-DCMAKE_C_COMPILER={compiler}")
        need(configure, "the build does not configure")
        ninja = ["ninja", "-C", where]
        need([*ninja, f"-j{jobs}", PROGRAM], "the library without a defect does not build")
        commands = json.loads((where / "compile_commands.json").read_text())
        self.compile = {os.path.relpath(c["file"], ROOT): c for c in reversed(commands)}
        link = need([*ninja, "-t", "commands", "-s", f"tests/sim/{PROGRAM}"], "no link command")
        self.link = link.strip().splitlines()[-1]

    def object_of(self, name, patched, out):
        """Compiles `patched` as the source file `name` is compiled."""
        if name not in self.compile:
            raise Broken(f"{name} is no source file of this build; a patch may touch .c files only")
        entry = self.compile[name]
        words = shlex.split(entry["command"])
        words[words.index("-o") + 1] = str(out)
        words[words.index("-c") + 1] = str(patched)
        words = [w for w in drop_dependencies(words) if w != "-Werror"]
        need(words, f"{name} does not compile with the defect", cwd=entry["directory"])

    def program(self, objects, out):
        plain = re.search(r"-o (\S*" + re.escape(PROGRAM) + r")(\s|$)", self.link)
        if not plain:
            raise Broken(f"the link command has changed: {self.link}")
        command = self.link.replace(plain.group(0), f"-o {out} {' '.join(map(str, objects))} ", 1)
        need(command, "the program does not link with the defect", cwd=self.where, shell=True)


def drop_dependencies(words):
    """Without -MD -MT x -MF y: the build's own record stays as it is."""
    out, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-MT", "-MF"):
            skip = True
        elif word != "-MD":
            out.append(word)
    return out


# --- one defect --------------------------------------------------------------------------------


class Defect:
    def __init__(self, patch, work):
        self.patch = patch
        self.name = patch.stem
        self.dir = work / self.name
        text = patch.read_text()
        self.says = text.splitlines()[0].lstrip("# ")
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        if not self.files:
            raise Broken(f"{patch.name}: names no file")

    def copy(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        for name in self.files:
            to = self.dir / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to)

    def apply(self, fuzz):
        command = ["patch", "-p1", f"-F{fuzz}", "--no-backup-if-mismatch", "-s", "-i", self.patch]
        done = run(command, cwd=self.dir)
        if done.returncode != 0:
            raise Broken(f"{self.patch.name} no longer applies; rewrite it for the source as it is "
                         f"now:\n{done.stdout}")

    def refresh(self):
        self.copy()
        self.apply(3)
        out = [f"# {self.says}\n"]
        for name in self.files:
            labels = ["--label", f"a/{name}", "--label", f"b/{name}"]
            out.append(run(["diff", "-u", *labels, ROOT / name, self.dir / name]).stdout)
        self.patch.write_text("".join(out))

    def build(self, base):
        self.copy()
        self.apply(2)
        objects = []
        for i, name in enumerate(self.files):
            objects.append(self.dir / f"{i}.o")
            base.object_of(name, self.dir / name, objects[-1])
        base.program(objects, self.dir / "engine")


def oracle(output, code):
    """What the program said: the seed, and the rule that did not hold."""
    seed = re.search(r"^seed (\d+): (.*)$", output, re.M)
    must = re.search(r"^weir: (.*)$", output, re.M)
    if not seed:
        lines = output.strip().splitlines()
        return None, must.group(1) if must else f"exit {code}: {lines[-1] if lines else 'no word'}"
    return int(seed.group(1)), must.group(1) if must else seed.group(2)


def seeds_of(program, seeds):
    """(found, seed, oracle, seconds)"""
    start = time.monotonic()
    environment = {k: v for k, v in os.environ.items() if k != "WEIR_SEED"}
    environment["WEIR_SIM_SEEDS"] = str(seeds)
    try:
        done = run([program], env=environment, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return True, None, f"still running after {SECONDS_MAX} s", time.monotonic() - start
    seed, rule = oracle(done.stdout, done.returncode)
    return done.returncode != 0, seed, rule, time.monotonic() - start


def hunt(defect, base, seeds):
    try:
        defect.build(base)
    except Broken as error:
        return defect, error
    return defect, seeds_of(defect.dir / "engine", seeds)


# --- all of them -------------------------------------------------------------------------------


def short(text, width):
    return text if len(text) <= width else text[: width - 1] + "…"


def row(defect, seed, seconds, what):
    return f"{defect.name:<30} | {seed:>5} | {seconds:>7} | {what}"


def report(results):
    """Prints the table. The number of defects that were not found or could not be planted."""
    bad = 0
    print(f"{'planted bug':<30} | {'seed':>5} | {'seconds':>7} | found by")
    for defect, result in results:
        if isinstance(result, Broken):
            bad += 1
            print(row(defect, "", "", f"NOT PLANTED: {result}"))
            continue
        found, seed, rule, seconds = result
        bad += not found
        what = short(rule, 90) if found else f"NOT FOUND: {defect.says}"
        print(row(defect, seed if found and seed else "", f"{seconds:.1f}", what))
    print(f"{len(results) - bad} of {len(results)} planted bugs found")
    return bad


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "planted")
    parser.add_argument("--compiler", default=os.environ.get("CC"))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--refresh", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    work = options.build.resolve()
    defects = [
        Defect(p, work)
        for p in sorted(HERE.glob("*.patch"))
        if not options.words or any(w in p.stem for w in options.words)
    ]
    if not defects:
        raise Broken("no planted bug has such a name")
    if options.refresh:
        for defect in defects:
            defect.refresh()
        return 0
    base = Base(work / "base", options.compiler, options.jobs)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        sound = pool.submit(seeds_of, work / "base" / "tests" / "sim" / PROGRAM, options.seeds)
        results = list(pool.map(lambda d: hunt(d, base, options.seeds), defects))
    bad = report(results)
    found, _, rule, seconds = sound.result()
    verdict = f"FAILED: {rule}" if found else "nothing found"
    print(f"without a defect: {verdict}, {options.seeds} seeds in {seconds:.1f} s")
    return 1 if bad or found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        print(f"planted: {error}", file=sys.stderr)
        sys.exit(1)
