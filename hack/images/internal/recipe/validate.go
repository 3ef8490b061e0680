// SPDX-License-Identifier: Apache-2.0

package recipe

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/naeel/sless/hack/images/internal/layer"
)

const npmWord = `[a-z0-9][a-z0-9._-]*`

var (
	debianName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	npmName    = regexp.MustCompile(`^(@` + npmWord + `/)?` + npmWord + `@[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$`)
)

func (b *Base) validate() error {
	if !debianName.MatchString(b.Suite) {
		return fmt.Errorf("suite %q is not a name of Debian's", b.Suite)
	}
	return errors.Join(checkPackages(b.Packages), layer.CheckPatterns(b.Remove), layer.CheckPatterns(b.Keep),
		checkPaths(b.Files, b.Directories, b.Links))
}

func (l *Local) validate() error {
	if len(l.Debian.Packages) == 0 && len(l.NPM) == 0 {
		return errors.New("names neither Debian packages nor npm packages")
	}
	errs := []error{checkPackages(l.Debian.Packages), layer.CheckPatterns(l.Remove), layer.CheckPatterns(l.Keep),
		checkPaths(l.Files, l.Directories, l.Links)}
	for _, pkg := range l.NPM {
		errs = append(errs, pkg.validate())
	}
	return errors.Join(errs...)
}

func (p *NPMPackage) validate() error {
	if !npmName.MatchString(p.Package) {
		return fmt.Errorf("npm package %q is not a name with an exact version", p.Package)
	}
	if !strings.HasPrefix(p.Integrity, "sha512-") {
		return fmt.Errorf("npm package %s has no sha512 integrity", p.Package)
	}
	if len(p.Files) == 0 {
		return fmt.Errorf("npm package %s: files is empty, so nothing of it would be used", p.Package)
	}
	for _, c := range p.Files {
		if _, err := ParseMode(c.Mode, 0); err != nil {
			return err
		}
		if err := errors.Join(checkPath(c.From), checkPath(c.To)); err != nil {
			return fmt.Errorf("npm package %s: %w", p.Package, err)
		}
	}
	return nil
}

func checkPackages(names []string) error {
	for _, name := range names {
		if !debianName.MatchString(name) {
			return fmt.Errorf("%q is not a Debian package name", name)
		}
	}
	return nil
}

func checkPaths(files []File, dirs []Directory, links []Link) error {
	var errs []error
	for _, f := range files {
		_, err := ParseMode(f.Mode, 0)
		errs = append(errs, checkPath(f.Path), err)
	}
	for _, d := range dirs {
		_, err := ParseMode(d.Mode, 0)
		errs = append(errs, checkPath(d.Path), err)
	}
	for _, l := range links {
		errs = append(errs, checkPath(l.Path))
	}
	return errors.Join(errs...)
}

func checkPath(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "..") {
		return fmt.Errorf("path %q is not a clean path below the root", name)
	}
	return nil
}

// ParseMode reads octal permission bits; empty text means the default.
func ParseMode(text string, byDefault int64) (int64, error) {
	if text == "" {
		return byDefault, nil
	}
	mode, err := strconv.ParseInt(text, 8, 32)
	if err != nil || mode < 0 || mode > 0o7777 {
		return 0, fmt.Errorf("mode %q is not octal permission bits", text)
	}
	return mode, nil
}
