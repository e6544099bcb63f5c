"""Keeps requests short: what may wait for minutes waits for a second. Values that break a rule are left as they are."""

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
