// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Dependencies says which files name a function's dependencies and how they are installed.
type Dependencies struct {
	// Manifest names the dependencies; without it, or with none in it, nothing is installed.
	Manifest string `json:"manifest"`
	// Extra are other files at the top of the source that the installation reads if they are there.
	Extra []string `json:"extra,omitempty"`
	// Secret are those of the files that may hold credentials. They are removed after the installation.
	Secret []string `json:"secret,omitempty"`
	// Directory is where the files lie and the installation runs. It must exist in the image.
	Directory string `json:"directory"`
	// IndexConfig maps a file that configures private package indexes, such as .npmrc, to the environment variable that
	// names such a file to the installer. A Secret may hold these files for a build.
	IndexConfig map[string]string `json:"indexConfig,omitempty"`
	Detect      Detect            `json:"detect"`
	// Install is the command, in one line of shell.
	Install string `json:"install"`
	// InstallWithLock takes the place of Install when LockFile, one of Extra, is there.
	InstallWithLock string `json:"installWithLock,omitempty"`
	LockFile        string `json:"lockFile,omitempty"`
	// InstallFull is the command for builds that see the whole source, in one line of shell. It runs in /app, where the
	// source lies, and must do without any of its files. Empty means that the runtime has no such builds.
	InstallFull string `json:"installFull,omitempty"`
	// InstallEnv is set for the installation only.
	InstallEnv map[string]string `json:"installEnv,omitempty"`
}

// Formats of a manifest.
const (
	// FormatLines has one dependency in a line.
	FormatLines = "lines"
	// FormatJSON is an object; the objects under Keys hold the dependencies.
	FormatJSON = "json"
)

// Detect says how to tell whether a manifest names any dependency.
type Detect struct {
	Format string `json:"format"`
	// Keys of FormatJSON.
	Keys []string `json:"keys,omitempty"`
	// Ignore lists prefixes of lines that name no dependency, for FormatLines.
	Ignore []string `json:"ignore,omitempty"`
}

// ManifestError is a manifest that cannot be read. It is the user's to repair.
type ManifestError struct {
	File string
	// Line and Column count from 1; 0 means the file as a whole.
	Line, Column int
	Problem      string
}

func (e *ManifestError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Problem
	}
	return fmt.Sprintf("%s line %d column %d: %s", e.File, e.Line, e.Column, e.Problem)
}

// DependencyFiles returns the files that decide what is installed: the manifest first, then the others. All lie at the
// top of the source.
func (r Runtime) DependencyFiles() []string {
	if r.Dependencies.Manifest == "" {
		return nil
	}
	return append([]string{r.Dependencies.Manifest}, r.Dependencies.Extra...)
}

// HasDependencies tells whether a manifest names any dependency. The error is a *ManifestError.
func (r Runtime) HasDependencies(manifest []byte) (bool, error) {
	d := r.Dependencies
	if d.Detect.Format == FormatLines {
		return d.Detect.anyLine(manifest), nil
	}
	return d.Detect.anyKey(d.Manifest, manifest)
}

func (d Detect) anyLine(manifest []byte) bool {
	for line := range strings.Lines(string(bytes.TrimPrefix(manifest, utf8BOM))) {
		line = strings.TrimSpace(line)
		ignored := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		if line != "" && !slices.ContainsFunc(d.Ignore, ignored) {
			return true
		}
	}
	return false
}

var utf8BOM = []byte("\xef\xbb\xbf")

func (d Detect) anyKey(file string, manifest []byte) (bool, error) {
	manifest = bytes.TrimPrefix(manifest, utf8BOM)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &fields); err != nil {
		return false, manifestError(file, manifest, err)
	}
	found := false
	for _, key := range d.Keys {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var dependencies map[string]json.RawMessage
		if err := json.Unmarshal(raw, &dependencies); err != nil {
			return false, &ManifestError{File: file, Problem: fmt.Sprintf("%q is not an object", key)}
		}
		found = found || len(dependencies) > 0
	}
	return found, nil
}

func manifestError(file string, data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return &ManifestError{File: file, Problem: "the content is not a JSON object"}
	}
	before := data[:min(max(int(syntax.Offset)-1, 0), len(data))]
	return &ManifestError{
		File: file, Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Problem: "not valid JSON: " + syntax.Error(),
	}
}

func (d Dependencies) validate() error {
	if d.Manifest == "" {
		return nil // a language without package manager
	}
	files := append([]string{d.Manifest}, d.Extra...)
	notAFile := func(name string) bool { return path.Base(name) != name || strings.ContainsAny(name, "\"\\ \n") }
	unknown := func(name string) bool { return !slices.Contains(files, name) }
	switch {
	case slices.ContainsFunc(files, notAFile):
		return fmt.Errorf("dependencies: %q are not plain file names", files)
	case slices.ContainsFunc(d.Secret, unknown):
		return errors.New("dependencies.secret names a file that is no dependency file")
	case d.Install == "" || strings.ContainsAny(d.Install+d.InstallWithLock+d.InstallFull, "\n"):
		return errors.New("dependencies.install, installWithLock and installFull must be one line of shell each")
	case (d.LockFile == "") != (d.InstallWithLock == "") || d.LockFile != "" && !slices.Contains(d.Extra, d.LockFile):
		return errors.New("dependencies.lockFile must be one of extra and needs installWithLock")
	case !path.IsAbs(d.Directory):
		return errors.New("dependencies.directory must be an absolute path")
	case d.Detect.Format != FormatLines && (d.Detect.Format != FormatJSON || len(d.Detect.Keys) == 0):
		return fmt.Errorf("dependencies.detect.format is %q, want lines, or json with keys", d.Detect.Format)
	}
	return nil
}
