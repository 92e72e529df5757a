"""Our own engine processes: started without a shell, known by pid and start time, stopped with their children.

A process that we did not start is never touched: before each signal the pid is checked against the moment at
which it was started, in the kernel's own count.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from cotenant.domain.running import Command, EngineProcess, ProcessMemory
from cotenant.errors import EngineError, InputError

_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
_LOCK = threading.Lock()
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "SYSTEMROOT", "USER", "LOGNAME")
_KEPT_PREFIXES = ("LD_LIBRARY_PATH", "CUDA_", "NVIDIA_", "HF_", "HUGGING_FACE_", "XDG_", "OMP_", "GGML_", "VK_")
"""What an engine inherits: it finds its libraries, cards and cached models; our own secrets stay here."""


def launch(command: Command, *, url: str, log: Path) -> EngineProcess:
    """Start a process in a session of its own, its output appended to `log`.

    It outlives us on purpose: a gateway that comes back adopts it. Raises InputError where the program is missing
    or cannot be run.
    """
    descriptor = -1
    try:
        descriptor = _log_at(log)
        child = subprocess.Popen(
            command.argv, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=subprocess.STDOUT,
            env=inherited() | dict(command.environment), start_new_session=True, close_fds=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"its program could not be started: {command.argv[0]}: {reason}",
            hint="say where the engine's program is: --engine-binary ENGINE=PATH",
        ) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    with _LOCK:
        _CHILDREN[child.pid] = child
    started = start_of(child.pid)
    found = EngineProcess(child.pid, started or "", command.argv, url, str(log))
    if started is None:
        raise EngineError(f"it ended as soon as it was started: {last_words(found)}", hint=f"see {log}")
    return found


def inherited() -> dict[str, str]:
    """What of our environment an engine gets."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}


def _log_at(log: Path) -> int:
    """Where its output goes; to nowhere where the disk takes none: a full disk is no reason not to serve."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def start_of(pid: int) -> str | None:
    """When the process was started: boot id and kernel ticks; None where there is no such process, or it is dead.

    Source: proc(5), /proc/pid/stat: state is field 3, num_threads field 20, starttime field 22.
    """
    _reap(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_elsewhere(pid)
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    dead = fields[0] == b"X" or (fields[0] == b"Z" and int(fields[17]) <= 1)  # threads that still end hold memory
    return None if dead else f"{boot}/{int(fields[19])}"


def _start_elsewhere(pid: int) -> str | None:
    """As `start_of`, where there is no /proc."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"at/{process.create_time():.2f}"
    except psutil.Error:
        return None


def alive(process: EngineProcess) -> bool:
    """Whether that very process still runs: same pid, same start."""
    return start_of(process.pid) == process.started


def gone(process: EngineProcess) -> bool:
    """Whether nothing of it is left: neither the process nor what it started in its session. Workers that outlive
    their parent hold memory, and are killed here."""
    if alive(process):
        return False
    if start_of(process.pid) is not None:
        return True  # another process has its number by now: no session of ours can go by it
    left = _session(process.pid)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return not left


def _session(leader: int) -> list[int]:
    """Live processes of the session that `leader` began. Source: proc(5), stat: session is field 6."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            stat = place.read_bytes()
            fields = stat[stat.rindex(b")") + 2 :].split()
            if int(fields[3]) == leader and fields[0] not in (b"Z", b"X"):
                found.append(int(place.parent.name))
    return found


def same_command(process: EngineProcess) -> bool:
    """Whether it was started with the command that we remember; a script's interpreter may stand before it."""
    argv = command_of(process.pid)
    return _ends_with(argv, process.argv) if argv else _command_elsewhere(process)


