"""An sshd of the test's own, with one key that may log in as whoever runs it."""

import getpass
import os
import pathlib
import subprocess

from .ports import free_port, wait_for_port


class Sshd:
    def __init__(self, directory, tool, host="127.0.0.5"):
        """tool: finds a program's path."""
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.directory.chmod(0o755)
        self.key = self.directory / "user"
        for name in ("host", "user"):
            subprocess.run([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f",
                            self.directory / name], check=True)
        self.port = free_port(host)
        self.literal = f"{host}:{self.port}"
        self.user = getpass.getuser()
        (self.directory / "config").write_text(
            f"ListenAddress {self.literal}\nHostKey {self.directory}/host\nPidFile none\n"
            f"AuthorizedKeysFile {self.directory}/user.pub\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "LogLevel ERROR\n")
        if os.getuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd confines itself
        with open(self.directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                [tool("sshd"), "-D", "-e", "-f", self.directory / "config"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for_port(host, self.port, self.process)

    def close(self):
        self.process.terminate()
        self.process.wait()
