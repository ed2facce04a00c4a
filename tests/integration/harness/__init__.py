"""What the integration tests are written with: see case.py first."""

from .box import PATH, BoxCase, Done
from .case import NAMES, Case, quick
from .certs import Authority
from .client import WAIT, Client, Closed, Response, socks_request
from .decider import (Decider, ExecDecider, UnixDecider, allow, deny, frame, need_body, shown,
                      strict)
from .decider_case import DecidedProxy, DeciderCase
from .decider_two import TwoCase
from .dns import DROP, NXDOMAIN, REFUSED, SERVFAIL, Answer, DnsServer
from .forward import Forward
from .nginx import Nginx
from .origin import Conn, HttpOrigin, Origin, Request, answer, echo, hello
from .ports import free_port, wait_for_port
from .proxy import SRT, TOKEN, Proxy, clean_environment, port_of, run_srt, settings
from .ssh import Sshd
from .tls import TlsCase, TlsSocket
from .tls_box import EPHEMERAL, ROOT, VARIABLES, GitServer, TlsBoxCase, pem_blocks

__all__ = [
    "PATH", "BoxCase", "Done", "NAMES", "Case", "quick", "Authority", "WAIT", "Client", "Closed",
    "Response", "socks_request", "Decider", "ExecDecider", "UnixDecider",
    "allow", "deny", "frame", "need_body", "shown", "strict", "DecidedProxy", "DeciderCase",
    "TwoCase", "DROP", "NXDOMAIN", "REFUSED", "SERVFAIL", "Answer", "DnsServer",
    "Forward", "Nginx", "free_port", "wait_for_port", "Conn", "HttpOrigin", "Origin", "Request",
    "answer", "echo", "hello", "SRT", "TOKEN", "Proxy", "clean_environment", "port_of", "run_srt",
    "settings", "Sshd", "TlsCase", "TlsSocket", "EPHEMERAL", "ROOT", "VARIABLES", "GitServer", "TlsBoxCase", "pem_blocks",
]
