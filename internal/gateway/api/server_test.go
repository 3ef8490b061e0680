// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/naeel/sless/internal/gateway/auth"
	"github.com/naeel/sless/internal/naming"
)

// TestAccess asks every kind of path with every kind of token.
func TestAccess(t *testing.T) {
	t.Parallel()
	a := startAPI(t)
	other := "/v1/namespaces/default/functions/hello/upload"
	tests := map[string]struct {
		method, path, token string
		wantStatus          int
		wantText            string
	}{
		"no token":            {path: "/v1/openapi.json", wantStatus: 401, wantText: "Bearer token"},
		"no token, no route":  {path: "/v1/nothing", wantStatus: 401, wantText: "Bearer token"},
		"no token, upload":    {method: "POST", path: uploadPath("alice", "x"), wantStatus: 401, wantText: "Bearer token"},
		"bad token":           {path: "/v1/openapi.json", token: "garbage", wantStatus: 401, wantText: "no JWT"},
		"another namespace":   {method: "POST", path: uploadPath("bob", "x"), token: tokenOf("alice"), wantStatus: 403, wantText: naming.TenantNamespace("alice")},
		"no tenant namespace": {method: "POST", path: other, token: tokenOf("alice"), wantStatus: 403, wantText: "only"},
		"namespace escaped": {
			method: "POST", path: strings.Replace(uploadPath("alice", "x"), "/functions", "%2ffunctions", 1), token: tokenOf("alice"),
			wantStatus: 404, wantText: "no such path",
		},
		"namespace in case": {
			method: "POST", path: strings.Replace(uploadPath("alice", "x"), "/sless-", "/SLESS-", 1), token: tokenOf("alice"),
			wantStatus: 403, wantText: "only",
		},
		"no route":             {path: "/v1/nothing", token: tokenOf("alice"), wantStatus: 404, wantText: "no such path"},
		"not under v1":         {path: "/fn/demo/hello", token: tokenOf("alice"), wantStatus: 404, wantText: "no such path"},
		"root":                 {path: "/", wantStatus: 404, wantText: "no such path"},
		"health":               {path: "/healthz", wantStatus: 404, wantText: "no such path"},
		"unclean":              {path: "/v1//openapi.json", token: tokenOf("alice"), wantStatus: 404, wantText: "no such path"},
		"dots":                 {path: "/fn/../v1/openapi.json", token: tokenOf("alice"), wantStatus: 404, wantText: "no such path"},
		"slash at the end":     {path: "/v1/openapi.json/", token: tokenOf("alice"), wantStatus: 404, wantText: "no such path"},
		"wrong method":         {method: "PUT", path: "/v1/openapi.json", token: tokenOf("alice"), wantStatus: 405, wantText: "takes GET only"},
		"wrong method, upload": {path: uploadPath("alice", "x"), token: tokenOf("alice"), wantStatus: 405, wantText: "takes POST only"},
		"wrong method, other":  {path: uploadPath("bob", "x"), token: tokenOf("alice"), wantStatus: 403, wantText: "only"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := request{method: tc.method, path: tc.path, token: tc.token}
			if in.method == "" {
				in.method = http.MethodGet
			}
			got := a.send(t, in)
			checkError(t, got, tc.wantStatus, tc.wantText)
			if tc.token != "" && strings.Contains(got.body, tc.token) {
				t.Errorf("the answer shows the token: %s", got.body)
			}
			if (got.status == http.StatusMethodNotAllowed) != (got.header.Get("Allow") != "") {
				t.Errorf("%d with Allow %q", got.status, got.header.Get("Allow"))
			}
		})
	}
}

