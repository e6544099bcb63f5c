"""Tries to reach something that is not the session's. Prints `reached`, `refused` or `absent`, and why.

Called as: breakout.py ATTEMPT [ARGUMENT]. An attempt is `absent` where the machine does not have what it needs."""

import ctypes
import errno
import fcntl
import glob
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
NUMBERS = {
    "ptrace": 101 if X86 else 117,
    "process_vm_readv": 310 if X86 else 270,
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "bpf": 321 if X86 else 280,
    "userfaultfd": 323 if X86 else 282,
    "keyctl": 250 if X86 else 219,
    "perf_event_open": 298 if X86 else 241,
    "unshare": 272 if X86 else 97,
    "setns": 308 if X86 else 268,
    "mount": 165 if X86 else 40,
    "chroot": 161 if X86 else 51,
}
CLONE_NEWUSER, PTRACE_SEIZE, TIOCSTI = 0x10000000, 0x4206, 0x5412


def call(name, *arguments):
    result = libc.syscall(NUMBERS[name], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def known_to_kernel(name, *arguments):
    """The call may fail for its arguments; only a refusal means that the kernel was not reached."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect(address)


def pair(family):
    """The kernel makes two sockets, and then says that there are no pairs of them."""
    try:
        socket.socketpair(family)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise


def hard_link(path):
    os.link(path, "stolen")
    open("stolen").read()


def symbolic_link(path):
    if not os.path.islink("way"):
        os.symlink(path, "way")
    open("way").read()


def see(path):
    if os.path.basename(path) not in os.listdir(os.path.dirname(path)):
        raise OSError(errno.ENOENT, "not listed")


def fifo(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        # Nobody reads from it, but it was found.
        if error.errno != errno.ENXIO:
            raise


def as_host(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect(address)
        one.sendall(b"GET /v1/tokens HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status = one.makefile("rb").readline().split()[1]
    if status in (b"401", b"403"):
        raise OSError(errno.EPERM, "not the host")


def datagram(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(5)
        one.connect(("127.0.0.1", int(port)))
        one.send(b"out")
        one.recv(3)


def route(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect((address, 53))


def read_memory(pid):
    """Nothing is at this address, so where the process may be read the answer is that the address is bad."""
    byte = ctypes.create_string_buffer(1)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(byte), 1)
    there = (ctypes.c_size_t * 2)(16, 1)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    known_to_kernel("process_vm_readv", ctypes.c_ulong(int(pid)), here, one, there, one, none)


def setuid_program(_):
    shutil.copy("/usr/bin/id", "id")
    os.chown("id", 1, -1)
    os.chmod("id", 0o4755)
    if subprocess.check_output(["./id", "-u"]).strip() != b"1":
        raise OSError(errno.EPERM, "not its owner")


def device(_):
    os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    open("device", "rb").read(1)


def new_privileges(_):
    text = open("/proc/self/status").read()
    if "NoNewPrivs:\t1" in text:
        raise OSError(errno.EPERM, "no_new_privs")


def system_capability(_):
    text = open("/proc/self/status").read()
    held = int(text.split("CapEff:")[1].split()[0], 16)
    if not held >> 21 & 1:
        raise OSError(errno.EPERM, "no CAP_SYS_ADMIN")


def lease(_):
    """Whoever opens the file then waits until the holder lets go of it."""
    with open("leased", "w") as one:
        fcntl.fcntl(one, fcntl.F_SETLEASE, fcntl.F_WRLCK)


def control_group(_):
    files = glob.glob("/sys/fs/cgroup/cgroup.procs") + glob.glob("/sys/fs/cgroup/*/cgroup.procs")
    if not files:
        raise OSError(errno.ENOSYS, "no control groups")
    os.close(os.open(files[0], os.O_WRONLY))


ATTEMPTS = {
    "read": lambda path: open(path).read(),
    "list": lambda path: os.listdir(path),
    "see": see,
    "write": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_APPEND)),
    "truncate": lambda path: os.truncate(path, os.stat(path).st_size),
    "create": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)),
    "remove": os.unlink,
    "hard_link": hard_link,
    "symbolic_link": symbolic_link,
    "stat": os.stat,
    "chmod": lambda path: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode)),
    "signal": lambda pid: os.kill(int(pid), 0),
    "environ": lambda pid: open(f"/proc/{pid}/environ", "rb").read(),
    "memory": lambda pid: open(f"/proc/{pid}/mem", "rb").close(),
    "root": lambda pid: os.listdir(f"/proc/{pid}/root"),
    "descriptors": lambda pid: os.readlink(f"/proc/{pid}/fd/0"),
    "limits": lambda pid: resource.prlimit(int(pid), resource.RLIMIT_NOFILE),
    "ptrace": lambda pid: call("ptrace", PTRACE_SEIZE, int(pid), 0, 0),
    "read_memory": read_memory,
    "setns": lambda pid: call("setns", os.open(f"/proc/{pid}/ns/uts", os.O_RDONLY), 0),
    "unshare": lambda _: call("unshare", CLONE_NEWUSER),
    "mount": lambda _: known_to_kernel("mount", b"none", b"/", b"no-such-file-system", 0, None),
    "chroot": lambda _: call("chroot", b"."),
    "io_uring": lambda _: known_to_kernel("io_uring_setup", 1, None),
    "bpf": lambda _: known_to_kernel("bpf", 0, None, 0),
    "userfaultfd": lambda _: known_to_kernel("userfaultfd", 0),
    "keyctl": lambda _: known_to_kernel("keyctl", 0, -3, 0),
    "perf": lambda _: known_to_kernel("perf_event_open", None, 0, -1, -1, 0),
    "raw_socket": lambda _: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "packet_socket": lambda _: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close(),
    "vsock": lambda _: socket.socket(40, socket.SOCK_STREAM, 0).close(),
    "vsock_pair": lambda _: pair(40),
    "mptcp_socket": lambda _: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close(),
    "abstract_socket": lambda name: connect(socket.AF_UNIX, "\0" + name),
    "host_by_socket": lambda path: as_host(socket.AF_UNIX, path),
    "host_by_port": lambda port: as_host(socket.AF_INET, ("127.0.0.1", int(port))),
    "datagram": datagram,
    "route": route,
    "fifo": fifo,
    "setuid_program": setuid_program,
    "path_socket": lambda path: connect(socket.AF_UNIX, path),
    "loopback": lambda port: connect(socket.AF_INET, ("127.0.0.1", int(port))),
    "terminal_input": lambda _: fcntl.ioctl(0, TIOCSTI, b" "),
    "device": device,
    "new_privileges": new_privileges,
    "system_capability": system_capability,
    "control_group": control_group,
    "lease": lease,
}


def main(attempt, argument=None):
    try:
        ATTEMPTS[attempt](argument)
    except OSError as error:
        refused = error.errno in (errno.EPERM, errno.EACCES, errno.EXDEV, errno.EROFS)
        print("refused" if refused else "absent", errno.errorcode.get(error.errno))
        return
    print("reached")


main(*sys.argv[1:])
