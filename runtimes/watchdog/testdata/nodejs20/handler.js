// Answers each path with another kind of result. The Python handler beside it does the same.
const fs = require('node:fs');
const path = require('node:path');
const { execFileSync } = require('node:child_process');
const { setTimeout: sleep } = require('node:timers/promises');

let calls = 0;
const file = (name) => path.join(process.env.NOTES, name);
const note = (name, text = 'x') => fs.appendFileSync(file(name), text);

/** Waits until the test opens the gate. */
async function gate(name, signal) {
  while (!fs.existsSync(file(name))) {
    if (signal?.aborted) {
      note('cancelled');
      throw new Error('aborted');
    }
    await sleep(5);
  }
}

async function* chunks() {
  yield 'first\n';
  await gate('open');
  yield Buffer.from('second\n');
  yield { third: 3 };
}

async function* endless() {
  try {
    for (;;) {
      yield 'tick\n';
      await sleep(5);
    }
  } finally {
    note('closed');
  }
}

function* large() {
  for (let i = 0; i < 40; i++) yield 'x'.repeat(1 << 20); // more than a socket takes at once
}

/** An iterator that cannot be closed. */
const unclosable = () => ({
  [Symbol.iterator]() { return this; },
  next: () => ({ done: true }),
  return: () => { throw new Error('cannot be closed'); },
});

function* failing(good) {
  for (let i = 0; i < good; i++) yield `${i}\n`;
  throw new RangeError('stream broke');
}

async function* events() {
  for (let i = 0; i < 3; i++) {
    yield `id: ${i}\ndata: ${i}\n\n`;
    await gate(`event${i}`);
  }
}

function typeOf(event) {
  if (event === null) return 'NoneType';
  if (Buffer.isBuffer(event)) return 'bytes';
  if (Array.isArray(event)) return 'list';
  return { object: 'dict', string: 'str', number: 'int', boolean: 'bool' }[typeof event];
}

const results = {
  '/dict': () => ({ a: 1, ü: [true, null] }),
  '/list': async () => [1, 'two'],
  '/zero': () => 0,
  '/false': () => false,
  '/null': () => undefined,
  '/empty': () => '',
  '/text': () => 'grüße',
  '/bytes': () => Uint8Array.from({ length: 256 }, (_, i) => i),
  '/echo': (event) => event,
  '/type': typeOf,
  '/created': () => ({ statusCode: 201, headers: { 'Set-Cookie': ['a=1', 'b=2'], 'x-number': 7 }, body: { id: 1 } }),
  '/page': () => ({ statusCode: 200, headers: { 'content-type': 'text/html' }, body: '<p>' }),
  '/base64': () => ({ statusCode: 200, body: 'AP8=', isBase64Encoded: true }),
  '/not-base64': () => ({ statusCode: 200, body: 'A', isBase64Encoded: true }),
  '/nothing': () => ({ statusCode: 204 }),
  '/redirect': () => ({ statusCode: 302, headers: new Headers({ Location: '/there' }) }),
  '/hop': () => ({
    statusCode: 200, headers: { Connection: 'x', 'Transfer-Encoding': 'y', 'Content-Length': 1 }, body: 'whole',
  }),
  '/relay': () => ({
    statusCode: 429,
    headers: { 'x-sless-busy': 'true', 'X-Sless-Cold-Start': 'true', 'X-KEDA-HTTP-Cold-Start': 'true', 'X-Slessly': 'kept' },
    body: 'theirs',
  }),
  '/raise': () => { throw new TypeError('boom'); },
  '/collection': () => new Set([1, 2]),
  '/function': () => note,
  '/nan': () => NaN,
  '/bad-status': () => ({ statusCode: 'ok' }),
  '/low-status': () => ({ statusCode: 100 }),
  '/bad-header': () => ({ statusCode: 200, headers: { 'a b': 'c' } }),
  '/bad-value': () => ({ statusCode: 200, headers: { a: 'b\r\nc: d' } }),
  '/bad-headers': () => ({ statusCode: 200, headers: 'a' }),
  '/stream': chunks,
  '/stream-async': chunks,
  '/events': () => ({ statusCode: 200, headers: { 'content-type': 'text/event-stream' }, body: events() }),
  '/endless': endless,
  '/large': large,
  '/unclosable': unclosable,
  '/fail-first': () => failing(0),
  '/fail-late': () => failing(2),
  '/no-chunks': () => [][Symbol.iterator](),
  '/context': (event, context) => ({
    event, method: context.request.method, path: context.request.path, rawPath: context.request.rawPath,
    query: context.request.query, requestId: context.requestId, name: context.functionName,
    namespace: context.functionNamespace, inTime: context.remainingMs() > 0 && context.remainingMs() <= 60000,
    cookie: context.request.headers.cookie, multi: context.request.headers['x-multi'],
    host: context.request.headers.host,
  }),
  '/exit': () => { note('called'); process.exit(3); },
  '/throw-later': () => { setTimeout(() => { throw new TypeError('nobody catches this'); }, 0); return sleep(60000); },
  '/wait': async () => { note('called'); await gate('open'); return String(process.pid); },
  '/wait-async': async (event, context) => { note('called'); await gate('open', context.signal); return 'done'; },
  '/hang': () => { note('called'); return sleep(3600000); },
  '/spin': () => { note('called'); for (;;); },
  '/orphan': () => execFileSync('sh', ['-c', 'sleep 0.2 & echo $!'], { stdio: ['ignore', 'pipe', 'ignore'] }),
  '/log': (event, context) => {
    context.logger.info('from the logger');
    console.log('to stdout');
    console.error('to stderr');
  },
  '/pid': () => String(process.pid),
  '/count': () => ++calls,
};

exports.handle = (event, context) => results[context.request.path](event, context);
