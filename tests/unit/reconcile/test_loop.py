"""The loop on a fake API server: what it writes, what it leaves alone, and how it takes refusals and failures."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1.status import ScalingStatus
from pd_operator.plan.actions import Announce, Apply, Delete, MarkPod, Plan
from pd_operator.plan.observed import Observed
from pd_operator.reconcile import instruments
from pd_operator.reconcile.errors import ForbiddenError, TerminalError, TransientError
from pd_operator.reconcile.kinds import BY_NAME
from pd_operator.reconcile.loop import summary
from tests.unit.reconcile.fakes import UID, service
from tests.unit.reconcile.world import KEY, World

CHILDREN = {
    "StatefulSet": 2,
    "Service": 3,
    "PodDisruptionBudget": 2,
    "Deployment": 1,
    "ServiceAccount": 1,
    "Role": 1,
    "RoleBinding": 1,
}


def fails(kind: str, error: Exception, verb: str = "apply") -> Callable[[str, str, str], Any]:
    return lambda v, k, _name: error if (v, k) == (verb, kind) else None


def set_name(world: World, role: str) -> str:
    return next(name for kind, name in world.cluster.objects if kind == "StatefulSet" and f"-{role}-" in name)


async def test_a_new_service_costs_one_write_per_child_and_one_status() -> None:
    world = await World().start(service())
    await world.settle(seconds=5)
    writes = Counter(world.cluster.writes)
    assert Counter(kind for verb, kind, _ in world.cluster.writes if verb == "apply") == CHILDREN
    assert max(writes.values()) == 1
    assert [verb for verb, _, _ in world.cluster.writes if verb != "apply"] == ["status"]


async def test_dependents_are_created_after_what_they_need() -> None:
    world = await World().start(service())
    await world.settle()
    order = [kind for verb, kind, _ in world.cluster.writes if verb == "apply"]
    assert order.index("RoleBinding") > order.index("Role")
    assert order.index("Deployment") > order.index("ServiceAccount")


async def test_a_settled_service_costs_nothing() -> None:
    world = await World().start(service())
    await world.settle(seconds=5)
    world.cluster.calls.clear()
    world.queue.add(KEY)
    await world.settle(seconds=1)
    assert world.cluster.writes == []


async def test_a_restarted_operator_writes_nothing() -> None:
    first = await World().start(service())
    await first.settle(seconds=5)
    second = await first.restarted().start()
    await second.settle(seconds=30)
    assert second.cluster.writes == []


async def test_drift_is_repaired() -> None:
    world = await World().start(service())
    await world.settle(seconds=5)
    name = set_name(world, "decode")
    world.cluster.calls.clear()
    world.user_edits("StatefulSet", name, lambda body: body["spec"].update(replicas=7))
    world.user_deletes("Service", "demo-prefill")
    await world.settle(seconds=2)
    assert world.cluster.objects["StatefulSet", name]["spec"]["replicas"] == 1
    assert ("Service", "demo-prefill") in world.cluster.objects
    assert Counter(world.cluster.writes) == {("apply", "StatefulSet", name): 1, ("apply", "Service", "demo-prefill"): 1}


async def test_lost_events_are_made_up_for_by_a_resync() -> None:
    world = await World().start(service())
    await world.settle(seconds=5)
    world.user_deletes("Service", "demo-prefill", seen=False)
    world.user_edits("Service", "demo-decode", lambda body: body["metadata"].update(labels={}), seen=False)
    await world.settle(seconds=5)
    assert ("Service", "demo-prefill") not in world.cluster.objects
    assert await world.sync.once() == {KEY}
    world.queue.add(KEY)
    await world.settle(seconds=2)
    assert ("Service", "demo-prefill") in world.cluster.objects
    assert world.cluster.objects["Service", "demo-decode"]["metadata"]["labels"][labels.SERVICE] == "demo"


async def test_a_refused_object_is_told_in_the_status_and_does_not_keep_others_from_being_created() -> None:
    world = await World().start(service())
    world.cluster.fault = fails("StatefulSet", TerminalError('StatefulSet.apps "x" is invalid: spec.template: no'))
    await world.settle(seconds=3)
    stalled = world.condition(conditions.STALLED)
    assert stalled["status"] == "True"
    assert "is invalid: spec.template: no" in stalled["message"]
    created = {kind for kind, _ in world.cluster.objects}
    assert created == {labels.KIND, *CHILDREN} - {"StatefulSet"}
    assert world.results(instruments.REFUSED) > 0


async def test_a_refused_object_is_not_tried_at_every_event() -> None:
    tries = 0

    def refuse(verb: str, kind: str, _name: str) -> TerminalError | None:
        nonlocal tries
        if (verb, kind) != ("apply", "PodDisruptionBudget"):
            return None
        tries += 1
        return TerminalError("refused by policy")

    world = await World().start(service())
    world.cluster.fault = refuse
    await world.settle(seconds=1)
    assert tries == 2  # one for each role
    for _ in range(20):
        world.queue.add(KEY)
        await world.settle(seconds=0.2)
    assert tries == 2


async def test_a_refusal_is_forgotten_once_the_write_goes_through() -> None:
    world = await World().start(service())
    world.cluster.fault = fails("Deployment", ForbiddenError('User "x" cannot patch resource "deployments"'))
    await world.settle(seconds=5)
    assert world.condition(conditions.STALLED)["status"] == "True"
    world.cluster.fault = lambda *_: None
    await world.settle(seconds=60)
    assert world.condition(conditions.STALLED).get("status") != "True"
    assert any(kind == "Deployment" for kind, _ in world.cluster.objects)


async def test_a_refused_object_is_tried_at_once_when_its_content_changes() -> None:
    world = await World().start(service(router={"replicas": 100}))
    world.cluster.fault = fails("Deployment", TerminalError("too many"))
    await world.settle(seconds=5)
    world.cluster.fault = lambda *_: None
    world.user_edits(labels.KIND, "demo", lambda body: body["spec"]["router"].update(replicas=1))
    await world.settle(seconds=2)
    assert any(kind == "Deployment" for kind, _ in world.cluster.objects)


async def test_a_failure_that_may_pass_is_tried_again_later_each_time() -> None:
    world = await World().start(service())
    world.cluster.fault = fails("StatefulSet", TransientError("etcdserver: request timed out"))
    await world.settle(seconds=10)
    transient = world.results(instruments.TRANSIENT)
    assert 3 <= transient <= 7
    world.cluster.fault = lambda *_: None
    await world.settle(seconds=20)
    assert set_name(world, "decode")
    assert world.results(instruments.TRANSIENT) == transient


async def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    world = await World().start(service())
    world.cluster.fault = fails("StatefulSet", TransientError("busy", retry_after=30))
    await world.settle(seconds=29)
    assert world.results(instruments.TRANSIENT) == 1
    await world.settle(seconds=2)
    assert world.results(instruments.TRANSIENT) == 2


async def test_a_bug_in_one_service_stops_no_other_service_and_no_worker() -> None:
    def broken(observed: Observed) -> Plan:
        if observed.service.metadata.name == "demo":
            raise KeyError("surprise")
        return Plan(status=observed.service.status)

    world = World(broken)
    other = service("other")
    other["metadata"]["uid"] = "other"
    await world.start(service(), other)
    await world.settle(seconds=2)
    assert world.results(instruments.BUG) >= 2
    assert world.results(instruments.SUCCESS) == 1


async def test_an_object_that_this_version_cannot_read_is_refused_without_a_trace() -> None:
    world = await World().start(service(prefill={"replicas": "many"}))
    await world.settle(seconds=5)
    assert world.cluster.writes == []
    assert world.results(instruments.REFUSED) == 1
    assert world.results(instruments.BUG) == 0


async def test_a_service_that_is_going_is_left_to_garbage_collection() -> None:
    world = await World().start(service())
    await world.settle(seconds=5)
    world.user_edits(
        labels.KIND, "demo", lambda body: body["metadata"].update(deletionTimestamp="2026-11-30T10:00:00Z")
    )
    world.cluster.calls.clear()
    world.user_deletes("Service", "demo-prefill")
    await world.settle(seconds=5)
    world.user_deletes(labels.KIND, "demo")
    world.user_deletes("Service", "demo-decode")
    await world.settle(seconds=5)
    assert world.cluster.writes == []


async def test_an_object_of_somebody_else_is_never_taken() -> None:
    world = World()
    world.cluster.foreign.add(("Service", "demo"))
    theirs = {
        "kind": "Service",
        "metadata": {"name": "demo", "namespace": "default", "labels": {"app": "theirs"}},
        "spec": {"ports": [{"port": 1}]},
    }
    await world.start(service(), theirs)
    await world.settle(seconds=3)
    assert world.cluster.objects["Service", "demo"]["spec"] == {"ports": [{"port": 1}]}
    assert "Service demo exists already" in world.condition(conditions.STALLED)["message"]


async def test_an_own_child_that_lost_its_labels_is_taken_back() -> None:
    world = await World().start(service())
    await world.settle(seconds=5)
    world.cluster.foreign.add(("Service", "demo"))
    body = world.cluster.edit("Service", "demo", lambda body: body["metadata"].update(labels={}))
    # With a label selector, an object that no longer matches is reported as deleted.
    world.store.remove_named(BY_NAME["Service"], "default", "demo", None)
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID
    world.queue.add(KEY)
    await world.settle(seconds=2)
    assert world.cluster.objects["Service", "demo"]["metadata"]["labels"][labels.SERVICE] == "demo"


def scripted(*actions: Apply | Delete | MarkPod, **plan: Any) -> Callable[[Observed], Plan]:
    """A planner that wants the same things once."""
    left = [actions]

    def planner(observed: Observed) -> Plan:
        status = observed.service.status
        if plan.get("units"):
            status = status.model_copy(update={"units": plan["units"]})
        return Plan(
            status=status,
            actions=left.pop() if left else (),
            status_first=plan.get("status_first", False),
            events=plan.get("events", ()),
        )

    return planner


POD = {
    "kind": "Pod",
    "metadata": {"name": "p-0", "namespace": "default", "labels": {labels.SERVICE: "demo"}},
    "spec": {"containers": []},
    "status": {"podIP": "10.0.0.9"},
}
ROLE = {"kind": "Role", "metadata": {"name": "r", "namespace": "default", "labels": {labels.SERVICE: "demo"}}}


async def test_a_decision_is_in_the_status_before_it_is_acted_upon() -> None:
    world = await World(scripted(Apply(ROLE), units=3, status_first=True)).start(service())
    await world.settle()
    assert [verb for verb, _, _ in world.cluster.writes] == ["status", "apply"]


async def test_nothing_is_done_when_the_decision_cannot_be_written() -> None:
    world = await World(scripted(Apply(ROLE), units=3, status_first=True)).start(service())
    world.cluster.fault = fails(labels.KIND, TransientError("down"), verb="status")
    await world.settle()
    assert world.cluster.writes == []


async def test_actions_are_carried_out_in_their_order_and_stop_at_a_refusal() -> None:
    mark = MarkPod("p-0", labels={labels.TRAFFIC: labels.DRAINING, "old": None}, annotations={"a": "b"})
    world = await World(scripted(mark, Delete("Role", "r"), Apply({**ROLE, "rules": []}))).start(service(), POD, ROLE)
    world.cluster.fault = fails("Role", TerminalError("no"), verb="delete")
    await world.settle()
    assert [verb for verb, _, _ in world.cluster.writes] == ["patch"]
    assert world.cluster.objects["Pod", "p-0"]["metadata"]["labels"][labels.TRAFFIC] == labels.DRAINING


async def test_own_writes_are_seen_without_waiting_for_their_events() -> None:
    world = await World(scripted(MarkPod("p-0", labels={labels.TRAFFIC: labels.HELD}), Apply(ROLE))).start(
        service(), POD
    )
    await world.settle()
    view = world.store.view(KEY)
    assert view.pods[0]["metadata"]["labels"][labels.TRAFFIC] == labels.HELD
    assert ("Role", "r") in view.children
    # The event that follows is no news.
    assert world.store.put(BY_NAME["Role"], world.cluster.objects["Role", "r"]) is None


async def test_deleting_what_is_gone_is_no_error() -> None:
    world = await World(scripted(Delete("Role", "r"), MarkPod("p-9", labels={"a": "b"}))).start(service(), ROLE)
    world.user_deletes("Role", "r", seen=False)
    await world.settle()
    assert world.results(instruments.SUCCESS) == 1
    assert world.store.view(KEY).children == {}


async def test_engines_are_asked_before_the_plan_that_is_carried_out() -> None:
    def planner(observed: Observed) -> Plan:
        actions = (MarkPod("p-0", labels={"idle": str(observed.idle["p-0"])}),) if "p-0" in observed.idle else ()
        return Plan(status=observed.service.status, actions=actions, ask_idle=() if actions else ("p-0", "p-1"))

    world = await World(planner).start(service(), POD)
    world.engines.answers = {"p-0": True}
    await world.settle()
    assert world.engines.asked == ["p-0"]
    assert world.cluster.objects["Pod", "p-0"]["metadata"]["labels"]["idle"] == "True"


async def test_transitions_are_announced() -> None:
    news = Announce(warning=False, reason="Ready", message="serving")
    world = await World(scripted(events=(news,))).start(service())
    await world.settle()
    assert world.recorder.announced == [news]


async def test_counts_in_the_status_are_written_every_few_seconds_only() -> None:
    units = 0

    def planner(observed: Observed) -> Plan:
        nonlocal units
        units += 1
        return Plan(status=observed.service.status.model_copy(update={"units": units}), requeue_after=0.1)

    world = await World(planner).start(service())
    await world.settle(seconds=9)
    assert len(world.cluster.writes) == 3
    assert units > 80


async def turns() -> None:
    """Let every task go on as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_log_says_what_was_done_in_one_line() -> None:
    actions = (Apply(ROLE), Apply({**ROLE, "metadata": {"name": "s"}}), Delete("Service", "demo"), MarkPod("p-0"))
    assert summary(actions) == "apply Role ×2, delete Service demo, mark Pod p-0"


