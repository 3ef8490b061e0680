// SPDX-License-Identifier: Apache-2.0

// Package report is the language in which a fetch from a git repository tells the controller how it ended. It is apart
// from the fetching itself, so that the controller carries no git client.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Reasons of a fetch that failed. Those that begin with Git, and the two about the source, are reasons of conditions too.
const (
	// AuthFailed means that the server refuses the credentials, or that it wants some and got none.
	AuthFailed = "GitAuthFailed"
	// RepositoryNotFound means that the server has no such repository, or does not show it to these credentials.
	RepositoryNotFound = "GitRepositoryNotFound"
	// RevisionNotFound means that the repository has no such branch, tag or commit, or does not give it.
	RevisionNotFound = "GitRevisionNotFound"
	// PathNotFound means that the commit has no such folder.
	PathNotFound = "GitPathNotFound"
	// Redirected means that the server sends credentials elsewhere, which is not followed.
	Redirected = "GitRedirected"
	// TLSFailed means that the server's certificate is not trusted.
	TLSFailed = "GitTLSFailed"
	// HostKeyRefused means that the key of the SSH server is not the known one.
	HostKeyRefused = "GitHostKeyRefused"
	// SecretInvalid means that the credentials cannot be read or do not fit the address.
	SecretInvalid = "GitSecretInvalid"
	// Unreachable means that the server could not be reached or is out of order.
	Unreachable = "GitUnreachable"
	// TimedOut means that the fetch took too long.
	TimedOut = "GitTimedOut"
	// Failed means that the fetch failed for another reason.
	Failed = "GitFailed"
	// TooLarge means that the repository, or its code, is over a limit.
	TooLarge = "SourceTooLarge"
	// Invalid means that the code cannot be accepted.
	Invalid = "SourceInvalid"
)

// Fetched is how a fetch ended that found the revision.
type Fetched struct {
	// Ref is the name by which the commit was found: a branch or a tag without refs/heads/ or refs/tags/, or a name of
	// another kind in full. It is empty when the revision is a commit.
	Ref string `json:"ref,omitempty"`
	// Commit has 40 hexadecimal digits.
	Commit string `json:"commit"`
	// Unchanged says that the commit is the one that was known before; nothing was fetched then.
	Unchanged bool `json:"unchanged,omitempty"`
	// Digest is that of the archive that was stored. Size is its size in bytes.
	Digest string `json:"digest,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// Revision returns ref and commit in one word, as Flux writes them: main@sha1:<commit>, or sha1:<commit>.
func (f Fetched) Revision() string {
	if f.Ref == "" {
		return "sha1:" + f.Commit
	}
	return f.Ref + "@sha1:" + f.Commit
}

// CommitOf returns the commit of a revision as Revision writes it, or nothing.
func CommitOf(revision string) string {
	_, commit, ok := strings.Cut(revision[strings.LastIndex(revision, "@")+1:], "sha1:")
	if !ok {
		return ""
	}
	return commit
}

// Encode returns the report as one line of JSON.
func (f Fetched) Encode() (string, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encoding the report of a fetch: %w", err)
	}
	return string(data), nil
}

// Parse reads what Encode has written, and checks that it is whole.
func Parse(text string) (Fetched, error) {
	fetched := Fetched{}
	if err := json.Unmarshal([]byte(text), &fetched); err != nil {
		return Fetched{}, fmt.Errorf("reading the report of a fetch: %w", err)
	}
	if len(fetched.Commit) != 40 || fetched.Unchanged == (fetched.Digest != "") {
		return Fetched{}, fmt.Errorf("the report of a fetch lacks the commit or the digest: %q", text)
	}
	return fetched, nil
}
