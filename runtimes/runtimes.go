// SPDX-License-Identifier: Apache-2.0

// Package runtimes is the catalogue of languages that functions can be written in. A runtime is a folder with a
// runtime.yaml beside this file; nothing here knows a language by name.
package runtimes

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/internal/naming"
)

//go:embed */runtime.yaml
var embedded embed.FS

// Runtime is one entry of the catalogue. README.md explains the fields to those who add one.
type Runtime struct {
	// Name is what spec.runtime of a Function holds. It is the name of the folder.
	Name string `json:"name"`
	// Language is the name of the language as people write it.
	Language string `json:"language"`
	// Image is the repository of the runtime image, without a registry. Version is its tag.
	Image   string `json:"image"`
	Version string `json:"version"`
	// DefaultEntrypoint serves when a Function names none.
	DefaultEntrypoint string `json:"defaultEntrypoint"`
	// Extensions of a file that can hold the handler, in the order in which they are looked for.
	Extensions []string `json:"extensions"`
	// EndOfLife is the last day on which the language version is maintained.
	EndOfLife Date `json:"endOfLife"`
	// DefaultConcurrency is the most calls in flight per replica when a Function does not say.
	DefaultConcurrency int32        `json:"defaultConcurrency"`
	Dependencies       Dependencies `json:"dependencies"`
}

// Reference returns the image of the runtime in a registry, which may include a path.
func (r Runtime) Reference(registry string) string {
	return strings.TrimSuffix(registry, "/") + "/" + r.Image + ":" + r.Version
}

// Date is a day, written as 2006-01-02.
type Date struct{ time.Time }

// UnmarshalJSON reads a day.
func (d *Date) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	day, err := time.Parse(time.DateOnly, text)
	d.Time = day
	return err
}

// MarshalJSON writes a day.
func (d Date) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the day as it is written.
func (d Date) String() string { return d.Format(time.DateOnly) }

// PassedBy tells whether the whole day lies behind a point in time.
func (d Date) PassedBy(now time.Time) bool { return !now.Before(d.AddDate(0, 0, 1)) }

// Catalogue holds the runtimes by name.
type Catalogue struct{ byName map[string]Runtime }

// Load returns the catalogue that is built into the program.
func Load() (*Catalogue, error) { return load(embedded) }

func load(files fs.FS) (*Catalogue, error) {
	paths, err := fs.Glob(files, "*/runtime.yaml")
	if err != nil {
		return nil, err
	}
	c := &Catalogue{byName: map[string]Runtime{}}
	for _, file := range paths {
		data, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		var r Runtime
		if err := yaml.UnmarshalStrict(data, &r); err != nil {
			return nil, fmt.Errorf("runtimes/%s: %w", file, err)
		}
		if err := r.validate(path.Dir(file)); err != nil {
			return nil, fmt.Errorf("runtimes/%s: %w", file, err)
		}
		c.byName[r.Name] = r
	}
	return c, nil
}

// Lookup returns the runtime of a name.
func (c *Catalogue) Lookup(name string) (Runtime, bool) {
	r, ok := c.byName[name]
	return r, ok
}

// DefaultConcurrency is the most calls in flight per replica of a Function that does not say. runtime is its spec.runtime, which
// is empty for some images: then it is what the watchdog takes.
func (c *Catalogue) DefaultConcurrency(runtime string) int32 {
	if r, ok := c.byName[runtime]; ok {
		return r.DefaultConcurrency
	}
	return naming.DefaultConcurrency
}

// Names returns the names of all runtimes, sorted.
func (c *Catalogue) Names() []string { return slices.Sorted(maps.Keys(c.byName)) }

var (
	versionPattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)
	imagePattern   = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)
)

func (r Runtime) validate(folder string) error {
	_, _, entrypointErr := splitEntrypoint(r.DefaultEntrypoint)
	badExtension := func(e string) bool { return len(e) < 2 || e[0] != '.' || strings.ContainsAny(e[1:], "./") }
	switch {
	case r.Name != folder:
		return fmt.Errorf("name is %q, want the name of the folder, %q", r.Name, folder)
	case r.Language == "":
		return errors.New("language is missing")
	case !imagePattern.MatchString(r.Image):
		return fmt.Errorf("image %q is no repository name", r.Image)
	case !versionPattern.MatchString(r.Version):
		return fmt.Errorf("version is %q, want v<major>.<minor>.<patch>", r.Version)
	case len(r.Extensions) == 0 || slices.ContainsFunc(r.Extensions, badExtension):
		return fmt.Errorf("extensions are %q, want one or more such as .py", r.Extensions)
	case entrypointErr != nil:
		return fmt.Errorf("defaultEntrypoint: %w", entrypointErr)
	case r.EndOfLife.IsZero():
		return errors.New("endOfLife is missing")
	case r.DefaultConcurrency < 1:
		return errors.New("defaultConcurrency must be at least 1")
	}
	return r.Dependencies.validate()
}
