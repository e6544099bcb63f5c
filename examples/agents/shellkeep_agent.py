"""The agent's side of shellkeep's protocol: one JSON object to a line, on standard input and output.

    from shellkeep_agent import Agent

    agent = Agent()                          # waits for the message
    state = agent.state or {"n": 0}          # what was saved last
    result = agent.run("wc -l < notes.txt", id="count")
    agent.save({"n": state["n"] + 1})        # a step is complete, and on disk when this returns
    agent.done("There are " + result["stdout"])

`docs/agents.md` has the protocol itself. Python 3.8 or newer, nothing else.
"""

import json
import sys


class Stopped(Exception):
    """shellkeep wants an end, or has gone."""


class Refused(Exception):
    """shellkeep did not take what it was told."""


class Agent:
    """One message, and everything that is said about it."""

    def __init__(self):
        self._input, self._output = sys.stdin, sys.stdout
        # Whatever prints from now on must not end up between our lines.
        sys.stdout = sys.stderr
        opening = self._hear()
        self.session_id = opening["session_id"]
        self.resume_id = opening["resume_id"]
        self.message = opening["message"]
        self.state = opening["state"]
        self.state_version = opening["state_version"]
        self.messages = opening["messages"]
        self._calls = 0

    def unhandled(self, handled):
        """What people said after the message with this number, oldest first: `[(number, text), …]`."""
        said = [m for m in self.messages if m["role"] == "user" and m["seq_id"] > handled]
        return [(m["seq_id"], m["content"]) for m in said]

    def tell(self, type, **fields):
        """Says one thing."""
        try:
            self._output.write(json.dumps({"type": type, **fields}) + "\n")
            self._output.flush()
        except BrokenPipeError:
            raise Stopped("shellkeep has gone") from None

    def transition(self, from_node, to_node, **changed):
        """Tells that the work went from one node to the next."""
        self.tell("state_transition", from_node=from_node, to_node=to_node, state_diff=changed)

    def run(self, command, id=None, **parameters):
        """Runs a command in the session and gives its result.

        The same id and command in the same step give the same result and run nothing, also after a crash. A result with
        status `lost` means that a crash hit while it ran: look what it did before you run it again, under another id.
        """
        self._calls += 1
        id = id or "call-%d" % self._calls
        self.tell("tool_call", id=id, tool_name="run_command", parameters={"command": command, **parameters})
        result = self._wait("tool_result", id)
        if "error" in result:
            raise Refused("%(code)s: %(detail)s" % result["error"])
        return result

    def look(self, command, id, **parameters):
        """Runs a command that does no harm when it runs twice: again, if something ended it on its way."""
        attempt = 1
        while True:
            result = self.run(command, id="%s.%d" % (id, attempt), **parameters)
            if result["status"] == "exited":
                return result
            attempt += 1

    def save(self, state, wait=True):
        """Completes a step: the next message continues from here, whatever happens."""
        self.tell("state", state=state)
        if wait:
            self.saved()

    def saved(self):
        """Waits until the last state is on disk."""
        self.state_version = self._wait("saved")["version"]
        self._calls = 0

    def output(self, text):
        """Says a piece of the answer."""
        self.tell("output", text=text, stream=True)

    def done(self, output=None):
        """Ends the work. Without `output` the answer is what was said in pieces."""
        self.tell("done", **({} if output is None else {"output": output}))

    def _hear(self):
        line = self._input.readline()
        if not line:
            raise Stopped("shellkeep has gone")
        heard = json.loads(line)
        if heard["type"] == "stop":
            raise Stopped(heard["reason"])
        return heard

    def _wait(self, wanted, id=None):
        while True:
            heard = self._hear()
            if heard["type"] == wanted and heard.get("id") == id:
                return heard
            if heard["type"] == "error":
                raise Refused("%(code)s: %(detail)s" % heard)
