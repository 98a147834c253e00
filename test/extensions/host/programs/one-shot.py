#!/usr/bin/env python3
"""A program in the other protocol; what its operation is named, it does."""
import json, os, signal, subprocess, sys, time

kind, name, flag, path = sys.argv[1:5]
assert flag == "--input", sys.argv
with open(path) as file:
    given = json.load(file)

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

def end(code, **result):
    say(json.dumps(result))
    sys.exit(code)

sys.stderr.write("one shot of %s\n" % name)
if name == "ok":
    mode = oct(os.stat(path).st_mode & 0o777) + " " + oct(os.stat(os.path.dirname(path)).st_mode & 0o777)
    end(0, success=True, message="fine", outputs={"kind": kind, "given": given, "path": path, "mode": mode})
if name == "no":
    end(1, success=False, message="it is not so")
if name == "liar":
    end(1, success=True)
if name == "coward":
    end(0, success=False)
if name == "two":
    say('{"success": true}\n{"success": true}\n')
if name == "quiet":
    sys.exit(0)
if name == "crash":
    raise RuntimeError("the disk is full")
if name == "large":
    while True:
        say("x" * (1 << 20))
if name == "orphan":
    end(0, success=True, outputs={"pid": subprocess.Popen(["sleep", "1004"]).pid})
if name == "signalled":
    say('{"success": false}')
    os.kill(os.getpid(), signal.SIGKILL)
if name == "twins":
    say('{"success": false, "success": true}')
    sys.exit(0)
if name == "deep":
    say('{"success": true, "outputs": {"a": %s%s}}' % ("[" * 500, "]" * 500))
    sys.exit(0)
if name == "hang":
    time.sleep(1000)
