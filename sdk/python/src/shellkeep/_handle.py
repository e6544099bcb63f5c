"""What clients, sessions and runs have in common: they hold a connection, so they cannot be serialised."""

from __future__ import annotations

from typing import Any, NoReturn


class Handle:
    """Refuses to be pickled or copied, and says what to put into a framework's state instead."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a shellkeep {type(self).__name__} holds a connection and cannot be serialised; put session.ref into the "
            "state, which is plain data, and get the session again with client.session(ref)"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce__()
