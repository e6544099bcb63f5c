#!/usr/bin/env python3
"""Takes the pictures of this directory: docs/screens/take.py PROGRAM. Needs tmux, and chromium for the export.

A session of a made-up project is recorded in a fresh home. Each screen is drawn in tmux at 80x24 and 200x50, captured with
its colours and written as SVG; the HTML export is photographed by chromium.
"""

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = [(80, 24), (200, 50)]
SHOWN_HOME = "/home/ann"
PROMPT = r"\$$"
# A cell of a monospace font of 14 px, as high as the font's frames, so that they have no gaps.
WIDTH, HEIGHT, MARGIN = 8.43, 16, 12
FRONT, BACK = "#cdd6f4", "#1e1e2e"
COLOURS = ["#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#bac2de"]
BRIGHT = ["#9399b2", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#ffffff"]


def cube(number):
    """A colour of the 256."""
    if number < 16:
        return (COLOURS + BRIGHT)[number]
    if number >= 232:
        level = 8 + 10 * (number - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    levels = [0, 95, 135, 175, 215, 255]
    number -= 16
    return "#" + "".join(f"{levels[part]:02x}" for part in (number // 36, number // 6 % 6, number % 6))


class Style:
    """How letters look, changed by the codes of a terminal."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.front, self.back, self.bold, self.dim, self.turned, self.line = None, None, False, False, False, False

    def take(self, codes):
        codes = [int(code or 0) for code in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 2, 4, 7):
                setattr(self, {1: "bold", 2: "dim", 4: "line", 7: "turned"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code in (24, 27):
                setattr(self, {24: "line", 27: "turned"}[code], False)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.front = COLOURS[code - 30] if code < 40 else BRIGHT[code - 90]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.back = COLOURS[code - 40] if code < 50 else BRIGHT[code - 100]
            elif code in (39, 49):
                setattr(self, "front" if code == 39 else "back", None)
            elif code in (38, 48):
                kind = codes.pop(0)
                colour = cube(codes.pop(0)) if kind == 5 else "#%02x%02x%02x" % tuple(codes.pop(0) for _ in range(3))
                setattr(self, "front" if code == 38 else "back", colour)

    def colours(self):
        front, back = self.front or FRONT, self.back
        return (back or BACK, front) if self.turned else (front, back)


def svg(capture, columns, rows):
    """A capture with its codes as a picture."""
    style, parts = Style(), []
    for row, line in enumerate(capture.split("\n")[:rows]):
        column = 0
        for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
            if piece.startswith("\x1b["):
                style.take(piece[2:-1])
                continue
            if not piece:
                continue
            front, back = style.colours()
            x, y, width = MARGIN + column * WIDTH, MARGIN + row * HEIGHT, len(piece) * WIDTH
            if back:
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" fill="{back}"/>')
            weight = ' font-weight="bold"' if style.bold else ""
            faint = ' opacity="0.7"' if style.dim else ""
            under = ' text-decoration="underline"' if style.line else ""
            # Viewers do not agree about spaces, so words are put in their place one by one.
            for word in re.finditer(r"\S+", piece):
                x, width = MARGIN + (column + word.start()) * WIDTH, len(word[0]) * WIDTH
                parts.append(
                    f'<text x="{x:.1f}" y="{y + 12.5}" textLength="{width:.1f}" fill="{front}"{weight}{faint}{under}>'
                    f"{html.escape(word[0])}</text>"
                )
            column += len(piece)
    width, height = columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}">'
        f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/><g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
        'font-size="14">' + "\n".join(parts) + "</g></svg>\n"
    )


def with_shown_home(capture, home):
    """The capture with another home directory, and every frame where it was."""
    missing = len(home) - len(SHOWN_HOME)
    lines = []
    for line in capture.split("\n"):
        while (place := line.find(home)) >= 0:
            line = line[:place] + SHOWN_HOME + line[place + len(home):]
            edge = line.find("│", place)
            if edge >= 0:
                line = line[:edge] + " " * missing + line[edge:]
        # A path that was cut for want of room keeps its length.
        for length in range(len(home) - 1, 4, -1):
            line = line.replace(home[:length] + "…", (SHOWN_HOME + "/app")[:length].ljust(length, "…")[:length] + "…")
        lines.append(line)
    return "\n".join(lines)


class Stage:
    """A fresh home with a daemon, and a terminal."""

    def __init__(self, program):
        self.home, self.captures = tempfile.mkdtemp(prefix="ann-"), 0
        (Path(self.home) / "app").mkdir()
        (Path(self.home) / ".bashrc").write_text("PS1='$ '\n")
        path = f"{Path(program).resolve().parent}:/usr/local/bin:/usr/bin:/bin"
        self.env = {"HOME": self.home, "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/bash"}

    def run(self, *args, **options):
        return subprocess.run(args, env=self.env, cwd=f"{self.home}/app", check=False, text=True, capture_output=True, **options)

    def keep(self, *args, **options):
        done = self.run("shellkeep", *args, **options)
        if done.returncode != 0:
            print(f"shellkeep {' '.join(args)}: exit {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        return done.stdout

    def capture(self, columns, rows, typed):
        """What a terminal shows after each line or key was typed and what it brings was seen: a regular expression."""
        self.captures += 1
        tmux = ["tmux", "-L", f"screens-{os.getpid()}-{self.captures}", "-f", "/dev/null"]
        self.run(*tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), "bash --rcfile ~/.bashrc")
        self.run(*tmux, "set", "-g", "status", "off")
        self.wait_for(tmux, PROMPT)
        for keys, expected in typed:
            self.run(*tmux, "send-keys", *keys)
            self.wait_for(tmux, expected)
        shown = self.run(*tmux, "capture-pane", "-e", "-p", "-t", "0").stdout
        self.run(*tmux, "kill-server")
        return with_shown_home(shown, self.home)

    def wait_for(self, tmux, expected):
        deadline = time.monotonic() + 60
        while not re.search(expected, shown := self.run(*tmux, "capture-pane", "-p", "-t", "0").stdout.rstrip()):
            if time.monotonic() > deadline:
                sys.exit(f"'{expected}' is not shown:\n{shown}")
            time.sleep(0.2)

    def close(self):
        try:
            os.kill(int((Path(self.home) / ".local/share/shellkeep/lock").read_text()), signal.SIGTERM)
        except (OSError, ValueError) as error:
            print(f"the daemon: {error}", file=sys.stderr)
        time.sleep(2)
        shutil.rmtree(self.home, ignore_errors=True)


def play(stage):
    """A story to show: an agent adds a greeting, a test fails, two builds run, a server is up."""
    socket = f"{stage.home}/.local/share/shellkeep/shellkeep.sock"
    stage.keep("sessions", "new", "story", "--agent", "builder", "--workspace", f"{stage.home}/app")

    def event(kind, data):
        body = json.dumps({"event_type": kind, "data": data})
        stage.run("curl", "-s", "--unix-socket", socket, "localhost/v1/sessions/story/events", "-d", body)

    usage = {"input_tokens": 1130, "output_tokens": 96}
    event("user_input", {"message": "Please add a greeting and test it"})
    event("llm_call", {"prompt": "…", "response": "I will write greet.py and run it", "token_usage": usage, "duration": 1.9})
    stage.keep("run", "-s", "story", "--", r"""printf 'def greet(name):\n    return "hello " + name\n' > greet.py
printf 'from greet import greet\nprint(greet("ann"))\n' > main.py""")
    stage.keep("run", "-s", "story", "--", "python3 main.py")
    stage.keep("run", "-s", "story", "--", "python3 -m unittest -q test_greet")
    stage.keep("run", "-s", "story", "--", "sed -i s/hello/hi/ greet.py; git init -q . 2>/dev/null; python3 main.py")
    event("llm_call", {"prompt": "…", "response": "There is no test yet; the greeting works", "token_usage": usage, "duration": 2.4})
    event("final_output", {"output": "greet.py says hi", "stream": False})
    server = "python3 -u -m http.server 8129 --bind 127.0.0.1"
    stage.keep("services", "start", "-s", "story", "--name", "web", "--ready-port", "8129", "--", server)
    stage.keep("sessions", "new", "api", "--cwd", f"{stage.home}/app", "--sandbox", "fence")
    stage.keep("run", "-s", "api", "--no-wait", "--", "sleep 800; cargo test --workspace")
    stage.keep("run", "-s", "notes", "--no-workspace", "--no-wait", "--", "sleep 700; npm ci && npm run build")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    stage = Stage(sys.argv[1])
    try:
        play(stage)
        tables = ["sessions ls", "services ls", "log story", "checkpoints story"]

        def entered(command):
            # A table ends with a prompt, on the last line.
            return [f"shellkeep {command}", "Enter"], rf"{command}\n(.*\n)+{PROMPT}"

        for columns, rows in SIZES:
            screens = {
                "top": stage.capture(columns, rows, [(["shellkeep top", "Enter"], r"(?s)commands/s +\d.*npm.* 8129 ")]),
                "replay": stage.capture(
                    columns, rows, [(["shellkeep replay story", "Enter"], "event 1 "), (["Right"] * 8, "event 14 ")]
                ),
                "tables": stage.capture(columns, rows, [entered(command) for command in tables]),
                "printed": stage.capture(columns, rows, [entered("replay --fast story")]),
            }
            for name, capture in screens.items():
                (HERE / f"{name}-{columns}x{rows}.svg").write_text(svg(capture, columns, rows))
        page = f"{stage.home}/story.html"
        stage.keep("export", "story", "--format", "html", "-o", page)
        shown = Path(page).read_text().replace(stage.home, SHOWN_HOME)
        # The last command is open: its output, and what it changed.
        before, row, after = shown.rpartition('<details class="e k-tool"')
        Path(page).write_text(f"{before}{row.replace('<details', '<details open')}{after}")
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,1180"]
        stage.run(*browser, f"--screenshot={HERE / 'export.png'}", f"file://{page}")
        stage.keep("services", "stop", "web")
        stage.keep("stop", "--now")
    finally:
        stage.close()


if __name__ == "__main__":
    main()
