"""`python -m seq` and the `seq` script: the one module here that must also say something on Python 3.9."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command; its exit number."""
    if sys.version_info < (3, 10):
        sys.stderr.write(
            "seq needs Python 3.10 or newer and this is %d.%d; the robot's client, `import sequence_ai`, works here\n"  # noqa: UP031
            % sys.version_info[:2]
        )
        return 1
    from seq.cli.main import main as run  # noqa: PLC0415  not importable on 3.9

    return run()


if __name__ == "__main__":
    sys.exit(main())