async def test_a_decision_is_never_put_off_and_the_memory_behind_it_may_be() -> None:
    units = 0

    def planner(observed: Observed) -> Plan:
        nonlocal units
        units += 1
        scaling = ScalingStatus(prefill=1 + units // 10, decode=1, state=str(units))
        return Plan(status=observed.service.status.model_copy(update={"scaling": scaling}), requeue_after=0.1)

    world = await World(planner).start(service())
    await world.settle(seconds=2.85)
    assert units == 29
    assert len(world.cluster.writes) == 3


async def test_workers_run_different_services_at_the_same_time() -> None:
    arrived: list[str] = []
    go = asyncio.Event()
    world = World(lambda observed: Plan(status=observed.service.status, ask_idle=("p-0",)))

    class Slow:
        async def idle(self, addresses: Any) -> dict[str, bool]:
            arrived.append("")
            await go.wait()
            return {}

    world.reconciler._engines = Slow()
    other = service("other")
    other["metadata"]["uid"] = "other"
    await world.start(service(), other)
    workers = [asyncio.create_task(world.reconciler.work()) for _ in range(3)]
    await turns()
    assert len(arrived) == 2
    assert world.queue.running == 2
    go.set()
    await turns()
    for worker in workers:
        worker.cancel()
    assert world.results(instruments.SUCCESS) == 2


async def test_a_service_never_takes_the_child_of_another_one() -> None:
    """`demo-prefill` would have a client Service of the name that `demo` has for its prefill workers."""
    world = await World().start(service())
    await world.settle(seconds=3)
    before = copy.deepcopy(world.cluster.objects["Service", "demo-prefill"])
    world.user_creates(service("demo-prefill"))
    await world.settle(seconds=3)
    assert world.cluster.objects["Service", "demo-prefill"] == before
    status = world.cluster.objects[labels.KIND, "demo-prefill"]["status"]
    stalled = next(c for c in status["conditions"] if c["type"] == conditions.STALLED)
    assert "Service demo-prefill exists already" in stalled["message"]
