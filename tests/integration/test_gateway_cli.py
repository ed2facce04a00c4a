"""The command line of `srt proxy`: options, messages, exit status, signals."""

import json
import os
import signal
import socket
import stat
import subprocess
import time

from harness import (SRT, TOKEN, WAIT, Case, Client, Proxy, clean_environment, free_port, port_of, quick,
                     run_srt, settings)

ABSENT = "Refusing to run with the built-in defaults, which would drop the rules --settings asked for."
OTHERWISE = ("Refusing to run with the built-in defaults, which would drop this file's rules (its "
             "denyRead, allowRead and credential entries included).")


@quick
class StartErrors(Case):
    def file(self, text, name="s.json"):
        path = self.directory / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def fails(self, *args, status=2, env=None):
        got, out, err = run_srt("proxy", *args, env=env)
        self.assertEqual((got, out), (status, ""), err)
        return err

    def test_no_decider_and_no_settings(self):
        for args in ((), ("--listen", "127.0.0.1:0")):
            self.assertEqual(self.fails(*args), "srt proxy: a decider is required (--decider-fd, or "
                                                "--decider-in and --decider-out)\n")

    def test_no_listener(self):
        path = self.file(json.dumps(settings()))
        self.assertEqual(self.fails("--settings", path),
                         "srt proxy: --listen-fd (or --listen for development) is required\n")

    def test_usage_errors(self):
        path = self.file(json.dumps(settings()))
        for args in (["--nonsense"], ["--listen"], ["--settings"], ["stray"], ["--listen-fd", "x"],
                     ["--listen-fd", "-1"], ["--listen-fd", "99999"]):
            with self.subTest(args):
                self.assertTrue(self.fails("--settings", path, *args).startswith("srt proxy: "))

    def test_addresses_that_are_not_loopback(self):
        path = self.file(json.dumps(settings()))
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0"):
            err = self.fails("--settings", path, "--listen", address)
            self.assertIn("is not a loopback address", err)

    def test_addresses_that_do_not_parse(self):
        path = self.file(json.dumps(settings()))
        for address in ("", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x", ":0",
                        "::1:0", "unix:", "unix:" + "x" * 200, "example.com:0"):
            with self.subTest(address):
                self.fails("--settings", path, "--listen", address)

    def test_a_port_that_is_taken(self):
        path = self.file(json.dumps(settings()))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            err = self.fails("--settings", path, "--listen",
                             f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertTrue(err.startswith("srt proxy: "), err)

    def bad_settings(self, path, first, second=OTHERWISE):
        got, out, err = run_srt("proxy", "--settings", path, "--listen", "127.0.0.1:0")
        self.assertEqual((got, out), (1, ""), err)
        lines = err.splitlines()
        self.assertEqual(lines[1], second)
        self.assertEqual(len(lines), 2)
        if first.endswith("..."):
            self.assertTrue(lines[0].startswith(first[:-3]), lines[0])
        else:
            self.assertEqual(lines[0], first)

    def test_settings_that_cannot_be_used(self):
        missing = self.directory / "none.json"
        self.bad_settings(missing, f"Error: {missing} does not exist.", ABSENT)
        self.bad_settings(self.directory, f"Error: {self.directory} could not be read (EISDIR).")
        inside = self.file("{}") / "x"
        self.bad_settings(inside, f"Error: {inside} could not be read (ENOTDIR).")
        for text in ("", " \n\t", "\ufeff"):
            path = self.file(text)
            self.bad_settings(path, f"Error: {path} is empty. Delete it, or put a config in it.")
        for text in ("{", "[1,]", "// c\n{}", '{"network":{}} x', b"\xff\xfe", '{"a":1,"a":2}',
                     "\ufeff{}", "{'a':1}", b'{"network": "\xff"}'):
            path = self.file(text)
            self.bad_settings(path, f"Error: {path} is not valid JSON: ...")

    def test_settings_that_do_not_fit_the_schema(self):
        for document, issues in (
                ({}, "network: Required"),
                ({"network": {"deniedDomains": []}}, "network.allowedDomains: Required"),
                ({"network": {"allowedDomains": [1], "deniedDomains": {}}},
                 "network.allowedDomains.0: Expected string, received number; "
                 "network.deniedDomains: Expected array, received object"),
                ({"network": {"allowedDomains": [], "deniedDomains": [], "strictAllowlist": None}},
                 "network.strictAllowlist: Expected boolean, received null")):
            path = self.file(json.dumps(document))
            self.bad_settings(path, f"Error: {path} does not hold a valid config \u2014 {issues}")

    def test_settings_that_ask_for_more_than_it_does(self):
        for key, network, more in (
                ("network.tlsTerminate", {"tlsTerminate": {}}, {}),
                ("credentials", {}, {"credentials": {
                    "allowPlaintextInject": True,
                    "envVars": [{"name": "A", "mode": "mask", "injectHosts": ["ok.test"]}]}})):
            with self.subTest(key):
                path = self.file(json.dumps({**settings(["ok.test"], **network), **more}))
                got, _, err = run_srt("proxy", "--settings", path, "--listen", "127.0.0.1:0")
                self.assertEqual(got, 1, err)
                self.assertTrue(err.startswith(f"Error: {key}"), err)

    def test_our_own_keys_are_strict(self):
        for proxy, where in (({"nonsense": 1}, "proxy: Unrecognized key(s) in object: 'nonsense'"),
                             ({"timeouts": {"dialMs": 1}}, "proxy.timeouts.dialMs: "),
                             ({"timeouts": {"dialMs": "1"}}, "proxy.timeouts.dialMs: "),
                             ({"timeouts": {"nonsense": 1}}, "proxy.timeouts: Unrecognized"),
                             ({"limits": {"requestHeadBytes": 1.5}}, "proxy.limits.requestHeadBytes: "),
                             ({"listen": "127.0.0.1:0"}, "proxy.listen"),
                             ({"dns": {"servers": [1]}}, "proxy.dns.servers.0: "),
                             ({"dns": {"x": 1}}, "proxy.dns: Unrecognized"),
                             ({"auth": {"tokenFile": 1}}, "proxy.auth.tokenFile: ")):
            with self.subTest(proxy):
                path = self.file(json.dumps(settings(proxy=proxy)))
                got, _, err = run_srt("proxy", "--settings", path, "--listen", "127.0.0.1:0")
                self.assertEqual(got, 1, err)
                self.assertIn(where, err)

    def test_a_token_file_that_is_missing_or_open_to_others(self):
        token = self.directory / "token"
        path = self.file(json.dumps(settings(proxy={"auth": {"tokenFile": str(token)}})))
        for prepare in (lambda: None, lambda: (token.write_text(TOKEN), token.chmod(0o644)),
                        lambda: (token.write_text(""), token.chmod(0o600))):
            prepare()
            got, _, err = run_srt("proxy", "--settings", path, "--listen", "127.0.0.1:0")
            self.assertNotEqual(got, 0)
            self.assertIn(str(token), err)
            self.assertNotIn(TOKEN, err)

    def test_version(self):
        for args in (["--version"], ["--listen", "x", "--version", "--nonsense"]):
            got, out, err = run_srt("proxy", *args)
            self.assertEqual((got, err), (0, ""))
            self.assertRegex(out, r"^srt-proxy \d+\.\d+\.\d+\n$")


class Running(Case):
    @quick
    def test_it_says_where_it_serves_and_why_it_stopped(self):
        proxy = self.proxy()
        self.assertEqual(proxy.stderr(), f"srt proxy: serving 127.0.0.1:{proxy.port}\n")
        proxy.stop()
        self.assertEqual(proxy.stderr().splitlines()[-1], "srt proxy: stopped (SIGTERM)")
        with self.assertRaises(ConnectionRefusedError):
            Client(proxy.address)

    @quick
    def test_several_listeners(self):
        path = str(self.directory / "srt.sock")
        origin = self.http()
        proxy = self.proxy(origin, listen=("127.0.0.1:0", f"unix:{path}", "[::1]:0", "localhost:0"))
        served = [line.split(" serving ")[1] for line in proxy.stderr().splitlines()
                  if " serving " in line]
        self.assertEqual(len(served), 4, proxy.stderr())
        self.assertIn(f"unix:{path}", served)
        client = Client(path)
        self.addCleanup(client.close)
        self.assertEqual(client.get(f"http://ok.test:{origin.port}/").status, 200)
        self.assertEqual(client.get("http://no.test/").status, 403)
        proxy.stop()
        self.assertFalse(os.path.exists(path))

    def test_listeners_of_the_settings(self):
        directory = self.directory / "p"
        directory.mkdir()
        proxy = Proxy(settings(proxy={"listen": ["127.0.0.1:0"]}), directory, listen=())
        self.addCleanup(proxy.stop)
        self.assertEqual(self.client(proxy).get("http://no.test/").status, 403)

    def test_an_inherited_listener(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            path = self.directory / "s.json"
            path.write_text(json.dumps(settings()))
            with open(self.directory / "err", "wb") as err:
                process = subprocess.Popen(
                    [SRT, "proxy", "--settings", path, "--listen-fd", str(listener.fileno())],
                    pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, stderr=err,
                    env=clean_environment())
            listener.close()
            client = Client(address)
            self.addCleanup(client.close)
            self.assertEqual(client.get("http://no.test/").status, 403)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(WAIT), 0)

    def test_a_parent_that_is_the_gateway_itself(self):
        """It would pass each request to itself until descriptors run out."""
        path = self.directory / "s.json"
        port = free_port("127.0.0.1")
        for own, env, listen in (({"http": f"http://127.0.0.1:{port}"}, {}, "127.0.0.1"),
                                 ({"https": f"localhost:{port}"}, {}, "127.0.0.1"),
                                 ({}, {"http_proxy": f"http://127.0.0.1:{port}"}, "127.0.0.1"),
                                 ({"http": f"http://127.0.0.9:{port}"}, {}, "0.0.0.0")):
            with self.subTest((own, env)):
                path.write_text(json.dumps(settings(["ok.test"], parentProxy=own)))
                got, _, err = run_srt("proxy", "--settings", path, "--listen", f"{listen}:{port}",
                                      "--listen-any-interface", env=env)
                self.assertEqual(got, 2, err)
                self.assertIn("is this proxy itself", err)

    def test_listeners_of_a_service_manager(self):
        """They take the place of those in the settings, which a unit may well name again."""
        path = self.directory / "s.json"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            path.write_text(json.dumps(settings(
                proxy={"listen": [f"{address[0]}:{address[1]}"]})))
            # descriptor 3, and the process id of the program itself: what sd_listen_fds(3) checks
            script = f'exec 3<&{listener.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            process = subprocess.Popen(
                ["bash", "-c", script, "bash", SRT, "proxy", "--settings", path],
                pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, env=clean_environment(),
                stderr=subprocess.DEVNULL)
        client = Client(address)
        self.addCleanup(client.close)
        self.assertEqual(client.get("http://no.test/").status, 403)
        process.terminate()
        self.assertEqual(process.wait(WAIT), 0)

    def test_sighup_opens_the_decision_log_afresh(self):
        proxy = self.proxy()
        with self.client(proxy) as client:
            client.get("http://one.no.test/")
        proxy.records(1)
        moved = proxy.log_path.with_suffix(".1")
        proxy.log_path.rename(moved)
        proxy.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + WAIT
        while not proxy.log_path.exists():
            self.assertLess(time.monotonic(), end, "no new file")
            time.sleep(0.02)
        with self.client(proxy) as client:
            client.get("http://two.no.test/")
        self.assertEqual([r["host"] for r in proxy.records(1)], ["two.no.test"])
        self.assertEqual(json.loads(moved.read_text())["host"], "one.no.test")

    def test_a_second_signal_does_not_wait(self):
        origin = self.origin(lambda conn: conn.rest())
        proxy = self.proxy(origin, timeouts={"drainMs": 3600000})
        client = self.client(proxy)
        self.assertEqual(client.connect(f"ok.test:{origin.port}").status, 200)
        proxy.process.send_signal(signal.SIGTERM)
        while True:
            try:
                Client(proxy.address).close()
                time.sleep(0.05)
            except OSError:
                break  # the first one has arrived
        self.assertIsNone(proxy.process.poll())
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(WAIT), 0)

    def test_any_interface_when_asked_for(self):
        proxy = self.proxy(listen=("0.0.0.0:0",), args=["--listen-any-interface"])
        self.assertIn("warning", proxy.stderr())
        self.assertEqual(self.client(proxy).get("http://no.test/").status, 403)
        proxy = self.proxy(listen=("0.0.0.0:0",), args=["--listen-any-interface"], token=TOKEN)
        self.assertNotIn("warning", proxy.stderr())

    def test_the_decision_log_is_private_and_appended_to(self):
        proxy = self.proxy()
        self.client(proxy).get("http://no.test/")
        proxy.records(1)
        self.assertEqual(stat.S_IMODE(proxy.log_path.stat().st_mode), 0o600)

    def test_the_decision_log_on_standard_output(self):
        path = self.directory / "s.json"
        path.write_text(json.dumps(settings(proxy={"listen": ["127.0.0.1:0"]})))
        port_path = self.directory / "port"
        with subprocess.Popen([SRT, "proxy", "--settings", path, "--port-file", port_path, "--log",
                               "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=clean_environment()) as process:
            while not port_path.exists():
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            with Client(("127.0.0.1", port_of(port_path))) as client:
                client.get("http://no.test/")
            record = json.loads(process.stdout.readline())
            self.assertEqual(record["host"], "no.test")
            process.terminate()
            self.assertEqual(process.wait(WAIT), 0)

    def test_the_token_is_not_on_the_command_line_or_in_messages(self):
        proxy = self.proxy(token=TOKEN, args=["--debug"])
        self.client(proxy).get("http://ok.test/", f"Proxy-Authorization: Basic {TOKEN}\r\n")
        command = open(f"/proc/{proxy.process.pid}/cmdline").read()
        self.assertNotIn(TOKEN, command + proxy.stderr())

    @quick
    def test_sigint_stops_it_too(self):
        proxy = self.proxy()
        proxy.process.send_signal(signal.SIGINT)
        self.assertEqual(proxy.process.wait(WAIT), 0)
        self.assertIn("srt proxy: stopped (SIGINT", proxy.stderr())

    def test_draining_lets_a_request_finish(self):
        release = []

        def handler(conn):
            conn.until(b"\r\n\r\n")
            proxy.process.send_signal(signal.SIGTERM)
            while not release:
                time.sleep(0.02)
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")

        origin = self.origin(handler)
        proxy = self.proxy(origin, timeouts={"drainMs": 20000})
        client = self.client(proxy)
        client.send(f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            try:
                Client(proxy.address).close()
                time.sleep(0.05)
            except OSError:
                break  # it takes no new connections any more
        release.append(True)
        self.assertEqual(client.response().body, b"done")
        self.assertEqual(proxy.process.wait(WAIT), 0)

    def test_many_connections(self):
        origin = self.http()
        proxy = self.proxy(origin)
        clients = [self.client(proxy) for _ in range(300)]
        for client in clients:
            client.send(f"GET http://ok.test:{origin.port}/ HTTP/1.1\r\nHost: x\r\n\r\n")
        for client in clients:
            self.assertEqual(client.response().status, 200)

    def test_out_of_descriptors_is_survived(self):
        origin = self.http()
        proxy = self.proxy(origin)
        subprocess.run(["prlimit", "--pid", str(proxy.process.pid), "--nofile=64:64"], check=True)
        clients = [self.client(proxy) for _ in range(120)]
        for client in clients:
            client.send("GET http")
        for client in clients:
            client.close()
        r = self.client(proxy).get(f"http://ok.test:{origin.port}/")
        self.assertEqual(r.status, 200)
