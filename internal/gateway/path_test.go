// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestSplitTarget(t *testing.T) {
	t.Parallel()
	fn := types.NamespacedName{Namespace: "ns", Name: "n"}
	long := strings.Repeat("a", 63)
	tests := map[string]struct {
		raw      string
		wantFn   types.NamespacedName
		wantRest string
		wantOK   bool
	}{
		"bare":                {raw: "/fn/ns/n", wantFn: fn, wantRest: "/", wantOK: true},
		"trailing slash":      {raw: "/fn/ns/n/", wantFn: fn, wantRest: "/", wantOK: true},
		"sub path":            {raw: "/fn/ns/n/a/b", wantFn: fn, wantRest: "/a/b", wantOK: true},
		"sub path with slash": {raw: "/fn/ns/n/a/b/", wantFn: fn, wantRest: "/a/b/", wantOK: true},
		"escaped slash":       {raw: "/fn/ns/n/a%2Fb", wantFn: fn, wantRest: "/a%2Fb", wantOK: true},
		"double slash":        {raw: "/fn/ns/n//a", wantFn: fn, wantRest: "//a", wantOK: true},
		"dots stay inside":    {raw: "/fn/ns/n/../../x/y", wantFn: fn, wantRest: "/../../x/y", wantOK: true},
		"the function called fn": {
			raw: "/fn/fn/fn/fn", wantFn: types.NamespacedName{Namespace: "fn", Name: "fn"}, wantRest: "/fn", wantOK: true,
		},
		"longest names": {
			raw:    "/fn/" + long + "/" + long,
			wantFn: types.NamespacedName{Namespace: long, Name: long}, wantRest: "/", wantOK: true,
		},
		"other prefix":           {raw: "/function/ns/n"},
		"no slash":               {raw: "fn/ns/n"},
		"prefix only":            {raw: "/fn/"},
		"namespace only":         {raw: "/fn/ns"},
		"namespace and slash":    {raw: "/fn/ns/"},
		"empty namespace":        {raw: "/fn//n"},
		"empty name":             {raw: "/fn/ns//a"},
		"upper case":             {raw: "/fn/ns/N"},
		"dots for a namespace":   {raw: "/fn/../n"},
		"dots for a name":        {raw: "/fn/ns/.."},
		"escaped slash in name":  {raw: "/fn/ns/n%2Fa"},
		"escaped letter in name": {raw: "/fn/ns/%6e"},
		"dash at the end":        {raw: "/fn/ns/n-"},
		"dash at the beginning":  {raw: "/fn/-ns/n"},
		"name too long":          {raw: "/fn/ns/" + long + "a"},
		"host in the name":       {raw: "/fn/ns/n.other.svc"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gotFn, gotRest, gotOK := splitTarget(tc.raw)
			if gotOK != tc.wantOK {
				t.Fatalf("splitTarget(%q) ok = %v, want %v", tc.raw, gotOK, tc.wantOK)
			}
			if !tc.wantOK {
				return
			}
			if diff := cmp.Diff(tc.wantFn, gotFn); diff != "" {
				t.Errorf("function (-want +got):\n%s", diff)
			}
			if gotRest != tc.wantRest {
				t.Errorf("rest = %q, want %q", gotRest, tc.wantRest)
			}
		})
	}
}

func TestSetTargetRejectsBrokenEscapes(t *testing.T) {
	t.Parallel()
	if setTarget(&url.URL{}, "/a%zz") {
		t.Error("setTarget took an invalid escape")
	}
}

// TestTargetArrivesAsSent sends request lines byte by byte and looks at what the function gets.
func TestTargetArrivesAsSent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sent string
		want string // of sent when empty
	}{
		"root":                       {sent: "/"},
		"query":                      {sent: "/a/b?x=1&y=2"},
		"escaped slash and query":    {sent: "/a%2Fb?x=1"},
		"lower-case escape":          {sent: "/a%2fb"},
		"needless escapes":           {sent: "/%61%7E"},
		"characters Go would escape": {sent: `/a"b{c}|^[d]`},
		"non-ASCII":                  {sent: "/caf\xc3\xa9"},
		"plus and space":             {sent: "/a+b%20c"},
		"dots":                       {sent: "/./a/../b/."},
		"double slash":               {sent: "//evil.example/x"},
		"double slash, odd characters": {
			sent: `//a"b`, want: "//a%22b",
		},
		"empty query":            {sent: "/a?"},
		"query with semicolon":   {sent: "/a?x=1;y=2"},
		"query with odd percent": {sent: "/a?x=100%&y=%zz"},
		"query with slash":       {sent: "/a?next=/b?c=d"},
	}
	seen := make(chan string, 1)
	g := startFunction(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.RequestURI })
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			conn := dialRaw(t, g.addr)
			line := "GET /fn/demo/hello" + tc.sent + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
			if _, err := conn.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == "" {
				want = tc.sent
			}
			if got := receive(t, seen); got != want {
				t.Errorf("the function got %q, want %q", got, want)
			}
		})
	}
}
