// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"maps"
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTrustedProxies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		list    string
		want    []string
		wantErr bool
	}{
		"empty":     {},
		"blanks":    {list: " , "},
		"mixed":     {list: "10.1.2.3/8, 192.0.2.7,fd00::1/8", want: []string{"10.0.0.0/8", "192.0.2.7/32", "fd00::/8"}},
		"host name": {list: "proxy.example", wantErr: true},
		"bad mask":  {list: "10.0.0.0/33", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trusted, err := ParseTrustedProxies(tc.list)
			if (err != nil) != tc.wantErr {
				t.Fatalf("error = %v, want one: %v", err, tc.wantErr)
			}
			var got []string
			for _, prefix := range trusted {
				got = append(got, prefix.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeerAddr(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ remote, want string }{
		"IPv4":           {remote: "192.0.2.1:80", want: "192.0.2.1"},
		"IPv6":           {remote: "[2001:db8::1]:80", want: "2001:db8::1"},
		"IPv4 in IPv6":   {remote: "[::ffff:192.0.2.1]:80", want: "192.0.2.1"},
		"zone":           {remote: "[fe80::1%eth0]:80", want: "fe80::1"},
		"no address":     {remote: "@", want: "0.0.0.0"},
		"address, alone": {remote: "192.0.2.1", want: "0.0.0.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := peerAddr(tc.remote).String(); got != tc.want {
				t.Errorf("peerAddr(%q) = %s, want %s", tc.remote, got, tc.want)
			}
		})
	}
}

// claims are what a client may say about where its call came from.
var claims = http.Header{
	"Forwarded":          {"for=1.1.1.1"},
	"X-Forwarded-For":    {"1.1.1.1", "2.2.2.2"},
	"X-Forwarded-Host":   {"claimed.example"},
	"X-Forwarded-Proto":  {"https"},
	"X-Forwarded-Prefix": {"/outer/"},
	"X-Forwarded-Port":   {"443"},
	"X-Real-Ip":          {"1.1.1.1"},
	"X-Other":            {"kept"},
}

// forwardedCase returns what the gateway got from a peer and the copy that it is about to send.
func forwardedCase(peer string, header http.Header, withTLS bool) (in, out *http.Request) {
	in = &http.Request{RemoteAddr: peer, Host: "me.example", Header: header}
	if withTLS {
		in.TLS = &tls.ConnectionState{}
	}
	out = &http.Request{Header: http.Header{}}
	maps.Copy(out.Header, header)
	return in, out
}

func TestSetForwarded(t *testing.T) {
	t.Parallel()
	trusted := TrustedProxies{netip.MustParsePrefix("10.0.0.0/8")}
	tests := map[string]struct {
		peer   string
		tls    bool
		claims http.Header
		want   http.Header
	}{
		"no claims": {
			peer: "192.0.2.1:5",
			want: http.Header{
				"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"me.example"}, "X-Forwarded-Proto": {"http"},
				"X-Forwarded-Prefix": {"/fn/demo/hello"},
			},
		},
		"tls": {
			peer: "192.0.2.1:5", tls: true,
			want: http.Header{
				"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"me.example"}, "X-Forwarded-Proto": {"https"},
				"X-Forwarded-Prefix": {"/fn/demo/hello"},
			},
		},
		"claims of anybody are replaced": {
			peer: "192.0.2.1:5", claims: claims,
			want: http.Header{
				"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Host": {"me.example"}, "X-Forwarded-Proto": {"http"},
				"X-Forwarded-Prefix": {"/fn/demo/hello"}, "X-Other": {"kept"},
			},
		},
		"claims of a trusted proxy are extended": {
			peer: "10.9.9.9:5", claims: claims,
			want: http.Header{
				"X-Forwarded-For": {"1.1.1.1, 2.2.2.2, 10.9.9.9"}, "X-Forwarded-Host": {"claimed.example"},
				"X-Forwarded-Proto": {"https"}, "X-Forwarded-Prefix": {"/outer/fn/demo/hello"},
				"X-Forwarded-Port": {"443"}, "X-Real-Ip": {"1.1.1.1"}, "X-Other": {"kept"},
			},
		},
		"a trusted proxy without claims": {
			peer: "[::ffff:10.9.9.9]:5",
			want: http.Header{
				"X-Forwarded-For": {"10.9.9.9"}, "X-Forwarded-Host": {"me.example"}, "X-Forwarded-Proto": {"http"},
				"X-Forwarded-Prefix": {"/fn/demo/hello"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, out := forwardedCase(tc.peer, tc.claims, tc.tls)
			setForwarded(in, out, "/fn/demo/hello", trusted)
			if diff := cmp.Diff(tc.want, out.Header); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
