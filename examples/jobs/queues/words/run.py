# A child that takes job after job: a line of JSON for each on standard input, answers on fd 3.
import json, os, sys

answers = os.fdopen(3, "w", buffering=1)
print("ready to count", flush=True)
for line in sys.stdin:
    job = json.loads(line)
    words = job["args"]["text"].split()
    if not words:
        answers.write(json.dumps({"id": job["id"], "dead": "empty", "error": "no words in it"}) + "\n")
        continue
    answers.write(json.dumps({"id": job["id"], "result": {"words": len(words), "pid": os.getpid()}}) + "\n")
