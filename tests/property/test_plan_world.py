"""Invariants of planning over whole histories: edits, failures and time in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pd_operator.api import conditions, labels
from pd_operator.api.v1alpha1 import ConditionStatus
from pd_operator.plan.conditions import find
from pd_operator.plan.generations import generation_of
from pd_operator.plan.observed import Problem
from pd_operator.plan.plan import plan
from tests.unit.plan.world import World, service

ROLES = (labels.PREFILL, labels.DECODE)
COUNTS = st.integers(0, 3)
IMAGES = st.sampled_from(["repo/sglang:v0.5.23", "repo/sglang:v0.5.23-fixed", "repo/sglang:v0.5.24"])


class Histories(RuleBasedStateMachine):
    """One service that people edit while pods come and go."""

    world: World

    @initialize(nodes=st.sampled_from([1, 2]), prefill=COUNTS, decode=COUNTS)
    def create(self, nodes: int, prefill: int, decode: int) -> None:
        self.nodes = nodes
        self.world = World(service(self._roles(prefill, decode)))
        self.world.settle()

    def _roles(self, prefill: int, decode: int) -> dict[str, Any]:
        parallelism = {"tensor": self.nodes, "nodes": self.nodes}
        return {
            "prefill": {"replicas": prefill, "parallelism": parallelism},
            "decode": {"replicas": decode, "parallelism": parallelism},
        }

    @rule(prefill=COUNTS, decode=COUNTS)
    def scale(self, prefill: int, decode: int) -> None:
        self.world.edit(**self._roles(prefill, decode))

    @rule(image=IMAGES, seen=st.booleans())
    def change_image(self, image: str, seen: bool) -> None:
        self.world.edit(engine={"image": image})
        if seen:
            self.reconcile(1.0)

    @rule(router=st.sampled_from(["SMG", "None"]))
    def change_router(self, router: str) -> None:
        self.world.edit(router={"type": router})

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.world.edit(suspend=suspend)

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 9.0, 400.0]))
    def reconcile(self, seconds: float) -> None:
        """What was done is not planned again.

        Carrying out a plan may open the next step (an emptied set is deleted), so it is repeated; the world stands
        still meanwhile, and the plan must come to rest.
        """
        before = self._serving()
        self.world.step(seconds)
        self._capacity_is_kept(before)
        for _ in range(3):
            if not self.world.step().actions:
                break
        rest = self.world.observed()
        again = plan(rest)
        assert again.actions == ()
        assert again.status == rest.service.status
        assert again.events == ()
        assert again == plan(rest)

    def _serving(self) -> dict[tuple[str, str], int]:
        """Pods in front of users, by role and generation, where a generation that has served has any."""
        status = self.world.service.status
        return {
            (role, entry.hash): sum(
                pod.ready and pod.traffic == labels.SERVING for pod in self.world.pods_of(role, entry.hash)
            )
            for entry in status.generations
            if entry.state in ("Current", "Serving")
            for role in ROLES
        }

    def _capacity_is_kept(self, before: dict[tuple[str, str], int]) -> None:
        """What served goes on serving, up to what is wanted, until the new generation could take over."""
        spec = self.world.service
        wanted = {role: 0 if spec.spec.suspend else spec.role(role).replicas for role in ROLES}
        current = generation_of(spec.spec).hash
        ready = {role: sum(pod.ready for pod in self.world.pods_of(role, current) if pod.rank == "0") for role in ROLES}
        if all(ready[role] >= wanted[role] for role in ROLES):
            return
        after = self._serving()
        for (role, generation), count in before.items():
            assert after.get((role, generation), 0) >= min(count, wanted[role])

    @rule()
    def controllers_act(self) -> None:
        self.world.controllers()

    @rule(data=st.data())
    def pod_becomes_ready(self, data: st.DataObject) -> None:
        if self.world.pods:
            self.world.become_ready(data.draw(st.sampled_from(sorted(self.world.pods))))

    @rule(data=st.data())
    def pod_fails(self, data: st.DataObject) -> None:
        if self.world.pods:
            pod = self.world.pods[data.draw(st.sampled_from(sorted(self.world.pods)))]
            pod.ready = pod.was_ready = False  # its container restarted: whatever it held is lost already
            pod.problem = Problem(conditions.CRASH_LOOP, f"pod {pod.name}", "Error, exit code 1")

    @rule(data=st.data())
    def engine_is_idle(self, data: st.DataObject) -> None:
        if self.world.pods:
            self.world.idle[data.draw(st.sampled_from(sorted(self.world.pods)))] = data.draw(st.booleans())

    @invariant()
    def nothing_is_removed_undrained(self) -> None:
        if hasattr(self, "world"):
            assert self.world.lost == []

    @invariant()
    def whole_replicas_are_wanted(self) -> None:
        if hasattr(self, "world"):
            assert all(self.world.set_size(role) % self.nodes == 0 for role in ROLES)

    @invariant()
    def status_says_no_more_than_is_there(self) -> None:
        if not hasattr(self, "world"):
            return
        status = self.world.service.status
        ready = find(status.conditions, conditions.READY)
        if ready is not None and ready.status == ConditionStatus.TRUE:
            assert status.prefill.ready_replicas > 0
            assert status.decode.ready_replicas > 0
        assert status.accelerators.in_use >= 0

    def teardown(self) -> None:
        """Whatever happened: without further trouble the service ends as its spec asks."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for pod in world.pods.values():
            pod.problem = None
        world.edit(suspend=False)
        for _ in range(40):
            world.idle = dict.fromkeys(world.pods, True)
            made = world.step(9.0)
            moved = world.controllers() | world.become_ready()
            if not made.actions and not moved and made.requeue_after is None:
                break
        for role in ROLES:
            wanted = world.service.role(role).replicas * self.nodes
            assert len(world.pods_of(role)) == wanted
            assert world.serving(role) == world.service.role(role).replicas
        assert len({name for kind, name in world.children if kind == "StatefulSet"}) == 2
        assert world.lost == []


Histories.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase
