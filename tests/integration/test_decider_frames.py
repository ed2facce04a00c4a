"""Frames of a decider that break the contract: each ends the link, the request that waits gets 503,
nothing is resolved or dialled, and the proxy stops (chapter 35 sections 1 and 2)."""

import json
import struct

from harness import DeciderCase, allow, deny, frame, quick

CREDENTIALS = ("authorization", "proxy-authorization", "cookie", "x-api-key")
FRAMING = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer",
           "keep-alive", "proxy-connection")
START = b'{"t":"verdict","id":1,"action":'


def verdict(text):
    """A verdict for the first request from its action on, as it is."""
    return START + (text if isinstance(text, bytes) else text.encode()) + b"}"


def sets(**headers):
    return verdict('"allow","setHeaders":' + json.dumps(headers))


ENCODING = {
    "a byte that is not UTF-8": verdict(b'"deny","status":403,"reason":"\xff"'),
    "a sequence cut short": verdict(b'"deny","status":403,"reason":"\xe2\x82"'),
    "an overlong sequence": verdict(b'"deny","status":403,"reason":"\xc0\xaf"'),
    "an overlong NUL": verdict(b'"deny","status":403,"reason":"a\xc0\x80"'),
    "a raw surrogate": verdict(b'"deny","status":403,"reason":"\xed\xa0\x80"'),
    "a raw pair of surrogates": verdict(b'"deny","status":403,"reason":"\xed\xa0\xbd\xed\xb8\x80"'),
    "beyond the last character": verdict(b'"deny","status":403,"reason":"\xf4\x90\x80\x80"'),
    "UTF-16": verdict('"deny","status":403').decode().encode("utf-16-le"),
    "a lone high surrogate": verdict(r'"deny","status":403,"reason":"\ud83d"'),
    "a high surrogate and text": verdict(r'"deny","status":403,"reason":"\ud83dx"'),
    "a lone low surrogate": verdict(r'"deny","status":403,"reason":"\ude00"'),
    "surrogates the wrong way round": verdict(r'"deny","status":403,"reason":"\ude00\ud83d"'),
    "a surrogate in a value": verdict(r'"allow","setHeaders":{"x":["\uDC00"]}'),
    "a surrogate in a key": verdict(r'"allow","\ud800":1'),
}

SHAPE = {
    "nothing": b"",
    "white space": b"  \r\n\t ",
    "a byte behind it": verdict('"allow"') + b"x",
    "a NUL behind it": verdict('"allow"') + b"\0",
    "a bracket behind it": verdict('"allow"') + b"}",
    "two objects": verdict('"allow"') + verdict('"allow"'),
    "two lines": verdict('"allow"') + b"\n" + verdict('"allow"'),
    "an object in an array": b"[" + verdict('"allow"') + b"]",
    "an empty object": b"{}",
    "an empty array": b"[]",
    "a string": b'"allow"',
    "a number": b"1",
    "true": b"true",
    "null": b"null",
    "a comma at the end": b'{"t":"verdict","id":1,"action":"allow",}',
    "a comma at the start": b'{,"t":"verdict","id":1,"action":"allow"}',
    "two commas": b'{"t":"verdict",,"id":1,"action":"allow"}',
    "a comma in an array": verdict('"allow","removeHeaders":["a",]'),
    "single quotes": b"{'t':'verdict','id':1,'action':'allow'}",
    "keys without quotes": b'{t:"verdict",id:1,action:"allow"}',
    "a comment": verdict('"allow"/* yes */'),
    "a comment line": verdict('"allow"//\n'),
    "never closed": START + b'"allow"',
    "a string never closed": START + b'"allow}',
    "a raw line feed in a string": verdict('"deny","status":403,"reason":"a\nb"'),
    "a raw tab in a string": verdict('"deny","status":403,"reason":"a\tb"'),
    "a raw NUL in a string": verdict('"deny","status":403,"reason":"a\0b"'),
    "a bad escape": verdict(r'"deny","status":403,"reason":"\x41"'),
    "a short escape": verdict(r'"deny","status":403,"reason":"\u41"'),
    "a form feed between": verdict('"allow"\f'),
    "a byte order mark": b"\xef\xbb\xbf" + verdict('"allow"'),
    "nested deep": verdict('"allow","x":' + "[" * 100000 + "]" * 100000),
    "nested deep and open": verdict('"allow","x":' + '{"a":' * 150000),
}

