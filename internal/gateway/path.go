// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// publicPrefix begins the path of every call of a function.
const publicPrefix = "/fn/"

// rawPath returns the path of u as the client wrote it. URL.EscapedPath is not enough: it writes characters such as a
// double quote in its own way.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// target is the function that a request is for, and how it came to it.
type target struct {
	function types.NamespacedName
	// path is what the function gets to see, escaped, and prefix what was cut off before it.
	path, prefix string
	// host is that of the request when it is the function's own, and empty when the path names the function.
	host string
}

// pathTarget returns the target of a raw path of the gateway. It is empty when the path names no function.
func pathTarget(raw string) target {
	fn, rest, ok := splitTarget(raw)
	if !ok {
		return target{}
	}
	return target{function: fn, path: rest, prefix: publicPrefix + fn.Namespace + "/" + fn.Name}
}

// hostTarget returns the target of a raw path of a function's own host.
func hostTarget(fn types.NamespacedName, host, raw string) target {
	if !strings.HasPrefix(raw, "/") {
		raw = "/" // OPTIONS *, or a proxy's request without a path
	}
	return target{function: fn, path: raw, host: host}
}

// splitTarget splits the raw path of a call, /fn/<namespace>/<name>[/rest], into the function and the path that the
// function gets to see. That path is still escaped and always begins with a slash. It is not cleaned: dots and double
// slashes are the function's business, and they cannot lead to another function because namespace and name are cut off
// first. ok is false when the path names no function.
func splitTarget(raw string) (fn types.NamespacedName, rest string, ok bool) {
	tail, ok := strings.CutPrefix(raw, publicPrefix)
	if !ok {
		return fn, "", false
	}
	namespace, tail, ok := strings.Cut(tail, "/")
	if !ok || !isLabel(namespace) {
		return fn, "", false
	}
	name, tail, _ := strings.Cut(tail, "/")
	if !isLabel(name) {
		return fn, "", false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, "/" + tail, true
}

// setTarget makes out ask for the escaped path rest, byte for byte. It reports false when rest is no valid path.
func setTarget(out *url.URL, rest string) bool {
	path, err := url.PathUnescape(rest)
	if err != nil {
		return false
	}
	out.Path, out.RawPath = path, rest
	// Characters that Go would escape differently go out as they came in. A leading double slash would be taken for a
	// host in an opaque URL; such a path keeps its meaning in Go's own escaping.
	if out.EscapedPath() != rest && !strings.HasPrefix(rest, "//") {
		out.Opaque = rest
	}
	return true
}

// isLabel reports whether s is a DNS label (RFC 1123), which every namespace and Function name is.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
