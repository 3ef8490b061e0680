// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// flushInterval is how long a part of an answer may wait for the next one when the function has announced the length
	// of its answer. It saves a system call per call and a tenth of the gateway's processor time. ReverseProxy sends the
	// parts of all other answers, streams and server-sent events above all, at once.
	flushInterval = time.Millisecond
	// copyBufferBytes is what one direction of a call holds in memory.
	copyBufferBytes = 32 << 10
	// maxUploadTime bounds the time in which a client sends its body, as long as the function has not begun to answer. It
	// equals the longest timeout that a Function may have.
	maxUploadTime = 15 * time.Minute
)

// Resolver tells where the calls of a function go.
type Resolver interface {
	// Resolve returns the route of a function. The error is a *Refusal when the function does not exist or does not
	// answer calls. A Refusal with another status than 404 means that the function exists.
	Resolve(ctx context.Context, fn types.NamespacedName) (Route, error)
	// Host returns the function that is served at the root of a host, if there is one. host is that of a request.
	Host(host string) (types.NamespacedName, bool)
	// Admit says why the Triggers of a function do not let a call in, or returns nil. host is empty when the function is
	// called by its path.
	Admit(fn types.NamespacedName, host string, r *http.Request) *Refusal
	// Ready reports whether all functions and Triggers are known.
	Ready() bool
}

// proxy passes calls on to functions.
type proxy struct {
	resolver Resolver
	limiter  *limiter
	metrics  *Metrics
	trusted  TrustedProxies
	grace    time.Duration
	// maxPending, and maxWaiting while no replica is ready, bound the calls of a function that have to wait. startup bounds the
	// wait for the first replica of a function that scales.
	maxPending, maxWaiting int
	startup                time.Duration
	now                    func() time.Time
	log                    logr.Logger
	reverse                *httputil.ReverseProxy
}

func newProxy(cfg Config, resolver Resolver, metrics *Metrics, next http.RoundTripper) *proxy {
	p := &proxy{
		resolver: resolver,
		limiter:  newLimiter(),
		metrics:  metrics,
		trusted:  cfg.TrustedProxies,
		grace:    cfg.TimeoutGrace,
		startup:  cfg.StartupTimeout, maxPending: cfg.MaxPending, maxWaiting: cfg.MaxWaiting,
		now: cfg.Now,
		log: cfg.Log,
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: p.modifyResponse,
		ErrorHandler:   p.handleError,
		Transport: &retrier{
			next:   &wakingTransport{next: next, interceptor: cfg.Interceptor, window: repeatWindow},
			window: cfg.ConnectWindow,
		},
		FlushInterval: flushInterval,
		BufferPool:    &bufferPool{},
		ErrorLog:      newErrorLog(cfg.Log),
	}
	return p
}

// serve answers one call. What w has recorded afterwards goes into the metrics.
func (p *proxy) serve(w *recorder, r *http.Request, to target) {
	observed := p.metrics.begin(p.now())
	aborted := true // until this function ends without a panic
	defer func() {
		observed.end(p.now(), w.status, aborted)
		if observed.fn.Name != "" && p.isGone(r.Context(), observed.fn) {
			p.metrics.Forget(observed.fn) // the call has outlived its function, and so made its series anew
		}
	}()

	if refusal := p.forward(w, r, to, observed); refusal != nil {
		writeRefusal(w, w.id, refusal)
	}
	aborted = false
}

// isGone tells whether a function exists no more, or is being deleted.
func (p *proxy) isGone(ctx context.Context, fn types.NamespacedName) bool {
	_, err := p.resolver.Resolve(context.WithoutCancel(ctx), fn)
	refusal, ok := errors.AsType[*Refusal](err)
	return ok && refusal.Status == http.StatusNotFound
}

