"""The control side of an eval: what it will do, its queue, what keeps it going, and what it says at the end."""
