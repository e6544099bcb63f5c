#!/usr/bin/env python3
"""An agent for any endpoint that speaks OpenAI's chat completions with tools: a hosted model, vLLM, llama.cpp, Ollama, …

From its environment (the session's exported variables, or `env` in the config):

    OPENAI_BASE_URL       where, up to and without /chat/completions (https://api.openai.com/v1)
    OPENAI_MODEL          which model (gpt-4.1-mini)
    OPENAI_API_KEY_FILE   a file with the key, which the model's own commands need not see in their environment
    OPENAI_API_KEY        the key itself, if there is no file; local servers need none
    OPENAI_SYSTEM         the system prompt
    OPENAI_MAX_TURNS      answers of the model for one message (30)
    OPENAI_TIMEOUT        seconds for one answer (120)

The state is the conversation with the model. It is saved after each answer of the model and after each round of commands,
so a crash costs at most the answer that was under way; commands that ran are not run again.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

from shellkeep_agent import Agent, Refused, Stopped

SYSTEM = (
    "You work in a shell session on Linux. It keeps its directory, variables and files from command to command. Use "
    "run_command to look and to act; say what you did when you are done."
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "run_command",
            "description": "Runs a command in the session's bash and gives its output and exit code.",
            "parameters": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "as for bash -c"},
                    "timeout": {"type": "number", "description": "seconds, 30 if not given"},
                },
                "required": ["command"],
            },
        },
    }
]
# More of an output than this helps no model; it can look at the rest with another command.
MAX_RESULT = 20000
# Attempts for one answer, when the server is busy or away.
ATTEMPTS = 5


def setting(name, usual=""):
    """A setting of the environment; an empty one is none."""
    return os.environ.get(name) or usual


def key():
    """The key, if there is one."""
    path = setting("OPENAI_API_KEY_FILE")
    if path:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    return setting("OPENAI_API_KEY")


def complete(messages):
    """Asks the model once; tries again while the server is busy or away."""
    url = setting("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/chat/completions"
    body = {"model": setting("OPENAI_MODEL", "gpt-4.1-mini"), "messages": messages, "tools": TOOLS, "stream": False}
    headers = {"Content-Type": "application/json"}
    if key():
        headers["Authorization"] = "Bearer " + key()
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=float(setting("OPENAI_TIMEOUT", "120"))) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            detail = error.read(2000).decode(errors="replace")
            if error.code not in (408, 409, 429, 500, 502, 503, 504) or attempt == ATTEMPTS:
                sys.exit("%s answered %d: %s" % (url, error.code, detail))
            wait = error.headers.get("Retry-After", "")
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            if attempt == ATTEMPTS:
                sys.exit("%s cannot be reached: %s" % (url, error))
            wait = ""
        time.sleep(float(wait) if wait.isdigit() else 0.5 * 2**attempt)


def ask_model(agent, state):
    """One answer of the model, told as an event and added to the conversation."""
    # What it was told before is in the events before.
    new = state["messages"][state["told"] :]
    began = time.monotonic()
    answer = complete([{"role": "system", "content": setting("OPENAI_SYSTEM", SYSTEM)}] + state["messages"])
    said = answer["choices"][0]["message"]
    agent.tell(
        "llm_call",
        prompt=new,
        response=said,
        token_usage=answer.get("usage"),
        duration=round(time.monotonic() - began, 3),
        model=answer.get("model", setting("OPENAI_MODEL")),
    )
    kept = {"role": "assistant", "content": said.get("content") or ""}
    if said.get("tool_calls"):
        kept["tool_calls"] = said["tool_calls"]
    state["messages"].append(kept)
    state["told"] = len(state["messages"])


def run_tool(agent, call):
    """Runs what the model asked for; whatever goes wrong is for the model to read."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if name != "run_command":
        return "there is no tool '%s'; there is run_command" % name
    try:
        given = json.loads(arguments)
        wanted = {"timeout": float(given["timeout"])} if given.get("timeout") is not None else {}
        result = agent.run(given["command"], id=call["id"], **wanted)
    except (ValueError, TypeError, KeyError) as error:
        return "the arguments are not {\"command\": …}: %s" % error
    except Refused as refused:
        return "not run: %s" % refused
    told = {"status": result["status"], "exit_code": result["exit_code"], "cwd": result["cwd"]}
    for stream in ("stdout", "stderr"):
        told[stream] = shortened(result[stream])
    if result["notices"]:
        told["notices"] = [notice["message"] for notice in result["notices"]]
    return json.dumps(told)


def shortened(text):
    """The beginning and the end of a long text."""
    if len(text) <= MAX_RESULT:
        return text
    half = MAX_RESULT // 2
    return "%s\n[… %d characters left out …]\n%s" % (text[:half], len(text) - MAX_RESULT, text[-half:])


def pending(state):
    """What the model asked for last and was not answered."""
    last = state["messages"][-1] if state["messages"] else {}
    return last.get("tool_calls", []) if last.get("role") == "assistant" else []


def run_tools(agent, state):
    """Answers what the model asked for."""
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": run_tool(agent, call)} for call in pending(state)]
    state["messages"].extend(answers)


def main():
    """Model, commands, model, … until the model has nothing more to ask for."""
    agent = Agent()
    state = agent.state or {"messages": [], "told": 0, "handled": 0}
    # A crash may have come between the model's answer and the commands it asked for.
    if pending(state):
        agent.transition("model", "tools", calls=len(pending(state)))
        run_tools(agent, state)
    for number, text in agent.unhandled(state["handled"]):
        state["messages"].append({"role": "user", "content": text})
        state["handled"] = number
    agent.save(state)
    for _ in range(int(setting("OPENAI_MAX_TURNS", "30"))):
        ask_model(agent, state)
        agent.save(state)
        if not pending(state):
            agent.transition("model", "end")
            return agent.done(state["messages"][-1]["content"])
        agent.transition("model", "tools", calls=len(pending(state)))
        run_tools(agent, state)
        agent.save(state)
        agent.transition("tools", "model")
    sys.exit("the model asked for more than OPENAI_MAX_TURNS rounds; send another message to go on")


if __name__ == "__main__":
    try:
        main()
    except Stopped as stopped:
        sys.exit("stopped: %s" % stopped)
