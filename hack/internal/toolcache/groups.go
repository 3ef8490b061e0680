// SPDX-License-Identifier: Apache-2.0

package toolcache

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the groups that hack/tools holds.
const (
	Kubernetes = "kubernetes"
	Etcd       = "etcd"
	CoreDNS    = "coredns"
	Registry   = "registry"
	Kaniko     = "kaniko"
	S3         = "s3"
	KEDA       = "keda"
	HTTPAddOn  = "http-add-on"
)

// Modules whose manifests are used too.
const (
	KEDAModule      = "github.com/kedacore/keda/v2"
	HTTPAddOnModule = "github.com/kedacore/http-add-on"
)

// ModulePath is the path of the main module; Checkout looks for it.
const ModulePath = "github.com/naeel/sless"

// Named gives a group of hack/tools by its name. The checkout is the folder of the main module.
func Named(checkout, name string) (Group, error) {
	g, ok := known()[name]
	if !ok {
		return Group{}, fmt.Errorf("unknown tools group %q: the groups are %s", name, strings.Join(Names(), ", "))
	}
	g.Name = name
	g.Dir = filepath.Join(checkout, "hack", "tools", name)
	return g, nil
}

// Names lists the groups of hack/tools, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(known()))
}

func known() map[string]Group {
	return map[string]Group{
		Kubernetes: kubernetesGroup(),
		Etcd: {
			Programs:      []Program{{Name: "etcd", Package: "go.etcd.io/etcd/server/v3"}},
			VersionModule: "go.etcd.io/etcd/server/v3",
		},
		CoreDNS: {
			Programs:      []Program{{Name: "coredns", Package: "."}},
			VersionModule: "github.com/coredns/coredns",
		},
		Registry: {
			Programs:      []Program{{Name: "registry", Package: "."}},
			VersionModule: "github.com/distribution/distribution/v3",
			Stamp:         stamp("github.com/distribution/distribution/v3/version.version"),
		},
		Kaniko: {
			Programs:      []Program{{Name: "executor", Package: "github.com/GoogleContainerTools/kaniko/cmd/executor"}},
			VersionModule: "github.com/GoogleContainerTools/kaniko",
			Stamp:         stamp("github.com/GoogleContainerTools/kaniko/pkg/version.version"),
		},
		S3: {
			Programs:      []Program{{Name: "versitygw", Package: "github.com/versity/versitygw/cmd/versitygw"}},
			VersionModule: "github.com/versity/versitygw",
			Stamp:         stamp("main.Version"),
		},
		KEDA: {
			Programs: []Program{
				{Name: "keda-operator", Package: KEDAModule + "/cmd/operator"},
				{Name: "keda-adapter", Package: KEDAModule + "/cmd/adapter"},
			},
			VersionModule: KEDAModule,
			Stamp:         stamp(KEDAModule + "/version.Version"),
		},
		HTTPAddOn: {
			Programs: []Program{
				{Name: "interceptor", Package: HTTPAddOnModule + "/interceptor"},
				{Name: "scaler", Package: HTTPAddOnModule + "/scaler"},
			},
			VersionModule: HTTPAddOnModule,
			Stamp:         stamp(HTTPAddOnModule + "/pkg/build.version"),
		},
	}
}

func kubernetesGroup() Group {
	g := Group{VersionModule: "k8s.io/kubernetes", Stamp: stampKubernetes}
	for _, name := range []string{
		"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
	} {
		g.Programs = append(g.Programs, Program{Name: name, Package: "k8s.io/kubernetes/cmd/" + name})
	}
	return g
}

// stamp writes the version into one variable.
func stamp(variable string) func(string) []string {
	return func(version string) []string { return []string{"-X", variable + "=" + version} }
}

// stampKubernetes writes what the API server answers at /version; clients refuse to work without the numbers.
func stampKubernetes(version string) []string {
	major, minor := "", ""
	if parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3); len(parts) == 3 {
		major, minor = parts[0], parts[1]
	}
	const pkg = "k8s.io/component-base/version."
	return []string{
		"-X", pkg + "gitVersion=" + version, "-X", pkg + "gitMajor=" + major, "-X", pkg + "gitMinor=" + minor,
	}
}

// Checkout finds the folder of the main module: start itself or the nearest folder above it.
func Checkout(start string) (string, error) {
	dir, err := filepath.Abs(start)
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module "+ModulePath+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s is not inside a checkout of %s", start, ModulePath)
		}
		dir = parent
	}
}
