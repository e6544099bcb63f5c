"""Serves one package, `hello`, as a Python index, an npm registry and a cargo registry. Called as: registry.py DIRECTORY
BASE, where BASE is the URL that clients use with `PORT` in it. Prints the port, and serves until its input ends."""

import base64
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import threading
import zipfile

directory, base = sys.argv[1:]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *given):
        super().__init__(*given, directory=directory)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
base = base.replace("PORT", str(server.server_port))


def put(path, content):
    path = os.path.join(directory, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def tar(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def python():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("hello.py", "print('hello from pip')\n")
        wheel.writestr("hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
        wheel.writestr("hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("hello-1.0.dist-info/RECORD", "")
    put("pip/hello/hello-1.0-py3-none-any.whl", packed.getvalue())


def npm():
    manifest = {"name": "hello", "version": "1.0.0"}
    packed = tar({"package/package.json": json.dumps(manifest), "package/index.js": "console.log('hello from npm')\n"})
    put("npm/hello-1.0.0.tgz", packed)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
    manifest["dist"] = {"tarball": f"{base}/npm/hello-1.0.0.tgz", "integrity": integrity}
    put("npm/hello", json.dumps({"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": manifest}}))


def cargo():
    manifest = '[package]\nname = "hello"\nversion = "1.0.0"\nedition = "2021"\n'
    source = 'pub fn hello() -> &\'static str { "hello from cargo" }\n'
    packed = tar({"hello-1.0.0/Cargo.toml": manifest, "hello-1.0.0/src/lib.rs": source})
    put("cargo/dl/hello/1.0.0/download", packed)
    put("cargo/index/config.json", json.dumps({"dl": f"{base}/cargo/dl"}))
    checksum = hashlib.sha256(packed).hexdigest()
    line = {"name": "hello", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False, "cksum": checksum}
    put("cargo/index/he/ll/hello", json.dumps(line) + "\n")


python()
npm()
cargo()
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
