// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/internal/naming"
)

const helloVirtualHost = "hello.sless-fn-demo.fn.sless.internal"

// asWatchdog answers as a watchdog does.
func asWatchdog(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set(HeaderRequestID, r.Header.Get(HeaderRequestID))
	_, _ = fmt.Fprintf(w, "%s host=%s forwarded=%s %s", r.Method, r.Host, r.Header.Get("X-Forwarded-Host"), body)
}

// interceptor passes calls of one virtual host on to upstream, as KEDA's does.
func interceptor(t testing.TB, upstream string, cold bool) http.HandlerFunc {
	t.Helper()
	target, err := url.Parse("http://" + upstream)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-Host"] = r.In.Header["X-Forwarded-Host"]
		},
		ModifyResponse: func(res *http.Response) error {
			res.Header.Set(headerKedaColdStart, fmt.Sprint(cold))
			return nil
		},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Host != helloVirtualHost {
			http.Error(w, "no route for "+r.Host, http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r)
	}
}

// scaling is a resolver that knows demo/hello as a function that scales.
func scaling(host string, cold bool) *staticResolver {
	resolver := routeTo(host, testTimeout)
	route := resolver.routes[hello]
	route.Scales, route.VirtualHost, route.Cold = true, helloVirtualHost, cold
	resolver.routes[hello] = route
	return resolver
}

func through(interceptor string) func(*Config) {
	return func(c *Config) { c.Interceptor = interceptor }
}

func TestCallsOfScalingFunctionsGoThroughTheInterceptor(t *testing.T) {
	t.Parallel()
	for _, cold := range []bool{true, false} {
		t.Run(fmt.Sprintf("cold %v", cold), func(t *testing.T) {
			t.Parallel()
			upstream := startUpstream(t, asWatchdog)
			hop := startUpstream(t, interceptor(t, upstream, cold))
			// The Service's own address leads nowhere: who goes straight fails.
			g := startGateway(t, scaling("127.0.0.1:1", cold), through(hop))
			req := newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader("body"))
			req.Host = "fn.example.com"
			a := do(t, newClient(t), req)
			want := "POST host=" + helloVirtualHost + " forwarded=fn.example.com body"
			if a.status != http.StatusOK || a.body != want {
				t.Errorf("got %d %q, want %q", a.status, a.body, want)
			}
			if got := a.header.Get(headerColdStart); got != fmt.Sprint(cold) || a.header.Get(headerKedaColdStart) != "" {
				t.Errorf("cold start header %q, of KEDA %q", got, a.header.Get(headerKedaColdStart))
			}
			timings := strings.Join(a.header.Values(headerServerTiming), " ")
			if got := strings.Contains(timings, "start;dur=") && strings.Contains(timings, "wait;dur="); got != cold {
				t.Errorf("Server-Timing %q", timings)
			}
		})
	}
}

func TestOtherFunctionsGoStraight(t *testing.T) {
	t.Parallel()
	g := startGateway(t, routeTo(startUpstream(t, asWatchdog), testTimeout), through("127.0.0.1:1"))
	a := get(t, g.url+"/fn/demo/hello")
	if a.status != http.StatusOK || a.header.Get(headerColdStart) != "" || a.header.Get(headerServerTiming) != "" {
		t.Errorf("got %d %q %v", a.status, a.body, a.header)
	}
}

func TestARouteThatIsNotLoadedYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t, asWatchdog)
	loaded := interceptor(t, upstream, true)
	var calls atomic.Int32
	hop := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) < 4 {
			_, _ = io.ReadAll(r.Body)
			http.Error(w, "no route", http.StatusNotFound)
			return
		}
		loaded(w, r)
	})
	g := startGateway(t, scaling("127.0.0.1:1", true), through(hop))
	a := do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader("once")))
	if a.status != http.StatusOK || !strings.HasSuffix(a.body, "once") {
		t.Errorf("got %d %q after %d tries", a.status, a.body, calls.Load())
	}
}

func TestARouteThatIsNeverLoadedIsGoneAround(t *testing.T) {
	t.Parallel()
	hop := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		http.Error(w, "no route", http.StatusNotFound)
	})
	g := startGateway(t, scaling(startUpstream(t, asWatchdog), true), through(hop))
	a := do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader("once")))
	if a.status != http.StatusOK || !strings.HasSuffix(a.body, "once") {
		t.Errorf("got %d %q, though a replica runs", a.status, a.body)
	}
}

