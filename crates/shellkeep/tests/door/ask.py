"""Asks the daemon something over its socket, from inside a session, after trying to look like somebody else.

ask.py SOCKET OUTPUT WAY METHOD TARGET [BODY [TOKEN]]

WAY is what it tries, in this order, joined with "+": see below. "enter=GROUP" names a group by its path as in
/proc/PID/cgroup.

Writes "STATUS BODY" to OUTPUT, whole, by a rename.
"""
import os
import socket
import sys
import time

path, output, way, method, target, body, token = (sys.argv[1:] + ["", ""])[:7]


def group_top():
    for line in open("/proc/self/mountinfo"):
        before, after = line.split(" - ")
        if after.split()[0] == "cgroup2":
            return before.split()[4]
    return None


def move_to(group):
    try:
        with open(group + "/cgroup.procs", "w") as procs:
            procs.write("0")
    except OSError as error:
        print("cannot move to", group, error)


def become_orphan():
    parent = os.getpid()
    if os.fork() != 0:
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.001)


def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


steps = way.split("+")
connection = None
for step in steps:
    if step == "leave":
        if group_top():
            move_to(group_top())
    elif step.startswith("enter="):
        if group_top():
            move_to(group_top() + step.removeprefix("enter="))
    elif step == "setsid":
        if os.getpid() == os.getpgrp():
            become_orphan()
        os.setsid()
    elif step == "orphan":
        become_orphan()
    elif step == "connect":
        connection = connect()
connection = connection or connect()
head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
if token:
    head += f"Authorization: Bearer {token}\r\n"
head += f"Content-Length: {len(body)}\r\n\r\n"
connection.sendall((head + body).encode())
answer = b""
while piece := connection.recv(65536):
    answer += piece
head, _, rest = answer.partition(b"\r\n\r\n")
text = head.split(b" ", 2)[1] + b" " + rest
with open(output + ".new", "wb") as file:
    file.write(text)
os.rename(output + ".new", output)