NUMBERS = {
    "7.5": verdict('"deny","status":403.5'),
    "an id that is not whole": b'{"t":"verdict","id":1.5,"action":"allow"}',
    "an id as a string": b'{"t":"verdict","id":"1","action":"allow"}',
    "an id of true": b'{"t":"verdict","id":true,"action":"allow"}',
    "an id in an array": b'{"t":"verdict","id":[1],"action":"allow"}',
    "no id": b'{"t":"verdict","action":"allow"}',
    "id 0": b'{"t":"verdict","id":0,"action":"allow"}',
    "id -1": b'{"t":"verdict","id":-1,"action":"allow"}',
    "id 2^53": b'{"t":"verdict","id":9007199254740992,"action":"allow"}',
    "an id past 64 bits": b'{"t":"verdict","id":18446744073709551617,"action":"allow"}',
    "an id past every double": b'{"t":"verdict","id":1e999,"action":"allow"}',
    "an id with a zero before it": b'{"t":"verdict","id":01,"action":"allow"}',
    "an id with a plus": b'{"t":"verdict","id":+1,"action":"allow"}',
    "an id in hexadecimal": b'{"t":"verdict","id":0x1,"action":"allow"}',
    "an id without its fraction": b'{"t":"verdict","id":1.,"action":"allow"}',
    "an id that is no number": b'{"t":"verdict","id":NaN,"action":"allow"}',
    "an id without bound": b'{"t":"verdict","id":Infinity,"action":"allow"}',
    "a status as a string": verdict('"deny","status":"403"'),
    "status 399": verdict('"deny","status":399'),
    "status 600": verdict('"deny","status":600'),
    "status 200": verdict('"deny","status":200'),
    "status -403": verdict('"deny","status":-403'),
    "no status": verdict('"deny"'),
    "max 0": verdict('"need_body","max":0'),
    "max past 32 MiB": verdict('"need_body","max":33554433'),
    "max -1": verdict('"need_body","max":-1'),
    "max 1.5": verdict('"need_body","max":1.5'),
    "max as a string": verdict('"need_body","max":"10"'),
    "no max": verdict('"need_body"'),
}

NULLS = {
    "null as the reason": verdict('"deny","status":403,"reason":null'),
    "null as a list": verdict('"allow","removeHeaders":null'),
    "null as an object": verdict('"allow","setHeaders":null'),
    "null as values": verdict('"allow","setHeaders":{"x":null}'),
    "null as a value": verdict('"allow","setHeaders":{"x":["1",null]}'),
    "null in a list": verdict('"allow","removeHeaders":["x",null]'),
    "null as the action": b'{"t":"verdict","id":1,"action":null}',
    "null under a key of none": verdict('"allow","x":{"y":[{"z":null}]}'),
}

KEYS = {
    "the action twice": b'{"t":"verdict","id":1,"action":"deny","status":403,"action":"allow"}',
    "the same action twice": b'{"t":"verdict","id":1,"action":"allow","action":"allow"}',
    "the id twice": b'{"t":"verdict","id":2,"id":1,"action":"allow"}',
    "t twice": b'{"t":"verdict","t":"verdict","id":1,"action":"allow"}',
    "a key twice, once escaped": rb'{"t":"verdict","id":1,"\u0069d":1,"action":"allow"}',
    "a header twice": verdict('"allow","setHeaders":{"x":["1"],"x":["2"]}'),
    "a header twice, once escaped": verdict(r'"allow","setHeaders":{"x":["1"],"\u0078":["2"]}'),
    "a key twice far down": verdict('"allow","x":[{"y":{"a":1,"b":2,"a":1}}]'),
    "a key of none": verdict('"allow","comment":"fine"'),
    "an empty key": verdict('"allow","":1'),
    "a key in upper case": b'{"t":"verdict","id":1,"Action":"allow"}',
    "a key with a NUL": verdict(r'"allow","cred\u0000":"x"'),
    "ttl": verdict('"allow","ttl":5'),
    "a reason to allow": verdict('"allow","reason":"fine"'),
    "a status to allow": verdict('"allow","status":403'),
    "max to allow": verdict('"allow","max":1'),
    "headers to deny": verdict('"deny","status":403,"setHeaders":{"x":["1"]}'),
    "removals to deny": verdict('"deny","status":403,"removeHeaders":["x"]'),
    "a reason to need_body": verdict('"need_body","max":1,"reason":"x"'),
    "proto": verdict('"allow","proto":1'),
}

