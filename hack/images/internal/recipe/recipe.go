// SPDX-License-Identifier: Apache-2.0

// Package recipe reads how root file systems are made on this machine: the base from its own base.yaml, a language from
// the file local.yaml in the folder of a runtime. Both are data, so that another runtime needs no Go code.
package recipe

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

//go:embed base.yaml
var baseYAML []byte

// LocalFile is the name of a runtime's recipe in its folder.
const LocalFile = "local.yaml"

// Base is the root file system under every runtime.
type Base struct {
	Suite       string      `json:"suite"`    // of Debian
	Packages    []string    `json:"packages"` // names; what they depend on comes along
	Remove      []string    `json:"remove"`   // patterns of path.Match; a directory goes with all that is in it
	Keep        []string    `json:"keep"`     // patterns that win over Remove
	Files       []File      `json:"files"`
	Directories []Directory `json:"directories"`
	Links       []Link      `json:"links"`
}

// Local is what a runtime adds to the base.
type Local struct {
	Debian      Debian       `json:"debian"`
	NPM         []NPMPackage `json:"npm"`
	Remove      []string     `json:"remove"` // as in Base, and together with it
	Keep        []string     `json:"keep"`
	Files       []File       `json:"files"`
	Directories []Directory  `json:"directories"`
	Links       []Link       `json:"links"`
}

// Debian says what comes from Debian.
type Debian struct {
	Packages []string `json:"packages"`
	// Run are shell commands run as root in the extracted root file system, before anything is removed from it.
	Run []string `json:"run"`
}

// NPMPackage is one package of the npm registry that is unpacked as it is; its install scripts do not run.
type NPMPackage struct {
	Package   string `json:"package"`   // name@version, exact
	Arch      string `json:"arch"`      // GOARCH that it is for; empty for all
	Integrity string `json:"integrity"` // "sha512-" and the base64 digest of the package file
	Files     []Copy `json:"files"`
}

// Copy takes a file or a directory of a package into the image.
type Copy struct {
	From string `json:"from"` // path in the package's folder, "." for all of it
	To   string `json:"to"`   // path in the image
	Mode string `json:"mode"` // octal, of files; empty keeps the package's
}

// File is a file with its text.
type File struct {
	Path    string `json:"path"`
	Mode    string `json:"mode"` // octal, default 0644
	Content string `json:"content"`
}

// Directory is an empty directory.
type Directory struct {
	Path string `json:"path"`
	Mode string `json:"mode"` // octal, default 0755
}

// Link is a symbolic link.
type Link struct {
	Path string `json:"path"`
	To   string `json:"to"`
}

// LoadBase returns the base's recipe.
func LoadBase() (*Base, error) {
	base := &Base{}
	if err := yaml.UnmarshalStrict(baseYAML, base); err != nil {
		return nil, fmt.Errorf("base.yaml: %w", err)
	}
	if err := base.validate(); err != nil {
		return nil, fmt.Errorf("base.yaml: %w", err)
	}
	return base, nil
}

// LoadLocal reads the recipe in a runtime's folder. The error of a folder without one wraps fs.ErrNotExist.
func LoadLocal(dir string) (*Local, error) {
	file := filepath.Join(dir, LocalFile)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	local := &Local{}
	if err := yaml.UnmarshalStrict(data, local); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := local.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return local, nil
}

// Key is a short name for content that is made from parts. A part is anything that JSON can express; maps are written
// in the order of their keys.
func Key(parts ...any) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(parts); err != nil {
		return "", fmt.Errorf("computing a cache key: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:20], nil
}
