// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/naeel/sless/runtimes/watchdog/internal/early"
	"github.com/naeel/sless/runtimes/watchdog/internal/invoke"
	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

const (
	maxHeaderBytes    = 64 << 10
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is longer than that of any client we know, so that the client is who closes an idle connection and
	// never sends a call into a closing one.
	idleTimeout = 10 * time.Minute
	// readyHold is how long a readiness probe waits for the handler. It is below the time-out of the pods' probe, 2 s.
	readyHold = 1500 * time.Millisecond
	readyPoll = 5 * time.Millisecond
)

// server is one function container.
type server struct {
	*options
	supervisor *worker.Supervisor
	function   *http.Server
	admin      *http.Server
	draining   atomic.Bool
	log        *slog.Logger
}

// serve answers calls until ctx ends, then lets the calls in flight finish. An error is why the function cannot be
// served any more.
func serve(ctx context.Context, o *options, cfg worker.Config, log *slog.Logger) error {
	s, err := newServer(o, cfg, log)
	if err != nil {
		return err
	}
	workerCtx, stopWorker := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorker()
	failed := make(chan error, 3)
	for _, part := range []struct {
		name   string
		server *http.Server
		port   int
	}{{"admin", s.admin, o.adminPort}, {"function", s.function, o.port}} {
		listener, err := listen(part.port)
		if err != nil {
			return fmt.Errorf("cannot listen: %w", err)
		}
		log.Info("Listening", "server", part.name, "address", listener.Addr().String())
		go func() {
			if err := part.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	defer func() { _ = s.admin.Close() }()
	// The ports are open before the worker starts, so that the first readiness probe finds somebody to wait for it.
	go func() { failed <- s.supervisor.Run(workerCtx) }()
	select {
	case err := <-failed:
		_ = s.function.Close()
		return err
	case <-ctx.Done():
	}
	s.drain()
	stopWorker()
	return <-failed
}

// listen returns the listener of a port, the one that is open since the program began if there is one.
func listen(port int) (net.Listener, error) {
	fd, ok := early.Take(port)
	if !ok {
		return net.Listen("tcp", ":"+strconv.Itoa(port))
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer func() { _ = file.Close() }()
	return net.FileListener(file)
}

func newServer(o *options, cfg worker.Config, log *slog.Logger) (*server, error) {
	metrics, registry := invoke.NewMetrics(), prometheus.NewRegistry()
	if err := errors.Join(metrics.Register(registry), registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, err
	}
	launch := func(ctx context.Context) (*worker.Process, error) { return worker.Start(ctx, cfg) }
	s := &server{options: o, supervisor: worker.NewSupervisor(launch, log), log: log}
	s.supervisor.OnRestart = metrics.Restarted
	handler := &invoke.Handler{
		Workers: s.supervisor, Timeout: o.timeout, MaxBodyBytes: o.maxBodyBytes, Concurrency: o.concurrency,
		Metrics: metrics, Log: log, Now: time.Now,
	}
	s.supervisor.OnLoad = func(took time.Duration) {
		metrics.Loaded(took)
		handler.Loaded(took)
	}
	s.function = &http.Server{
		Handler: s.closeWhileDraining(handler), MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout: idleTimeout, DisableGeneralOptionsHandler: true,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("/readyz", s.readyz)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.admin = &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	return s, nil
}

// readyz answers when the handler is loaded, or when it has waited long enough. A probe that failed would be sent again a
// second later only, so that a handler which loads in a moment would seem to take a second.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	s.awaitReady(r.Context())
	switch {
	case s.draining.Load():
		http.Error(w, "draining", http.StatusServiceUnavailable)
	case !s.supervisor.Ready():
		http.Error(w, "the handler is not loaded", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write([]byte("ok\n"))
	}
}

func (s *server) awaitReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyHold)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for !s.supervisor.Ready() && !s.draining.Load() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// closeWhileDraining makes clients open their next connection elsewhere. Idle connections stay open during the drain
// delay: closing them at once would break calls that are just being sent.
func (s *server) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// drain stops taking calls and waits for those in flight, at most for the drain timeout.
func (s *server) drain() {
	s.draining.Store(true)
	s.log.Info("Draining", "timeout", s.drainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.drainTimeout)
	defer cancel()
	select {
	case <-time.After(s.drainDelay):
	case <-ctx.Done():
	}
	if err := s.function.Shutdown(ctx); err != nil {
		s.log.Error("Breaking off calls that did not end within the drain timeout", "err", err)
		_ = s.function.Close()
	}
}