KINDS = {
    "allow: 1": b'{"allow":1}',
    "no t": b'{"id":1,"action":"allow"}',
    "another t": b'{"t":"allow","id":1,"action":"allow"}',
    "t in upper case": b'{"t":"Verdict","id":1,"action":"allow"}',
    "t with a NUL": rb'{"t":"verdict\u0000","id":1,"action":"allow"}',
    "t as a number": b'{"t":1,"id":1,"action":"allow"}',
    "a req": b'{"t":"req","id":1,"method":"GET","host":"ok.test","port":80,"path":"/"}',
    "a body": b'{"t":"body","id":1,"data":""}',
    "a second hello": b'{"t":"hello","proto":1,"allowedDomains":[],"deniedDomains":[]}',
    "no action": b'{"t":"verdict","id":1}',
    "another action": verdict('"ask"'),
    "an action in upper case": verdict('"Allow"'),
    "an action and a blank": verdict('"allow "'),
    "an action and a NUL": verdict(r'"allow\u0000"'),
    "true as the action": verdict("true"),
    "an array as the action": verdict('["allow"]'),
}

OPTIONAL = {
    "an empty reason": verdict('"deny","status":403,"reason":""'),
    "false as the reason": verdict('"deny","status":403,"reason":false'),
    "no header set": verdict('"allow","setHeaders":{}'),
    "an array of headers": verdict('"allow","setHeaders":[]'),
    "false for headers": verdict('"allow","setHeaders":false'),
    "no header removed": verdict('"allow","removeHeaders":[]'),
    "removals as an object": verdict('"allow","removeHeaders":{}'),
    "removals as a string": verdict('"allow","removeHeaders":"x"'),
    "an empty class": verdict('"allow","cred":"","credential":"x"'),
    "an empty credential": verdict('"allow","cred":"x","credential":""'),
    "a value as a string": verdict('"allow","setHeaders":{"x":"1"}'),
    "a value as a number": verdict('"allow","setHeaders":{"x":[1]}'),
    "a name as a number": verdict('"allow","removeHeaders":[1]'),
}

TEXT = {
    **{f"U+{c:04X} in a reason": verdict(f'"deny","status":403,"reason":"a\\u{c:04x}b"')
       for c in (0, 1, 0x0A, 0x0D, 0x1F, 0x7F, 0x80, 0x85, 0x9F)},
    **{f"U+{c:04X} in a value": verdict(f'"allow","setHeaders":{{"x":["a\\u{c:04x}b"]}}')
       for c in (0, 8, 0x0A, 0x0B, 0x0D, 0x1F, 0x7F, 0x80, 0x9F)},
    "a raw DEL in a reason": verdict('"deny","status":403,"reason":"\x7f"'),
    "a raw C1 control in a value": verdict('"allow","setHeaders":{"x":["\x85"]}'),
    "a reason of 1025 bytes": verdict(f'"deny","status":403,"reason":"{"a" * 1025}"'),
    "a reason of 513 characters": verdict(f'"deny","status":403,"reason":"{"é" * 513}"'),
    "a set name in upper case": verdict('"allow","setHeaders":{"X-New":["1"]}'),
    "a set name that is empty": verdict('"allow","setHeaders":{"":["1"]}'),
    "a set name with a colon": verdict('"allow","setHeaders":{"x:":["1"]}'),
    "a set name with a line end": verdict(r'"allow","setHeaders":{"x\r\ny":["1"]}'),
    "a set name that is not ASCII": verdict('"allow","setHeaders":{"é":["1"]}'),
    "a removed name in upper case": verdict('"allow","removeHeaders":["X-Old"]'),
    "a removed name with a blank": verdict('"allow","removeHeaders":["x old"]'),
    "a removed name that is empty": verdict('"allow","removeHeaders":[""]'),
    "a removed name twice": verdict('"allow","removeHeaders":["x","y","x"]'),
}

