"""What a command prepares for the next run: files that srt goes by, and names that its rules go by."""

import os
import pathlib
import shutil
import signal
import stat

from harness import BoxCase, quick

FORGED = '{"forged": true}'


def attack(path):
    """Shell commands that would put something else at a name, or into what it leads to."""
    return (f"echo '{FORGED}' >{path}; echo '{FORGED}' >>{path}; chmod 666 {path}; rm -f {path};"
            f"mv {path} {path}.old; echo '{FORGED}' >new; mv -f new {path}; cp -f new {path};"
            f"ln -sfn /nowhere {path};")


class OwnFiles(BoxCase):
    """The files that say what srt does are not the command's to write."""

    def own_file(self, path, document=None):
        """A settings file of the user's at that path."""
        source = self.settings_file(document or self.settings())
        text = source.read_text()
        return self.file(path, text), text

    def attacked(self, path, *options, command=None, status=0, **kw):
        done = self.start(*options, "-c", (command or attack(path)) + " true", **kw).wait()
        self.assertEqual(done.status, status, done)
        return done

    @quick
    def test_settings_in_use(self):
        path, text = self.own_file("conf/settings.json")
        before = path.stat()
        for name in (path, "conf/settings.json"):
            self.attacked(name, "--settings", name, command=attack(name) + "mv conf moved; rm -rf conf;")
            self.assertEqual(path.read_text(), text)
            self.assertEqual((path.stat().st_ino, path.stat().st_mode), (before.st_ino, before.st_mode))
        self.assertFalse((self.work / "moved").exists())

    def test_settings_that_are_a_write_path_themselves(self):
        path, text = self.own_file("settings.json", self.settings(write=["settings.json"]))
        self.attacked(path, "--settings", path)
        self.assertEqual(path.read_text(), text)

    def test_settings_through_links(self):
        path, text = self.own_file(self.home / "real.json")
        directory = self.folder(self.work / "a")
        for link, target in ((directory / "one", "../two"), (self.work / "two", path)):
            os.symlink(target, link)
            self.own(link)
        done = self.attacked("a/one", "--settings", "a/one", command=attack("a/one") + attack("two"))
        self.assertEqual(path.read_text(), text)
        if self.mounts:
            self.assertIn("2 protected names are links", done.err)
        else:
            self.assertEqual(os.readlink(directory / "one"), "../two")
            self.assertEqual(os.readlink(self.work / "two"), str(path))

    def test_default_settings(self):
        path, text = self.own_file(self.home / ".srt-settings.json", self.settings(write=["~", "."]))
        self.attacked(path)
        self.assertEqual(path.read_text(), text)
        other = self.settings_file(self.settings(write=["~"]))
        self.attacked(path, "--settings", other)
        self.assertEqual(path.read_text(), text)

    def test_programs(self):
        programs = self.folder(self.work / "bin")
        for source in self.programs.iterdir():
            shutil.copy(source, programs)
            self.own(programs / source.name)
        self.srt = programs / self.srt.name
        names = [self.srt, programs / "srt-inside"]
        before = [path.read_bytes() for path in names]
        path = self.settings_file(self.settings())
        self.attacked(self.srt, "--settings", path,
                      command="".join(attack(name) for name in names) + "mv bin nib; rm -rf bin;")
        self.assertEqual([path.read_bytes() for path in names], before)
        self.assertEqual(self.succeeds("echo works"), "works\n")

    def test_records_of_what_was_decided(self):
        settings = self.settings_file(self.settings())
        log, violations = self.file("out/log"), self.file("out/violations")
        connect = "curl -sS -o /dev/null http://denied.test/; echo >/etc/new;"
        self.attacked(log, "--log", log, "--violations", violations, "--settings", settings,
                      command=connect + "".join(attack(f"out/{path.name}") for path in (log, violations)))
        for path in (log, violations):
            self.assertNotIn(FORGED, path.read_text().splitlines())
            self.assertIn("denied.test", path.read_text())


class OwnFilesByBubblewrap(OwnFiles):
    mounts = "bwrap"


