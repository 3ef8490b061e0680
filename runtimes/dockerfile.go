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
	writeHead(&b, baseRef, env, d.Directory)
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
	r.writeInstall(&b, install, remove)
	return b.String()
}

const (
	// FullSourceDir is the folder of the build context that holds the source, for FullDockerfile. It is the folder of the
	// code in a canonical archive, so that no file of a user lies beside the Dockerfile.
	FullSourceDir = "app"
	appDir        = "/app"
)

// FullDockerfile returns the Dockerfile of a build that sees the whole source: the result is the function's image. baseRef
// and env are as for Dockerfile. secrets are the files that may hold credentials and lie beside the source's folder; these
// and those that the source itself brings are removed in the step that uses them.
func (r Runtime) FullDockerfile(baseRef string, secrets, env []string) string {
	var b strings.Builder
	writeHead(&b, baseRef, env, appDir)
	fmt.Fprintf(&b, "COPY [%q, \"./\"]\n", FullSourceDir+"/")
	for _, name := range slices.Sorted(slices.Values(secrets)) {
		fmt.Fprintf(&b, "COPY [%q, \"./\"]\n", name)
	}
	remove := make([]string, 0, len(r.Dependencies.Secret))
	for _, name := range r.Dependencies.Secret {
		remove = append(remove, path.Join(appDir, name))
	}
	r.writeInstall(&b, r.Dependencies.InstallFull, remove)
	return b.String()
}

func writeHead(b *strings.Builder, baseRef string, env []string, directory string) {
	fmt.Fprintf(b, "FROM %s\n", baseRef)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(env))) {
		fmt.Fprintf(b, "ARG %s\n", name)
	}
	fmt.Fprintf(b, "USER 0:0\nWORKDIR %s\n", directory)
}

func (r Runtime) writeInstall(b *strings.Builder, install string, remove []string) {
	fmt.Fprintf(b, "RUN mkdir -p %s \\\n && export HOME=%s TMPDIR=%s", installHome, installHome, installHome)
	for _, name := range slices.Sorted(maps.Keys(r.Dependencies.InstallEnv)) {
		fmt.Fprintf(b, " %s=%s", name, r.Dependencies.InstallEnv[name])
	}
	remove = append([]string{installHome}, remove...)
	fmt.Fprintf(b, " \\\n && %s \\\n && rm -rf %s\n", install, strings.Join(remove, " "))
	fmt.Fprintf(b, "USER %s\nWORKDIR %s\n", runUser, appDir)
}
