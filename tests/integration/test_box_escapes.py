"""A hostile command: each way out that is known, tried from inside as root and as an ordinary user."""

import atexit
import ctypes
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

from harness import BoxCase, quick

PROBE = pathlib.Path(__file__).parent / "probe"
OK = "ok"
FORBIDDEN = """
    socket-unix-stream socket-unix-dgram socket-unix-seqpacket socket-unix-high socket-vsock
    socket-vsock-high socket-packet socket-inet-raw socketpair-dgram socketpair-dgram-cloexec
    socketpair-dgram-nonblock socketpair-dgram-high socketpair-raw dgram-pair-to-name io-uring-setup
    io-uring-enter io-uring-register add-key request-key keyctl-session keyctl-join keyctl-user bpf
    perf-event-open userfaultfd init-module finit-module delete-module kexec-load kexec-file-load
    mount mount-tmpfs mount-bind mount-move mount-remount mount-private umount umount-proc pivot-root
    pivot-root-here setns setns-own setns-init open-tree open-tree-clone open-tree-attr move-mount
    fsopen fsconfig fsmount fspick mount-setattr unshare-user unshare-user-high unshare-user-mount
    unshare-mount unshare-empty-mount unshare-pid unshare-net unshare-ipc unshare-uts unshare-cgroup
    clone-user clone-user-high clone-mount clone-user-mount tiocsti tiocsti-high tioclinux
    tioclinux-high chroot sethostname mknod-device syslog open-by-handle-at ptrace-init
    ptrace-init-seize process-vm-readv-init pidfd-getfd-init""".split()
ALLOWED = """
    socket-inet socket-inet-dgram socket-inet6 socketpair-stream socketpair-stream-cloexec
    socketpair-seqpacket unshare-files clone-plain scm-rights so-passcred ptrace-child proc-self-mem
    personality""".split()
KILLED = "x32-getpid x32-socket x32-ioctl i386-getpid i386-socket i386-ioctl i386-unshare".split()
LOOKS = {
    **{f"cap-{name}": "0" * 16 for name in ("inheritable", "permitted", "effective", "bounding",
                                            "ambient")},
    "no-new-privs": "1", "seccomp": "2", "descriptors": "none", "processes": "1",
    "processes-memory": "none", "clone3": "ENOSYS", "sys-writable": "0", "max-user-namespaces": "0",
    "kill-outside": "ESRCH", "shared-memory": "0", "stream-pair-to-name": "ENOENT"}
CLOSED = """
    proc-init-mem proc-init-environ proc-init-root proc-init-cwd proc-init-exe core-pattern
    sysrq-trigger proc-kcore proc-keys proc-timer-list dev-kmsg dev-mem""".split()
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
# What a box may write beneath /proc beside its own processes: settings of its own name spaces, and
# pressure files, which tell the writer alone.
HARMLESS = ("/proc/pressure/", "/proc/sys/fs/mqueue/", "/proc/sys/kernel/msg", "/proc/sys/kernel/shm",
            "/proc/sys/kernel/sem", "/proc/sys/kernel/auto_msgmni", "/proc/sys/kernel/ns_last_pid",
            "/proc/sys/kernel/pid_max")


def _built():
    """The probe, compiled once."""
    global _directory
    if _directory is None:
        _directory = pathlib.Path(tempfile.mkdtemp(prefix="srt-probe-"))
        atexit.register(shutil.rmtree, _directory, ignore_errors=True)
        _directory.chmod(0o755)
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", f"-I{PROBE.parents[2]}", "-o",
                        _directory / "probe", *PROBE.glob("*.c")], check=True)
    return _directory / "probe"


_directory = None


