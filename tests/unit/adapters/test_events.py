"""Events: each piece of news once, in the background, in a form the API accepts."""

from __future__ import annotations

import asyncio
from typing import Any

from pd_operator.adapters.events import QUIET_SECONDS, EventRecorder
from pd_operator.plan.actions import Announce
from pd_operator.reconcile.errors import ForbiddenError
from pd_operator.reconcile.ports import Raw
from tests.unit.reconcile.fakes import UID, FakeClock, service

NEWS = Announce(warning=True, reason="Unschedulable", message="pod demo-decode-0 finds no node")


def demo() -> dict[str, Any]:
    body = service()
    body["metadata"]["uid"] = UID
    return body


class Posts:
    def __init__(self) -> None:
        self.bodies: list[Raw] = []
        self.refuse = False

    async def __call__(self, namespace: str, body: Raw) -> None:
        if self.refuse:
            raise ForbiddenError("no")
        assert namespace == "default"
        self.bodies.append(body)


async def post_all(recorder: EventRecorder) -> None:
    task = asyncio.create_task(recorder.forever())
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()


async def test_the_same_news_is_posted_once_in_a_while() -> None:
    posts, clock = Posts(), FakeClock()
    recorder = EventRecorder(posts, clock)
    await recorder.announce(demo(), NEWS)
    await recorder.announce(demo(), NEWS)
    await recorder.announce(demo(), Announce(warning=False, reason="Ready", message="serving"))
    await post_all(recorder)
    assert [body["reason"] for body in posts.bodies] == ["Unschedulable", "Ready"]
    clock.advance(QUIET_SECONDS + 1)
    await recorder.announce(demo(), NEWS)
    await post_all(recorder)
    assert len(posts.bodies) == 3


async def test_the_form() -> None:
    posts = Posts()
    recorder = EventRecorder(posts, FakeClock())
    await recorder.announce(demo(), Announce(warning=True, reason="R", message="ä" * 2000))
    await post_all(recorder)
    (body,) = posts.bodies
    assert body["type"] == "Warning"
    assert body["regarding"]["uid"] == UID
    assert body["regarding"]["kind"] == "PDInferenceService"
    assert body["eventTime"] == "2027-01-15T08:00:00.000000Z"
    assert len(body["note"].encode()) <= 1024
    assert set(body["note"]) == {"ä"}


async def test_an_event_that_is_refused_is_only_news_lost() -> None:
    posts = Posts()
    recorder = EventRecorder(posts, FakeClock())
    posts.refuse = True
    await recorder.announce(demo(), NEWS)
    await post_all(recorder)
    posts.refuse = False
    await recorder.announce(demo(), Announce(warning=False, reason="Ready", message="serving"))
    await post_all(recorder)
    assert [body["reason"] for body in posts.bodies] == ["Ready"]