CREDENTIAL = {
    "a class alone": verdict('"allow","cred":"x"'),
    "a credential alone": verdict('"allow","credential":"x"'),
    "a credential with a blank": verdict('"allow","cred":"x","credential":"a b"'),
    "a credential with a tab": verdict(r'"allow","cred":"x","credential":"a\tb"'),
    "a credential with a NUL": verdict(r'"allow","cred":"x","credential":"a\u0000"'),
    "a credential with a DEL": verdict(r'"allow","cred":"x","credential":"a\u007f"'),
    "a credential that is not ASCII": verdict('"allow","cred":"x","credential":"é"'),
    "a credential with a line end": verdict(r'"allow","cred":"x","credential":"a\n"'),
    "a credential of 8193 bytes": verdict(f'"allow","cred":"x","credential":"{"a" * 8193}"'),
    "a credential as a number": verdict('"allow","cred":"x","credential":1'),
}

NAMES = {
    **{f"{name} set": sets(**{name: ["x"]}) for name in (*CREDENTIALS, *FRAMING)},
    **{f"{name} set": sets(**{name: ["x"]})
       for name in ("x_api_key", "x.api-key", "proxy_authorization", "transfer.encoding",
                    "content_length", "keep_alive")},
    "cookie set, with another": sets(**{"x-new": ["1"], "cookie": []}),
    **{f"{name} removed": verdict(f'"allow","removeHeaders":["x","{name}"]')
       for name in (*FRAMING, "content_length", "keep.alive", "proxy.connection")},
}

AMOUNTS = {
    "191 values set": sets(**{"x": ["1"] * 191}),
    "191 names set": sets(**{f"x{i}": ["1"] for i in range(191)}),
    "190 values and a name without one": sets(**{"x": ["1"] * 190, "y": []}),
    "65537 bytes set": sets(**{"x": ["a" * 65536]}),
    "65537 bytes set, in UTF-8": sets(**{"x": ["é" * 32768]}),
    "191 names removed": verdict('"allow","removeHeaders":' + json.dumps([f"x{i}" for i in range(191)])),
    "65537 bytes removed": verdict('"allow","removeHeaders":' + json.dumps(["a" * 65536, "b"])),
    "an id that nothing waits on": b'{"t":"verdict","id":2,"action":"allow"}',
    "a deny of an id that nothing waits on": b'{"t":"verdict","id":4098,"action":"deny","status":403}',
}

OPEN = {
    "too long a frame announced": struct.pack(">I", (1 << 20) + 1),
    "the longest frame announced": b"\xff\xff\xff\xff",
    "too long a frame, whole": struct.pack(">I", (1 << 20) + 1)
    + verdict('"allow"').ljust((1 << 20) + 1),
    "no length at all": START,
}


class Broken(DeciderCase):
    """Answers to the request in `self.client`, all of them wrong."""

    def check(self, data):
        client = self.start(lambda m: data)
        r = client.get(f"{self.url}/")
        self.unavailable(r)
        self.ends(client)
        client.close()
        self.srt.stopped("decider")
        self.nothing_out()

    def all_of(self, table):
        for name, payload in table.items():
            with self.subTest(name):
                self.check(frame(payload))

    @quick
    def test_encoding(self):
        self.all_of(ENCODING)

    def test_shape(self):
        self.all_of(SHAPE)

    def test_numbers(self):
        self.all_of(NUMBERS)

    def test_nulls(self):
        self.all_of(NULLS)

    @quick
    def test_keys(self):
        self.all_of(KEYS)

    def test_kinds(self):
        self.all_of(KINDS)

    def test_optional_fields(self):
        self.all_of(OPTIONAL)

    def test_text_and_names(self):
        self.all_of(TEXT)

    def test_credentials(self):
        self.all_of(CREDENTIAL)

    @quick
    def test_names_that_an_allow_may_not_touch(self):
        self.all_of(NAMES)

    def test_amounts(self):
        self.all_of(AMOUNTS)

    @quick
    def test_lengths(self):
        for name, data in OPEN.items():
            with self.subTest(name):
                self.check(data)

    @quick
    def test_a_wrong_frame_spoils_the_good_one_behind_it(self):
        self.check(frame(b"{}") + frame(verdict('"allow"')))


