"""What users of such boxes suffer from: starting, mounts, git, temporary files."""

import os
import pathlib
import shutil
import signal

from harness import PATH, BoxCase, quick

PROTECTED = (".bashrc", ".gitconfig", ".gitmodules", ".mcp.json", ".profile", ".zshrc", ".vscode",
             ".idea", ".claude")


class Git(BoxCase):
    def setUp(self):
        super().setUp()
        self.home_config = self.home / ".gitconfig"
        self.home_config.write_text("[user]\nname = n\nemail = n@ok.test\n"
                                    "[init]\ndefaultBranch = main\n")
        self.own(self.home_config)

    def repository(self):
        self.assertEqual(self.host("git init -q . && echo 1 >f && git add f && "
                                   "git commit -qm one").status, 0)

    @quick
    def test_stand_ins_do_not_show_in_git(self):
        self.repository()
        self.assertEqual(self.succeeds("git status --porcelain"), "")
        before = self.listing()
        running = self.start_box("echo up; sleep 60").says("up")
        self.assertEqual(self.host("git status --porcelain").out, "")
        self.assertEqual(self.host("git add -A && git stash -u -q; git status --porcelain").out, "")
        running.signal(signal.SIGKILL)
        running.wait()
        self.succeeds("true")
        self.assertEqual(self.listing() - before, set())
        self.assertEqual(self.host("git status --porcelain").out, "")

    def test_git_works_inside(self):
        self.repository()
        self.succeeds("set -e; echo 2 >>f; echo n >new; git add -A; git commit -qm two; echo 3 >>f;"
                      "git commit -qam three; echo 4 >>f; git stash -q; git stash pop -q;"
                      "git checkout -q -b side")
        self.assertEqual(self.host("git log --format=%s | head -n 1").out, "three\n")
        self.assertEqual(self.host("git status --porcelain").out, " M f\n")

    def test_git_removes_untracked_files(self):
        """Socket nodes are none of them. (The empty directory that stands in for .claude is.)"""
        self.repository()
        (self.work / ".claude").mkdir(exist_ok=True)
        (self.work / ".claude/settings.json").write_text("{}\n")
        self.host("git add .claude && git commit -qm claude")
        self.succeeds("set -e; echo u >u; git stash -u -q; test ! -e u; git stash pop -q; test -e u;"
                      "git clean -fdq; test ! -e u")

    def test_protected_names_cannot_be_made_or_replaced(self):
        self.repository()
        before = self.listing()
        for name in PROTECTED:
            with self.subTest(name):
                done = self.box(f"echo x >{name} || mkdir {name}; rm -rf {name}; mv f {name};"
                                f"ln -sf f {name}; test -e f && echo f is there")
                self.assertIn("f is there", done.out)
                self.assertFalse(os.path.lexists(self.work / name))
        done = self.box("echo x >.git/hooks/pre-commit; echo x >>.git/config; mv .git g; rm -rf .git/hooks;"
                        "test -d .git/hooks && git rev-parse HEAD >/dev/null && echo kept")
        self.assertIn("kept", done.out)
        self.assertEqual({p for p in self.listing() - before if "/.git/" not in p}, set())
        self.assertFalse((self.work / ".git/hooks/pre-commit").exists())

    def test_two_runs_share_their_stand_ins(self):
        first = self.start_box("echo up; read -r line; echo x >.bashrc; rm -f .bashrc; mkdir .vscode;"
                               "test -e .bashrc && echo still protected", stdin=-1).says("up")
        second = self.start_box("echo up; sleep 0.2").says("up")
        self.assertEqual(second.wait().status, 0)
        first.process.stdin.write(b"go\n")
        first.process.stdin.close()
        self.assertIn("still protected", first.wait().out)
        self.assertEqual(self.listing(), set())

    def test_a_linked_worktree(self):
        self.repository()
        tree = self.directory / "tree"
        self.own(self.directory)
        self.assertEqual(self.host(f"git worktree add -q {tree}").status, 0)
        self.succeeds("true", cwd=tree)
        done = self.box("touch a && git add a && git commit -qm x", cwd=tree)
        if done.status:
            self.assertIn(str(self.work / ".git"), done.err)
        self.succeeds("touch b && git add b && git commit -qm x", cwd=tree,
                      document=self.settings(write=[".", str(self.work / ".git")]))
        done = self.box(f"echo x >{self.work}/.git/hooks/post-checkout; echo x >>{self.work}/.git/config;"
                        f"ls {self.work}/.git/hooks >/dev/null && git config --list", cwd=tree)
        self.assertIn("core.bare", done.out)
        self.assertFalse((self.work / ".git/hooks/post-checkout").exists())
        self.assertNotIn("x\n", (self.work / ".git/config").read_text())
        self.assertEqual(self.host("git config extensions.worktreeConfig true && "
                                   "git config --worktree x.y z", cwd=tree).status, 0)
        self.succeeds("git status", cwd=tree)
        self.assertEqual(self.host("git config a.b c", cwd=tree).status, 0)
        self.assertEqual(list(self.work.glob(".git/**/*.lock")), [])


