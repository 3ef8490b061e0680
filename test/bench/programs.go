// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

// program is the code that is measured in one runtime. It answers {"number": N}, so that every change of the code
// shows.
type program struct {
	runtime string
	file    string
	// code has a %d for the number.
	code string
	// manifest and dependent are the code with a dependency. The manifest has a %q for a text that makes it unlike all
	// earlier ones, and a %q for the version of the dependency.
	manifestFile string
	manifest     string
	dependent    string
	versions     []string
}

func programs() []program {
	return []program{
		{
			runtime: "python3.11", file: "handler.py",
			code: "def handle(event, context):\n    return {\"number\": %d}\n",
		},
		{
			runtime: "nodejs20", file: "handler.js",
			code:         "exports.handle = async () => ({ number: %d });\n",
			manifestFile: "package.json",
			manifest:     `{"name":"bench","private":true,"description":%q,"dependencies":{"slugify":%q}}` + "\n",
			dependent: "const slugify = require(\"slugify\");\n" +
				"exports.handle = async () => ({ number: Number(slugify(\"%d\")) });\n",
			versions: []string{"1.6.6", "1.6.5", "1.6.4", "1.6.3"},
		},
	}
}

func runtimeNames() []string {
	names := make([]string, 0, len(programs()))
	for _, p := range programs() {
		names = append(names, p.runtime)
	}
	return names
}

// function returns the Function that answers with number.
func (p program) function(name string, number int) *v1alpha1.Function {
	return p.functionOf(name, map[string]string{p.file: fmt.Sprintf(p.code, number)})
}

// dependentFunction returns the Function that answers with number and has a dependency. Another nonce makes dependency
// files that were never built before.
func (p program) dependentFunction(name string, number int, nonce string) *v1alpha1.Function {
	version := p.versions[number%len(p.versions)]
	return p.functionOf(name, map[string]string{
		p.file:         fmt.Sprintf(p.dependent, number),
		p.manifestFile: fmt.Sprintf(p.manifest, nonce, version),
	})
}

func (p program) functionOf(name string, files map[string]string) *v1alpha1.Function {
	return &v1alpha1.Function{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: benchNamespace},
		Spec: v1alpha1.FunctionSpec{
			Runtime: p.runtime,
			Source:  v1alpha1.FunctionSource{Inline: &v1alpha1.InlineSource{Files: files}},
		},
	}
}

// numberOf reads the answer of a program.
func numberOf(body []byte) (int, error) {
	answer := struct {
		Number *int `json:"number"`
	}{}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, fmt.Errorf("the answer is no JSON: %.200q", body)
	}
	if answer.Number == nil {
		return 0, fmt.Errorf("the answer has no number: %.200q", body)
	}
	return *answer.Number, nil
}
