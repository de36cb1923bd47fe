# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""A thread for what needs no interpreter lock, compression and decompression; where none may be started, the caller does it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable


class Background:
    """One thread that does what it is given, in that order."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have work(*arguments) done; the future has what it returns or raises."""
        if self._thread is not None:
            try:
                return self._thread.submit(work, *arguments)
            except RuntimeError:  # a limit on threads; what was queued behind no thread is never begun
                self._thread = None
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        """Wait for what was begun, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()
