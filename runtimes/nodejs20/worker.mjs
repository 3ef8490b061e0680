// SPDX-License-Identifier: Apache-2.0
//
// Language worker for Node: loads one handler and answers the watchdog's calls on a unix socket.
// The protocol is in runtimes/README.md. Needs nothing but the standard library.
import { existsSync, readFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:net';
import { inspect } from 'node:util';

const { SLESS_APP_DIR: appDir = '/app', SLESS_ENTRYPOINT: entrypoint, SLESS_SOCKET: socketPath } = process.env;
const extensions = ['.js', '.mjs', '.cjs'];
const statusFd = 3;
const maxText = 4096; // characters of an error
const calls = new Map(); // number -> AbortController of each call in flight

/** An event or a result that has no form here. The text is for the caller, no stack is printed. */
class Refused extends Error {
  constructor(text, status = 500) {
    super(text);
    this.status = status;
  }
}

/** The handler cannot be used, for a reason other than an exception of its own code. */
class LoadError extends Error {} // its cause is the line

/** Asks something of what a handler has thrown or made, which may throw anything whatever is asked. */
function attempt(ask, otherwise) {
  try {
    return ask();
  } catch {
    return otherwise;
  }
}

const unreadable = 'a value that cannot be shown';
const isA = (value, kind) => attempt(() => value instanceof kind, false);
const show = (value) => attempt(() => (typeof value === 'string' ? value : inspect(value)), unreadable);

const say = (level, id, args) =>
  process.stderr.write(`${new Date().toISOString()} ${level} ${id} ${args.map(show).join(' ')}\n`);

function makeContext(head, signal) {
  const { requestId, method, path, rawPath, query, headers, deadline } = head;
  return {
    request: { method, path, rawPath, query, headers },
    requestId,
    functionName: process.env.SLESS_FUNCTION_NAME ?? '',
    functionNamespace: process.env.SLESS_FUNCTION_NAMESPACE ?? '',
    signal, // aborted once the caller has gone away
    remainingMs: () => Math.max(0, deadline - Date.now()),
    logger: {
      debug: (...args) => say('DEBUG', requestId, args),
      info: (...args) => say('INFO', requestId, args),
      warn: (...args) => say('WARN', requestId, args),
      error: (...args) => say('ERROR', requestId, args),
    },
  };
}

function parseEvent(head, body) {
  if (body.length === 0) return head.query;
  if (head.event === 'bytes') return body;
  try {
    const text = new TextDecoder(head.charset || 'utf-8', { fatal: true }).decode(body);
    return head.event === 'json' ? JSON.parse(text) : text;
  } catch (err) {
    throw new Refused(`the body is not valid ${head.event}: ${err.message}`, 400);
  }
}

const typeName = (value) => (value === null || typeof value !== 'object'
  ? typeof value : value.constructor?.name ?? 'object');

/** JSON of a value. Top-level values that JSON.stringify would lose in silence (Map, NaN, functions) are refused. */
function toJSON(value) {
  let text;
  let cause = '';
  if (value === undefined) return 'null';
  if (!(value instanceof Map || value instanceof Set || (typeof value === 'number' && !Number.isFinite(value)))) {
    try {
      text = JSON.stringify(value);
    } catch (err) {
      cause = `: ${describe(err)}`;
    }
  }
  if (text === undefined) {
    const shown = typeof value === 'number' ? String(value) : typeName(value);
    throw new Refused(`the handler returned ${shown}, which has no JSON form${cause}`);
  }
  return text;
}

/** The bytes of a result, or of one chunk, and its content type. */
function toBody(value) {
  if (typeof value === 'string') return [Buffer.from(value), 'text/plain; charset=utf-8'];
  if (ArrayBuffer.isView(value)) {
    return [Buffer.from(value.buffer, value.byteOffset, value.byteLength), 'application/octet-stream'];
  }
  if (value instanceof ArrayBuffer) return [Buffer.from(value), 'application/octet-stream'];
  return [Buffer.from(toJSON(value)), 'application/json'];
}

function toChunk(item) {
  const [data, type] = toBody(item);
  if (type !== 'application/json') return [data, type];
  return [Buffer.concat([data, Buffer.from('\n')]), 'application/x-ndjson'];
}

/** Status, headers and body of a {statusCode: ...} result, or any other as the body of a 200. */
function splitResult(result) {
  if (result === null || typeof result !== 'object' || !('statusCode' in result)) return [200, undefined, result];
  let { statusCode, headers, body, isBase64Encoded } = result;
  if (isBase64Encoded) {
    if (typeof body !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(body) || body.length % 4 !== 0) {
      throw new Refused('the handler returned a body that is not base64');
    }
    body = Buffer.from(body, 'base64');
  }
  return [statusCode, headers?.entries ? Object.fromEntries(headers) : headers, body ?? Buffer.alloc(0)];
}

function iteratorOf(value) {
  if (value === null || typeof value !== 'object') return null;
  if (typeof value[Symbol.asyncIterator] === 'function') return value[Symbol.asyncIterator]();
  return typeof value.next === 'function' && typeof value[Symbol.iterator] === 'function' ? value : null;
}

function frame(kind, data = Buffer.alloc(0)) {
  const start = Buffer.allocUnsafe(5);
  start.write(kind, 'latin1');
  start.writeUInt32BE(data.length, 1);
  return Buffer.concat([start, data]);
}

const headFrame = (fields) => frame('H', Buffer.from(toJSON(fields)));

/** An error in one line or few. Its name and message may be of any type. */
function describe(err) {
  const text = () => (isA(err, Error) ? `${err.name}: ${err.message}` : String(err));
  return attempt(() => text().slice(0, maxText), unreadable);
}

/** Prints an error with its stack, and what is no error as text. */
function printError(err) {
  const text = () => (isA(err, Error) ? inspect(err) : String(err));
  process.stderr.write(`${attempt(text, describe(err))}\n`);
}

/** Runs the handler for one call and writes the frames of the answer. */
async function serveCall(socket, handler, head, body) {
  const controller = new AbortController();
  calls.set(head.call, controller);
  try {
    const result = await handler(parseEvent(head, body), makeContext(head, controller.signal));
    const [status, headers, value] = splitResult(result);
    const iterator = iteratorOf(value);
    if (iterator) {
      await streamChunks(socket, controller.signal, status, headers, iterator);
    } else {
      const [data, type] = toBody(value);
      const start = headFrame({ status, headers, type, size: data.length });
      socket.write(Buffer.concat([start, frame('D', data), frame('E')]));
    }
  } catch (err) {
    const refused = isA(err, Refused);
    const status = refused ? err.status : 500;
    const error = refused ? err.message.slice(0, maxText) : describe(err);
    if (refused) say('ERROR', head.requestId, [error]);
    else if (!controller.signal.aborted) printError(err);
    socket.write(frame('F', Buffer.from(toJSON({ status, error, ...place(err) }))));
  } finally {
    calls.delete(head.call);
  }
}

/** Sends chunks as they come. The first is awaited before the head, so that its error is still a 500. */
async function streamChunks(socket, signal, status, headers, iterator) {
  let wake = () => {};
  signal.addEventListener('abort', () => wake({ done: true }), { once: true });
  const orAbort = (promise) => new Promise((resolve, reject) => {
    wake = resolve;
    promise.then(resolve, reject);
  });
  const next = () => (signal.aborted ? { done: true } : orAbort((async () => iterator.next())()));
  const drained = () => new Promise((resolve) => {
    const done = () => {
      socket.off('drain', done).off('close', done);
      resolve();
    };
    socket.on('drain', done).on('close', done);
  });
  try {
    let item = await next();
    let [data, type] = toChunk(item.done ? Buffer.alloc(0) : await item.value);
    socket.write(headFrame({ status, headers, type }));
    while (!item.done && !signal.aborted && !socket.destroyed) {
      if (data.length && !socket.write(frame('D', data))) await orAbort(drained());
      item = await next();
      if (!item.done) [data] = toChunk(await item.value);
    }
    socket.write(frame('E'));
  } finally {
    (async () => iterator.return?.())().catch(() => {}); // the answer is complete, whatever comes of it
  }
}

/** Serves one connection of the watchdog, which sends one call after the other. */
function serve(socket, handler) {
  let pending = Buffer.alloc(0);
  let head;
  let parts = [];
  socket.on('error', () => {});
  socket.on('data', (received) => {
    pending = pending.length ? Buffer.concat([pending, received]) : received;
    for (let size; pending.length >= 5 && pending.length >= 5 + (size = pending.readUInt32BE(1));) {
      const kind = String.fromCharCode(pending[0]);
      const data = pending.subarray(5, 5 + size);
      pending = pending.subarray(5 + size);
      if (kind === 'X') calls.get(Number(data))?.abort();
      else if (kind === 'H') [head, parts] = [JSON.parse(data), []];
      else if (kind === 'D') parts.push(data);
      else if (kind === 'E') serveCall(socket, handler, head, parts.length === 1 ? parts[0] : Buffer.concat(parts));
    }
  });
}

/** The user's file and line that an error comes from, '' and 0 if its stack does not tell. */
function locate(err) {
  const stack = isA(err, Error) ? String(err.stack) : '';
  for (const [, file, line] of stack.matchAll(/(?:^|\(|at |file:\/\/)(\/[^\n()]*?):(\d+)(?::\d+\)?)?$/gm)) {
    if (file.startsWith(`${appDir}/`)) return [file, Number(line)];
  }
  const [, importer] = /imported from (?:file:\/\/)?(\/[^\n]*)/.exec(err?.message ?? '') ?? [];
  if (importer && existsSync(importer)) {
    const name = /'([^']+)'/.exec(err.message)?.[1].split('/').pop() ?? '';
    return [importer, findLine(importer, (text) => /\b(import|from)\b/.test(text) && text.includes(name))];
  }
  return ['', 0];
}

