// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// DockerfileVersion changes when the same input gives another Dockerfile. It is part of the key of a dependency image.
const DockerfileVersion = "1"

// installHome holds all that an installation writes besides the dependencies. It does not outlive the installation.
const installHome = "/tmp/sless-install"

// runUser is the numeric user of every function container.
const runUser = "65532:65532"

// Dockerfile returns the Dockerfile of the dependency image. baseRef is the runtime image by digest, files those of
// DependencyFiles that the source has, and env the names of build arguments that the installation sees, such as
// PIP_INDEX_URL. It is one stage without heredocs and mounts, as kaniko needs it. Build it as a single snapshot: the
// files that may hold credentials are removed in the same step that uses them.
func (r Runtime) Dockerfile(baseRef string, files, env []string) string {
	d := r.Dependencies
	install := d.Install
	if d.LockFile != "" && slices.Contains(files, d.LockFile) {
		install = d.InstallWithLock
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", baseRef)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(env))) {
		fmt.Fprintf(&b, "ARG %s\n", name)
	}
	fmt.Fprintf(&b, "USER 0:0\nWORKDIR %s\n", d.Directory)
	var remove []string
	quoted := make([]string, 0, len(files)+1)
	for _, name := range r.DependencyFiles() {
		if slices.Contains(files, name) {
			quoted = append(quoted, fmt.Sprintf("%q", name))
			if slices.Contains(d.Secret, name) {
				remove = append(remove, path.Join(d.Directory, name))
			}
		}
	}
	fmt.Fprintf(&b, "COPY [%s, \"./\"]\n", strings.Join(quoted, ", "))
	fmt.Fprintf(&b, "RUN mkdir -p %s \\\n && export HOME=%s TMPDIR=%s", installHome, installHome, installHome)
	for _, name := range slices.Sorted(maps.Keys(d.InstallEnv)) {
		fmt.Fprintf(&b, " %s=%s", name, d.InstallEnv[name])
	}
	remove = append([]string{installHome}, remove...)
	fmt.Fprintf(&b, " \\\n && %s \\\n && rm -rf %s\n", install, strings.Join(remove, " "))
	fmt.Fprintf(&b, "USER %s\nWORKDIR /app\n", runUser)
	return b.String()
}
