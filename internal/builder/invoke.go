// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// Reasons of a call that failed.
const (
	// ReasonInvokeFailed means that the call could not be made at all, because what it was given is wrong.
	ReasonInvokeFailed = "InvokeFailed"
	// ReasonGatewayUnavailable means that no connection could be made: the function was not called.
	ReasonGatewayUnavailable = "GatewayUnavailable"
	// ReasonCallFailed means that the answer was an error. The function may have done its work.
	ReasonCallFailed = "CallFailed"
	// ReasonCallTimeout means that no answer came in time. The function may have done its work.
	ReasonCallTimeout = "CallTimedOut"
	// ReasonCallBroken means that the connection broke before the answer. The function may have done its work.
	ReasonCallBroken = "CallBroken"
)

const (
	// maxEvent bounds the event that is sent; the API takes less.
	maxEvent = 1 << 20
	// maxAnswer bounds what is kept of the answer. The rest is read and dropped.
	maxAnswer = 64 << 10
	// maxQuoted bounds what is told of an answer that is an error.
	maxQuoted = 512
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 5 * time.Second

	runEnv = "SLESS_RUN"
)

type invokeOptions struct {
	url, method, event, trigger, source, run string
	timeout                                  time.Duration
}

func (p *Program) invokeCommand() *cobra.Command {
	opts := invokeOptions{}
	command := &cobra.Command{
		Use:   "invoke --url URL --trigger NAME",
		Short: "Call a function once for a trigger, and write the outcome to the termination log",
		Long: "Call a function once for a trigger, and write the outcome to the termination log.\n\n" +
			"Only what failed before a connection was made is tried again. A status of 400 and above is a failure.\n" +
			"The environment variable " + runEnv + " names the run.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.run = p.Getenv(runEnv)
			return p.invoke(cmd.Context(), opts)
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.url, "url", "", "address of the function at the gateway")
	flags.StringVar(&opts.method, "method", http.MethodPost, "HTTP method of the call")
	flags.StringVar(&opts.event, "event", "", "file with the JSON event; without it the call has no body")
	flags.StringVar(&opts.trigger, "trigger", "", "name of the trigger")
	flags.StringVar(&opts.source, "source", "", "URI reference of the trigger, for the CloudEvents header")
	flags.DurationVar(&opts.timeout, "timeout", time.Minute, "longest wait for the answer")
	for _, name := range []string{"url", "trigger"} {
		// The flag exists, so there is no error.
		_ = command.MarkFlagRequired(name)
	}
	return command
}

// invoke makes one call. A function that got the request, or a part of it, is never called again for the same run.
func (p *Program) invoke(ctx context.Context, opts invokeOptions) error {
	event, err := readEvent(opts.event)
	if err != nil {
		return &stepError{ReasonInvokeFailed, err}
	}
	client := newInvokeClient()
	defer client.CloseIdleConnections()
	var outcome string
	err = p.retry(ctx, isDialError, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, opts.timeout)
		defer cancel()
		outcome, err = p.call(ctx, client, opts, event)
		return err
	})
	var step *stepError
	switch {
	case err == nil:
		p.printf("%s", outcome)
		p.terminate(outcome)
		return nil
	case errors.As(err, &step):
		return err
	case isDialError(err):
		return &stepError{ReasonGatewayUnavailable, err}
	case errors.Is(err, context.DeadlineExceeded):
		return &stepError{ReasonCallTimeout, fmt.Errorf("no answer came within %s", opts.timeout)}
	case ctx.Err() != nil:
		return &stepError{ReasonCallBroken, errors.New("the run was stopped before the answer came")}
	default:
		return &stepError{ReasonCallBroken, err}
	}
}

func readEvent(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the event: %w", err)
	}
	defer func() { _ = file.Close() }()
	event, err := io.ReadAll(io.LimitReader(file, maxEvent+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the event: %w", err)
	case len(event) > maxEvent:
		return nil, fmt.Errorf("the event is larger than %d bytes", maxEvent)
	}
	return event, nil
}

// newInvokeClient returns a client that repeats nothing and follows no redirect: whatever it does happens once.
func newInvokeClient() *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       dialer.DialContext,
			DisableKeepAlives: true,
			TLSNextProto:      map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (p *Program) call(ctx context.Context, client *http.Client, opts invokeOptions, event []byte) (string, error) {
	body := io.Reader(http.NoBody)
	if event != nil {
		body = bytes.NewReader(event)
	}
	req, err := http.NewRequestWithContext(ctx, opts.method, opts.url, body)
	if err != nil {
		return "", &stepError{ReasonInvokeFailed, err}
	}
	req.GetBody = nil // nothing is ever sent again
	began := p.Now()
	setEventHeaders(req.Header, opts, event != nil, began)
	res, err := client.Do(req)
	if outer := new(url.Error); errors.As(err, &outer) {
		return "", outer.Err // without the address, which the user does not know
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil {
		// A caller that leaves before the end ends the function's work: it may go on for as long as the answer does.
		_, err = io.Copy(io.Discard, res.Body)
	}
	switch {
	case res.StatusCode >= http.StatusBadRequest:
		return "", &stepError{ReasonCallFailed, fmt.Errorf("the answer was %d: %s", res.StatusCode, quote(answer))}
	case err != nil:
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	return fmt.Sprintf("Called: the answer was %d after %d ms", res.StatusCode, p.Now().Sub(began).Milliseconds()), nil
}

// setEventHeaders says who calls, by the gateway's own headers and by those of CloudEvents in the binary mode of its HTTP
// binding.
func setEventHeaders(h http.Header, opts invokeOptions, hasEvent bool, now time.Time) {
	h.Set("User-Agent", "sless-trigger")
	h.Set("X-Sless-Trigger", opts.trigger)
	h.Set("Ce-Specversion", "1.0")
	h.Set("Ce-Type", "io.sless.trigger.cron")
	h.Set("Ce-Source", cmp.Or(opts.source, opts.trigger))
	h.Set("Ce-Time", now.UTC().Format(time.RFC3339))
	h.Set("Ce-Id", cmp.Or(opts.run, opts.trigger+"-"+now.UTC().Format("20060102T150405")))
	h.Set("X-Request-Id", h.Get("Ce-Id"))
	if hasEvent {
		h.Set("Content-Type", "application/json")
	}
}

// isDialError tells whether no connection was made, so that nothing of the request can have been processed.
func isDialError(err error) bool {
	op := new(net.OpError)
	return errors.As(err, &op) && op.Op == "dial"
}

func quote(answer []byte) string {
	text := oneLine(string(bytes.ToValidUTF8(answer[:min(len(answer), maxQuoted)], nil)))
	if text == "" {
		return "it had no body"
	}
	if len(answer) > maxQuoted {
		text += "…"
	}
	return text
}
