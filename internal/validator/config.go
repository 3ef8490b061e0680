// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// FailurePolicy says what happens to code that could not be reviewed.
type FailurePolicy string

// Failure policies.
const (
	// Ignore lets the code pass, with a warning.
	Ignore FailurePolicy = "Ignore"
	// Fail holds the code back until there is a verdict.
	Fail FailurePolicy = "Fail"
)

// Defaults and bounds of the configuration.
const (
	DefaultTimeout     = 15 * time.Second
	DefaultModel       = "gpt-4.1-mini"
	DefaultMaxParallel = 4

	minTimeout     = 100 * time.Millisecond
	maxTimeout     = 5 * time.Minute
	maxMaxParallel = 256
	maxPromptBytes = 64 << 10
)

// Config says whether and how code is reviewed. Manager and gateway need the same one, so that they keep the same
// verdicts.
type Config struct {
	// Enabled switches the review on.
	Enabled bool
	// Endpoint is the base URL of an OpenAI-compatible API, such as https://api.openai.com/v1.
	Endpoint string
	// APIKey is sent as a bearer token. It may be empty for a server that asks for none.
	APIKey string
	// Model is the model's name at the endpoint.
	Model string
	// Timeout bounds one question to the model.
	Timeout time.Duration
	// Prompt says what is looked for. How the code is fenced and what an answer looks like is added to it always.
	Prompt string
	// CAFile is a PEM file with further certificate authorities.
	CAFile string
	// FailurePolicy is Ignore or Fail.
	FailurePolicy FailurePolicy
	// SkipNamespaces lists the user namespaces whose code is not reviewed.
	SkipNamespaces []string
	// MaxParallel is how many questions one process asks at once, half of them for one namespace.
	MaxParallel int
}

// ConfigFromEnv reads the variables LLM_*. All problems come in one error, which never holds the API key. When
// LLM_ENABLED is not true the others are not looked at.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	enabled, err := strconv.ParseBool(cmp.Or(strings.TrimSpace(getenv("LLM_ENABLED")), "false"))
	if err != nil {
		return Config{}, fmt.Errorf("LLM_ENABLED must be true or false, not %q", getenv("LLM_ENABLED"))
	}
	if !enabled {
		return Config{}, nil
	}
	endpoint, endpointErr := parseEndpoint(getenv("LLM_ENDPOINT"))
	timeout, timeoutErr := parseTimeout(getenv("LLM_TIMEOUT"))
	prompt, promptErr := loadPrompt(getenv("LLM_PROMPT_FILE"))
	policy, policyErr := parsePolicy(getenv("LLM_FAILURE_POLICY"))
	parallel, parallelErr := parseParallel(getenv("LLM_MAX_PARALLEL"))
	key, keyErr := parseKey(getenv("LLM_API_KEY"))
	err = errors.Join(endpointErr, timeoutErr, promptErr, policyErr, parallelErr, keyErr)
	if err != nil {
		return Config{}, fmt.Errorf("checking the configuration of the code review: %w", err)
	}
	return Config{
		Enabled: true, Endpoint: endpoint, APIKey: key, Timeout: timeout, Prompt: prompt, FailurePolicy: policy,
		Model:          cmp.Or(strings.TrimSpace(getenv("LLM_MODEL")), DefaultModel),
		CAFile:         getenv("LLM_CA_FILE"),
		SkipNamespaces: parseList(getenv("LLM_SKIP_NAMESPACES")), MaxParallel: parallel,
	}, nil
}

// parseEndpoint checks the URL. What is in it may be logged, so it must not hold credentials.
func parseEndpoint(text string) (string, error) {
	text = strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(text), "/"), "/chat/completions")
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "", errors.New("LLM_ENDPOINT must be set, such as https://api.openai.com/v1")
	case err != nil:
		return "", errors.New("LLM_ENDPOINT is no URL") // The error itself would repeat it.
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", errors.New("LLM_ENDPOINT must hold no user name, query or fragment; the key belongs into LLM_API_KEY")
	case (u.Scheme != "https" && u.Scheme != "http") || u.Host == "":
		return "", errors.New("LLM_ENDPOINT must begin with https://, or http:// inside the cluster")
	}
	return text, nil
}

func parseTimeout(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return DefaultTimeout, nil
	}
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout < minTimeout || timeout > maxTimeout {
		return 0, fmt.Errorf("LLM_TIMEOUT must be a duration from %s to %s, such as 15s", minTimeout, maxTimeout)
	}
	return timeout, nil
}

func parsePolicy(text string) (FailurePolicy, error) {
	policy := FailurePolicy(cmp.Or(strings.TrimSpace(text), string(Ignore)))
	if policy != Ignore && policy != Fail {
		return "", fmt.Errorf("LLM_FAILURE_POLICY must be %s or %s", Ignore, Fail)
	}
	return policy, nil
}

func parseParallel(text string) (int, error) {
	parallel, err := strconv.Atoi(cmp.Or(strings.TrimSpace(text), strconv.Itoa(DefaultMaxParallel)))
	if err != nil || parallel < 1 || parallel > maxMaxParallel {
		return 0, fmt.Errorf("LLM_MAX_PARALLEL must be a number from 1 to %d", maxMaxParallel)
	}
	return parallel, nil
}

// parseKey takes off the line break that files and Secrets often end with.
func parseKey(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
		return "", errors.New("LLM_API_KEY holds characters that no HTTP header can hold")
	}
	return text, nil
}

func parseList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// loadPrompt reads the prompt from a file, which is normally mounted from a ConfigMap.
func loadPrompt(path string) (string, error) {
	if path == "" {
		return DefaultPrompt, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("LLM_PROMPT_FILE: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxPromptBytes+1))
	if err != nil {
		return "", fmt.Errorf("LLM_PROMPT_FILE: %w", err)
	}
	prompt := strings.TrimSpace(strings.ToValidUTF8(string(data), "\uFFFD"))
	switch {
	case len(data) > maxPromptBytes:
		return "", fmt.Errorf("LLM_PROMPT_FILE: %s is larger than %d bytes", path, maxPromptBytes)
	case prompt == "":
		return "", fmt.Errorf("LLM_PROMPT_FILE: %s is empty", path)
	}
	return prompt, nil
}
