#!/usr/bin/env python3
"""A small agent that needs no model: it writes each message to a file and counts them.

Four nodes: read (take a message) -> append (write it into the file) -> count (count the lines) -> report (answer). After
each node it saves its state, so it continues after the last node it completed, whatever killed it.

To see that, make it die or wait, in the session or in the config's env:

    export COUNTER_CRASH=append:called     dies there, as by kill -9
    export COUNTER_HANG=count:begin        waits there until it is killed

The places in each node are begin, called (its command has run), sent (its state was told), saved (its state is on disk).
The file is notes.txt, or what COUNTER_FILE says.
"""

import itertools
import os
import shlex
import signal
import sys

from shellkeep_agent import Agent, Stopped

NODES = ["read", "append", "count", "report"]
FIRST = {"node": "read", "handled": 0, "seq_id": 0, "text": "", "lines": 0, "visits": {node: 0 for node in NODES}}
FILE = shlex.quote(os.environ.get("COUNTER_FILE", "notes.txt"))
APPEND = 'printf "%s\\n" "$NOTE" >> ' + FILE
LAST = "tail -n 1 %s 2>/dev/null" % FILE
COUNT = "wc -l < " + FILE


def at(agent, node, place):
    """A place at which it may be told to die or to wait."""
    here = "%s:%s" % (node, place)
    if os.environ.get("COUNTER_CRASH") == here:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("COUNTER_HANG") == here:
        agent.output("waiting at %s\n" % here)
        signal.pause()


def read(agent, state):
    """Takes the oldest message that was not handled; without one there is nothing to do."""
    waiting = agent.unhandled(state["handled"])
    if not waiting:
        return False
    state["seq_id"], state["text"] = waiting[0]
    return True


def append(agent, state):
    """Writes it down, once: the number in front tells whether that was done before."""
    note = "%d %s" % (state["seq_id"], state["text"].replace("\n", " "))
    for attempt in itertools.count(1):
        name = "append-%d.%d" % (state["seq_id"], attempt)
        if agent.run(APPEND, id=name, env={"NOTE": note})["status"] == "exited":
            return True
        # The daemon died while it ran, or our time was over. It is not run again by itself: look what is there.
        if agent.look(LAST, id=name + "-look")["stdout"].rstrip("\n") == note:
            return True


def count(agent, state):
    """Counts what was written down."""
    state["lines"] = int(agent.look(COUNT, id="count-%d" % state["seq_id"])["stdout"])
    return True


def report(agent, state):
    """Answers."""
    agent.output("%d notes, the last one: %s\n" % (state["lines"], state["text"]))
    state["handled"] = state["seq_id"]
    return True


def main():
    """Goes round until every message is handled."""
    agent = Agent()
    state = agent.state or FIRST
    work = {"read": read, "append": append, "count": count, "report": report}
    while True:
        node = state["node"]
        at(agent, node, "begin")
        if not work[node](agent, state):
            break
        at(agent, node, "called")
        state["visits"][node] += 1
        state["node"] = NODES[(NODES.index(node) + 1) % len(NODES)]
        agent.transition(node, state["node"], visits=state["visits"][node])
        agent.save(state, wait=False)
        at(agent, node, "sent")
        agent.saved()
        at(agent, node, "saved")
    agent.done()


if __name__ == "__main__":
    try:
        main()
    except Stopped as stopped:
        sys.exit("stopped: %s" % stopped)
