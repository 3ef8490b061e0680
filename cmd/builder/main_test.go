// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// A build pod has no rights in the cluster, and its program has no means to use any.
func TestNoKubernetesClient(t *testing.T) {
	t.Parallel()
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	for pkg := range strings.Lines(string(output)) {
		for _, banned := range []string{"k8s.io/client-go/", "k8s.io/api/", "sigs.k8s.io/controller-runtime"} {
			if strings.HasPrefix(pkg, banned) {
				t.Errorf("the program links %s", pkg)
			}
		}
	}
}