// forward passes a call on, or says why not.
func (p *proxy) forward(w *recorder, r *http.Request, to target, observed *observation) *Refusal {
	fn := to.function
	if fn.Name == "" {
		return notFound("the path names no function: it must be " + publicPrefix + "<namespace>/<name>")
	}
	if r.Method == http.MethodConnect {
		return &Refusal{
			Status: http.StatusMethodNotAllowed, Reason: reasonMethodNotAllowed,
			Message: "CONNECT is not supported",
		}
	}
	if !p.resolver.Ready() {
		return starting()
	}
	route, err := p.resolver.Resolve(r.Context(), fn)
	if err != nil {
		refusal := new(Refusal)
		if !errors.As(err, &refusal) {
			p.log.Error(err, "Resolving a function failed", "function", fn, "requestID", w.id)
			return internalError()
		}
		if refusal.Status != http.StatusNotFound {
			observed.exists(fn)
		}
		return refusal
	}
	observed.exists(fn)
	if refusal := p.resolver.Admit(fn, to.host, r); refusal != nil {
		return refusal
	}
	limit := p.limitOf(route)
	if !p.limiter.acquire(fn, limit) {
		return tooManyRequests(fn, limit)
	}
	defer p.limiter.release(fn)
	observed.accepted()
	p.pass(w, r, &call{route: route, path: to.path, prefix: to.prefix, id: w.id, observed: observed})
	return nil
}

// limitOf is how many calls of a function may be in this gateway: those that its replicas take, and some that wait. The number
// follows the replicas, so that it never keeps a function from growing.
func (p *proxy) limitOf(route Route) int {
	if route.Cold {
		return p.maxWaiting
	}
	return p.maxPending + route.Capacity
}

func (p *proxy) pass(w *recorder, r *http.Request, c *call) {
	if r.ContentLength != 0 {
		controller := http.NewResponseController(w)
		// Functions may answer while they read. Without this the server would eat the rest of the body when the answer
		// begins.
		_ = controller.EnableFullDuplex()
		c.body = &requestBody{inner: r.Body, conn: controller}
		w.body = c.body
		defer func() { c.body.finish(p.now().Add(lingerTime)) }()
	}
	limit := c.route.Timeout + p.grace
	if c.route.Scales {
		limit += p.startup
	}
	c.began = p.now()
	ctx := c.start(r.Context(), limit, maxUploadTime)
	defer c.end()
	in := r.WithContext(ctx) // a copy: the server must find its own body in r
	if c.body != nil {
		in.Body = c.body
	}
	p.reverse.ServeHTTP(w, in)
}

// rewrite turns the client's request into the one that the function gets.
//
// The function sees the Host that its client used, also as X-Forwarded-Host. The upstream is chosen by the URL alone,
// so nothing depends on it, and code that builds absolute links or serves several host names works as if the gateway
// were not there. Only the autoscaler's interceptor finds functions by Host, and wakingTransport sets one for it; the function
// gets its client's back from the watchdog.
func (p *proxy) rewrite(pr *httputil.ProxyRequest) {
	c := callFrom(pr.In.Context())
	in, out := pr.In, pr.Out
	out.URL.Scheme, out.URL.Host = "http", c.route.Host
	if !setTarget(out.URL, c.path) {
		out.URL.Host = "" // makes the transport refuse; the server has parsed the same path, so this cannot happen
	}
	// ReverseProxy has dropped parameters that it could not parse.
	out.URL.RawQuery = in.URL.RawQuery
	out.Host = in.Host
	out.Trailer = in.Trailer // the map that the server fills when the body has been read
	setForwarded(in, out, c.prefix, p.trusted)
	out.Header[HeaderRequestID] = []string{c.id}
}

// modifyResponse runs when the header of the function's answer is there.
func (p *proxy) modifyResponse(res *http.Response) error {
	c := callFrom(res.Request.Context())
	if !c.markAnswered() {
		return context.Cause(res.Request.Context())
	}
	c.observed.answered()
	if cold := takeInternal(res.Header); c.route.Scales {
		markColdStart(res.Header, cold, p.now().Sub(c.began))
	}
	res.Header[HeaderRequestID] = []string{c.id}
	if res.StatusCode == http.StatusSwitchingProtocols {
		// ReverseProxy strips hop-by-hop headers from all answers but this one.
		upgrade := res.Header.Get("Upgrade")
		stripHopByHop(res.Header)
		res.Header["Connection"] = []string{"Upgrade"}
		res.Header["Upgrade"] = []string{upgrade}
	}
	return nil
}

