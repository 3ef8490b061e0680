"""Answers each path with another kind of result. The Node handler beside it does the same."""
import asyncio
import os
import subprocess
import sys
import time

ALL_BYTES = bytes(range(256))
calls = 0


def note(name, text="x"):
    with open(os.path.join(os.environ["NOTES"], name), "a", encoding="utf-8") as file:
        file.write(text)


def gate(name):
    """Waits until the test opens the gate."""
    while not os.path.exists(os.path.join(os.environ["NOTES"], name)):
        time.sleep(0.005)


async def gate_async(name):
    try:
        while not os.path.exists(os.path.join(os.environ["NOTES"], name)):
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        note("cancelled")
        raise


def chunks(event):
    yield "first\n"
    gate("open")
    yield b"second\n"
    yield {"third": 3}


async def chunks_async(event):
    yield "first\n"
    await gate_async("open")
    yield b"second\n"
    yield {"third": 3}


def endless():
    try:
        while True:
            yield "tick\n"
            time.sleep(0.005)
    finally:
        note("closed")


def failing(good):
    for i in range(good):
        yield f"{i}\n"
    raise ValueError("stream broke")


def events():
    for i in range(3):
        yield f"id: {i}\ndata: {i}\n\n"
        gate(f"event{i}")


def context_fields(event, context):
    request = context.request
    return {
        "event": event, "method": request.method, "path": request.path, "rawPath": request.raw_path,
        "query": request.query, "requestId": context.request_id, "name": context.function_name,
        "namespace": context.function_namespace, "inTime": 0 < context.remaining_ms() <= 60000,
        "cookie": request.headers.get("cookie"), "multi": request.headers.get("x-multi"),
        "host": request.headers.get("host"),
    }


def exit_now(event):
    note("called")
    os._exit(3)


def wait(event):
    note("called")
    gate("open")
    return str(os.getpid())


async def wait_async():
    note("called")
    await gate_async("open")
    return "done"


def hang(event):
    note("called")
    while True:
        time.sleep(1)


def orphan(event):
    return subprocess.run(["sh", "-c", "sleep 0.2 & echo $!"], stdout=subprocess.PIPE, check=True).stdout


def log(event, context):
    context.logger.info("from the logger")
    print("to stdout")
    print("to stderr", file=sys.stderr)


def raise_error(event):
    raise ValueError("boom")


def count(event):
    global calls
    calls += 1
    return calls


RESULTS = {
    "/dict": lambda e, c: {"a": 1, "ü": [True, None]},
    "/list": lambda e, c: [1, "two"],
    "/zero": lambda e, c: 0,
    "/false": lambda e, c: False,
    "/null": lambda e, c: None,
    "/empty": lambda e, c: "",
    "/text": lambda e, c: "grüße",
    "/bytes": lambda e, c: ALL_BYTES,
    "/echo": lambda e, c: e,
    "/type": lambda e, c: type(e).__name__,
    "/created": lambda e, c: {"statusCode": 201,
                              "headers": {"Set-Cookie": ["a=1", "b=2"], "x-number": 7}, "body": {"id": 1}},
    "/page": lambda e, c: {"statusCode": 200, "headers": {"content-type": "text/html"}, "body": "<p>"},
    "/base64": lambda e, c: {"statusCode": 200, "body": "AP8=", "isBase64Encoded": True},
    "/not-base64": lambda e, c: {"statusCode": 200, "body": "A", "isBase64Encoded": True},
    "/nothing": lambda e, c: {"statusCode": 204},
    "/redirect": lambda e, c: {"statusCode": 302, "headers": {"Location": "/there"}},
    "/hop": lambda e, c: {"statusCode": 200, "body": "whole",
                          "headers": {"Connection": "x", "Transfer-Encoding": "y", "Content-Length": 1}},
    "/relay": lambda e, c: {"statusCode": 429, "body": "theirs", "headers": {
        "x-sless-busy": "true", "X-Sless-Cold-Start": "true", "X-KEDA-HTTP-Cold-Start": "true", "X-Slessly": "kept"}},
    "/raise": lambda e, c: raise_error(e),
    "/exit-exception": lambda e, c: sys.exit(4),
    "/collection": lambda e, c: {1, 2},
    "/function": lambda e, c: note,
    "/nan": lambda e, c: float("nan"),
    "/bad-status": lambda e, c: {"statusCode": "ok"},
    "/low-status": lambda e, c: {"statusCode": 100},
    "/bad-header": lambda e, c: {"statusCode": 200, "headers": {"a b": "c"}},
    "/bad-value": lambda e, c: {"statusCode": 200, "headers": {"a": "b\r\nc: d"}},
    "/bad-headers": lambda e, c: {"statusCode": 200, "headers": "a"},
    "/stream": lambda e, c: chunks(e),
    "/stream-async": lambda e, c: chunks_async(e),
    "/events": lambda e, c: {"statusCode": 200, "headers": {"content-type": "text/event-stream"}, "body": events()},
    "/endless": lambda e, c: endless(),
    "/fail-first": lambda e, c: failing(0),
    "/fail-late": lambda e, c: failing(2),
    "/no-chunks": lambda e, c: iter([]),
    "/context": context_fields,
    "/exit": lambda e, c: exit_now(e),
    "/wait": lambda e, c: wait(e),
    "/wait-async": lambda e, c: wait_async(),
    "/hang": lambda e, c: hang(e),
    "/orphan": lambda e, c: orphan(e),
    "/log": log,
    "/pid": lambda e, c: str(os.getpid()),
    "/count": lambda e, c: count(e),
}


def handle(event, context):
    return RESULTS[context.request.path](event, context)