class GitByBubblewrap(Git):
    mounts = "bwrap"


class Reads(BoxCase):
    @quick
    def test_hidden_stays_hidden_in_every_order(self):
        for lists in ({"deny_read": ["d/s"], "deny_write": ["d"]},
                      {"deny_read": ["d"], "deny_write": ["d"]},
                      {"deny_read": ["d"], "deny_write": ["d/s"]},
                      {"deny_read": ["d/s/secret"], "deny_write": ["d/s", "d"]},
                      {"deny_read": ["d/s/secret"], "allow_read": ["."]},
                      {"deny_read": ["d/s/secret"], "allow_read": ["d", "d/s"]},
                      {"deny_read": ["d/s", "d"], "deny_write": ["d", "d/s"], "write": ["d", "."]},
                      {"deny_read": ["d/**"], "deny_write": ["."]},
                      {"deny_read": ["**/secret"], "deny_write": ["d"], "write": [".", "d/s"]}):
            for turned in (False, True):
                given = {k: v[::-1] if turned else v for k, v in lists.items()}
                with self.subTest(given):
                    self.file("d/s/secret", "SECRET\n")
                    done = self.box("cat d/s/secret d/*/* ; cp d/s/secret c; cat c; ln d/s/secret l;"
                                    "cat l; mv d e; cat e/s/secret; echo x >d/s/secret;"
                                    "echo x >d/s/new; true", self.settings(**given))
                    self.assertEqual(done.status, 0, done)
                    self.assertNotIn("SECRET", done.out)
                    self.assertEqual((self.work / "d/s/secret").read_text(), "SECRET\n")
                    for path in self.work.glob("[cl]"):
                        self.assertNotIn("SECRET", path.read_text())
                        path.unlink()

    def test_relative_entries_count_from_the_working_directory(self):
        below = self.folder(self.work / "a/b")
        self.file("a/b/hidden/f", "SECRET\n")
        self.file("a/b/hidden/open/f", "open\n")
        self.file("a/b/kept", "kept\n")
        out = self.succeeds(
            "cat hidden/f; cat ../b/hidden/open/f; echo x >kept; echo x >out; echo x >../up; echo end",
            self.settings(deny_read=["./hidden"], allow_read=["../b/hidden/open/"],
                          write=["./"], deny_write=["../b/kept"]), cwd=below)
        self.assertEqual(out, "open\nend\n")
        self.assertEqual((below / "kept").read_text(), "kept\n")
        self.assertTrue((below / "out").exists())
        self.assertFalse((self.work / "a/up").exists())

    def test_a_read_allow_list_over_everything(self):
        out = self.succeeds("/bin/sh -c 'echo ok'; ls /; cat /etc/hostname >/dev/null && echo etc; "
                            f"cat {self.home}/f; ls /root /var 2>&1",
                            self.settings(deny_read=["/"], allow_read=["/usr", "/etc", "."]))
        self.assertTrue(out.startswith("ok\n"), out)
        self.assertIn("\netc\n", out)


class ReadsByBubblewrap(Reads):
    mounts = "bwrap"


