// SPDX-License-Identifier: Apache-2.0

// Package gateway is the way in from outside: its public port passes calls of /fn/<namespace>/<name> on to the pods of
// functions. It looks up Functions in a cache and holds no state of its own, so any number of replicas may run.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

const (
	readHeaderTimeout = 10 * time.Second
	clientIdleTimeout = 2 * time.Minute
	maxClientHeader   = 64 << 10
	// abortGrace is how long calls and upgraded connections get to end after they were told to.
	abortGrace = 5 * time.Second
	// metricsTimeout bounds one scrape.
	metricsTimeout = 10 * time.Second
)

// Config is how a gateway is set up.
type Config struct {
	// PublicAddress is where calls of functions arrive, such as ":8080".
	PublicAddress string
	// MetricsAddress is where metrics are served. "0" switches that off.
	MetricsAddress string
	// TrustedProxies are the peers whose X-Forwarded headers are believed.
	TrustedProxies TrustedProxies
	// MaxPending is how many calls of one function may be in this gateway beyond those that its replicas take at once. Further
	// ones get 429.
	MaxPending int
	// ConnectWindow is how long a connection to a function is tried for. The function's own timeout bounds it too.
	ConnectWindow time.Duration
	// Interceptor is host:port of the autoscaler's interceptor, through which calls of functions that scale go.
	Interceptor string
	// StartupTimeout is how long a call of a function that scales may wait for its first replica.
	StartupTimeout time.Duration
	// MaxWaiting is how many calls may wait for the first replica of one function. Further ones get 429.
	MaxWaiting int
	// TimeoutGrace is added to a function's timeout, so that its own answer about a timeout comes first.
	TimeoutGrace time.Duration
	// ShutdownDelay is how long the gateway goes on after it was told to stop, while /readyz already fails and the cluster
	// takes it out of its Service.
	ShutdownDelay time.Duration
	// DrainTimeout is how long calls in flight may go on after that.
	DrainTimeout time.Duration
	// ConnectionMaxIdle is how often idle connections to functions are closed, so that new replicas get their share.
	ConnectionMaxIdle time.Duration
	// Now is the clock. The default is the real one.
	Now func() time.Time
	// Log is where the gateway reports.
	Log logr.Logger
}

// Server is a gateway.
type Server struct {
	cfg       Config
	resolver  Resolver
	proxy     *proxy
	gatherer  prometheus.Gatherer
	transport *http.Transport

	stopping context.Context // ends when the gateway was told to stop
	stop     context.CancelFunc
	calls    sync.WaitGroup // calls of functions, upgraded connections included
}

// New returns a gateway that has not been started. The metrics of gatherer are served.
func New(cfg Config, resolver Resolver, metrics *Metrics, gatherer prometheus.Gatherer) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	transport := newTransport()
	s := &Server{
		cfg: cfg, resolver: resolver, gatherer: gatherer, transport: transport,
		proxy: newProxy(cfg, resolver, metrics, transport),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// ServeHTTP serves the public port: calls of functions, /healthz and /readyz. A host that belongs to a function is all its
// own, /healthz included. There is no mux, because that would clean paths and redirect, and a function's paths are its own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, id: RequestID(r.Header), last: s.stopping.Err() != nil}
	path := rawPath(r.URL)
	if fn, ok := s.resolver.Host(r.Host); ok {
		s.serveCall(rec, r, hostTarget(fn, r.Host, path))
		return
	}
	switch {
	case path == "/healthz":
		writeText(rec, http.StatusOK, "ok\n")
	case path == "/readyz":
		s.serveReady(rec)
	case strings.HasPrefix(path, publicPrefix):
		s.serveCall(rec, r, pathTarget(path))
	case !s.resolver.Ready():
		writeRefusal(rec, rec.id, starting()) // the host may be a function's
	default:
		writeRefusal(rec, rec.id, notFound("nothing is served here: functions are at "+publicPrefix+"<namespace>/<name>"))
	}
}

func (s *Server) serveCall(w *recorder, r *http.Request, to target) {
	s.calls.Add(1)
	defer s.calls.Done()
	s.proxy.serve(w, r, to)
}

