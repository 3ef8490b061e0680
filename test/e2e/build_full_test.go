//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/naeel/sless/api/v1alpha1"
)

var _ = Describe("A build with the whole source", func() {
	It("runs the project's own build, and the function is what came out of it", func(ctx SpecContext) {
		fn := function(newNamespace(ctx), "compiled", "nodejs20", map[string]string{
			"package.json": `{"scripts":{"build":"node tools/compile.mjs"},"workspaces":["packages/*"],
				"dependencies":{"greeting":"*"},"devDependencies":{"slugify":"1.6.6"}}`,
			"packages/greeting/package.json": `{"name":"greeting","version":"1.0.0","main":"index.js"}`,
			"packages/greeting/index.js":     "module.exports = 'hello'",
			"tools/compile.mjs": strings.Join([]string{
				"import fs from 'node:fs'; import slugify from 'slugify';",
				"fs.mkdirSync('dist', {recursive: true});",
				"fs.writeFileSync('dist/handler.js', `const greeting = require('greeting'); const fs = require('fs');",
				"exports.handle = () => [greeting, ${JSON.stringify(slugify('built with the source'))},",
				"  fs.existsSync('/app/node_modules/slugify'), fs.existsSync('/app/.npmrc'), fs.existsSync('/app/Dockerfile')].join(' ')`);",
			}, "\n"),
			"Dockerfile": "FROM nothing-that-exists\n",
			".npmrc":     "fund=false\n",
		})
		fn.Spec.Build.Strategy = v1alpha1.BuildStrategyFull
		fn.Spec.Entrypoint = "dist/handler.handle"
		create(ctx, fn)
		answers(ctx, fn, "hello built-with-the-source false false true")
		Expect(current(ctx, fn).Status.Image).To(ContainSubstring("/sless-" + fn.Namespace + "-compiled@sha256:"))

		By("using the image as it is, which its own namespace may do")
		given := function(fn.Namespace, "given", "", nil)
		given.Spec.Source = v1alpha1.FunctionSource{Image: &v1alpha1.ImageSource{Ref: current(ctx, fn).Status.Image}}
		given.Spec.Entrypoint = "dist/handler.handle"
		create(ctx, given)
		answers(ctx, given, "hello built-with-the-source false false true")
	})

	It("installs a Python project with its own build backend", func(ctx SpecContext) {
		fn := function(newNamespace(ctx), "project", "python3.11", map[string]string{
			"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\"tools\"]\n" +
				"[project]\nname = \"greeting\"\nversion = \"1.0\"\n",
			"tools/backend.py": strings.Join([]string{
				"import zipfile",
				"def build_wheel(directory, config_settings=None, metadata_directory=None):",
				"    name = 'greeting-1.0-py3-none-any.whl'",
				"    info = 'greeting-1.0.dist-info/'",
				"    with zipfile.ZipFile(directory + '/' + name, 'w') as wheel:",
				"        wheel.writestr('greeting.py', open('template.txt').read())",
				"        wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n')",
				"        wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')",
				"        wheel.writestr(info + 'RECORD', '')",
				"    return name",
			}, "\n"),
			"template.txt": "TEXT = 'hello from a wheel'\n",
			"handler.py":   "import greeting\n\ndef handle(event, context):\n    return greeting.TEXT + ' ' + greeting.__file__\n",
		})
		fn.Spec.Build.Strategy = v1alpha1.BuildStrategyFull
		create(ctx, fn)
		answers(ctx, fn, "hello from a wheel /opt/deps/greeting.py")
	})
})
