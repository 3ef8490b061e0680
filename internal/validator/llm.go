// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/naeel/sless/internal/servers"
)

// maxResponseBytes bounds the whole response, of which the answer is a part.
const maxResponseBytes = 256 << 10

// LLM asks a model behind an OpenAI-compatible API.
type LLM struct {
	chat    openai.ChatCompletionService
	model   string
	prompt  string
	timeout time.Duration
	// plain is set when the server turned out not to know the JSON mode or the temperature.
	plain atomic.Bool
}

var _ CodeValidator = (*LLM)(nil)

// NewLLM returns a validator for the configuration. It does not connect. Nothing is taken from variables of the
// environment that the client library knows, such as OPENAI_API_KEY.
func NewLLM(cfg Config) (*LLM, error) {
	transport, err := servers.NewTransport(cfg.CAFile, cfg.Timeout)
	if err != nil {
		return nil, fmt.Errorf("setting up the code review: %w", err)
	}
	client := &http.Client{
		Transport: boundedTransport{transport},
		// The code goes to the endpoint that the operator chose, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	options := []option.RequestOption{
		option.WithBaseURL(cfg.Endpoint),
		option.WithHTTPClient(client),
		// A question that failed is asked again by whoever needs the verdict, at his own pace.
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	return &LLM{
		chat:  openai.NewChatCompletionService(options...),
		model: cfg.Model, prompt: cfg.Prompt, timeout: cfg.Timeout,
	}, nil
}

// Validate asks the model, see CodeValidator. It takes at most the configured timeout.
func (l *LLM) Validate(ctx context.Context, files map[string]string, runtime string) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	q := ask(l.prompt, newMarker(), runtime, files)
	text, err := l.complete(ctx, q)
	if err != nil {
		return false, "", err
	}
	got, err := parseAnswer(text, files)
	if err != nil {
		return false, "", err
	}
	return got.safe, cleanReason(got.reason), nil
}

// complete returns the text of the model's answer. JSON mode and a temperature of 0 are asked for, and left out for a
// server that refuses the request for them.
func (l *LLM) complete(ctx context.Context, q question) (string, error) {
	params := openai.ChatCompletionNewParams{
		Model: l.model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(q.system), openai.UserMessage(q.user),
		},
	}
	plain := l.plain.Load()
	if !plain {
		params.Temperature = param.NewOpt(0.0)
		params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	completion, err := l.chat.New(ctx, params)
	if refused, ok := errors.AsType[*openai.Error](err); ok && !plain && isRefusal(refused.StatusCode) {
		params.Temperature = param.Opt[float64]{}
		params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{}
		if completion, err = l.chat.New(ctx, params); err == nil {
			l.plain.Store(true)
		}
	}
	if err != nil {
		return "", explain(ctx, err)
	}
	return textOf(completion)
}

// isRefusal tells the answers of a server that works, and that does not take this question: because of a field that it
// does not know, or because of the code in it, such as a content filter.
func isRefusal(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity ||
		status == http.StatusRequestEntityTooLarge
}

func textOf(completion *openai.ChatCompletion) (string, error) {
	if completion == nil || len(completion.Choices) == 0 {
		return "", failure(CauseAnswer, "the answer holds no message")
	}
	choice := completion.Choices[0]
	switch {
	case choice.Message.Refusal != "", choice.FinishReason == "content_filter":
		return "", failure(CauseRefusal, "the model declined")
	case choice.FinishReason == "length":
		return "", failure(CauseAnswer, "the answer was cut off")
	}
	return choice.Message.Content, nil
}

// explain finds the cause of an error of the client. Its text holds the address at most: the library leaves headers and
// bodies out, and of an answer that is no JSON the decoder tells one character.
func explain(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*openai.Error](err)
	tooLong, _ := errors.AsType[*http.MaxBytesError](err)
	_, isTransport := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return &Failure{Cause: CauseTimeout, Err: err}
	case ok && isRefusal(refused.StatusCode):
		return failure(CauseRefusal, "the server answered %d", refused.StatusCode)
	case ok:
		return failure(CauseStatus, "the server answered %d", refused.StatusCode)
	case tooLong != nil:
		return failure(CauseAnswer, "the response has more than %d bytes", maxResponseBytes)
	case isTransport, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Failure{Cause: CauseUnreachable, Err: err}
	}
	return &Failure{Cause: CauseAnswer, Err: err}
}

// boundedTransport cuts responses off, because the client library reads them whole.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponseBytes)
	}
	return resp, err
}