func (s *Server) serveReady(w http.ResponseWriter) {
	switch {
	case s.stopping.Err() != nil:
		writeText(w, http.StatusServiceUnavailable, "the gateway is stopping\n")
	case !s.resolver.Ready():
		writeText(w, http.StatusServiceUnavailable, "the functions are not known yet\n")
	default:
		writeText(w, http.StatusOK, "ok\n")
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// Run serves until ctx ends, and then stops in order: /readyz fails, after ShutdownDelay no new connections are taken,
// and calls in flight get DrainTimeout to end.
func (s *Server) Run(ctx context.Context) error {
	listenConfig := net.ListenConfig{}
	public, err := listenConfig.Listen(ctx, "tcp", s.cfg.PublicAddress)
	if err != nil {
		return fmt.Errorf("listening on the public address: %w", err)
	}
	var metrics net.Listener
	if s.cfg.MetricsAddress != "0" {
		if metrics, err = listenConfig.Listen(ctx, "tcp", s.cfg.MetricsAddress); err != nil {
			return errors.Join(fmt.Errorf("listening on the metrics address: %w", err), public.Close())
		}
	}
	return s.serve(ctx, public, metrics)
}

// serve is Run on given listeners. metrics may be nil.
func (s *Server) serve(ctx context.Context, public, metrics net.Listener) error {
	base, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	publicServer := NewHTTPServer(s, s.cfg.Log)
	publicServer.MaxHeaderBytes = maxClientHeader
	publicServer.BaseContext = func(net.Listener) context.Context { return base }

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{Timeout: metricsTimeout}))
	metricsServer := NewHTTPServer(mux, s.cfg.Log)
	metricsServer.WriteTimeout = 2 * metricsTimeout

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return ServeUntilClosed(publicServer, public) })
	if metrics != nil {
		group.Go(func() error { return ServeUntilClosed(metricsServer, metrics) })
	}
	group.Go(func() error {
		<-ctx.Done()
		err := s.shutdown(publicServer, abort)
		return errors.Join(err, metricsServer.Close()) // last, so that draining can be watched
	})
	group.Go(func() error { s.rebalance(ctx); return nil })
	s.cfg.Log.Info("Serving functions", "address", public.Addr().String())
	return group.Wait()
}

// shutdown stops the public server in order.
func (s *Server) shutdown(server *http.Server, abort context.CancelCauseFunc) error {
	s.stop()
	s.cfg.Log.Info("Stopping", "delay", s.cfg.ShutdownDelay, "drain", s.cfg.DrainTimeout)
	time.Sleep(s.cfg.ShutdownDelay)

	drain, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.Info("Breaking off calls that did not end in time")
		err = nil
	}
	// Upgraded connections are out of the server's hands; this ends them, and calls that are still running.
	abort(errStopping)
	final, cancelFinal := context.WithTimeout(context.Background(), abortGrace)
	defer cancelFinal()
	_ = server.Shutdown(final) // lets the answers to broken-off calls go out
	ended := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-final.Done():
	}
	s.transport.CloseIdleConnections()
	return errors.Join(err, server.Close())
}

// rebalance closes idle connections now and then. A Service spreads connections and not calls over its pods, so without
// this a busy function's new replicas would get no calls.
func (s *Server) rebalance(ctx context.Context) {
	if s.cfg.ConnectionMaxIdle <= 0 {
		return
	}
	ticker := time.NewTicker(s.cfg.ConnectionMaxIdle)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.transport.CloseIdleConnections()
		}
	}
}

// NewHTTPServer returns a server without a limit on the whole of a request, because calls may stream for as long as
// they like.
func NewHTTPServer(handler http.Handler, logger logr.Logger) *http.Server {
	return &http.Server{
		Handler: handler,
		// OPTIONS * gets an answer of ours, with a request id.
		DisableGeneralOptionsHandler: true,

		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       clientIdleTimeout,
		ErrorLog:          newErrorLog(logger),
	}
}

// ServeUntilClosed serves until the server is closed or shut down, which is no error.
func ServeUntilClosed(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	}
	return nil
}

// newErrorLog passes on what net/http logs. Most of it is about clients that went away, so it is not shown by default.
func newErrorLog(logger logr.Logger) *log.Logger {
	return log.New(logWriter{logger.V(1)}, "", 0)
}

type logWriter struct{ logr.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.Info("Server message", "text", strings.TrimSpace(string(p)))
	return len(p), nil
}
