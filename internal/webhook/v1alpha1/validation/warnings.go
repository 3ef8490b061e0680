// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
)

// FunctionWarnings returns what works and still wants the user's attention.
func FunctionWarnings(fn *v1alpha1.Function, catalogue Catalogue, now time.Time) []string {
	rt, ok := catalogue.Lookup(fn.Spec.Runtime)
	if !ok || !rt.EndOfLife.PassedBy(now) {
		return nil
	}
	fix := "no newer one is in the catalogue yet"
	if newer := maintained(rt.Language, catalogue, now); len(newer) > 0 {
		fix = "move to " + strings.Join(newer, " or ")
	}
	return []string{fmt.Sprintf("spec.runtime: %s is past its end of life (%s) and gets no security fixes; %s",
		rt.Name, rt.EndOfLife, fix)}
}

// maintained lists the runtimes of a language that are not past their end of life.
func maintained(language string, catalogue Catalogue, now time.Time) []string {
	var names []string
	for _, name := range catalogue.Names() {
		if rt, ok := catalogue.Lookup(name); ok && rt.Language == language && !rt.EndOfLife.PassedBy(now) {
			names = append(names, name)
		}
	}
	return names
}
