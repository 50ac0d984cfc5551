# Ignores every polite request to end, and hides a child in a session of its own.
import os, signal, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
print("you cannot stop me, I am", os.getpid(), flush=True)
while True:
    time.sleep(1)