class Escapes(BoxCase):
    def probe(self, *names, document=None, **kw):
        """What each attempt came to, by name; and what was said on stderr."""
        done = self.box(" ".join([str(_built()), *names]), document, **kw)
        self.assertEqual(done.status, 0, done)
        return dict(line.split(" ", 1) for line in done.out.splitlines()), done.err

    @quick
    def test_every_forbidden_attempt(self):
        got, err = self.probe("all")
        expected = {**dict.fromkeys(FORBIDDEN, "EPERM"), **dict.fromkeys(ALLOWED, OK), **LOOKS}
        if platform.machine() == "x86_64":
            expected.update(dict.fromkeys(KILLED, "killed:SIGSYS"))
        self.assertEqual({name: got.get(name) for name in expected}, expected)
        for name in CLOSED:
            self.assertIn(got[name], ("EACCES", "EPERM", "EROFS", "ENOENT", "ENXIO"), name)
        opened = [line.removeprefix("writable: ") for line in err.splitlines()
                  if line.startswith("writable: ")]
        self.assertEqual([path for path in opened if not path.startswith(HARMLESS)], [])

    @quick
    def test_namespaces_are_its_own(self):
        out = self.succeeds("for n in " + " ".join(NAMESPACES) + "; do readlink /proc/self/ns/$n; done")
        own = [os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES]
        self.assertEqual(set(out.split()) & set(own), set())
        self.assertEqual(len(out.split()), len(NAMESPACES))

    def test_nested_namespaces_on_request(self):
        got, _ = self.probe("unshare-user", "clone-user", "socket-unix-stream", "tiocsti", "add-key",
                            document=self.settings(allowNestedUserNamespaces=True))
        self.assertEqual(got, {"unshare-user": OK, "clone-user": OK, "socket-unix-stream": "EPERM",
                               "tiocsti": "EPERM", "add-key": "EPERM"})

    def test_without_the_socket_filter(self):
        got, _ = self.probe("socket-unix-stream", "unshare-user", "clone-user", "tiocsti", "mount-tmpfs",
                            document=self.settings(network={"allowAllUnixSockets": True}))
        self.assertEqual(got, {"socket-unix-stream": OK, "unshare-user": "ENOSPC",
                               "clone-user": "ENOSPC", "tiocsti": "EPERM", "mount-tmpfs": "EPERM"})

    def test_shared_memory_of_the_host(self):
        libc = ctypes.CDLL(None, use_errno=True)
        key = 0x5000000 + os.getpid()
        segment = libc.shmget(key, 4096, 0o1666)
        self.assertGreaterEqual(segment, 0)
        self.addCleanup(libc.shmctl, segment, 0, None)
        got, _ = self.probe(f"shmget={key}")
        self.assertEqual(got, {f"shmget={key}": "ENOENT"})

    @quick
    def test_devices(self):
        out = self.succeeds("cd /dev; ls -A; ls -A shm pts; test ! -e /dev/sda -a ! -e /dev/vda && "
                            "head -c 1 zero | wc -c; echo x >null; echo over")
        known = set("console core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "
                    "shm: pts: 1 over".split())
        self.assertEqual(set(out.split()) - known, set())

    @quick
    def test_roundabout_names_of_what_is_read_only(self):
        target = self.file(self.directory / "outside", "host\n", mode=0o666)
        secret = self.file(self.directory / "secret", "SECRET\n")
        self.folder(self.work / "into")
        (self.work / "link").symlink_to(target)
        done = self.box(
            f"exec 2>&1; for p in {target} link /proc/self/root{target} /proc/self/cwd/link "
            f"/proc/1/root{target} /proc/thread-self/root{target} /dev/fd/../..{target} into/../link; do "
            "echo box >$p; done; "
            f"for p in {secret} /proc/self/root{secret} /proc/1/root{secret} /proc/1/cwd/../secret; do "
            "cat $p; done; ln -s / root; cat root/" + str(secret) + f"; echo box >root{target}; "
            f"mv {self.work} {self.work}2; rm -rf {self.work}; ln {target} hard && echo box >hard",
            self.settings(deny_read=[str(secret)]))
        self.assertEqual(target.read_text(), "host\n")
        self.assertNotIn("SECRET", done.out)
        self.assertTrue(self.work.is_dir())

    def test_links_among_the_protected_names(self):
        """The link itself stays, and what it leads to."""
        self.file("dot/bashrc", "kept\n")
        (self.work / ".bashrc").symlink_to("dot/bashrc")
        elsewhere = self.folder("elsewhere")
        (self.work / ".vscode").symlink_to(elsewhere)
        (self.work / ".mcp.json").symlink_to("nowhere")
        done = self.box("exec 2>/dev/null; for n in .bashrc .vscode .mcp.json; do echo x >$n; "
                        "ln -sfn /etc/passwd $n; mv $n y; rm -rf $n; done; mv dot dot2; echo x >nowhere; "
                        "readlink .bashrc .vscode .mcp.json; cat .bashrc")
        if self.mounts:
            self.assertIn("3 protected names are links", done.err)  # this way of mounting cannot: it warns
        else:
            self.assertEqual(done.out, f"dot/bashrc\n{elsewhere}\nnowhere\nkept\n")
        self.assertEqual((self.work / "dot/bashrc").read_text(), "kept\n")
        self.assertFalse((self.work / "nowhere").exists())

    def test_killing_what_keeps_the_box(self):
        """kill(-1), and every signal to PID 1: the box ends or stays, it does not open."""
        done = self.box("(trap '' TERM; for s in $(seq 1 64); do kill -$s 1; done 2>/dev/null; "
                        "echo alive; exec 2>/dev/null; echo x >/etc/x || echo held)")
        self.assertEqual(done.out, "alive\nheld\n", done)
        self.assertEqual(self.box("kill -9 -1; echo x >out; exit 7", seconds=20).status in (7, 137), True)

    def test_eating_descriptors_and_processes(self):
        """A command that takes all it can get is ended like any other."""
        mark = f"7{os.getpid()}{self.as_root:d}{bool(self.mounts):d}"
        done = self.box(f"for i in $(seq 300); do sleep {mark} & done; exit 3")
        self.assertEqual(done.status, 3)
        self.vanishes(f"sleep\0{mark}")


class EscapesByBubblewrap(Escapes):
    mounts = "bwrap"


class EscapesOfRoot(Escapes):
    as_root = True


class EscapesOfRootByBubblewrap(EscapesOfRoot):
    mounts = "bwrap"


if os.geteuid() != 0:
    del EscapesOfRoot, EscapesOfRootByBubblewrap
