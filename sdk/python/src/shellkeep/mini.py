"""mini-SWE-agent: a durable session as its environment, by `environment_class: shellkeep.mini.ShellkeepEnvironment`.

Unlike mini's own environments, `cd`, `export` and functions are kept from one command to the next. Needs
`shellkeep[mini]`.
"""

from __future__ import annotations

import platform
from typing import Any

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel

from ._clients import Clients
from ._sync.client import Client

__all__ = ["ShellkeepEnvironment", "ShellkeepEnvironmentConfig"]

#: What a command prints first to say that the task is done.
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class ShellkeepEnvironmentConfig(BaseModel):
    """Settings, as in mini's configuration file."""

    #: The session; without it, a new one.
    session: str | None = None
    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30


class ShellkeepEnvironment:
    """Runs an agent's commands in one session."""

    def __init__(
        self,
        *,
        client: Client | None = None,
        config_class: type[ShellkeepEnvironmentConfig] = ShellkeepEnvironmentConfig,
        **settings: Any,
    ) -> None:
        self.config = config_class(**settings)
        self._client = Clients(client).sync
        self.session = self._client.session(self.config.session, cwd=self.config.cwd or None, env=self.config.env or None)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Runs one command; raises `Submitted` when it says that the task is done."""
        result = self.session.run(
            action.get("command", ""),
            cwd=cwd or None,
            timeout=timeout or self.config.timeout,
            stderr="merge",
            stdin="",
        )
        notices = [notice.message for notice in result.notices]
        output = {
            "output": result.output,
            "returncode": -1 if result.exit_code is None or result.status != "exited" else result.exit_code,
            "exception_info": "\n".join(notices),
            "extra": {"run_id": result.run_id, "status": result.status},
        }
        lines = result.output.lstrip().splitlines(keepends=True)
        if result.ok and lines and lines[0].strip() == SUBMIT:
            submission = "".join(lines[1:])
            extra = {"exit_status": "Submitted", "submission": submission}
            raise Submitted({"role": "exit", "content": submission, "extra": extra})
        return output

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """What templates can use."""
        variables = dict(self.session.state().env)
        return recursive_merge(self.config.model_dump(), platform.uname()._asdict(), variables, more)

    def serialize(self) -> dict[str, Any]:
        """What a trajectory says about its environment: the session too, so that it can be looked at later."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        config = {**self.config.model_dump(mode="json"), "session": self.session.id}
        return {"info": {"config": {"environment": config, "environment_type": kind}}}
