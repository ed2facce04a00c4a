"""nginx from a directory of the test's own, unprivileged, with plain and TLS listeners."""

import os
import pathlib
import subprocess

from .case import Case
from .client import WAIT
from .ports import free_port, wait_for_port

CONF = """
{user}
daemon off;
worker_processes 1;
error_log {dir}/error.log info;
pid {dir}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    access_log {dir}/access.log;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    client_max_body_size 1g;
    server {{
        listen {host}:{port};
        {tls}
        root {dir}/root;
        location /put/ {{ root {dir}; dav_methods PUT; create_full_put_path on; }}
    }}
}}
"""


class Nginx:
    def __init__(self, directory, host="127.0.0.5", certificate=None, options=""):
        """certificate: (file, key) for a TLS port, self.tls_port; options: directives for it."""
        self.directory = pathlib.Path(directory)
        self.root = self.directory / "root"
        self.root.mkdir(parents=True)
        self.host = host
        self.port = free_port(host)
        self.tls_port = None
        tls = ""
        if certificate:
            self.tls_port = free_port(host)
            tls = (f"listen {host}:{self.tls_port} ssl; ssl_certificate {certificate[0]}; "
                   f"ssl_certificate_key {certificate[1]}; {options}")
        (self.directory / "nginx.conf").write_text(CONF.format(
            dir=self.directory, host=host, port=self.port, tls=tls,
            user="user root;" if os.getuid() == 0 else ""))
        with open(self.directory / "out", "wb") as out:
            self.process = subprocess.Popen(
                [Case.tool("nginx"), "-p", str(self.directory), "-e",
                 str(self.directory / "error.log"), "-c", str(self.directory / "nginx.conf")],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        wait_for_port(host, self.port, self.process)

    @property
    def literal(self):
        """The allow entry of the TLS port, else of the plain one."""
        return self.literals[-1]

    @property
    def literals(self):
        return [f"{self.host}:{p}" for p in (self.port, self.tls_port) if p]

    def close(self):
        self.process.terminate()
        self.process.wait(WAIT)