class LinksOfReadDenies(BoxCase):
    """A deny that names a link holds in the next run, too."""

    def setUp(self):
        super().setUp()
        self.secret = self.file(self.home / "secrets/key.pem", "SECRET\n")

    def link(self, name, target):
        path = self.work / name
        self.folder(path.parent)
        os.symlink(target, path)
        return self.own(path)

    def holds(self, link, through, **lists):
        document = self.settings(**lists)
        target = os.readlink(link)
        done = self.box(f"cat {through}; " + attack(link) + "mv keep moved; true", document)
        self.assertNotIn("SECRET", done.out)
        self.assertEqual(os.readlink(link), target)
        self.assertEqual(self.box(f"cat {self.secret}", document).status, 1)

    @quick
    def test_a_link_that_is_denied(self):
        link = self.link("keep/key", self.secret)
        self.holds(link, link, deny_read=["keep/key"])

    def test_a_link_on_the_way(self):
        link = self.link("keep/dir", self.secret.parent)
        self.holds(link, link / "key.pem", deny_read=["keep/dir/key.pem"])

    def test_links_to_links(self):
        second = self.link("second", self.secret)
        first = self.link("keep/first", "../second")
        for link in (first, second):
            self.holds(link, first, deny_read=["keep/first"])

    def test_a_match(self):
        link = self.link("keep/key.pem", self.secret)
        self.holds(link, link, deny_read=["**/*.pem"])

    def test_a_link_that_leads_to_a_match(self):
        link = self.link("keep/dir", self.secret.parent)
        self.holds(link, link / "key.pem", deny_read=["keep/*/*.pem"])
        self.holds(link, link / "key.pem", deny_read=["keep/dir/*.pem"])

    def test_a_credential(self):
        link = self.link("keep/key", self.secret)
        self.holds(link, link, credentials={"files": [{"path": "keep/key", "mode": "deny"}]})

    def test_other_links_stay_the_commands(self):
        self.link("keep/other", "nothing")
        self.link("keep/txt", self.secret.parent)
        self.succeeds("rm keep/other keep/txt; rmdir keep",
                      self.settings(deny_read=["keep/*/*.key", "**/*.pem/x"]))


class HiddenStandIns(BoxCase):
    """A directory that stands in for a name in another run can hold something by now."""

    def test_what_was_put_into_one(self):
        first = self.start_box("echo up; sleep 60", self.settings(deny_write=["d/x"])).says("up")
        self.assertTrue((self.work / "d").is_dir())
        self.file("d/secret", "SECRET\n")
        for lists in ({"deny_read": ["d"]}, {"deny_read": ["d/secret"]}, {"deny_read": ["?"]},
                      {"credentials": {"files": [{"path": "d", "mode": "deny"}]}}):
            for denied in ((), ("d/x",)):
                done = self.box("cat d/secret; echo x >d/x; cat d/x >/dev/null && echo wrote; true",
                                self.settings(deny_write=denied, **lists))
                self.assertEqual(done.status, 0, done)
                self.assertNotIn("SECRET", done.out)
        first.signal(signal.SIGTERM)
        first.wait()
        self.assertEqual((self.work / "d/secret").read_text(), "SECRET\n")

    def test_it_stays_while_it_is_hidden(self):
        first = self.start_box("echo up; sleep 60", self.settings(deny_write=["d/x"])).says("up")
        second = self.start_box("echo up; until test -e go; do sleep 0.02; done;"
                                "ls -A d; mkdir d; echo end",
                                self.settings(deny_read=["d"])).says("up")
        first.signal(signal.SIGTERM)
        first.wait()
        self.assertTrue((self.work / "d").is_dir())
        self.file("d/secret", "SECRET\n")
        self.file("go")
        self.assertEqual(second.wait().out, "up\nend\n")
        (self.work / "d/secret").unlink()
        (self.work / "d").rmdir()

    def test_the_last_one_removes_it(self):
        first = self.start_box("echo up; sleep 60", self.settings(deny_write=["d/x"])).says("up")
        second = self.start_box("echo up; sleep 60", self.settings(deny_read=["d"])).says("up")
        for running, there in ((first, True), (second, False)):
            running.signal(signal.SIGTERM)
            running.wait()
            self.assertEqual((self.work / "d").exists(), there)


class HiddenStandInsByBubblewrap(HiddenStandIns):
    mounts = "bwrap"


class AllowsThroughLinks(BoxCase):
    """A name that is allowed for reading cannot be aimed at what is hidden."""

    def setUp(self):
        super().setUp()
        self.file(self.home / ".ssh/id", "SECRET\n")
        self.entries = ["docs", "docs/id", "docs/*", "docs/**"]

    def plant(self, document):
        self.succeeds(f"ln -s {self.home}/.ssh docs", document)

    @quick
    def test_a_planted_link(self):
        for root in (["~"], ["~/.ssh"], ["~/.ssh/**"], [str(self.directory)]):
            for entry in self.entries:
                with self.subTest(root=root, entry=entry):
                    document = self.settings(deny_read=root, allow_read=[entry])
                    self.plant(document)
                    done = self.box(f"cat docs/id {self.home}/.ssh/id; rm docs", document)
                    self.assertEqual((done.status, done.out), (0, ""), done)
                    if entry != "docs/**":
                        self.assertIn(f'filesystem.allowRead: "{entry}"', done.err)

    def test_below_the_root(self):
        """A link to a directory of the root does not exempt it from what hides them all."""
        document = self.settings(deny_read=["/"], allow_read=["/usr", "/lib64", "x", "."])
        os.symlink("/etc", self.work / "x")
        done = self.box("/usr/bin/cat /etc/passwd", document)
        self.assertEqual((done.status, done.out), (1, ""), done)

    def test_a_link_that_the_command_cannot_replace(self):
        (self.work / "docs").symlink_to(self.home / ".ssh")
        document = self.settings(deny_read=["~"], allow_read=["docs/id"], write=[])
        done = self.box(f"cat {self.home}/.ssh/id", document)
        self.assertEqual((done.status, done.out, done.err), (0, "SECRET\n", ""), done)


