// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/naeel/sless/runtimes/watchdog/internal/termination"
	"github.com/naeel/sless/runtimes/watchdog/internal/worker"
)

// errorTextLimit bounds how much of an answer with a status of 400 or more is quoted.
const errorTextLimit = 1000

var errJobTimeout = errors.New("timeout")

// runOnce calls the handler once with the event of a file. It writes the result as the last line of stdout, as JSON,
// and returns what goes to the termination log: the same JSON, or a line that says that it is too long for that.
func runOnce(ctx context.Context, o *options, cfg worker.Config) (string, error) {
	event, err := os.Open(o.eventFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the event: %w", err)
	}
	defer func() { _ = event.Close() }()
	output := &lineWriter{Writer: cfg.Stdout}
	cfg.Stdout = output
	process, err := worker.Start(ctx, cfg)
	if err != nil {
		return "", err
	}
	result, err := callOnce(ctx, o, process, event)
	process.Stop(time.Second)
	if err != nil {
		return "", err
	}
	if err := output.writeLine(result); err != nil {
		return "", fmt.Errorf("cannot write the result: %w", err)
	}
	if len(result) > termination.MaxBytes {
		return termination.Line(termination.ResultTruncated,
			fmt.Sprintf("the result has %d bytes, it is the last line of the log", len(result))), nil
	}
	return string(result), nil
}

func callOnce(ctx context.Context, o *options, process *worker.Process, event io.Reader) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errJobTimeout)
	defer cancel()
	head := &worker.Head{
		Call: 1, RequestID: os.Getenv("HOSTNAME"), Method: http.MethodPost, Path: "/", RawPath: "/",
		Query: map[string]any{}, Headers: map[string]string{"content-type": "application/json"},
		Deadline: time.Now().Add(o.timeout).UnixMilli(), Event: worker.EventJSON,
	}
	answer, err := process.Call(ctx, head, event)
	if err != nil {
		return nil, jobError(ctx, o, process, err)
	}
	defer answer.Close()
	body, err := io.ReadAll(io.LimitReader(answer, o.maxBodyBytes+1))
	switch {
	case err != nil:
		return nil, jobError(ctx, o, process, err)
	case int64(len(body)) > o.maxBodyBytes:
		return nil, &reasonError{termination.HandlerFailed,
			fmt.Errorf("the result is larger than the limit of %d bytes", o.maxBodyBytes)}
	case answer.Status >= http.StatusBadRequest:
		return nil, &reasonError{termination.HandlerFailed, fmt.Errorf("the handler answered with status %d: %s",
			answer.Status, strings.ToValidUTF8(string(body[:min(len(body), errorTextLimit)]), "?"))}
	}
	return resultJSON(answer.Headers.Get("Content-Type"), body)
}

// jobError finds the cause behind a call that broke off.
func jobError(ctx context.Context, o *options, process *worker.Process, err error) error {
	var handlerErr *worker.HandlerError
	switch {
	case errors.As(err, &handlerErr):
		return &reasonError{termination.HandlerFailed, errors.New(handlerErr.Located())}
	case errors.Is(context.Cause(ctx), errJobTimeout):
		process.Kill()
		return &reasonError{termination.HandlerTimeout, fmt.Errorf("%s did not end within %s", o.entrypoint, o.timeout)}
	case ctx.Err() != nil:
		return &reasonError{termination.Interrupted, errors.New("told to stop before the handler was done")}
	}
	select {
	case <-process.Done():
		return crashCause(process.Crash())
	case <-time.After(time.Second):
		return &reasonError{termination.HandlerCrashed, err}
	}
}

// crashCause tells a worker that the system killed for its memory from one that ended in another way. A one-shot container
// is fresh, so that every such kill in it is of this run.
func crashCause(crash *worker.CrashError) error {
	if crash.Killed() && outOfMemory(cgroupRoot) {
		return &reasonError{termination.OOMKilled,
			errors.New("the function used more memory than resources.limits.memory allows; raise the limit")}
	}
	return crash
}

// resultJSON gives the result as JSON in one line: JSON as it is, text as a string, anything else in base64.
func resultJSON(contentType string, body []byte) ([]byte, error) {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	if mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") {
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			return compact.Bytes(), nil
		}
	}
	var value any = string(body)
	if len(body) == 0 && mediaType == "application/octet-stream" {
		value = nil
	} else if mediaType == "application/octet-stream" || !utf8.Valid(body) {
		value = map[string]any{"body": base64.StdEncoding.EncodeToString(body), "isBase64Encoded": true}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// lineWriter remembers whether the output of the user's code ended with a whole line.
type lineWriter struct {
	io.Writer

	mu   sync.Mutex
	open bool
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) > 0 {
		w.open = p[len(p)-1] != '\n'
	}
	return w.Writer.Write(p)
}

func (w *lineWriter) writeLine(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open {
		line = append([]byte("\n"), line...)
	}
	_, err := w.Writer.Write(append(line, '\n'))
	return err
}
