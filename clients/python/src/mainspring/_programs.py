"""Programs of handlers that end with their attempt, and with the worker.

A program leads a process group of its own. The worker ends the group when the handler should stop;
the process that renews leases ends it when the worker is killed.
"""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, Any, Sequence

from . import _groups
from ._values import Duration, seconds

if TYPE_CHECKING:
    from ._context import Port

LOOK = 0.1  # between looks for a stop


def run(
    port: Port,
    command: Sequence[str],
    *,
    input: Any = None,
    check: bool = True,
    grace: Duration = "2s",
    capture_output: bool = False,
    **options: Any,
) -> tuple[str, subprocess.CompletedProcess[Any]]:
    """Runs a program to its end, or until the handler should stop. Returns the stop reason too."""
    if capture_output:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if input is not None:
        options["stdin"] = subprocess.PIPE
    patience = seconds(grace, "grace")
    program = subprocess.Popen(command, start_new_session=True, **options)
    port.group(program.pid, True)
    reason = ""
    try:
        # In a loop: `communicate` keeps what it has read, and takes the input only once.
        while not reason:
            try:
                out, err = program.communicate(input, timeout=LOOK)
                break
            except subprocess.TimeoutExpired:
                input, reason = None, port.stop_reason()
        else:
            program.terminate()
            out, err = _last(program, patience)
    finally:
        _groups.end(program.pid)  # what the program has left running
        program.wait()
        port.group(program.pid, False)
    code = program.returncode
    done: subprocess.CompletedProcess[Any] = subprocess.CompletedProcess(command, code, out, err)
    if check and not reason:
        done.check_returncode()
    return reason, done


def _last(program: subprocess.Popen[Any], patience: float) -> tuple[Any, Any]:
    try:
        return program.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return None, None


async def arun(
    port: Port, command: Sequence[str], **options: Any
) -> tuple[str, subprocess.CompletedProcess[Any]]:
    """As `run`, on a thread of its own: a cancelled task does not wait for the program's end."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value: Any = None
        caught: BaseException | None = None
        try:
            value = run(port, command, **options)
        except BaseException as error:
            caught = error
        try:
            loop.call_soon_threadsafe(settle, value, caught)
        except RuntimeError:
            pass  # the loop has ended

    threading.Thread(target=work, name="mainspring-program", daemon=True).start()
    found: tuple[str, subprocess.CompletedProcess[Any]] = await future
    return found
