// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	headerForwardedFor    = "X-Forwarded-For"
	headerForwardedHost   = "X-Forwarded-Host"
	headerForwardedProto  = "X-Forwarded-Proto"
	headerForwardedPrefix = "X-Forwarded-Prefix"
	// forwardedFamily begins the name of every header that only a proxy may set.
	forwardedFamily = "X-Forwarded-"
)

// TrustedProxies are the peers whose X-Forwarded headers are believed. Nobody is trusted by the zero value.
type TrustedProxies []netip.Prefix

// ParseTrustedProxies reads a comma-separated list of CIDRs and addresses, such as "10.0.0.0/8,fd00::/8,192.0.2.7".
func ParseTrustedProxies(list string) (TrustedProxies, error) {
	var trusted TrustedProxies
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if err != nil {
			addr, addrErr := netip.ParseAddr(entry)
			if addrErr != nil {
				return nil, fmt.Errorf("trusted proxy %q is neither a CIDR nor an address", entry)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		trusted = append(trusted, prefix.Masked())
	}
	return trusted, nil
}

func (t TrustedProxies) contains(addr netip.Addr) bool {
	for _, prefix := range t {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// setForwarded tells the function where the call came from. prefix is the path that was cut off the URL. What the
// client itself says about that is replaced, unless the client is a trusted proxy: then its chain is kept and
// extended.
//
// The standard header Forwarded (RFC 7239) is always dropped. A chain that we do not extend would name the wrong peer.
func setForwarded(in, out *http.Request, prefix string, trusted TrustedProxies) {
	peer := peerAddr(in.RemoteAddr)
	believe := trusted.contains(peer)
	if !believe {
		for name := range out.Header {
			if strings.HasPrefix(name, forwardedFamily) {
				delete(out.Header, name)
			}
		}
		delete(out.Header, "X-Real-Ip")
	}
	delete(out.Header, "Forwarded")

	chain, host, proto := peer.String(), in.Host, "http"
	if in.TLS != nil {
		proto = "https"
	}
	if believe {
		if prior := strings.Join(in.Header[headerForwardedFor], ", "); prior != "" {
			chain = prior + ", " + chain
		}
		host = firstNonEmpty(in.Header.Get(headerForwardedHost), host)
		proto = firstNonEmpty(in.Header.Get(headerForwardedProto), proto)
		if outer := in.Header.Get(headerForwardedPrefix); strings.HasPrefix(outer, "/") {
			prefix = strings.TrimRight(outer, "/") + prefix
		}
	}
	out.Header[headerForwardedFor] = []string{chain}
	out.Header[headerForwardedHost] = []string{host}
	out.Header[headerForwardedProto] = []string{proto}
	delete(out.Header, headerForwardedPrefix)
	if prefix != "" {
		out.Header[headerForwardedPrefix] = []string{prefix}
	}
}

// peerAddr returns the address in a "host:port" of net/http, without an IPv6 zone. IPv4 in IPv6 is plain IPv4, so that
// it matches a CIDR that an operator wrote.
func peerAddr(hostPort string) netip.Addr {
	addrPort, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	return addrPort.Addr().Unmap().WithZone("")
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
