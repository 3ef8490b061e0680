// SPDX-License-Identifier: Apache-2.0

package invoke

import (
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

// newHead describes a request to the worker. Everything a language need not do itself is done here.
func newHead(r *http.Request, id string, number uint64, hasBody bool) *worker.Head {
	head := &worker.Head{
		Call: number, RequestID: id, Method: r.Method, Path: r.URL.Path, RawPath: r.URL.EscapedPath(),
		Query: parseQuery(r.URL.RawQuery), Headers: joinHeaders(r), Event: worker.EventQuery,
	}
	head.Headers["x-request-id"] = id
	if hasBody {
		head.Event, head.Charset = eventKind(r.Header.Get("Content-Type"))
	}
	return head
}

// eventKind tells how a body of a content type becomes an event.
func eventKind(contentType string) (event, charset string) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil { // a broken parameter does not hide the type
		mediaType, _, _ = strings.Cut(contentType, ";")
		mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	}
	switch {
	case mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"):
		return worker.EventJSON, ""
	case strings.HasPrefix(mediaType, "text/"):
		if charset = params["charset"]; charset == "" {
			charset = "utf-8"
		}
		return worker.EventText, charset
	}
	return worker.EventBytes, ""
}

// parseQuery keeps a single value as a string and repeated ones as a list. Pairs are split at "&" only; a pair that is
// not valid percent-encoding is kept as it is.
func parseQuery(raw string) map[string]any {
	query := map[string]any{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), unescape(value)
		switch before := query[name].(type) {
		case nil:
			query[name] = value
		case string:
			query[name] = []string{before, value}
		case []string:
			query[name] = append(before, value)
		}
	}
	return query
}

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// joinHeaders gives the headers by lower-case name. Repeated ones are joined as HTTP allows it.
func joinHeaders(r *http.Request) map[string]string {
	headers := make(map[string]string, len(r.Header)+2)
	for name, values := range r.Header {
		separator := ", "
		if name == "Cookie" {
			separator = "; "
		}
		headers[strings.ToLower(name)] = strings.Join(values, separator)
	}
	headers["host"] = hostOf(r)
	return headers
}

// hostOf returns the host that the caller used. A call that came through the autoscaler's interceptor has another one, by
// which the interceptor has found the function.
func hostOf(r *http.Request) string {
	if forwarded := r.Header.Get("X-Forwarded-Host"); forwarded != "" && strings.HasSuffix(r.Host, naming.VirtualHostSuffix) {
		return forwarded
	}
	return r.Host
}