def command_of(pid: int) -> tuple[str, ...]:
    """The argument vector of a process; empty where there is none, or no /proc."""
    try:
        told = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    return tuple(told.split("\0")[:-1])


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; empty where there is none, or it is not ours to see."""
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


def _ends_with(argv: tuple[str, ...], ours: tuple[str, ...]) -> bool:
    before = len(argv) - len(ours)
    return before >= 0 and argv[before + 1 :] == ours[1:]


def _command_elsewhere(process: EngineProcess) -> bool:
    import psutil

    try:
        argv = tuple(psutil.Process(process.pid).cmdline())
    except psutil.Error:
        return False
    return _ends_with(argv, process.argv)


def ask_to_stop(process: EngineProcess, *, kill: bool = False) -> None:
    """SIGTERM (or SIGKILL) to the process and its group; to it alone where another one leads the group (a router's
    child). Nothing where it is gone or is another one."""
    if not alive(process):
        return
    sign = signal.SIGKILL if kill else signal.SIGTERM
    with suppress(ProcessLookupError, PermissionError):
        (os.killpg if os.getpgid(process.pid) == process.pid else os.kill)(process.pid, sign)


def stop(process: EngineProcess, *, grace_s: float = 5.0) -> bool:
    """Ask, wait `grace_s`, then kill. Whether it is gone."""
    for kill, patience_s in ((False, grace_s), (True, 5.0)):
        ask_to_stop(process, kill=kill)
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if gone(process):
                return True
            time.sleep(0.02)
    return gone(process)


def exit_status(process: EngineProcess) -> int | None:
    """What a child of ours ended with (minus the signal that killed it); None while it runs, or if it is none."""
    with _LOCK:
        child = _CHILDREN.get(process.pid)
    return None if child is None else child.poll()


def last_words(process: EngineProcess) -> str:
    """How it ended, and the last line of its log."""
    status = exit_status(process)
    ended = "it is gone" if status is None else f"signal {-status}" if status < 0 else f"exit status {status}"
    try:
        log = Path(process.log)
        if not log.is_file():
            return ended
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = deque(file.read().decode("utf-8", "replace").split("\n"), maxlen=8)
    except (OSError, ValueError):
        return ended
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{ended}: {last[:200]}" if last else ended


def memory(process: EngineProcess) -> ProcessMemory:
    """Resident memory of the process and all its descendants. Raises EngineError where it is gone.

    Source: proc(5), /proc/pid/status: RssAnon, RssFile, RssShmem, VmHWM (in kB of 1,024 bytes).
    """
    return _memory_of(process, (process.pid, *descendants(process.pid)))


def own_memory(process: EngineProcess) -> ProcessMemory:
    """The same of the process alone."""
    return _memory_of(process, (process.pid,))


def _memory_of(process: EngineProcess, pids: tuple[int, ...]) -> ProcessMemory:
    if not alive(process):
        raise EngineError(f"process {process.pid} is gone")
    found = [one for one in map(_status, pids) if one is not None]
    if not found:
        return _memory_elsewhere(process)
    return ProcessMemory(*(sum(column) for column in zip(*found, strict=True)))


def _status(pid: int) -> tuple[int, int, int, int] | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    told = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
    names = ("RssAnon", "RssFile", "RssShmem", "VmHWM")
    if any(name not in told for name in names):
        return None
    anonymous, file, shared, peak = (int(told[name].split()[0]) * 1024 for name in names)
    return anonymous, file, shared, peak


def _memory_elsewhere(process: EngineProcess) -> ProcessMemory:
    import psutil

    try:
        resident = psutil.Process(process.pid).memory_info().rss
    except psutil.Error:
        raise EngineError(f"process {process.pid} is gone") from None
    return ProcessMemory(resident, 0, 0, resident)


def descendants(pid: int) -> tuple[int, ...]:
    """Children, their children and so on; empty where /proc is missing."""
    found: list[int] = []
    open_ends = [pid]
    while open_ends:
        parent = open_ends.pop()
        for place in Path(f"/proc/{parent}/task").glob("[0-9]*/children"):  # a child is its thread's
            with suppress(OSError, ValueError):
                children = [int(word) for word in place.read_text(encoding="ascii").split()]
                found += children
                open_ends += children
    return tuple(found)


def _reap(pid: int) -> None:
    """Let a child of ours that has ended go."""
    with _LOCK:
        child = _CHILDREN.get(pid)
    if child is not None:
        child.poll()