func TestRequestIDIsKept(t *testing.T) {
	t.Parallel()
	a := startAPI(t)
	got := a.send(t, request{method: "GET", path: "/v1/openapi.json", header: map[string]string{"X-Request-Id": "mine-1"}})
	if id := got.header.Get("X-Request-Id"); id != "mine-1" {
		t.Errorf("request id %q", id)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	a := startAPI(t, func(c *Config) { *c = Config{Unavailable: "set --issuer", UploadDir: c.UploadDir, Log: c.Log} })
	for _, path := range []string{"/v1/openapi.json", uploadPath("alice", "x"), "/v1/nothing"} {
		checkError(t, a.send(t, request{method: "POST", path: path, token: tokenOf("alice")}), 503, "set --issuer")
	}
}

// TestSignedTokens goes the whole way, from a key set on a server to an upload.
func TestSignedTokens(t *testing.T) {
	t.Parallel()
	createFunction(t, "carol", "hello")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
			"kty": "EC", "crv": "P-256", "kid": "k", "x": encode(point[1:33]), "y": encode(point[33:]),
		}}})
	}))
	t.Cleanup(issuer.Close)
	verifier, err := auth.NewJWT(auth.Config{Issuer: issuer.URL, Audience: "sless", Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	a := startAPI(t, func(c *Config) { c.Verifier = verifier })
	send := func(subject string, ttl time.Duration) response {
		token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.RegisteredClaims{
			Issuer: issuer.URL, Audience: jwt.ClaimStrings{"sless"}, Subject: subject, ExpiresAt: jwt.NewNumericDate(time.Now().Add(ttl)),
		})
		token.Header["kid"] = "k"
		signed, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return a.send(t, request{
			method: "POST", path: uploadPath("carol", "hello"), token: signed, body: bytes.NewReader(zipOf(t, "handler.py", "1")),
		})
	}
	wantUploaded(t, send("carol", time.Hour))
	checkError(t, send("dave", time.Hour), 403, naming.TenantNamespace("dave"))
	expired := send("carol", -time.Hour)
	checkError(t, expired, 401, "has expired")
	if got := expired.header.Get("WWW-Authenticate"); !strings.Contains(got, `error="invalid_token", error_description="the token has expired"`) {
		t.Errorf("WWW-Authenticate: %s", got)
	}
	checkError(t, a.upload(t, "carol", "hello", http.NoBody), 401, "algorithm")
	issuer.Close()
	wantUploaded(t, send("carol", time.Hour))
}

