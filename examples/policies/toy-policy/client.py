"""Ask a deployed toy-policy where to go, as a robot would: python client.py [NAME]."""

import sys

import sequence_ai


def main(model: str) -> None:
    """Print the next five moves of a point at 0.1 m that is to go to 0.4 m."""
    with sequence_ai.connect(model) as policy:
        answer = policy.predict({"state": [0.1], "goal": [0.4]})
    for row in answer["delta"]:
        print(f"move {row[0]:+.3f} m")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "toy-policy")