// handleError answers a call that the function did not answer.
func (p *proxy) handleError(w http.ResponseWriter, r *http.Request, err error) {
	c := callFrom(r.Context())
	rec, ok := w.(*recorder)
	if !ok || rec.hijacked {
		return // the connection is no longer ours to answer on
	}
	cause := context.Cause(r.Context())
	if cause != nil && !isOurs(cause) {
		rec.status = statusClientGone
		panic(http.ErrAbortHandler)
	}
	refusal := p.explainFailure(r.Context(), c, cause, err)
	if refusal.Status >= http.StatusInternalServerError {
		p.log.Info("Calling a function failed", "function", c.route.Function, "requestID", c.id,
			"reason", refusal.Reason, "cause", err.Error())
	}
	writeRefusal(rec, c.id, refusal)
}

// explainFailure says why a call got no answer. Of a function that did not wake, its own conditions know best.
func (p *proxy) explainFailure(ctx context.Context, c *call, cause, err error) *Refusal {
	refused := new(interceptorError)
	held := cause == nil && errors.As(err, &refused)
	now, resolveErr := p.resolver.Resolve(context.WithoutCancel(ctx), c.route.Function)
	if known := new(Refusal); held && errors.As(resolveErr, &known) {
		return known
	}
	refusal := c.explainFailure(cause, err)
	if held {
		refusal = c.explainInterceptor(refused, p.startup)
	}
	if refusal.Reason == reasonStartTimeout || refusal.Reason == reasonConnectFailed {
		refusal.Message = explain(refusal.Message, now.Trouble)
	}
	return refusal
}

func isOurs(cause error) bool {
	return errors.Is(cause, errTimeout) || errors.Is(cause, errClientStalled) || errors.Is(cause, errStopping)
}

// explainFailure says why a call got no answer. cause is why its context ended, nil when it did not.
func (c *call) explainFailure(cause, err error) *Refusal {
	fn := c.route.Function
	connectFailed := &Refusal{
		Status: http.StatusBadGateway, Reason: reasonConnectFailed, RetryAfter: time.Second,
		Message: fmt.Sprintf("no connection to function %s could be made", fn),
	}
	switch {
	case errors.Is(cause, errStopping):
		return &Refusal{
			Status: http.StatusServiceUnavailable, Reason: reasonStopping, RetryAfter: time.Second,
			Message: "the gateway is stopping",
		}
	case errors.Is(cause, errClientStalled):
		return &Refusal{
			Status: http.StatusRequestTimeout, Reason: reasonClientStalled,
			Message: "the request's body did not arrive in time",
		}
	case cause != nil && !c.connected():
		return connectFailed
	case cause != nil:
		return c.timedOut()
	case c.body != nil && c.body.broken.Load():
		return &Refusal{
			Status: http.StatusBadRequest, Reason: reasonBadRequest,
			Message: "the request's body could not be read",
		}
	case errors.As(err, new(*dialError)):
		return connectFailed
	default:
		return &Refusal{
			Status: http.StatusBadGateway, Reason: reasonUpstreamFailed,
			Message: fmt.Sprintf("function %s broke the connection before it answered", fn),
		}
	}
}

func (c *call) timedOut() *Refusal {
	return &Refusal{
		Status: http.StatusGatewayTimeout, Reason: reasonTimeout,
		Message: fmt.Sprintf("function %s did not answer within %s", c.route.Function, c.route.Timeout),
	}
}

// bufferPool keeps the buffers through which answers are copied.
type bufferPool struct{ pool sync.Pool }

// Get returns a buffer.
func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[copyBufferBytes]byte); ok {
		return buf[:]
	}
	return make([]byte, copyBufferBytes)
}

// Put takes a buffer back.
func (b *bufferPool) Put(buf []byte) {
	b.pool.Put((*[copyBufferBytes]byte)(buf))
}