func TestWhatTheInterceptorAnswersItself(t *testing.T) {
	t.Parallel()
	refused := &Refusal{Status: 503, Reason: "ImagePullFailed", Message: "the image cannot be pulled"}
	tests := map[string]struct {
		status     int
		resolved   bool
		refusal    *Refusal
		wantStatus int
		wantReason string
	}{
		"never knows it":             {status: 404, wantStatus: 503, wantReason: reasonNotRouted},
		"nothing became ready":       {status: 504, wantStatus: 504, wantReason: reasonStartTimeout},
		"and the condition says why": {status: 504, refusal: refused, wantStatus: 503, wantReason: "ImagePullFailed"},
		"a replica was too slow":     {status: 504, resolved: true, wantStatus: 504, wantReason: reasonTimeout},
		"could not connect":          {status: 502, wantStatus: 502, wantReason: reasonUpstreamFailed},
		"is broken":                  {status: 500, wantStatus: 502, wantReason: reasonUpstreamFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver := &wakingResolver{staticResolver: scaling("127.0.0.1:1", true)}
			hop := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				resolver.refuse(tc.refusal)
				if tc.resolved {
					w.Header().Set(headerKedaColdStart, "false")
				}
				http.Error(w, "interceptor", tc.status)
			})
			g := startGateway(t, resolver, through(hop))
			checkRefusal(t, get(t, g.url+"/fn/demo/hello"), tc.wantStatus, tc.wantReason)
		})
	}
}

func TestTheCauseInTheAutoscalerIsTold(t *testing.T) {
	t.Parallel()
	hop := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusGatewayTimeout) })
	for interceptor, want := range map[string]struct {
		status int
		reason string
	}{hop: {504, reasonStartTimeout}, "127.0.0.1:1": {502, reasonConnectFailed}} {
		t.Run(want.reason, func(t *testing.T) {
			t.Parallel()
			resolver := scaling("127.0.0.1:1", true)
			route := resolver.routes[hello]
			route.Trouble = "a part is away"
			resolver.routes[hello] = route
			g := startGateway(t, resolver, through(interceptor), func(c *Config) { c.ConnectWindow = time.Millisecond })
			body := checkRefusal(t, get(t, g.url+"/fn/demo/hello"), want.status, want.reason)
			if !strings.HasSuffix(body.Error, ": a part is away") {
				t.Errorf("message %q", body.Error)
			}
		})
	}
}

// wakingResolver changes its mind about demo/hello during a call.
type wakingResolver struct {
	*staticResolver
	mu sync.Mutex
}

func (r *wakingResolver) refuse(refusal *Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refusal != nil {
		r.refusals = map[types.NamespacedName]*Refusal{hello: refusal}
	}
}

func (r *wakingResolver) Resolve(ctx context.Context, fn types.NamespacedName) (Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.staticResolver.Resolve(ctx, fn)
}

func TestAFunctionsOwnErrorsAreItsOwn(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			upstream := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(HeaderRequestID, r.Header.Get(HeaderRequestID))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "mine")
			})
			g := startGateway(t, scaling("127.0.0.1:1", false), through(startUpstream(t, interceptor(t, upstream, false))))
			a := get(t, g.url+"/fn/demo/hello")
			if diff := cmp.Diff([]any{status, "mine"}, []any{a.status, a.body}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutAnInterceptorCallsGoToRunningReplicas(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	_ = listener.Close()
	g := startGateway(t, scaling(startUpstream(t, asWatchdog), false), through(gone))
	a := do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader("body")))
	if a.status != http.StatusOK || !strings.HasSuffix(a.body, "body") {
		t.Errorf("got %d %q", a.status, a.body)
	}
}

func TestReplicasThatAreFullAreAskedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		refusals   int32
		own        bool
		wantStatus int
		wantCalls  int32
	}{
		"full for a moment":      {refusals: 3, wantStatus: 200, wantCalls: 4},
		"the function's own 429": {refusals: 1, own: true, wantStatus: 429, wantCalls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			upstream := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > tc.refusals {
					asWatchdog(w, r)
					return
				}
				w.Header().Set(HeaderRequestID, r.Header.Get(HeaderRequestID))
				if !tc.own {
					w.Header().Set(naming.BusyHeader, "true")
				}
				w.WriteHeader(http.StatusTooManyRequests)
			})
			hop := startUpstream(t, interceptor(t, upstream, true))
			g := startGateway(t, scaling("127.0.0.1:1", true), through(hop))
			a := do(t, newClient(t), newRequest(t, http.MethodPost, g.url+"/fn/demo/hello", strings.NewReader("body")))
			if a.status != tc.wantStatus || calls.Load() != tc.wantCalls || a.status == 200 && !strings.HasSuffix(a.body, "body") {
				t.Errorf("got %d %q after %d calls, want %d after %d", a.status, a.body, calls.Load(), tc.wantStatus, tc.wantCalls)
			}
		})
	}
}

