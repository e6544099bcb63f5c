"""Eight things that a shell of an agent must do, in two Python processes, with `kill -9` of the daemon in between.

    python eight_scenarios.py

The agent is LangChain's `create_agent` with a checkpointer; the model is a fake, so no service is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_model import FakeModel
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

import shellkeep
from shellkeep.langchain import ShellkeepMiddleware


@dataclass(frozen=True)
class Scenario:
    """What the agent is asked in the first process and in the second, and what the second must print."""

    name: str
    #: Questions, one turn each.
    first: list[str]
    second: str
    expected: str
    #: The thread of the second question, if it is another one.
    other_thread: bool = False


SCENARIOS = [
    Scenario(
        "one shell over many turns",
        [
            "$ cd /tmp; export WHO=ann; greet() { echo hello $WHO; }; alias ll='ls -l'; pid=$$",
            "$ [ $pid = $$ ] && pids='same process'",
        ],
        "$ pwd; greet; alias ll; echo $pids",
        "/tmp\nhello ann\nalias ll='ls -l'\nsame process\n",
    ),
    Scenario("files", ["$ echo Hello > note.txt; mkdir -p a/b"], "$ cat note.txt; ls -d a/b", "Hello\na/b\n"),
    Scenario(
        "chains with &&",
        ["$ mkdir -p work && cd work && export VAR=test"],
        '$ basename "$PWD" && echo $VAR && false || echo rescued',
        "work\ntest\nrescued\n",
    ),
    Scenario(
        "loops, pipes and redirections",
        ["$ for i in 3 1 2; do echo line $i; done | sort > sorted.txt"],
        "$ while read -r line; do echo \"<$line>\"; done < sorted.txt | tail -n 2",
        "<line 2>\n<line 3>\n",
    ),
    Scenario(
        "threads are apart",
        ["$ export SECRET=mine; echo mine > only-here"],
        "$ echo \"[$SECRET]\"; ls only-here 2>/dev/null || echo nothing",
        "[]\nnothing\n",
        other_thread=True,
    ),
    Scenario("long commands", ["$ sleep 2; export SLEPT=yes"], "$ sleep 1; echo slept: $SLEPT", "slept: yes\n"),
    Scenario(
        "a failed command leaves the session usable",
        ["$ export BEFORE=1; ls /does/not/exist", "$ export AFTER=2"],
        "$ echo $BEFORE $AFTER",
        "1 2\n",
    ),
    Scenario(
        "complex syntax",
        ["$ declare -A ages=([ann]=31 [bob]=27); shopt -s extglob; set -o pipefail; trap 'echo bye' EXIT"],
        "$ for n in $(printf '%s\\n' \"${!ages[@]}\" | sort); do echo \"$n=${ages[$n]}\"; done; diff <(echo a) <(echo a) && echo same",
        "ann=31\nbob=27\nsame\n",
    ),
]


def ask(socket: str, checkpoints: str, turn: str) -> None:
    """One process: a fresh client, a fresh agent, the same threads."""
    with shellkeep.Client(socket=socket, start=False) as client, SqliteSaver.from_conn_string(checkpoints) as saver:
        agent = create_agent(FakeModel(), middleware=[ShellkeepMiddleware(client=client)], checkpointer=saver)
        for scenario in SCENARIOS:
            if turn == "first":
                for question in scenario.first:
                    answer(agent, scenario.name, question)
                continue
            got = answer(agent, f"{scenario.name} (other)" if scenario.other_thread else scenario.name, scenario.second)
            print(f"{'ok' if got == scenario.expected else 'LOST':6}{scenario.name}")
            for line in got.splitlines():
                print(f"          {line}")
            if got != scenario.expected:
                sys.exit(f"expected {scenario.expected!r}, got {got!r}")


def answer(agent: Any, thread: str, question: str) -> str:
    state = agent.invoke({"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": thread}})
    return str(state["messages"][-1].text)


def main() -> None:
    with tempfile.TemporaryDirectory() as room, shellkeep.Client.local() as client:
        daemon = client.daemon
        assert daemon is not None
        again = [sys.executable, str(Path(__file__).resolve()), daemon.socket, os.path.join(room, "checkpoints.db")]
        subprocess.run([*again, "first"], check=True)
        print(f"kill -9 {daemon.pid} (the daemon)", flush=True)
        daemon.kill()
        daemon.restart()
        subprocess.run([*again, "second"], check=True)


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else ask(*sys.argv[1:])
