"""The base of the tests of plain requests."""

from .case import Case


class Forward(Case):
    def start(self, respond=None, **kw):
        self.upstream = self.http(respond)
        self.gateway = self.proxy(self.upstream, **kw)
        self.url = f"http://ok.test:{self.upstream.port}"
        return self.client(self.gateway)

    def last(self):
        return self.upstream.requests[-1]

    def post(self, client, fields, body, path="/a", method="POST"):
        client.send(f"{method} {self.url}{path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode() + body)
        return client.response(method)
