"""Fails in ways that make trouble for whoever looks at the failure. The kind is in the query."""
import os
import sys


class Silent(ValueError):
    def __str__(self):
        raise KeyError("no text")

    __repr__ = __str__


class Wordless(Exception):
    def __str__(self):
        return 5


class Closed(BaseException):
    def __getattribute__(self, name):
        raise Silent


class NoItems(dict):
    def __init__(self, err):
        super().__init__(a=1)
        self.err = err

    def items(self):
        raise self.err


class Text(str):
    def __getitem__(self, key):
        raise Silent

    __format__ = __bool__ = __getitem__


class Subclassed(Exception):
    def __str__(self):
        return Text("x")


def fail(err):
    raise err


async def fail_async(err):
    raise err


def fail_in_stream():
    yield "first"
    raise Silent


def without_stderr():
    sys.stderr = object()
    raise ValueError("boom")


KINDS = {
    "pid": lambda: str(os.getpid()),
    "silent": lambda: fail(Silent()),
    "wordless": lambda: fail(Wordless()),
    "closed": lambda: fail(Closed()),
    "subclassed": lambda: fail(Subclassed()),
    "surrogate": lambda: fail(ValueError("a\ud800b")),
    "huge": lambda: fail(ValueError("x" * (3 << 20))),
    "huge name": lambda: fail(type("N" * (3 << 20), (Exception,), {})("x")),
    "odd syntax error": lambda: fail(SyntaxError("bad", ("app.py", "ten", 1, "x"))),
    "nameless syntax error": lambda: fail(SyntaxError(5)),
    "interrupt": lambda: fail(KeyboardInterrupt()),
    "generator exit": lambda: fail(GeneratorExit()),
    "async exit": lambda: fail_async(SystemExit(4)),
    "async interrupt": lambda: fail_async(KeyboardInterrupt()),
    "async silent": lambda: fail_async(Silent()),
    "silent cause": lambda: fail(chained()),
    "result": lambda: NoItems(KeyError("lost")),
    "silent result": lambda: NoItems(Silent()),
    "huge result": lambda: NoItems(ValueError("x" * (3 << 20))),
    "stderr": without_stderr,
    "stream": fail_in_stream,
}


def chained():
    err = ValueError("outer")
    err.__cause__ = Silent()
    return err


def handle(event, context):
    return KINDS[event["kind"]]()
