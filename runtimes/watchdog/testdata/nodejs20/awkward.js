// Fails in ways that make trouble for whoever looks at the failure. The kind is in the query.
const { inspect } = require('node:util');

const fail = (err) => { throw err; };
const trap = () => fail(new Error('trapped'));
const closed = () => new Proxy({}, new Proxy({}, { get: () => trap }));
const withGetter = (name) => Object.defineProperty(new Error('x'), name, { get: trap });

function revoked() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

async function* failInStream() {
  yield 'first';
  throw closed();
}

const kinds = {
  pid: () => String(process.pid),
  message: () => fail(withGetter('message')),
  stack: () => fail(withGetter('stack')),
  name: () => fail(Object.assign(new Error('x'), { name: Symbol('n') })),
  inspect: () => fail(Object.assign(new Error('boom'), { [inspect.custom]: trap })),
  null: () => fail(null),
  undefined: () => fail(undefined),
  symbol: () => fail(Symbol('s')),
  'no prototype': () => fail(Object.create(null)),
  'no text': () => fail({ toString: trap }),
  closed: () => fail(closed()),
  revoked: () => fail(revoked()),
  'closed function': () => fail(new Proxy(() => {}, { get: trap, getPrototypeOf: trap })),
  surrogate: () => fail(new Error('a\ud800b')),
  huge: () => fail(new Error('x'.repeat(3 << 20))),
  'odd stack': () => fail(Object.assign(new Error('x'), { stack: `at ${__dirname}/a.js:${'9'.repeat(40)}` })),
  rejected: () => Promise.reject(closed()),
  result: () => ({ toJSON: () => fail(new Error('lost')) }),
  'null from result': () => ({ toJSON: () => fail(null) }),
  'closed from result': () => ({ toJSON: () => fail(closed()) }),
  'huge from result': () => ({ toJSON: () => fail(new Error('x'.repeat(3 << 20))) }),
  'closed result': closed,
  log: (context) => { context.logger.info(closed(), { [inspect.custom]: trap }); fail(new Error('logged')); },
  stream: failInStream,
};

exports.handle = (event, context) => kinds[event.kind](context);
