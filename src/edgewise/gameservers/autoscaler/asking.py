"""Webhooks that are being asked, without holding up anything: one at a time for each autoscaler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from edgewise.gameservers.autoscaler.observed import Said, Trouble
from edgewise.gameservers.autoscaler.webhook import Question
from edgewise.kube.objects import Key


class Asker(Protocol):
    async def ask(self, question: Question) -> Said | Trouble: ...


class Asking:
    """What is asked and what was answered, by the uid of the autoscaler."""

    def __init__(self, asker: Asker, wake: Callable[[Key], None]) -> None:
        self._asker = asker
        self._wake = wake
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[str, Said | Trouble] = {}

    def start(self, uid: str, key: Key, question: Question) -> None:
        """`key` is woken when there is an answer."""
        if uid in self._tasks:
            return
        self._answers.pop(uid, None)
        task = asyncio.create_task(self._run(uid, key, question), name=f"webhook of {key}")
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._tasks.pop(uid, None))

    def is_asking(self, uid: str) -> bool:
        return uid in self._tasks

    def take(self, uid: str) -> Said | Trouble | None:
        """The answer, once."""
        return self._answers.pop(uid, None)

    def give_back(self, uid: str, answer: Said | Trouble) -> None:
        """What was taken could not be acted upon."""
        self._answers.setdefault(uid, answer)

    def forget(self, uid: str) -> None:
        self._answers.pop(uid, None)
        if (task := self._tasks.get(uid)) is not None:
            task.cancel()

    async def run(self) -> None:
        """Until cancelled; what is being asked then is given up."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _run(self, uid: str, key: Key, question: Question) -> None:
        try:
            answer = await self._asker.ask(question)
        except Exception as error:  # whatever a stranger's answer sets off, the number stays
            answer = Trouble(
                "Unreachable", f"the webhook could not be asked ({type(error).__name__})"
            )
        self._answers[uid] = answer
        # Before it wakes: the next look must not find it still being asked.
        self._tasks.pop(uid, None)
        self._wake(key)
