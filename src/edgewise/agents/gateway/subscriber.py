"""One Envoy's side of the delta protocol: what it has, what it is owed, in which order.

Pure: it hears what Envoy said and answers what to send. Rules it keeps:
- one unanswered response per type; what changes meanwhile is collected, not queued;
- make before break: a listener follows the cluster and endpoints it needs, a cluster
  goes only after its listener;
- a refused batch is halved until the one bad resource is found, the rest is served;
- what Envoy says it already has is believed, so a reconnect sends only differences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from edgewise.agents.gateway.desired import Desired, Part
from edgewise.agents.gateway.resource import Resource, ResourceType

# Envoy does not try a failed bind again by itself, but the port may be free later.
RETRY_FIRST = 15.0
RETRY_LONGEST = 300.0

# New things in the order in which they need each other.
ORDER = (
    ResourceType.CLUSTER,
    ResourceType.ENDPOINTS,
    ResourceType.SCOPE,
    ResourceType.LISTENER,
)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A request of Envoy's, reduced to what matters."""

    type: ResourceType
    nonce: str = ""
    error: str = ""
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    has: dict[str, str] = {}


class Push(msgspec.Struct, frozen=True):
    """A response to send."""

    type: ResourceType
    nonce: str
    resources: tuple[Resource, ...]
    removed: tuple[str, ...]

    def versions(self) -> dict[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(self.removed)
        found.update((resource.name, resource.version) for resource in self.resources)
        return found


class Refused(msgspec.Struct, frozen=True):
    """A resource that Envoy would not take."""

    version: str | None
    reason: str
    again_at: float
    pause: float


class Channel:
    """What one Envoy knows of one type of resource."""

    def __init__(self) -> None:
        self.open = False
        self.wildcard = False
        self.names: set[str] = set()
        self.has: dict[str, str] = {}
        self.stale: dict[str, None] = {}
        self.suspects: deque[list[str]] = deque()
        self.unanswered: Push | None = None
        self.refused: dict[str, Refused] = {}
        self.owes_greeting = False

    def wants(self, name: str) -> bool:
        return self.open and (self.wildcard or name in self.names)


class Subscriber:
    """One stream of one Envoy."""

    def __init__(self, desired: Desired) -> None:
        self._desired = desired
        self._channels = {type: Channel() for type in ResourceType}
        self._sent = 0

    def hear(self, said: Said, now: float) -> set[Part]:
        """Take in a request; returns the parts about which we know more than before."""
        channel = self._channels[said.type]
        settled = self._answer(channel, said, now)
        if not channel.open:
            self._open(channel, said)
        else:
            for name in said.subscribe:
                # Asked for again: whatever it had of this name, it has dropped.
                channel.has.pop(name, None)
                channel.stale[name] = None
        channel.names.update(said.subscribe)
        for name in said.unsubscribe:
            channel.names.discard(name)
            channel.has.pop(name, None)
            channel.stale.pop(name, None)
        settled.update((said.type, name) for name in said.unsubscribe)
        return settled

    def note(self, parts: Iterable[Part]) -> None:
        """These parts of what is desired have changed."""
        for type, name in parts:
            channel = self._channels[type]
            if channel.wants(name):
                channel.stale[name] = None

    def retry(self, now: float) -> bool:
        """Offer refused resources again when their time has come."""
        due = False
        for channel in self._channels.values():
            for name, refused in channel.refused.items():
                if refused.again_at <= now:
                    channel.stale[name] = None
                    due = True
        return due

    def pushes(self) -> list[Push]:
        """All that can be sent now."""
        found = []
        for type in ORDER:
            push = self._push(type)
            if push is not None:
                found.append(push)
        return found

    def has(self, part: Part) -> bool:
        """Whether Envoy has acknowledged the part as it should be now."""
        version = self._desired.version(part)
        return self._channels[part[0]].has.get(part[1]) == version

    def refusal(self, part: Part) -> str:
        """Why Envoy would not take the part as it should be now; empty if it has not
        refused it."""
        refused = self._channels[part[0]].refused.get(part[1])
        if refused is None or refused.version != self._desired.version(part):
            return ""
        return refused.reason

    @property
    def idle(self) -> bool:
        """Whether Envoy has answered for all that it should have. What it has refused
        and will be offered again does not count: one bad port is no reason to take a
        gateway out of service."""
        refused = {name for channel in self._channels.values() for name in channel.refused}
        return all(
            channel.open
            and not channel.owes_greeting
            and channel.unanswered is None
            and not channel.suspects
            and not channel.stale.keys() - refused
            for type, channel in self._channels.items()
            # Without TCP or UDP ports nobody asks for endpoints.
            if type is not ResourceType.ENDPOINTS or channel.open
        )

    def _open(self, channel: Channel, said: Said) -> None:
        channel.open = True
        channel.wildcard = not said.subscribe or "*" in said.subscribe
        channel.has = dict(said.has)
        desired = self._desired.resources[said.type]
        names = desired.keys() if channel.wildcard else said.subscribe
        current = {name: item.version for name, item in desired.items()}
        for name in names:
            if name not in channel.has or channel.has[name] != current.get(name):
                channel.stale[name] = None
        channel.stale.update(dict.fromkeys(channel.has.keys() - current.keys()))
        # Envoy waits for a first answer of a type before it goes on, even an empty one.
        channel.owes_greeting = not channel.has

    def _answer(self, channel: Channel, said: Said, now: float) -> set[Part]:
        push = channel.unanswered
        if push is None or not said.nonce or said.nonce != push.nonce:
            return set()
        channel.unanswered = None
        versions = push.versions()
        if said.error and len(versions) > 1:
            names = list(versions)
            middle = len(names) // 2
            channel.suspects.extendleft((names[middle:], names[:middle]))
            return set()
        for name, version in versions.items():
            if said.error:
                last = channel.refused.get(name)
                pause = min(last.pause * 2, RETRY_LONGEST) if last else RETRY_FIRST
                channel.refused[name] = Refused(version, said.error, now + pause, pause)
            else:
                channel.refused.pop(name, None)
                if version is None:
                    channel.has.pop(name, None)
                else:
                    channel.has[name] = version
        return {(said.type, name) for name in versions}

    def _push(self, type: ResourceType) -> Push | None:
        channel = self._channels[type]
        if not channel.open or channel.unanswered is not None:
            return None
        names = channel.suspects.popleft() if channel.suspects else list(channel.stale)
        resources: list[Resource] = []
        removed: list[str] = []
        for name in names:
            resource = self._desired.resources[type].get(name)
            if not self._timely(type, name, resource):
                channel.stale[name] = None
                continue
            channel.stale.pop(name, None)
            if resource is None:
                channel.refused.pop(name, None)
                # Asked for by name and not there: say so, Envoy may be waiting for it.
                if name in channel.has or (not channel.wildcard and name in channel.names):
                    removed.append(name)
            elif channel.has.get(name) != resource.version:
                resources.append(resource)
        if not resources and not removed and not channel.owes_greeting:
            # These suspects turned out to be settled; there may be others.
            return self._push(type) if channel.suspects else None
        channel.owes_greeting = False
        self._sent += 1
        channel.unanswered = Push(type, str(self._sent), tuple(resources), tuple(removed))
        return channel.unanswered

    def _timely(self, type: ResourceType, name: str, resource: Resource | None) -> bool:
        """Whether what `name` depends on, or what depends on it, is settled."""
        if type is ResourceType.LISTENER and resource is not None:
            return all(
                self.has((needed, name))
                for needed in (ResourceType.CLUSTER, ResourceType.ENDPOINTS)
                if name in self._desired.resources[needed]
            )
        if type is ResourceType.CLUSTER and resource is None:
            listeners = self._channels[ResourceType.LISTENER]
            leaving = listeners.unanswered is not None and name in listeners.unanswered.versions()
            return name not in listeners.has and not leaving
        if type is ResourceType.ENDPOINTS and resource is None:
            # Envoy drops endpoints with their cluster; until then flows may use them.
            return name not in self._channels[type].has
        return True