class Good(DeciderCase):
    """What is just inside of it."""

    @quick
    def test_spellings(self):
        client = self.start(lambda m: answers.pop(0)(m["id"]))
        answers = [
            lambda i: frame(b' \r\n\t{ "action" :"allow" , "id": %d.0,"t":"verdict" }\n ' % i),
            lambda i: frame(b'{"t":"verdict","id":%de0,"action":"allow"}' % i),
            lambda i: frame(rb'{"t":"\u0076erdict","\u0069d":%d,"action":"allow"}' % i),
            lambda i: frame(b'{"t":"verdict","id":%d,"action":"allow"}' % i
                            + b" " * ((1 << 20) - len(b'{"t":"verdict","id":%d,"action":"allow"}' % i))),
        ]
        while answers:
            self.assertEqual(client.get(f"{self.url}/").status, 200)
        self.assertEqual(len(self.upstream.requests), 4)

    def test_numbers_that_are_whole(self):
        client = self.start(lambda m: frame(
            b'{"t":"verdict","id":%d.0,"action":"deny","status":4.51E+2}' % m["id"]))
        self.refused(client.get(f"{self.url}/"), 451, "decider")

    @quick
    def test_a_frame_in_pieces(self):
        client = self.start(lambda m: None)
        client.send(f"GET {self.url}/ HTTP/1.1\r\nHost: {self.at}\r\n\r\n")
        message = self.peer.wait()[0]
        for byte in frame(allow(message)):
            self.peer.send(bytes([byte]))
        self.assertEqual(client.response().status, 200)

    def test_most_of_everything(self):
        client = self.start(lambda m: answers.pop(0)(m), args=["--plaintext-header-set"])
        answers = [
            lambda m: allow(m, setHeaders={"x": ["1"] * 190}),
            lambda m: allow(m, setHeaders={"x": ["a" * 65535]}),
            lambda m: allow(m, setHeaders={"x": ["1"] * 189, "y": []}),
            lambda m: allow(m, removeHeaders=[f"x{i}" for i in range(190)]),
            lambda m: allow(m, removeHeaders=["a" * 65535, "b"]),
            lambda m: allow(m, cred="c", credential="a" * 8192),
            lambda m: allow(m, cred="é" * 100, credential="".join(map(chr, range(0x21, 0x7F)))),
            lambda m: allow(m, setHeaders={"x": ["", "a\tb", " ", "\u00a0é😀"]}),
            lambda m: allow(m, removeHeaders=["!#$%&'*+-.^_`|~09az", "authorization", "cookie"]),
        ]
        while answers:
            r = client.get(f"{self.url}/")
            self.assertEqual(r.status, 200, (r, len(answers)))

    def test_reasons(self):
        reasons = ["a", "a" * 1024, "é" * 512, "a\tb", "not on a Friday \U0001F600", " "]
        client = self.start(lambda m: deny(m, reason=reasons[m["id"] - 1]))
        for reason in reasons:
            with self.subTest(reason):
                r = client.get(f"{self.url}/")
                self.refused(r, 403, "decider")
                self.assertEqual(r.text, reason + "\n")
                client = self.client(self.srt)
        self.nothing_out()


def hello(allowed=(), denied=(), **more):
    return {"t": "hello", "proto": 1, "allowedDomains": list(allowed),
            "deniedDomains": list(denied), **more}


