# SPDX-License-Identifier: Apache-2.0
"""Language worker for Python: loads one handler and answers the watchdog's calls on a unix socket.

The protocol is in runtimes/README.md. A thread serves a connection, and the watchdog opens one for each call in flight;
coroutines share one event loop. Rarely needed modules are imported at first use: import time is cold-start time.
"""
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

APP_DIR = os.environ.get("SLESS_APP_DIR", "/app")
DEPS_DIR = os.environ.get("SLESS_DEPS_DIR", "/opt/deps")
STATUS_FD = 3
VARARGS = 4  # flag of a code object with *args
END = object()
MAX_TEXT = 4096  # characters of an error
calls = {}  # number -> Context of each call in flight, for cancellation
loops, loop_lock = [], threading.Lock()


class Problem(Exception):
    """What the user has to repair, without a stack: a text, and the status of a call or the line of a load failure."""


class Context:
    """What a handler knows about the call it serves. `cancelled` is True once the caller has gone away."""

    function_name = os.environ.get("SLESS_FUNCTION_NAME", "")
    function_namespace = os.environ.get("SLESS_FUNCTION_NAMESPACE", "")

    def __init__(self, head):
        self.request = SimpleNamespace(method=head["method"], path=head["path"], raw_path=head["rawPath"],
                                       query=head["query"], headers=head["headers"])
        self.request_id, self.cancelled = head["requestId"], False
        self._deadline, self._task = head["deadline"], None

    def remaining_ms(self):
        """Milliseconds until the call is cut off, never below 0."""
        return max(0, int(self._deadline - time.time() * 1000))

    @property
    def logger(self):
        import logging
        logger = logging.getLogger("sless")
        if not logger.handlers:
            output = logging.StreamHandler()
            output.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(request_id)s %(message)s"))
            logger.addHandler(output)
            logger.setLevel("INFO")
            logger.propagate = False
        return logging.LoggerAdapter(logger, {"request_id": self.request_id})

    def _wait(self, awaitable, cancellable=True):
        """Runs an awaitable on the event loop, which is started at first use, and returns its result."""
        import asyncio

        async def task():
            return await awaitable

        def run(loop):
            while not loop.is_closed():
                with suppress(BaseException):  # a coroutine that raises SystemExit ends the loop of all calls
                    loop.run_forever()
        with loop_lock:
            if not loops:
                loops.append(asyncio.new_event_loop())
                threading.Thread(target=run, args=loops, daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(task(), loops[0])
        if cancellable:
            self._task = future
            if self.cancelled:
                future.cancel()
        return future.result()

    def _iterate(self, value):
        """Returns a plain iterator for a sync or async iterator, or None for any other value."""
        if not hasattr(value, "__anext__"):
            return value if hasattr(value, "__next__") else None

        async def following():
            return await anext(value, END)

        def chunks():
            while (item := self._wait(following())) is not END:
                yield item
        return chunks()


def parse_event(head, body):
    def refuse(name):
        raise ValueError(f"{name} is not JSON")
    kind = head["event"]
    try:
        if body and kind == "json":
            return json.loads(body, parse_constant=refuse)
        if body and kind == "text":
            return body.decode(head["charset"])
    except (ValueError, LookupError, RecursionError) as err:
        raise Problem(f"the body is not valid {kind}: {err}", 400) from None
    return body or head["query"]


def to_json(value):
    """Encodes as compact UTF-8 JSON. NaN and infinities have no JSON form and are refused."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as err:
        raise Problem(f"the handler returned {type(value).__name__}, which has no JSON form: {err}", 500) from None
    return text.encode("utf-8", "backslashreplace")


def to_body(value, is_chunk=False):
    """Returns the bytes of a result, or of one chunk, and its content type."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), "application/octet-stream"
    return (to_json(value) + b"\n", "application/x-ndjson") if is_chunk else (to_json(value), "application/json")


def split_result(result):
    """Returns status, headers and body of a {"statusCode": ...} result, or of any other as the body of a 200."""
    if not isinstance(result, dict) or "statusCode" not in result:
        return 200, None, result
    body = result.get("body")
    if result.get("isBase64Encoded"):
        import base64
        try:
            body = base64.b64decode(body, validate=True)
        except (TypeError, ValueError) as err:
            raise Problem(f"the handler returned a body that is not base64: {err}", 500) from None
    return result["statusCode"], result.get("headers"), b"" if body is None else body


def explain(err, path, is_printed=True):
    """Prints an error and returns what it says and where it is from. Its class may raise anything, whatever it is asked."""
    if type(err) is Problem:
        return {"error": err.args[0], "file": path, "line": err.args[1]}
    name, text, line, shown = type(err).__name__[:MAX_TEXT], "the message cannot be read", 0, None
    with suppress(BaseException):
        text = str(err.msg if isinstance(err, SyntaxError) else err)[:MAX_TEXT]
    with suppress(BaseException):
        stack = err.__traceback__
        while stack is not None:
            file = stack.tb_frame.f_code.co_filename
            if shown is None and not file.startswith((__file__, "<frozen importlib")):
                shown = stack  # the frames above the user's are left out
            if file.startswith(APP_DIR + "/"):
                path, line = file.removeprefix(APP_DIR + "/"), stack.tb_lineno
            stack = stack.tb_next
        if isinstance(err, SyntaxError) and err.filename:
            path, line = str(err.filename).removeprefix(APP_DIR + "/")[:MAX_TEXT], int(err.lineno or 0) % (1 << 31)
    with suppress(BaseException):
        if is_printed:
            import traceback
            traceback.print_exception(type(err), err, shown)
    return {"error": f"{name}: {text}" if text else name, "file": path, "line": line}


def frame(kind, data=b""):
    return kind + len(data).to_bytes(4, "big") + data


class Connection:
    """One connection of the watchdog, which sends one call after the other."""

    def __init__(self, sock, handler):
        self.sock, self.handler, self.stream = sock, handler, sock.makefile("rb", 65536)

    def serve(self):
        head, parts = None, []
        with self.sock, self.stream:
            while len(start := self.stream.read(5)) == 5:
                size = int.from_bytes(start[1:], "big")
                kind, data = start[:1], self.stream.read(size) if size else b""
                if kind == b"H":
                    head, parts = json.loads(data), []
                elif kind == b"D":
                    parts.append(data)
                elif kind == b"E":  # without it the upload was broken off: the handler must not see half a body
                    context = calls[head["call"]] = Context(head)
                    try:
                        answer, parts = self.answer(context, head, b"".join(parts)), []
                    finally:
                        del calls[head["call"]]
                    self.sock.sendall(answer)
                elif kind == b"X" and (context := calls.get(int(data))) is not None:
                    context.cancelled = True
                    if context._task is not None:
                        context._task.cancel()

    def answer(self, context, head, body):
        """Runs the handler and returns the frames that end the answer."""
        try:
            result = self.handler(parse_event(head, body), context)
            if hasattr(result, "__await__"):
                result = context._wait(result)
            status, headers, body = split_result(result)
            chunks = context._iterate(body)
            if chunks is not None:
                return self.stream_chunks(context, status, headers, body, chunks)
            data, media_type = to_body(body)
            return (frame(b"H", to_json({"status": status, "headers": headers, "type": media_type, "size": len(data)}))
                    + frame(b"D", data) + frame(b"E"))
        except Problem as err:
            text, status = err.args[0][:MAX_TEXT], err.args[1]
            with suppress(BaseException):  # stderr may be the user's
                print(context.request_id, text, file=sys.stderr, flush=True)
            return frame(b"F", to_json({"status": status, "error": text}))
        except BaseException as err:  # also SystemExit and a cancelled coroutine: one call must not end the worker
            return frame(b"F", to_json({"status": 500, **explain(err, "", not context.cancelled)}))

    def stream_chunks(self, context, status, headers, source, chunks):
        """Sends chunks as they come. The first is awaited before the head, so that its error is still a 500."""
        try:
            data, media_type = to_body(next(chunks, b""), is_chunk=True)
            self.sock.sendall(frame(b"H", to_json({"status": status, "headers": headers, "type": media_type})))
            while data is not END:
                self.sock.sendall(frame(b"D", data) if data else b"")
                item = END if context.cancelled else next(chunks, END)
                data = END if item is END else to_body(item, is_chunk=True)[0]
            return frame(b"E")
        finally:
            if hasattr(source, "aclose"):
                context._wait(source.aclose(), cancellable=False)
            elif hasattr(source, "close"):
                source.close()


def import_file(stem):
    """Imports a/b.py as module a.b, so that relative imports and imports of its neighbours work."""
    import importlib.util
    path, name = os.path.join(APP_DIR, stem + ".py"), stem.replace("/", ".")
    if not os.path.isfile(path):
        raise Problem("the file does not exist", 0)
    if "." in name:
        sys.path.insert(1, os.path.dirname(path))
        importlib.import_module(name.rpartition(".")[0])
    if name in sys.modules:  # a user's json.py must not take the place of the standard one
        name = "sless_" + name
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pick_handler(module, name):
    """Returns the handler as a function of event and context."""
    handler = getattr(module, name, END)
    if handler is END:
        raise Problem(f"function {name!r} is not defined", 0)
    if not callable(handler):
        with open(module.__file__, encoding="utf-8") as source:
            line = next((number for number, text in enumerate(source, 1) if text.startswith(name)), 0)
        raise Problem(f"{name!r} is of type {type(handler).__name__}, not a function", line)
    if type(handler) is not type(main) or hasattr(handler, "__wrapped__"):
        import inspect  # slow to import, so a plain function is judged without it
        try:
            inspect.signature(handler).bind(None, None)
            return handler
        except TypeError:
            return lambda event, context: handler(event)
    code = handler.__code__
    required, variadic = code.co_argcount - len(handler.__defaults__ or ()), code.co_flags & VARARGS
    if required > 2 or not (code.co_argcount or variadic):
        raise Problem(f"{name!r} takes {required} arguments, want (event, context) or (event)", code.co_firstlineno)
    return handler if code.co_argcount > 1 or variadic else lambda event, context: handler(event)


def main():
    sys.path[0:1] = [APP_DIR]
    if os.path.isdir(DEPS_DIR):
        sys.path.insert(1, DEPS_DIR)
        if any(name.endswith(".pth") for name in os.listdir(DEPS_DIR)):
            import site
            site.addsitedir(DEPS_DIR)
    stem, _, name = os.environ["SLESS_ENTRYPOINT"].rpartition(".")
    try:
        handler = pick_handler(import_file(stem), name)
    except BaseException as err:  # also SystemExit
        os.write(STATUS_FD, to_json({"ok": False, **explain(err, stem + ".py")}) + b"\n")
        return 1
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.environ["SLESS_SOCKET"])
    server.listen(1024)
    os.write(STATUS_FD, b'{"ok":true}\n')
    while True:
        sock, _ = server.accept()
        threading.Thread(target=Connection(sock, handler).serve, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
