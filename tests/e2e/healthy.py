"""A healthy server under load has no findings: `healthy.py SECONDS` watches echo and linkd for so
long each; the end-to-end tests do it for three."""

import sys

from servers import load, looks, serving

CASES = [("echo", "echo", ("-c", "50")), ("linkd", "linkd", ("-c", "20", "-m", "4"))]


def watch(program, scheme, arguments, seconds):
    """The findings that came up meanwhile, and what the server had received at the end."""
    found = {}
    with serving(program, "--admin", "127.0.0.1:0") as s, load(s, *arguments, scheme=scheme):
        for _ in looks(seconds, 0.5):
            for f in s.page("/debug/findings?seconds=2", 30)["findings"]:
                found[f["kind"]] = f
        received = sum(x["received"] for x in s.page("/stats", 30)["loops"])
    return list(found.values()), received


def main(seconds):
    bad = False
    for program, scheme, arguments in CASES:
        found, received = watch(program, scheme, arguments, seconds)
        print(f"weir {program}: {received} receives in {seconds} s, {len(found)} kinds of findings")
        for f in found:
            print(f"  {f['kind']}: {f['text']} {f['evidence']}")
        bad = bad or found or not received
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