class ManyReads(BoxCase):
    """Denied trees that are larger than an argument list."""

    def test_five_thousand_files_in_a_denied_directory(self):
        tree = self.folder(self.work / "secret")
        for number in range(5000):
            (tree / f"{number}.txt").write_text("SECRET")
        done = self.box("echo hello; cat secret/* ; cat secret/77.txt",
                        self.settings(deny_read=["secret/**"]))
        self.assertEqual(done.out, "hello\n")

    def test_a_pattern_that_matches_twenty_thousand(self):
        for number in range(10000):
            directory = self.work / f"d{number // 100}" / str(number)
            directory.mkdir(parents=True)
            for name in ("a.pem", "b.pem"):
                (directory / name).write_text("SECRET")
        done = self.box("echo hello; cat d0/7/a.pem d99/9999/b.pem",
                        self.settings(deny_read=["**/*.pem"]), seconds=120)
        self.assertNotIn("SECRET", done.out)
        if self.mounts:
            self.assertEqual((done.status, done.out), (1, ""), done)
            self.assertRegex(done.err, r"\b\d+ bwrap arguments\b")
        else:
            self.assertEqual(done.out, "hello\n", done)


class ManyReadsByBubblewrap(ManyReads):
    mounts = "bwrap"


class Writes(BoxCase):
    def test_output_directories_that_are_not_there(self):
        """They work, or a line at the start says which entry has no effect."""
        done = self.box("mkdir -p newdir; touch newdir/x; mkdir -p out; touch out/y; mkdir -p tmp2;"
                        "touch tmp2/z; true",
                        self.settings(write=["out/**", "./tmp2", "newdir", "src/*.o"]))
        self.assertEqual(done.status, 0, done)
        for entry, path in (("out/**", "out/y"), ("./tmp2", "tmp2/z"), ("newdir", "newdir/x"),
                            ("src/*.o", "src/none.o")):
            if not (self.work / path).exists():
                self.assertIn(entry, done.err)

    @quick
    def test_temporary_files(self):
        self.succeeds('f=$(mktemp) && echo x >"$f"', env={"TMPDIR": "/var/tmp/none"})
        self.succeeds(self.python("import tempfile; tempfile.mkstemp()"))
        self.succeeds("cat <<E >/dev/null\nx\nE")
        out = self.succeeds('echo "$TMPDIR"; echo "$TMP"; echo "$TEMP"; echo "$TMPPREFIX"; test -d "$TMPDIR"')
        first = out.splitlines()[0]
        self.assertEqual(out.splitlines(), [first, first, first, first + "/zsh"])
        if shutil.which("zsh", path=PATH):
            self.assertEqual(self.succeeds("zsh -c 'cat <<E\nx\nE'"), "x\n")
        done = self.box(f"echo x >/tmp/{self.directory.name}-x")
        self.assertIn("Read-only file system", done.err)
        self.assertFalse(os.path.exists(f"/tmp/{self.directory.name}-x"))

    def test_shared_memory_is_its_own(self):
        host = pathlib.Path("/dev/shm") / self.directory.name
        host.write_text("host\n")
        self.addCleanup(host.unlink)
        host.chmod(0o666)
        self.assertEqual(self.succeeds(self.python(
            "import multiprocessing as m, os; m.Lock(); print(os.listdir('/dev/shm'))")), "[]\n")
        self.succeeds("echo x >/dev/shm/mine")
        self.assertFalse(os.path.exists("/dev/shm/mine"))


class WritesByBubblewrap(Writes):
    mounts = "bwrap"


