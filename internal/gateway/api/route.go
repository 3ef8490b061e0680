// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naeel/sless/internal/gateway"
	"github.com/naeel/sless/internal/gateway/auth"
	"github.com/naeel/sless/internal/naming"
)

// route is one operation. openapi.json describes the same ones, and a test compares them.
type route struct {
	method string
	// path is a pattern of http.ServeMux. {ns} is the caller's namespace, which is checked before the handler runs, and
	// {name} the name of an object in it.
	path   string
	handle func(w http.ResponseWriter, r *http.Request) error
}

func (s *Server) routes() []route {
	return []route{
		{http.MethodPost, "/v1/namespaces/{ns}/functions/{name}/upload", s.upload},
		{http.MethodGet, "/v1/openapi.json", serveOpenAPI},
	}
}

func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, route := range s.routes() {
		mux.Handle(route.method+" "+route.path, s.handler(route.path, route.handle))
		methods[route.path] = append(methods[route.path], route.method)
	}
	for pattern, allowed := range methods {
		mux.Handle(pattern, s.handler(pattern, func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return fail(http.StatusMethodNotAllowed, "%s takes %s only", r.URL.Path, strings.Join(allowed, ", "))
		}))
	}
	mux.Handle("/", s.handler("/", func(http.ResponseWriter, *http.Request) error { return errNoRoute }))
	return mux
}

// handler makes a handler of net/http. When the pattern has a namespace, the caller must own it.
func (s *Server) handler(pattern string, handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	tenantOnly := strings.Contains(pattern, "{ns}")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := error(nil)
		if tenantOnly {
			err = checkNamespace(r)
		}
		if err == nil {
			err = handle(w, r)
		}
		if err != nil {
			s.writeError(w, r, err)
		}
	})
}

type subjectKey struct{}

// checkNamespace compares the namespace in the path with that of the token.
func checkNamespace(r *http.Request) error {
	subject, ok := r.Context().Value(subjectKey{}).(string)
	if !ok {
		return errors.New("a request came past the authentication") // a bug; it must not open anything
	}
	if own := naming.TenantNamespace(subject); r.PathValue("ns") != own {
		return fail(http.StatusForbidden, "the token is for namespace %s only", own)
	}
	// Names that Kubernetes would not take cannot exist, and they must not get into the paths of its API.
	if name := r.PathValue("name"); name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return fail(http.StatusNotFound, "the path does not hold a valid name")
	}
	return nil
}

// ServeHTTP serves the API port.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := gateway.RequestID(r.Header)
	h := w.Header()
	h.Set(gateway.HeaderRequestID, id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	rec := &recorder{ResponseWriter: w}
	if r.ContentLength != 0 {
		// Before an answer goes out, the server reads some of a body that was left alone. Without this a client that does
		// not send it would hold the connection for ever.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(stallTimeout))
	}
	subject, err := s.admit(r)
	ctx := context.WithValue(context.WithValue(r.Context(), requestIDKey{}, id), subjectKey{}, subject)
	r = r.WithContext(ctx)
	defer func() { s.cfg.Metrics.count(r.Pattern, rec.status) }()
	if err != nil {
		s.writeError(rec, r, err)
		return
	}
	s.mux.ServeHTTP(rec, r)
}

// admit tells whose request it is, or why it gets no further.
func (s *Server) admit(r *http.Request) (subject string, err error) {
	// The mux would answer an unclean path with a redirect.
	if !strings.HasPrefix(r.URL.Path, "/v1/") || path.Clean(r.URL.Path) != r.URL.Path {
		return "", errNoRoute
	}
	if s.cfg.Unavailable != "" {
		return "", fail(http.StatusServiceUnavailable, "%s", s.cfg.Unavailable)
	}
	token, err := auth.FromRequest(r)
	if err == nil {
		subject, err = s.cfg.Verifier.Verify(r.Context(), token)
	}
	return subject, explainAuth(err)
}

func explainAuth(err error) error {
	var invalid *auth.InvalidTokenError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, auth.ErrNoToken):
		return &Error{Status: http.StatusUnauthorized, Message: err.Error(), challenge: `Bearer realm="sless"`}
	case errors.As(err, &invalid):
		return &Error{
			Status: http.StatusUnauthorized, Message: invalid.Problem,
			challenge: fmt.Sprintf(`Bearer realm="sless", error="invalid_token", error_description="%s"`, invalid.Problem),
		}
	case errors.Is(err, auth.ErrKeysUnavailable):
		return &Error{
			Status: http.StatusServiceUnavailable, RetryAfter: keysRetryAfter, cause: err,
			Message: "the token cannot be checked now, because its issuer does not give out its keys; try again",
		}
	default:
		return err
	}
}