class AllowsThroughLinksByBubblewrap(AllowsThroughLinks):
    mounts = "bwrap"


class Records(BoxCase):
    """The records of the stand-ins are where no box can write them."""

    def records(self):
        return pathlib.Path(f"/tmp/.srt-{self.account.pw_uid}")

    def test_they_cannot_be_forged(self):
        document = self.settings(write=[".", "/tmp"], deny_write=["x"])
        path = self.records()
        self.succeeds("true")
        before = path.stat()
        self.assertEqual(stat.S_IMODE(before.st_mode), 0o700)
        done = self.box(f"ls -A {path}; echo x >{path}/run-0123456789abcdef; mv {path} {path}.old;"
                        f"rmdir {path}; rm -rf {path}; mkdir {path}.old; true", document)
        self.addCleanup(shutil.rmtree, f"{path}.old", True)
        self.assertEqual((done.status, done.out), (0, ""), done)
        self.assertEqual(path.stat().st_ino, before.st_ino)
        self.assertFalse((path / "run-0123456789abcdef").exists())

    def test_they_do_not_follow_the_environment(self):
        there = self.folder(self.directory / "there")
        there.chmod(0o700)
        self.succeeds("true", env={"XDG_RUNTIME_DIR": there, "XDG_CACHE_HOME": there, "TMPDIR": there})
        self.assertEqual(list(there.iterdir()), [])
        self.assertFalse((self.home / ".cache").exists())


class RecordsByBubblewrap(Records):
    mounts = "bwrap"


class WhatHidesNothing(BoxCase):
    """An entry that has no effect is named."""

    def test_entries_in_proc_and_dev(self):
        os.symlink("/proc/version", self.work / "v")
        entries = ["/proc/version", "/dev/urandom", "/proc/ver*", "v", "/dev"]
        done = self.box("cat /proc/version >/dev/null && head -c 1 /dev/urandom | wc -c",
                        self.settings(deny_read=entries, write=[]))
        self.assertEqual((done.status, done.out), (0, "1\n"), done)
        for entry in entries:
            self.assertIn(f'filesystem.denyRead: "{entry}" hides nothing', done.err)
        self.assertEqual(done.err.count("hides nothing"), len(entries))

    def test_a_credential_there(self):
        done = self.box("true", self.settings(
            credentials={"files": [{"path": "/proc/self/environ", "mode": "deny"}]}))
        self.assertIn('credentials.files: "/proc/self/environ" hides nothing', done.err)


class WhatCannotBeListed(BoxCase):
    """A mount that hides it hides the rest for good, also when it is that of a directory above."""

    def test_nothing_is_bound_back_beside_it(self):
        self.file(self.home / "pub/f", "open\n")
        shut = self.folder(self.home / "shut")
        document = self.settings(deny_read=["~", "~/shut/*.pem"], allow_read=["~/pub"])
        self.assertEqual(self.succeeds("cat ~/pub/f", document), "open\n")
        shut.chmod(0)
        self.addCleanup(shut.chmod, 0o700)
        self.assertEqual(self.succeeds("ls -A ~", document), "")


class WhatCannotBeListedByBubblewrap(WhatCannotBeListed):
    mounts = "bwrap"


class ProtectedNames(BoxCase):
    """In directories and write lists of every kind."""

    def test_in_a_directory_that_its_owner_may_not_write(self):
        """The command could change the mode: what stands in is made all the same."""
        inner = self.folder(self.work / "inner")
        inner.chmod(0o555)
        self.addCleanup(inner.chmod, 0o755)
        done = self.box("chmod 755 .; echo x >.bashrc; rm -f .bashrc; mkdir .vscode; echo ran", cwd=inner)
        self.assertEqual((done.status, done.out), (0, "ran\n"), done)
        self.assertEqual(sorted(os.listdir(inner)), [])

    def test_a_file_in_the_way_with_everything_writable(self):
        self.file(".claude", "mine\n")
        document = self.settings(write=[str(self.work / ".claude"), "/"])
        self.box("mv .claude x; rm -f .claude; mkdir -p .claude/commands && echo evil >.claude/commands/e",
                 document)
        self.assertEqual((self.work / ".claude").read_text(), "mine\n")


class ProtectedNamesByBubblewrap(ProtectedNames):
    mounts = "bwrap"


class Descriptors(BoxCase):
    def test_a_control_channel_that_is_not_there(self):
        """srt opens descriptors of its own: none of them is taken for it."""
        for number in range(3, 16):
            done = self.box("echo ran", options=("--control-fd", str(number)))
            self.assertEqual((done.status, done.out), (1, ""), done)
            self.assertIn(f"--control-fd {number} is not usable", done.err)

    def test_a_command_longer_than_the_kernel_takes(self):
        self.assertEqual(self.succeeds(": " + "x" * 131000), "")
        done = self.start("--settings", self.settings_file(self.settings()), "echo", *["x" * 1000] * 200).wait()
        self.assertEqual(done.status, 1)
        self.assertIn("Sandboxed command is too long for one shell argument", done.err)
