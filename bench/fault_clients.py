"""The clients of a simulated world, and the oracle that watches how they are served."""

from __future__ import annotations

from bench.fault_ground import MS, Asked, Violation
from bench.fault_machine import Machine
from cotenant.serving.effects import Cancel, Refuse, Send
from cotenant.serving.settings import SECOND

_URGENCIES, _SPANS_S = (0, 0, 0, 5, 10), (3, 20, 60, 60)
SLACK = 60 * SECOND  # how long after its deadline a request may end, where a clock was set back by less


class Clients(Machine):
    """Requests that come, are sent, begin, end, break or are left."""

    def _arrive(self, request: int, model: int, client: int) -> None:
        random = self.random
        priority = _URGENCIES[int(random.random() * 5)] if self.mixed else self.models[model].priority
        span = _SPANS_S[int(random.random() * 4)] * SECOND
        self.asked[request] = Asked(model, client, priority, self.clock + span)
        self._counts(self.asked[request], 1)
        if random.random() < 0.08:
            self.after(MS, 10 * SECOND, self._leave, request)
        self.router.arrived(self.clock, request, f"m{model}", f"c{client}", priority, self.clock + span)

    def _leave(self, request: int) -> None:
        one = self.asked[request]
        if one.ended:
            return
        process = one.process
        if process is None:
            self._counts(one, -1)
        one.gone = True
        self.router.left(self.clock, request)
        self._obey()
        if process is not None and request in process.running:
            raise Violation(f"request {request} goes on although its client left")
        self._end(request, "left")

    def _send(self, effect: Send) -> None:
        one, host = self.asked[effect.request], self.hosts[effect.replica]
        process = self.live.get(effect.replica)
        if one.ended:
            raise Violation(f"request {effect.request} was sent after it had ended ({one.ended})")
        if one.begun:
            raise Violation(f"request {effect.request} was sent again after its first byte")
        if one.process is not None:
            raise Violation(f"request {effect.request} runs twice")
        if host.model != self.models[one.model].name:
            raise Violation(f"request {effect.request} went to another model")
        if process is None or process.generation != effect.generation:
            raise Violation(f"request {effect.request} went to a process that is none")
        self._in_order(one)
        one.attempt += 1
        if not process.alive:
            self.after(MS, 20 * MS, self._break, effect.request, one.attempt)
            one.process = process
            return
        if not process.loaded or process.asleep:
            raise Violation(f"request {effect.request} went to replica {effect.replica}, which is not up")
        one.process = process
        process.running.add(effect.request)
        if len(process.running) > host.slots:
            raise Violation(f"replica {effect.replica} has {len(process.running)} requests in {host.slots} slots")
        first = self.now + 10 * MS + int(self.random.random() * 200 * MS)
        self.at(first, self._first, effect.request, one.attempt)

    def _in_order(self, one: Asked) -> None:
        """Nobody of higher priority waits, and no client is passed again and again by another."""
        self._counts(one, -1)
        waiting = self.waiting[one.model]
        for level, count in waiting.items():
            if count > 0 and level > one.priority:
                raise Violation(f"priority {one.priority} was served while {count} of {level} waited")
        for client in range(3):
            key = (one.model, one.priority, client)
            if client == one.client:
                self.passed[key] = {}
            elif self.lines.get(key):
                passed = self.passed.setdefault(key, {})
                passed[one.client] = passed.get(one.client, 0) + 1
                if passed[one.client] > 6:
                    raise Violation(
                        f"client {client} was passed {passed[one.client]} times by client {one.client}"
                    )
            elif key in self.passed:
                del self.passed[key]

    def _counts(self, one: Asked, more: int) -> None:
        """One more, or one less, that waits."""
        waiting, key = self.waiting[one.model], (one.model, one.priority, one.client)
        waiting[one.priority] = waiting.get(one.priority, 0) + more
        self.lines[key] = self.lines.get(key, 0) + more

    def _first(self, request: int, attempt: int) -> None:
        one = self.asked[request]
        if self._over(one, request, attempt):
            return
        if self._errs(request):
            return
        one.begun = True
        self.router.first_byte(self.clock, request)
        self.after(10 * MS, 1500 * MS, self._finish, request, attempt)

    def _over(self, one: Asked, request: int, attempt: int) -> bool:
        process = one.process
        return (
            bool(one.ended)
            or one.attempt != attempt
            or process is None
            or not process.alive
            or process.hung
            or request not in process.running
        )

    def _finish(self, request: int, attempt: int) -> None:
        one = self.asked[request]
        if self._over(one, request, attempt) or self.random.random() < self.lossy / 2:
            return
        if self._errs(request):
            return
        if one.process is not None:
            one.process.running.discard(request)
        self._end(request, "answered")
        self.router.finished(self.clock, request)

    def _break(self, request: int, attempt: int) -> None:
        one = self.asked[request]
        if one.ended or one.attempt != attempt or one.process is None:
            return
        self._put_back(request)
        self.router.broke(self.clock, request, "connection reset")

    def _errs(self, request: int) -> bool:
        """Its engine answers an error in the place of its next bytes; one that is full says so at once."""
        one = self.asked[request]
        errs = "" if one.process is None else one.process.errs
        if not errs or (errs == "429" and one.begun) or self.random.random() < 0.5:
            return False
        self._put_back(request)
        full = errs == "429"
        self.router.broke(self.clock, request, f"it answered {errs}", suspect=False, full=full)
        return True

    def _put_back(self, request: int) -> None:
        one = self.asked[request]
        if one.process is not None:
            one.process.running.discard(request)
            one.process = None
            if not one.gone:
                self._counts(one, 1)

    def _cancel(self, effect: Cancel) -> None:
        one = self.asked[effect.request]
        self._put_back(effect.request)
        one.attempt += 1  # whatever is under way of the last one is not told

    def _refuse(self, effect: Refuse) -> None:
        one = self.asked[effect.request]
        if one.gone:
            raise Violation(f"request {effect.request} was answered after its client left")
        if effect.begun != one.begun:
            raise Violation(f"request {effect.request}: begun is {one.begun}, its error says {effect.begun}")
        if effect.status == 429 and not effect.retry_after_s:
            raise Violation("429 without Retry-After")
        self._end(effect.request, f"{effect.status} {effect.code}")

    def _end(self, request: int, how: str) -> None:
        one = self.asked[request]
        if one.ended:
            raise Violation(f"request {request} ended twice: {one.ended}, then {how}")
        if one.process is None:
            self._counts(one, 0 if one.gone else -1)
        elif how.startswith(("5", "4")) and request in one.process.running:
            raise Violation(f"request {request} goes on in its engine after {how}")
        one.ended = how
        if self.clock > one.deadline + SLACK + self.set_back:
            raise Violation(f"request {request} ended {(self.clock - one.deadline) / SECOND:.1f} s late: {how}")
