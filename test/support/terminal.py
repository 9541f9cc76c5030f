"""Runs the command of its arguments on a terminal of its own, and closes the terminal once its standard input ends.

Prints the command's exit code, or minus the number of the signal that ended it.
"""

import os
import pty
import select
import sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
stdin = sys.stdin.fileno()
while True:
    readable, _, _ = select.select([stdin, terminal], [], [])
    if stdin in readable:
        break
    # The command's output is not needed, but must be read so that the command does not block.
    os.read(terminal, 65536)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
