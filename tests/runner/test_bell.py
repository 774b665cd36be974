"""Requests that are held are woken in the order in which they stand."""

import asyncio
import threading

from runner.bell import FURTHER, Bell


def waiting(bell, **positions):
    """Tasks that wait for "arm", by name, each once it listens."""
    return {name: asyncio.create_task(bell.wait("arm", name, at, bell.rung, 60)) for name, at in positions.items()}


async def woken(tasks):
    for _ in range(5):
        await asyncio.sleep(0)
    return sorted(name for name, task in tasks.items() if task.done())


def test_those_in_front_are_woken_from_another_thread():
    """One slot wakes the foremost and a few behind it, and nobody of another deployment."""

    async def scene():
        bell = Bell()
        tasks = waiting(bell, **{f"r{at}": at for at in (5, 3, 1, 2, 4)})
        await asyncio.sleep(0)
        for key in ("other", "arm"):
            ringing = threading.Thread(target=bell.ring, args=(key,))
            ringing.start()
            ringing.join()
        front = await woken(tasks)
        for task in tasks.values():
            task.cancel()
        return front

    assert asyncio.run(scene()) == [f"r{at}" for at in range(1, 2 + FURTHER)]


def test_a_robot_asks_from_its_questions_arrival_to_its_answer():
    """Twice at once is once; an error ends it too."""
    bell = Bell()
    with bell.asking("r1"), bell.asking("r2"):
        with bell.asking("r1"):
            assert bell.asks() == {"r1", "r2"}
        assert bell.asks() == {"r1", "r2"}
    try:
        with bell.asking("r3"):
            raise TimeoutError
    except TimeoutError:
        assert bell.asks() == set()


def test_a_ring_between_asking_and_waiting_is_heard():
    """Whoever counted before it does not wait."""

    async def scene():
        bell = Bell()
        before = bell.rung
        bell.ring("arm")
        return await asyncio.wait_for(bell.wait("arm", "r1", 1, before, 60), 5)

    assert asyncio.run(scene())


def test_waiting_ends_with_its_time_and_leaves_nothing():
    """Nobody rang: it returns at its limit, and the bell forgets it."""

    async def scene():
        bell = Bell()
        return await bell.wait("arm", "r1", 1, bell.rung, 0.01), bell._listening

    assert asyncio.run(scene()) == (False, {})


def test_a_robot_that_leaves_hears_no_ring():
    """Its held question ends, and is told apart from one that was rung."""

    async def scene():
        bell = Bell()
        tasks = waiting(bell, r1=1, r2=2)
        await asyncio.sleep(0)
        bell.dismiss("arm", "r1")
        bell.ring("arm")
        return await asyncio.gather(*tasks.values())

    assert asyncio.run(scene()) == [False, True]