class NotStarting(BoxCase):
    """What happens where the box cannot be built: the command never runs without it."""

    def refused(self, document=None, status=1, options=(), **kw):
        done = self.box("echo ran; echo ran >proof", document, options, **kw)
        self.assertEqual((done.status, done.out), (status, ""), done)
        self.assertFalse((self.work / "proof").exists())
        self.assertEqual(self.listing(), set())
        return done.err

    def fake(self, says, status=1):
        path = self.file(self.directory / "fake/bwrap", f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n",
                         mode=0o755)
        return {"PATH": f"{path.parent}:{PATH}"}

    @quick
    def test_bubblewrap_is_missing(self):
        few = self.folder(self.directory / "few")
        (few / "bash").symlink_to("/bin/bash")
        err = self.refused(env={"PATH": str(few)})
        self.assertIn("Error: Sandbox dependencies not available: bubblewrap (bwrap) not installed", err)
        err = self.refused(self.settings(bwrapPath="/nonexistent/bwrap"))
        self.assertIn("bubblewrap (bwrap) not executable at /nonexistent/bwrap", err)
        self.refused(env={"PATH": str(few)}, options=["--exit-codes", "strict"], status=125)

    @quick
    def test_bubblewrap_is_kept_from_it(self):
        """The message holds what bubblewrap said, and what to do about it."""
        for says, remedies in (
                ("bwrap: setting up uid map: Permission denied", ("AppArmor", "sysctl")),
                ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
                 ("AppArmor", "sysctl")),
                ("bwrap: No permissions to create new namespace", ("AppArmor", "seccomp"))):
            with self.subTest(says):
                err = self.refused(env=self.fake(says))
                for text in (says, *remedies):
                    self.assertIn(text, err)
        self.refused(env=self.fake("bwrap: setting up uid map: Permission denied"), status=125,
                     options=["--exit-codes=strict"])

    def test_bubblewrap_does_nothing(self):
        """One that says it did well, but ran nothing, is no box."""
        self.refused(env=self.fake("fine", status=0))

    def test_overlapping_lists_are_fine(self):
        self.succeeds("true", self.settings(allowed=["api.ok.test", "*.ok.test", "ok.test"]))

    def test_a_pattern_that_no_mount_enforces(self):
        for entry in ("/**/*.pem", "/*/secret", "/et?/passwd"):
            with self.subTest(entry):
                self.assertIn(entry, self.refused(self.settings(deny_read=[entry])))

    def test_killing_the_proxy_ends_the_network(self):
        origin = self.http()
        mark = f"sleep 5.{os.getpid()}{int(self.mounts is None)}"
        running = self.start_box(f"echo up; {mark}; curl -s http://ok.test:{origin.port}/",
                                 self.settings(origin)).says("up")
        running.signal(signal.SIGKILL)
        running.wait()
        self.vanishes(mark.replace(" ", "\0"))
        self.assertEqual(origin.requests, [])


class Containers(BoxCase):
    """A machine that refuses a fresh /proc, as containers do: part of its own is covered."""

    # Without the rights that the way into such a place gives.
    CONTAINER = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount",
                 "/usr/bin/python3", "-c",
                 "import ctypes, os, sys\n"
                 "libc = ctypes.CDLL(None)\n"
                 "assert libc.mount(b'none', b'/proc/tty', b'tmpfs', 0, None) == 0\n"
                 "assert libc.prctl(47, 4, 0, 0, 0) == 0  # PR_CAP_AMBIENT_CLEAR_ALL\n"
                 "os.execv(sys.argv[1], sys.argv[1:])")

    def test_weaker_mode_works_where_the_strict_one_cannot(self):
        done = self.box("echo ran", before=self.CONTAINER)
        self.assertEqual((done.status, done.out), (1, ""), done)
        self.assertIn("enableWeakerNestedSandbox", done.err)
        done = self.box("id -u; ls /proc/self/exe", self.settings(enableWeakerNestedSandbox=True),
                        before=self.CONTAINER)
        self.assertEqual((done.status, done.out),
                         (0, f"{self.account.pw_uid}\n/proc/self/exe\n"), done)

    def test_weaker_mode_outside_of_one(self):
        pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
        before = pattern.read_bytes()
        self.assertEqual(self.succeeds(f"ls /proc/self/exe; cat {pattern} 2>/dev/null >{pattern}; true",
                                       self.settings(enableWeakerNestedSandbox=True)),
                         "/proc/self/exe\n")
        self.assertEqual(pattern.read_bytes(), before)

    def test_no_zombies(self):
        running = self.start_box("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.01 & exec true) & done; wait;"
                                 "echo up; sleep 0.5; cat /proc/[0-9]*/stat")
        states = running.wait().out.replace("up\n", "")
        self.assertNotIn(") Z ", states)
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self.assertFalse(fields[0] == "Z" and int(fields[1]) == running.pid, path)


class ContainersAsRoot(Containers):
    as_root = True
