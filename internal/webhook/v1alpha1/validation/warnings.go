// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// FunctionWarnings returns what works and still wants the user's attention.
func FunctionWarnings(fn *v1alpha1.Function, catalogue Catalogue, now time.Time) []string {
	return append(runtimeWarnings(fn, catalogue, now), referenceWarnings(fn.Spec.Env)...)
}

// envReference is how the value of a variable refers to another one, or $$, which stands for a dollar sign.
var envReference = regexp.MustCompile(`\$\$|\$\(([-._a-zA-Z0-9]+)\)`)

// referenceWarnings tells of variables that refer to others which come after them. Kubernetes fills in only what came before,
// and the order is that of the names, whatever the user's was.
func referenceWarnings(env []corev1.EnvVar) []string {
	named := map[string]bool{}
	for _, e := range env {
		named[e.Name] = true
	}
	var warnings []string
	for _, e := range env {
		for _, match := range envReference.FindAllStringSubmatch(e.Value, -1) {
			if other := match[1]; named[other] && other > e.Name {
				warnings = append(warnings, fmt.Sprintf("spec.env[%s].value: $(%s) stays as it is, because %s comes after %s when "+
					"sorted by name; rename one of them so that it comes before", e.Name, other, other, e.Name))
				break
			}
		}
	}
	return warnings
}

func runtimeWarnings(fn *v1alpha1.Function, catalogue Catalogue, now time.Time) []string {
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