func TestIssuerIsAway(t *testing.T) {
	t.Parallel()
	verifier, err := auth.NewJWT(auth.Config{Issuer: "http://127.0.0.1:1", Audience: "sless", Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	a := startAPI(t, func(c *Config) { c.Verifier = verifier })
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"k"}`)) + ".e30.AAAA"
	got := a.send(t, request{method: "GET", path: "/v1/openapi.json", token: token})
	checkError(t, got, 503, "its issuer does not give out its keys")
	if got.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
}

func TestClusterIsAway(t *testing.T) {
	t.Parallel()
	c, err := NewClient(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	a := startAPI(t, func(cfg *Config) { cfg.Client = c })
	checkError(t, a.upload(t, "alice", "hello", http.NoBody), 503, "the cluster does not answer")
}

func TestExplainCluster(t *testing.T) {
	t.Parallel()
	functions := schema.GroupResource{Group: "sless.io", Resource: "functions"}
	denied := apierrors.NewForbidden(functions, "x", errors.New("y"))
	denied.ErrStatus.Message = `admission webhook "f.sless.io" denied the request: code validation failed: mining`
	tests := map[string]struct {
		err        error
		wantStatus int
		wantText   string
	}{
		"network":     {err: &net.OpError{Op: "dial", Err: errors.New("refused")}, wantStatus: 503},
		"unavailable": {err: apierrors.NewServiceUnavailable("x"), wantStatus: 503},
		"timeout":     {err: apierrors.NewServerTimeout(functions, "patch", 1), wantStatus: 503},
		"too many":    {err: apierrors.NewTooManyRequests("x", 1), wantStatus: 503},
		"conflict":    {err: apierrors.NewConflict(functions, "x", errors.New("y")), wantStatus: 409},
		"invalid":     {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Function"}, "x", nil), wantStatus: 422, wantText: "is invalid"},
		"denied":      {err: denied, wantStatus: 422, wantText: "mining"},
		"no right":    {err: apierrors.NewForbidden(functions, "x", errors.New("y"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got *Error
			if is := errors.As(explainCluster(tc.err), &got); is != (tc.wantStatus != 0) {
				t.Fatalf("got %v", explainCluster(tc.err))
			}
			if got != nil && (got.Status != tc.wantStatus || !strings.Contains(got.Message, tc.wantText)) {
				t.Errorf("got %d %s", got.Status, got.Message)
			}
		})
	}
}

// TestOpenAPI compares the document with the routes, both ways, and looks at what every operation needs.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	a := startAPI(t)
	got := a.send(t, request{method: "GET", path: "/v1/openapi.json", token: tokenOf("alice")})
	checkHeaders(t, got)
	var doc struct {
		OpenAPI  string                                `json:"openapi"`
		Security []map[string][]string                 `json:"security"`
		Paths    map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil || got.status != http.StatusOK {
		t.Fatalf("%d: %v", got.status, err)
	}
	var described, served []string
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			described = append(described, strings.ToUpper(method)+" "+path)
			checkOperation(t, method+" "+path, raw)
		}
		checkParameters(t, path, item["parameters"])
	}
	for _, route := range New(Config{}).routes() {
		served = append(served, route.method+" "+route.path)
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("openapi.json does not describe what is served (-served +described):\n%s", diff)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.0.") || len(doc.Security) != 1 {
		t.Errorf("openapi %q, security %v", doc.OpenAPI, doc.Security)
	}
	checkReferences(t, got.body)
}

func checkOperation(t *testing.T, name string, raw json.RawMessage) {
	t.Helper()
	var operation struct {
		OperationID string                     `json:"operationId"`
		Security    *json.RawMessage           `json:"security"`
		Responses   map[string]json.RawMessage `json:"responses"`
	}
	if err := json.Unmarshal(raw, &operation); err != nil || operation.OperationID == "" || operation.Security != nil {
		t.Errorf("%s: %v, id %q, security %v", name, err, operation.OperationID, operation.Security)
	}
	for _, code := range []string{"200", "401", "503"} {
		if operation.Responses[code] == nil {
			t.Errorf("%s: no response %s", name, code)
		}
	}
}

func checkParameters(t *testing.T, path string, raw json.RawMessage) {
	t.Helper()
	var parameters []struct {
		Name     string `json:"name"`
		In       string `json:"in"`
		Required bool   `json:"required"`
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &parameters); err != nil {
			t.Fatal(err)
		}
	}
	var declared, used []string
	for _, p := range parameters {
		if p.In != "path" || !p.Required {
			t.Errorf("%s: parameter %+v", path, p)
		}
		declared = append(declared, "{"+p.Name+"}")
	}
	used = regexp.MustCompile(`\{[a-z]+\}`).FindAllString(path, -1)
	if diff := cmp.Diff(used, declared); diff != "" {
		t.Errorf("%s: parameters (-used +declared):\n%s", path, diff)
	}
}

// checkReferences checks that every $ref leads somewhere.
func checkReferences(t *testing.T, body string) {
	t.Helper()
	var doc any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"\$ref": "#/([^"]+)"`).FindAllStringSubmatch(body, -1) {
		at := doc
		for step := range strings.SplitSeq(ref[1], "/") {
			object, _ := at.(map[string]any)
			at = object[step]
		}
		if at == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	a := startAPI(t, func(c *Config) { c.Metrics = metrics })
	a.send(t, request{method: "GET", path: "/v1/openapi.json", token: tokenOf("alice")})
	a.send(t, request{method: "GET", path: "/v1/made-up", token: tokenOf("alice")})
	a.send(t, request{method: "GET", path: "/v1/made-up"})
	a.send(t, request{method: "POST", path: uploadPath("bob", "x"), token: tokenOf("alice")})
	const want = `
		# HELP sless_gateway_api_requests_total Requests to the API port by route and status code. The route is empty before authentication.
		# TYPE sless_gateway_api_requests_total counter
		sless_gateway_api_requests_total{code="200",route="GET /v1/openapi.json"} 1
		sless_gateway_api_requests_total{code="401",route=""} 1
		sless_gateway_api_requests_total{code="403",route="POST /v1/namespaces/{ns}/functions/{name}/upload"} 1
		sless_gateway_api_requests_total{code="404",route="/"} 1
	`
	eventually(t, "the requests are counted", func() bool {
		return testutil.CollectAndCompare(metrics.requests, strings.NewReader(want)) == nil
	})
}

// TestStopLetsUploadsEnd stops the API while an upload goes on.
func TestStopLetsUploadsEnd(t *testing.T) {
	t.Parallel()
	createFunction(t, "stop", "hello")
	a := startAPI(t)
	content, body, done := zipOf(t, "handler.py", "1"), newSlowBody(), make(chan response, 1)
	go func() { done <- a.upload(t, "stop", "hello", body) }()
	body.begin(t, content)
	stopped := make(chan error, 1)
	go func() { stopped <- a.stop() }()
	eventually(t, "the port is closed", func() bool {
		conn, err := net.Dial("tcp", a.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	body.complete(t, content)
	wantUploaded(t, <-done)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestListenFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	err = New(Config{Address: taken.Addr().String(), Log: logr.Discard()}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "API address") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Run = %v", err)
	}
}
