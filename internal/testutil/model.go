// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// maxModelRequest bounds what a Model reads of a request.
const maxModelRequest = 4 << 20

// Model is a scripted server with the chat completions of the OpenAI API. It is an http.Handler, for httptest or for an
// address that the pods of a cluster reach, and remembers what it was asked.
type Model struct {
	mu    sync.Mutex
	reply ModelReply
	calls []ModelCall
	// stop ends the replies that hang.
	stop chan struct{}
}

// ModelCall is a question that came in.
type ModelCall struct {
	// Path and Authorization are those of the request.
	Path, Authorization string
	// Fields are the names and values of the body but for the messages.
	Fields map[string]any
	// System and User are the texts of the two messages.
	System, User string
}

// ModelReply answers a question.
type ModelReply func(w http.ResponseWriter, r *http.Request, call ModelCall)

// NewModel returns a server that answers with reply until Reply sets another one.
func NewModel(reply ModelReply) *Model {
	return &Model{reply: reply, stop: make(chan struct{})}
}

// Reply sets what is answered from now on.
func (m *Model) Reply(reply ModelReply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply = reply
}

// Calls returns the questions so far.
func (m *Model) Calls() []ModelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]ModelCall(nil), m.calls...)
}

// CallsAbout counts the questions whose user message holds the text.
func (m *Model) CallsAbout(text string) int {
	count := 0
	for _, call := range m.Calls() {
		if strings.Contains(call.User, text) {
			count++
		}
	}
	return count
}

// Stop lets go of the callers that hang.
func (m *Model) Stop() { close(m.stop) }

// ServeHTTP answers a question.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, err := readModelCall(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.calls = append(m.calls, call)
	reply := m.reply
	m.mu.Unlock()
	reply(w, r, call)
}

func readModelCall(r *http.Request) (ModelCall, error) {
	call := ModelCall{Path: r.URL.Path, Authorization: r.Header.Get("Authorization"), Fields: map[string]any{}}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxModelRequest))
	if err != nil {
		return call, err
	}
	body := struct {
		Messages []struct{ Role, Content string }
	}{}
	if err := errors.Join(json.Unmarshal(data, &body), json.Unmarshal(data, &call.Fields)); err != nil {
		return call, err
	}
	delete(call.Fields, "messages")
	if len(body.Messages) != 2 || body.Messages[0].Role != "system" || body.Messages[1].Role != "user" {
		return call, errors.New("want a system message and a user message")
	}
	call.System, call.User = body.Messages[0].Content, body.Messages[1].Content
	return call, nil
}

// ModelSays answers with a text as the model's message.
func ModelSays(text string) ModelReply {
	return ModelMessage(map[string]any{"role": "assistant", "content": text}, "stop")
}

// ModelMessage answers with a message.
func ModelMessage(message map[string]any, finishReason string) ModelReply {
	return ModelJSON(http.StatusOK, map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finishReason}},
	})
}

// ModelJSON answers with a status and a JSON body.
func ModelJSON(status int, body any) ModelReply {
	return func(w http.ResponseWriter, _ *http.Request, _ ModelCall) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // a caller that is gone needs no answer
	}
}

// ModelAccepts finds the code safe.
func ModelAccepts() ModelReply { return ModelSays(`{"safe": true, "reason": "ordinary code"}`) }

// ModelRejects finds the code hostile.
func ModelRejects(reason string) ModelReply {
	text, err := json.Marshal(map[string]any{"safe": false, "reason": reason})
	if err != nil {
		panic(err) // A string marshals always.
	}
	return ModelSays(string(text))
}

// ModelRejectsWhat finds code hostile that holds the text, and other code safe.
func ModelRejectsWhat(text, reason string) ModelReply {
	return func(w http.ResponseWriter, r *http.Request, call ModelCall) {
		reply := ModelAccepts()
		if strings.Contains(call.User, text) {
			reply = ModelRejects(reason)
		}
		reply(w, r, call)
	}
}

// ModelFails answers with an error of HTTP.
func ModelFails(status int) ModelReply {
	return ModelJSON(status, map[string]any{"error": map[string]any{"message": "scripted", "type": "test"}})
}

// ModelHangs does not answer until the caller gives up.
func (m *Model) ModelHangs() ModelReply {
	return func(_ http.ResponseWriter, r *http.Request, _ ModelCall) {
		select {
		case <-r.Context().Done():
		case <-m.stop:
		}
	}
}

// ModelBreaks begins an answer and breaks the connection.
func ModelBreaks() ModelReply {
	return func(w http.ResponseWriter, _ *http.Request, _ ModelCall) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "{\"safe\": true, `)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
