"""`python -m bench [SUBJECT ...]`: run the subjects (all without arguments) and print one table each."""

from __future__ import annotations

import sys
from importlib import import_module

SUBJECTS = ("border",)


def main(names: list[str]) -> None:
    """Print a table for each subject; an unknown one is answered with those there are."""
    unknown = sorted(set(names) - set(SUBJECTS))
    if unknown:
        sys.exit(f"no subject {', '.join(unknown)}; there are: {', '.join(SUBJECTS)}")
    for name in names or SUBJECTS:
        module = import_module(f"bench.{name}")
        print(f"{name}: {(module.__doc__ or '').strip()}\n")
        rows = module.run()
        base = rows[0].per_s
        for row in rows:
            print(f"  {row.what:<58} {row.per_s:>10.0f} /s   {row.per_s / base:6.3f} of the first")
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