HELLOS = {
    "not an object": b"[]",
    "a verdict": b'{"t":"verdict","id":1,"action":"allow"}',
    "proto 2": hello(proto=2),
    "proto 0": hello(proto=0),
    "proto as a string": hello(proto="1"),
    "proto true": hello(proto=True),
    "proto 1.5": hello(proto=1.5),
    "no proto": b'{"t":"hello","allowedDomains":[],"deniedDomains":[]}',
    "no list of what is allowed": b'{"t":"hello","proto":1,"deniedDomains":[]}',
    "no list of what is denied": b'{"t":"hello","proto":1,"allowedDomains":[]}',
    "null for a list": b'{"t":"hello","proto":1,"allowedDomains":null,"deniedDomains":[]}',
    "a string for a list": hello(allowedDomains="ok.test"),
    "an object for a list": hello(allowedDomains={}),
    "a number in a list": hello([1]),
    "an entry twice": hello(["ok.test", "two.test", "ok.test"]),
    "an entry twice, denied": hello([], ["ok.test", "ok.test"]),
    "asks": hello(asks=["request"]),
    "a key of none": hello(name="decider"),
    "t": b'{"t":"Hello","proto":1,"allowedDomains":[],"deniedDomains":[]}',
    "twice the same key": b'{"t":"hello","proto":1,"proto":1,"allowedDomains":[],"deniedDomains":[]}',
    "too long": struct.pack(">I", (1 << 20) + 1),
    **{f"the entry {entry!r}": hello([entry]) for entry in (
        "", "*", "*.", "*.test", "*.*.test", "a.*.test", "*ok.test", "OK.test", "ok.test.", ".ok.test",
        "ok..test", "ok_.test", "-ok.test", "ok-.test", "ok.test ", " ok.test", "http://ok.test",
        "ok.test/", "user@ok.test", "ok.test:", "ok.test:0", "ok.test:080", "ok.test:65536",
        "ok.test:+1", "ok.test:443:443", "é.test", "1.2.3", "1.2.3.4.5", "0x7f.1", "ok.1", "ok.1a", "127.1",
        "256.1.1.1", "01.2.3.4", "*.127.0.0.1", "127.0.0.1/8", "[127.0.0.1]", "[::1", "::1]", "[::1]:0", "[::1]443",
        "1::2::3", "[]", f"{'a' * 64}.test", ".".join(["a" * 62] * 4) + ".aa", "ok\0.test", "ok.test\n")},
    **{f"the denied entry {entry!r}": hello([], [entry]) for entry in ("*", "OK.test", "a b")},
}
ENTRIES = ["a", "localhost", "ok.test", "ok.test:1", "ok.test:65535", "*.wild.test", "*.a.b:443", "x--n.test",
           "1.test", "a1.b2", "127.0.0.1", "127.0.0.1:80", "::1", "[::1]", "[::1]:443", "2001:db8::1",
           "::ffff:127.0.0.1", f"{'a' * 63}.test", ".".join(["a" * 62] * 4) + ".a", "xn--bcher-kva.test"]


class Hello(DeciderCase):
    """The hello that the decider answers with."""

    def test_wrong(self):
        for name, answer in HELLOS.items():
            with self.subTest(name):
                self.check(answer)

    @quick
    def test_wrong_ones_of_each_kind(self):
        for name in ("proto 2", "an entry twice", "asks", "the entry '*'", "the entry '127.1'"):
            with self.subTest(name):
                self.check(HELLOS[name])

    def check(self, answer):
        raw = answer if isinstance(answer, bytes) and not answer.startswith((b"{", b"[")) else frame(answer)
        peer = self.decider(hello=raw)
        proxy = self.decided(peer, wait=False)
        self.assertRegex(proxy.failed_to_start(), r"(?m)^srt proxy: .*decider")

    @quick
    def test_every_kind_of_entry(self):
        self.start(hello=hello(ENTRIES, [*ENTRIES, "no.test"]))

    def test_empty_lists(self):
        client = self.start(hello=hello())
        self.refused(client.get(f"{self.url}/"), 403, "host_not_allowed")
        self.assertEqual(self.peer.messages, [])
        self.nothing_out()

    def test_the_end_before_it(self):
        for data in (b"", b"\0", b"\0\0\0\x05", b"\0\0\0\x50" + b'{"t":"hello"'):
            peer = self.decider(hello=False)
            proxy = self.decided(peer, wait=False)
            peer.wait_hellos(1)
            self.assertFalse(proxy.is_serving())
            peer.send(data)
            peer.end()
            proxy.failed_to_start()

    def test_ends_before_ours(self):
        peer = self.decider(hello=False)
        peer.end()
        self.decided(peer, wait=False).failed_to_start()