// TestInternalHeadersDoNotReachCallers has answers with what only the parts of sless say to each other. The first function is
// called directly and the second through the interceptor, which says something else about the cold start.
func TestInternalHeadersDoNotReachCallers(t *testing.T) {
	t.Parallel()
	forging := func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{naming.BusyHeader, headerColdStart, headerKedaColdStart} {
			w.Header().Set(name, "true")
		}
		asWatchdog(w, r)
	}
	upstream := startUpstream(t, forging)
	for wantCold, resolver := range map[string]*staticResolver{
		"": routeTo(upstream, testTimeout), "false": scaling("127.0.0.1:1", false),
	} {
		t.Run("cold "+wantCold, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, resolver, through(startUpstream(t, interceptor(t, upstream, false))))
			a := get(t, g.url+"/fn/demo/hello")
			got := http.Header{}
			for name, values := range a.header {
				if naming.IsInternalHeader(name) {
					got[name] = values
				}
			}
			want := http.Header{}
			if wantCold != "" {
				want[headerColdStart] = []string{wantCold}
			}
			if diff := cmp.Diff(want, got); diff != "" || a.status != http.StatusOK {
				t.Errorf("status %d, (-want +got):\n%s", a.status, diff)
			}
		})
	}
}

// TestABusyAnswerIsTheCallersWithoutTheMark has replicas that stay full for as long as the gateway asks.
func TestABusyAnswerIsTheCallersWithoutTheMark(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderRequestID, r.Header.Get(HeaderRequestID))
		w.Header().Set(naming.BusyHeader, "true")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	g := startGateway(t, routeTo(upstream, testTimeout))
	if a := get(t, g.url+"/fn/demo/hello"); a.status != http.StatusTooManyRequests || a.header.Get(naming.BusyHeader) != "" {
		t.Errorf("got %d %v", a.status, a.header)
	}
}

func TestCallsThatWaitForAColdFunctionAreBounded(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	upstream := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		asWatchdog(w, r)
	})
	hop := startUpstream(t, interceptor(t, upstream, true))
	g := startGateway(t, scaling("127.0.0.1:1", true), through(hop), func(c *Config) { c.MaxWaiting = 2 })
	answers := make(chan answer, 2)
	for range 2 {
		go func() { answers <- get(t, g.url+"/fn/demo/hello") }()
		receive(t, arrived)
	}
	a := get(t, g.url+"/fn/demo/hello")
	checkRefusal(t, a, http.StatusTooManyRequests, reasonTooManyRequests)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(release)
	for range 2 {
		if a := receive(t, answers); a.status != http.StatusOK {
			t.Errorf("a call that waited got %d %q", a.status, a.body)
		}
	}
}

func TestThePartsOfAWaitAddUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ handler, load, want []string }{
		"of a watchdog": {[]string{"handler;dur=12.5"}, []string{"load;dur=30.0"}, []string{
			"handler;dur=12.5", "load;dur=30.0", "start;dur=657.5", "wait;dur=700.0",
		}},
		"of an older watchdog":    {[]string{"handler;dur=100"}, nil, []string{"handler;dur=100", "start;dur=600.0", "wait;dur=700.0"}},
		"a stream came meanwhile": {[]string{"handler;dur=800"}, nil, []string{"handler;dur=800", "wait;dur=700.0"}},
		"the handler's own before": {[]string{"handler;dur=500", "load;dur=1"}, []string{"handler;dur=100.0", "load;dur=30.0"}, []string{
			"handler;dur=500", "load;dur=1", "handler;dur=100.0", "load;dur=30.0", "start;dur=570.0", "wait;dur=700.0",
		}},
		"a user's own": {[]string{"handler;dur=-1", "db;dur=9"}, nil, []string{"handler;dur=-1", "db;dur=9", "start;dur=700.0", "wait;dur=700.0"}},
	}
	for name, tc := range tests {
		header := http.Header{headerServerTiming: append(tc.handler, tc.load...)}
		markColdStart(header, "true", 700*time.Millisecond)
		if diff := cmp.Diff(tc.want, header.Values(headerServerTiming)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
