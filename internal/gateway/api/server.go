// SPDX-License-Identifier: Apache-2.0

// Package api is the gateway's API port: what tenants do with their own namespace, such as uploading code. It is never
// served on the public port, and every route needs a token whose namespace is the one in the path.
//
// It keeps no state, so any number of gateways may serve it.
package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/gateway/auth"
	"github.com/naeel/sless/internal/objectstore"
	"github.com/naeel/sless/internal/slots"
	"github.com/naeel/sless/internal/validator"
)

const (
	// maxHeaderBytes has room for the longest token.
	maxHeaderBytes = 2 * auth.MaxTokenBytes
	// DefaultMaxUploads is how many uploads one gateway works on at once.
	DefaultMaxUploads = 4
)

// Config is how the API port is set up.
type Config struct {
	// Address is where the API is served, such as ":8083".
	Address string
	// Unavailable says why the API cannot do its work, such as settings that are missing. When it is not empty, it is the
	// answer to every request, with 503, and the fields below are not used.
	Unavailable string
	// Verifier tells whose token a token is.
	Verifier auth.Verifier
	// Client reads and patches Functions. It must not read from a cache that leaves out the source.
	Client client.Client
	// Store takes the code.
	Store objectstore.Store
	// Review judges code before it is taken. A nil gate lets all code pass.
	Review *validator.Gate
	// Events takes an event for each upload that the review refused. It may be nil.
	Events events.EventRecorder
	// RefreshAfter is the age at which stored code that is uploaded again is stored again, so that it is not cleaned up
	// before the Function names it; zero means never. See objectstore.Keep.
	RefreshAfter time.Duration
	// UploadDir is where uploads are kept while they are worked on; the default is the system's folder for temporary
	// files. An upload takes up to about 320 MiB there: the zip, and what is made of it. The files have no names, so
	// nothing is left over however the gateway ends.
	UploadDir string
	// MaxUploads is how many uploads are worked on at once (DefaultMaxUploads), half of them for one namespace. Further
	// ones get 429.
	MaxUploads int
	// ShutdownDelay and DrainTimeout are as in gateway.Config.
	ShutdownDelay, DrainTimeout time.Duration
	// Metrics may be nil.
	Metrics *Metrics
	// Now is the clock by which Store tells the age of code. The default is the machine's.
	Now func() time.Time
	// Log is where the API reports.
	Log logr.Logger
}

// Server is the API port.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	uploads *slots.Slots
}

// New returns a server that has not been started.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxUploads == 0 {
		cfg.MaxUploads = DefaultMaxUploads
	}
	if cfg.UploadDir == "" {
		cfg.UploadDir = os.TempDir()
	}
	s := &Server{cfg: cfg, uploads: slots.New(cfg.MaxUploads)}
	s.mux = s.newMux()
	return s
}

// Run serves until ctx ends. It goes on for ShutdownDelay, then takes no new connections, and requests in flight get
// DrainTimeout to end.
func (s *Server) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("listening on the API address: %w", err)
	}
	return s.serveOn(ctx, listener)
}

func (s *Server) serveOn(ctx context.Context, listener net.Listener) error {
	base, abort := context.WithCancel(context.Background())
	defer abort()
	server := gateway.NewHTTPServer(s, s.cfg.Log)
	server.MaxHeaderBytes = maxHeaderBytes
	server.BaseContext = func(net.Listener) context.Context { return base }

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return gateway.ServeUntilClosed(server, listener) })
	group.Go(func() error {
		<-ctx.Done()
		time.Sleep(s.cfg.ShutdownDelay)
		drain, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
		defer cancel()
		err := server.Shutdown(drain)
		if errors.Is(err, context.DeadlineExceeded) {
			s.cfg.Log.Info("Breaking off API requests that did not end in time")
			err = nil
		}
		abort()
		return errors.Join(err, server.Close())
	})
	s.cfg.Log.Info("Serving the API", "address", listener.Addr().String())
	return group.Wait()
}
