"""Keeps requests short: what may wait for minutes waits for a second, and quotas leave room for the requests after them.
Values that break a rule are left as they are."""

import schemathesis


def shortened(values):
    if isinstance(values, dict):
        for name, most in (("wait", 300), ("timeout", 86400), ("grace", 120)):
            value = values.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 1 < value <= most:
                values[name] = 1
    return values


@schemathesis.hook
def map_body(context, body):
    return shortened(body)


@schemathesis.hook
def map_query(context, query):
    return shortened(query)


# With room for one process, bash tries for 15 s to fork; with room for one shell, every run waits for that shell.
ROOM = 1000


@schemathesis.hook
def before_call(context, case, kwargs):
    if (case.method.upper(), case.path) == ("PUT", "/v1/quotas") and isinstance(case.body, dict):
        for name in ("processes", "session_processes", "live_shells"):
            value = case.body.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < ROOM:
                case.body[name] = ROOM