/** Where an error of the handler comes from, for those who have no log at hand. Anything may have been thrown. */
function place(err) {
  const [file, line] = isA(err, Refused) ? ['', 0] : attempt(() => locate(err), ['', 0]);
  return { file: file.replace(`${appDir}/`, '').slice(0, maxText), line: Number.isSafeInteger(line) ? line : 0 };
}

const findLine = (file, wanted) => readFileSync(file, 'utf8').split('\n').findIndex(wanted) + 1;

/** Node keeps the place of a syntax error in an ES module to itself, but prints it when nobody catches the error. */
async function locateSyntax(url) {
  const { spawnSync } = await import('node:child_process');
  const args = ['--input-type=module', '--eval', `import ${JSON.stringify(url)}`];
  const { stderr = '' } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 10000 });
  const [, file, line] = /^(?:file:\/\/)?(\/.*):(\d+)$/m.exec(stderr) ?? [];
  return file ? [file, Number(line)] : ['', 0];
}

const report = (status) => writeSync(statusFd, `${JSON.stringify(status)}\n`);

async function load() {
  const dot = entrypoint.lastIndexOf('.');
  const [stem, name] = [entrypoint.slice(0, dot), entrypoint.slice(dot + 1)];
  const file = extensions.map((extension) => `${appDir}/${stem}${extension}`).find((path) => existsSync(path));
  const url = file && new URL(`file://${encodeURI(file)}`).href;
  try {
    if (!file) throw new LoadError('the file does not exist');
    const module = await import(url);
    const handler = module[name] ?? module.default?.[name];
    if (handler === undefined) throw new LoadError(`function '${name}' is not exported`);
    if (typeof handler !== 'function') {
      const text = `'${name}' is of type ${typeName(handler)}, not a function`;
      throw new LoadError(text, { cause: findLine(file, (line) => line.split(/[^\w$]+/).includes(name)) });
    }
    return handler;
  } catch (err) {
    const ours = isA(err, LoadError);
    let [path, line] = ours ? ['', err.cause ?? 0] : attempt(() => locate(err), ['', 0]);
    if (!path && isA(err, SyntaxError)) [path, line] = await locateSyntax(url);
    if (!ours) printError(err);
    const shown = (path || file || `${appDir}/${stem}${extensions[0]}`).replace(`${appDir}/`, '');
    report({ ok: false, file: shown, line, error: ours ? err.message : describe(err) });
    process.exit(1);
  }
}

process.on('uncaughtExceptionMonitor', (err) => {
  report({ crash: describe(err), ...place(err) });
});
const handler = await load();
createServer((socket) => serve(socket, handler)).listen(socketPath, 1024, () => report({ ok: true }));
